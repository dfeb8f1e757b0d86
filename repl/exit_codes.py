"""Exit codes: one stable number for each way a command can end (`pm help exit-codes`, contracts 10).

Programs rely on the numbers; they never change meaning. `code_of` maps the `code` of the exception tree in
`tracer.errors`, so that the command line, JSON records and HTTP problems all use one vocabulary.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """What the shell sees; `meaning` says it in words, `retry` whether the same command is worth another try."""

    meaning: str
    retry: str

    def __new__(cls, code: int, meaning: str, retry: str = "") -> Self:
        made = int.__new__(cls, code)
        made._value_, made.meaning, made.retry = code, meaning, retry
        return made

    OK = 0, "done; for run, resume and qa: accepted"
    NOT_ACCEPTED = 1, "ended ERROR, stopped by the user, QA tests failed, or a check found something", "after a change"
    USAGE = 2, "bad flag, missing argument, or a question was needed under --no-input", "no"
    CONFIG = 3, "invalid or untrusted configuration", "no"
    CREDENTIALS = 4, "no credentials found, or refused", "no"
    UNAVAILABLE = 5, "provider, network or executor not reachable after retries", "yes"
    LIMIT = (
        6,
        "INCOMPLETE: iterations, money, time or context used up, whatever the last verdict",
        "with a higher limit",
    )
    NOT_FOUND = 7, "no such task, trace or session; or more than one", "no"
    TRACE = 8, "trace damaged, unwritable, disk full, or held by another writer", "fix first"
    SANDBOX = 9, "container engine, image or sandbox unavailable; the tests never ran", "yes"
    INTERNAL = 10, "a defect of ours; the path of a report is printed", "no"
    INTERRUPTED = 130, "interrupted (Ctrl+C); state saved, a resume hint is printed", "yes"
    TERMINATED = 143, "terminated (SIGTERM); state saved, a resume hint is printed", "yes"


def code_of(name: str) -> ExitCode:
    """The exit code for an error's `code` (`usage`, `not_found` …); an unknown name is a defect of ours."""
    return ExitCode.__members__.get(name.upper(), ExitCode.INTERNAL)
