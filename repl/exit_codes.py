"""Exit codes: one stable number for each way a command can end (`pm help exit-codes`, contracts 10).

Programs rely on the numbers; they never change meaning. `code_of` maps the `code` of the exception tree in
`tracer.errors`, so that the command line, JSON records and HTTP problems all use one vocabulary.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell sees."""

    OK = 0
    NOT_ACCEPTED = 1
    USAGE = 2
    CONFIG = 3
    CREDENTIALS = 4
    UNAVAILABLE = 5
    LIMIT = 6
    NOT_FOUND = 7
    TRACE = 8
    SANDBOX = 9
    INTERNAL = 10
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "done; for run, resume and qa: accepted",
    ExitCode.NOT_ACCEPTED: "ended ERROR, stopped by the user, QA tests failed, or a check found something",
    ExitCode.USAGE: "bad flag, missing argument, or a question was needed under --no-input",
    ExitCode.CONFIG: "invalid or untrusted configuration",
    ExitCode.CREDENTIALS: "no credentials found, or refused",
    ExitCode.UNAVAILABLE: "provider, network or executor not reachable after retries",
    ExitCode.LIMIT: "INCOMPLETE: iterations, money, time or context used up, whatever the last verdict",
    ExitCode.NOT_FOUND: "no such task, trace or session; or more than one",
    ExitCode.TRACE: "trace damaged, unwritable, disk full, or held by another writer",
    ExitCode.SANDBOX: "container engine, image or sandbox unavailable; the tests never ran",
    ExitCode.INTERNAL: "a defect of ours; the path of a report is printed",
    ExitCode.INTERRUPTED: "interrupted (Ctrl+C); state saved, a resume hint is printed",
    ExitCode.TERMINATED: "terminated (SIGTERM); state saved, a resume hint is printed",
}

RETRY: dict[ExitCode, str] = {
    ExitCode.OK: "",
    ExitCode.NOT_ACCEPTED: "after a change",
    ExitCode.USAGE: "no",
    ExitCode.CONFIG: "no",
    ExitCode.CREDENTIALS: "no",
    ExitCode.UNAVAILABLE: "yes",
    ExitCode.LIMIT: "with a higher limit",
    ExitCode.NOT_FOUND: "no",
    ExitCode.TRACE: "fix first",
    ExitCode.SANDBOX: "yes",
    ExitCode.INTERNAL: "no",
    ExitCode.INTERRUPTED: "yes",
    ExitCode.TERMINATED: "yes",
}


def code_of(name: str) -> ExitCode:
    """The exit code for an error's `code` (`usage`, `not_found` …); an unknown name is a defect of ours."""
    return ExitCode.__members__.get(name.upper(), ExitCode.INTERNAL)
