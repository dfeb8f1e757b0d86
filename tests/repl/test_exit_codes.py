"""Each exit code of the table, provoked; a code that nothing provokes fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from repl.exit_codes import ExitCode
from tests.repl.scripts import BAD, GOOD, run_scripted, script
from tests.repl.support import Ran, pm


def _internal(project: Path) -> Ran:
    from repl.commands.setup import about

    kept = about.overview_lines
    about.overview_lines = None  # type: ignore[assignment]
    try:
        return pm("help", "--json", cwd=project)
    finally:
        about.overview_lines = kept


def _config(project: Path) -> Ran:
    (project / ".pm-orchestrator").mkdir()
    (project / ".pm-orchestrator" / "config.toml").write_text("[run\n")
    return pm("run", "hello", "--json", cwd=project)


def _trace(project: Path) -> Ran:
    run_scripted(project, GOOD)
    (path,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"COMPLETE", b"COMPLETE\x00", 1))
    return pm("trace", "verify", "1", "--json", cwd=project)


def _unavailable(project: Path) -> Ran:
    error = {"error": {"kind": "network", "message": "connection refused", "retry_after_s": 0}}
    return run_scripted(project, error, error, error, error, words=("hello", "--json"))


def _stopped(project: Path) -> Ran:
    run_scripted(project, BAD, words=("write hello.py", "--max-iterations", "1", "--on-limit", "ask"))
    return pm("respond", "1", "stop", "--json", cwd=project)


PROVOKED: dict[ExitCode, Callable[[Path], Ran]] = {
    ExitCode.OK: lambda project: run_scripted(project, GOOD, words=("write hello.py", "--json")),
    ExitCode.NOT_ACCEPTED: _stopped,
    ExitCode.USAGE: lambda project: pm("run", "--nonsense", "--json", cwd=project),
    ExitCode.CONFIG: _config,
    ExitCode.CREDENTIALS: lambda project: pm("run", "hello", "--json", cwd=project),
    ExitCode.UNAVAILABLE: _unavailable,
    ExitCode.LIMIT: lambda project: run_scripted(
        project, BAD, words=("write hello.py", "--max-iterations", "1", "--json")
    ),
    ExitCode.NOT_FOUND: lambda project: pm("show", "99", "--json", cwd=project),
    ExitCode.TRACE: _trace,
    ExitCode.INTERNAL: _internal,
}
# Signals are provoked in test_run_commands and test_line_mode, the sandbox where QA's commands are tested.
ELSEWHERE = {ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.SANDBOX}


def test_every_code_is_explained_and_provoked_somewhere() -> None:
    assert set(PROVOKED) | ELSEWHERE == set(ExitCode)
    assert all(code.meaning and (code.retry or not code) for code in ExitCode)


@pytest.mark.parametrize("code", PROVOKED, ids=lambda code: code.name.lower())
def test_the_code_is_what_happens_and_the_last_record_says_so(code: ExitCode, project: Path) -> None:
    ran = PROVOKED[code](project)
    assert ran.code == code, ran.err
    last = json.loads(ran.out.splitlines()[-1])
    if code is ExitCode.OK:
        assert last["type"] == "result"
        return
    assert last["type"] == "error"
    assert last["error"]["exit"] == code
    assert ran.err.startswith(("pm: ", "task-001 ")), ran.err
    assert "Traceback" not in ran.err


def test_a_state_dir_that_cannot_be_written_ends_8_and_says_whose_it_is(project: Path) -> None:
    if os.getuid() == 0:
        (project / ".pm-orchestrator").write_text("a file where the folder should be")
    else:
        (project / ".pm-orchestrator").mkdir(mode=0o500)
    path = script(project, GOOD)
    ran = pm("run", "--executor", "scripted", "--script", str(path), "hello", cwd=project)
    assert ran.code == ExitCode.TRACE, ran.err
    assert "Traceback" not in ran.err
