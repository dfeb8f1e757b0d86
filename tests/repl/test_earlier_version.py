"""Traces as the version before the modules moved left them: listed, shown, verified, exported, and gone on with.

`data/earlier/` was written by that version: a task rejected once, one in two subtasks, and one that was killed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.repl.support import pm

_EARLIER = Path(__file__).with_name("data") / "earlier"
_WORKSPACE = "/tmp/op/proj"


@pytest.fixture
def earlier(project: Path) -> Path:
    shutil.copytree(_EARLIER, project / ".pm-orchestrator")
    return project


def test_they_are_listed_with_their_ends(earlier: Path) -> None:
    listed = json.loads(pm("tasks", "--json", cwd=earlier).out)
    found = {row["task_id"]: (row["status"], row["iterations"]) for row in listed["tasks"]}
    assert found == {"task-001": ("COMPLETE", 2), "task-002": ("COMPLETE", 3), "task-003": ("UNFINISHED", 1)}


@pytest.mark.parametrize("task", ["1", "2", "3"])
def test_they_verify_to_the_last_line(earlier: Path, task: str) -> None:
    verified = pm("trace", "verify", task, cwd=earlier)
    assert (verified.code, "chain intact" in verified.out) == (0, True), verified.out + verified.err


def test_their_sessions_balance(earlier: Path) -> None:
    for number in ("1", "2"):
        verified = pm("trace", "verify", number, "--session", cwd=earlier)
        assert verified.code == 0, verified.out + verified.err


@pytest.mark.parametrize(
    "words", [("show", "1"), ("trace", "1"), ("trace", "2", "--full"), ("export", "2", "--format", "md")]
)
def test_they_can_be_read(earlier: Path, words: tuple[str, ...]) -> None:
    read = pm(*words, cwd=earlier)
    assert read.code == 0, read.err
    assert "task-00" in read.out


def test_the_raw_bytes_are_the_file_s(earlier: Path) -> None:
    (trace,) = (earlier / ".pm-orchestrator" / "traces").glob("conversation-task-001-*.jsonl")
    assert pm("trace", "1", "--raw", cwd=earlier).out.encode() == trace.read_bytes()


def test_a_task_killed_before_its_first_request_goes_on_in_its_file(earlier: Path) -> None:
    (trace,) = (earlier / ".pm-orchestrator" / "traces").glob("conversation-task-003-*.jsonl")
    begun = b"".join(trace.read_bytes().splitlines(keepends=True)[:2])  # no baseline of the other folder yet
    trace.write_bytes(begun.replace(_WORKSPACE.encode(), str(earlier).encode()))
    trace.with_name(f"{trace.name}.chain").unlink()  # it is another project's folder now
    reply = {"output": "Implemented d.py", "files": {"d.py": "D = 1\n"}}
    (earlier / "script.jsonl").write_text(json.dumps(reply) + "\n")
    resumed = pm("resume", "3", cwd=earlier)
    assert resumed.code == 0, resumed.err
    assert (earlier / "d.py").read_text() == "D = 1\n"
