"""How a recorded test run ended, as far as the shell and the screen tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from collector.recorder.recognise import TestCommand, junit_path, status_of
from collector.recorder.shell_words import told_by_summary

__all__ = ["report_of", "test_run"]

_LARGEST_REPORT: Final = 5 << 20
_NOT_STARTED: Final = (126, 127)  # the shell found no such program, or may not run it
_NO_FOLDER: Final = re.compile(r"\S+ cd: [^\n]+|cd: [^\n]+")  # all that `cd nowhere && pytest` prints


def test_run(
    test: TestCommand, *, status: int | None, pipe: Sequence[int], printed: str, took: tuple[int, int]
) -> dict[str, Any] | None:
    """The payload without its command; None where nobody can tell how the tests themselves ended.

    `status` is the line's exit code (None: the shell did not say), `pipe` those of its last pipe, `printed` the end of
    what was printed, `took` when the run began and ended (ms).
    """
    code = None if status is None else status_of(test, line_status=status, pipe=pipe)
    if code is None or (code and _NO_FOLDER.fullmatch(printed.strip())):
        code = told_by_summary(printed)
    if code is None or code in _NOT_STARTED:
        return None
    began_ms, ended_ms = took
    return {
        "runner": test.runner,
        "exit_code": code,
        "duration_ms": max(ended_ms - began_ms, 0),
        "passed": code == 0,
    }


def report_of(words: Sequence[str], *, cwd: str, began_ms: int) -> bytes | None:
    """The JUnit report that the run was told to write, where it did."""
    named = junit_path(words)
    if named is None:
        return None
    path = Path(cwd) / named
    try:
        facts = path.stat()
        if facts.st_size > _LARGEST_REPORT or facts.st_mtime_ns // 1_000_000 < began_ms - 1000:
            return None
        return path.read_bytes()
    except OSError:
        return None
