"""Whether a test command got as far as running a test at all, and the line of its output that says why not. Pure.

`not_begun.toml` has what launchers, version managers and runners say then. A failure of the project's code is no such
case: who asks has to look whether the output names any.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from runner.checks.report_formats import said_by_lines
from runner.checks.reports import CommandRun

_DATA: Final = Path(__file__).with_name("not_begun.toml")
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ERROR: Final = re.compile(
    r"^.*\b(?:error|fatal|cannot|could(?: not|n't)|unable|not (?:found|installed|there|set)|no such)\b.*$",
    re.MULTILINE | re.IGNORECASE,
)
_RAISED: Final = re.compile(r"[\w.]+(?:Error|Exception)(?::|$)")  # the end of a traceback
# unittest makes a test of each name that it cannot import: of a wrong path there is nothing else.
_NOT_LOADED: Final = "unittest.loader._FailedTest"


class Trouble(NamedTuple):
    """One row of not_begun.toml."""

    of: str
    says: re.Pattern[str]
    reasons: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str]
    runner: bool
    examples: tuple[tuple[str, str], ...]
    counter: tuple[str, ...]


@cache
def troubles() -> tuple[Trouble, ...]:
    """All rows."""
    rows = tomllib.loads(_DATA.read_text(encoding="utf-8"))["trouble"]
    return tuple(
        Trouble(
            row["of"],
            _lines(row["says"]),
            tuple(_lines([one]) for one in (*row.get("reason", ()), *row["says"])),
            _lines(row.get("unless", ["(?!)"])),
            row.get("runner", False),
            tuple((said, told) for said, told in row["examples"]),
            tuple(row["counter"]),
        )
        for row in rows
    )


def _lines(patterns: list[str]) -> re.Pattern[str]:
    return re.compile(f"^(?:{'|'.join(patterns)})", re.MULTILINE)


def has_not_begun(run: CommandRun) -> bool:
    """Whether the output shows that no test was run; that a program was missing shows by the exit code alone."""
    if run.exit_code in {0, None}:
        return False
    if run.report.tests:
        return all(case.id.startswith(_NOT_LOADED) for case in run.report.tests)
    said = (case for case in said_by_lines(run.output_tail).tests if not case.id.startswith("Build "))  # Gradle
    return next(said, None) is None and next(_told(run), None) is not None


def _told(run: CommandRun) -> Iterator[Trouble]:
    text = _ESCAPES.sub("", run.output_tail)
    rows = (one for one in troubles() if run.runners or not one.runner)
    return (one for one in rows if one.says.search(text) and not one.unless.search(text))


def telling_line(run: CommandRun) -> str:
    """The line of a failed run's output that says most: its row's, else the first about an error, else the last."""
    text = _ESCAPES.sub("", run.output_tail).strip()
    if run.report.tests:
        told = re.findall(r"^\w*Error: .*$", text, re.MULTILINE)  # the exception's own name stands last
        return str(told[-1]).strip() if told else text.rpartition("\n")[2].strip()
    reasons = (reason.search(text) for row in _told(run) for reason in row.reasons)
    found = next(filter(None, reasons), None)
    if found is not None:
        return text[found.start() :].lstrip().partition("\n")[0].rstrip()
    last = text.rpartition("\n")[2]
    error = _ERROR.search(text) if not _RAISED.match(last) else None
    return (error[0] if error else last).strip()
