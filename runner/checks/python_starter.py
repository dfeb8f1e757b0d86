"""Starts pytest or unittest as `python -m` does, but before the current folder is on the import path.

A `pytest.py` or `unittest.py` of the project cannot stand in for the runner then; once that is imported, the folder is
put where `-m` would have put it. Runs in the project's own Python: the standard library alone, as it was in 3.8.
`python python_starter.py pytest|unittest REPORT ARGS...`; unittest leaves a JUnit report at REPORT.
"""

from __future__ import annotations

import os
import sys
import time
import unittest
from typing import Any
from xml.sax.saxutils import quoteattr

# With -P or -I neither this file's folder nor the current one is on the path.
_SAFE = getattr(sys.flags, "safe_path", False) or sys.flags.isolated


class _Result(unittest.TextTestResult):
    """Notes how every test ended: id, seconds, and what was wrong by its element in the report."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cases: list[tuple[str, float, dict[str, str]]] = []
        self._now: tuple[Any, float, dict[str, str]] = (None, 0.0, {})

    def startTest(self, test: Any) -> None:
        self._now = (test, time.perf_counter(), {})
        super().startTest(test)

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        _, began, how = self._now
        self.cases.append((test.id(), time.perf_counter() - began, how))
        self._now = (None, 0.0, {})

    def _note(self, test: Any, kind: str, text: object) -> None:
        if self._now[0] is test:
            self._now[2].setdefault(kind, str(text))
        else:  # setUpClass and the like: no test of its own
            self.cases.append((test.id(), 0.0, {kind: str(text)}))

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self._note(test, "error", err[1])

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self._note(test, "failure", err[1])

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(test, "failure", err[1])

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        self._note(test, "failure", "unexpected success")


def _run_pytest() -> int:
    import pytest

    _take_place_of(pytest)
    return int(pytest.main())


def _run_unittest(report: str) -> int:
    _take_place_of(unittest)
    runner: Any = type("Runner", (unittest.TextTestRunner,), {"resultclass": _Result})
    result: Any = unittest.main(module=None, testRunner=runner, exit=False).result
    with open(report, "w", encoding="utf-8", errors="replace") as file:
        file.write(f'<testsuite tests="{len(result.cases)}">\n')
        for name, seconds, how in result.cases:
            owner, _, own = name.rpartition(".")
            wrong = "".join(f"<{kind} message={quoteattr(_plain(text))}/>" for kind, text in how.items())
            file.write(f'<testcase classname={quoteattr(owner)} name={quoteattr(own)} time="{seconds:.4f}">{wrong}')
            file.write("</testcase>\n")
        file.write("</testsuite>\n")
    nothing = 5 if sys.version_info >= (3, 12) else 0  # as unittest itself ends
    return int(not result.wasSuccessful()) if result.cases else nothing


def _take_place_of(module: Any) -> None:
    sys.argv[0] = module.__file__.replace("__init__.py", "__main__.py")  # as `-m` does: messages name it
    if not _SAFE:
        sys.path.insert(0, os.getcwd())


def _plain(text: str) -> str:
    return "".join(max(letter, " ") for letter in text)


if __name__ == "__main__":
    if not _SAFE:
        sys.path.pop(0)
    asked, target = sys.argv[1], sys.argv[2]
    del sys.argv[1:3]
    sys.exit(_run_pytest() if asked == "pytest" else _run_unittest(target))
