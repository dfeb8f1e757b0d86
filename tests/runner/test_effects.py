"""What the effects of a task leave on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core.request import Request
from runner.core.state import NO_ANSWER, TaskState
from runner.core.steps import Judge
from runner.effects import TaskEffects
from runner.executors.executor_port import Executor
from runner.gate.criterion import Models
from tracer.blobs import DirectoryBlobs
from tracer.statedir import StateDir


class _Agent(Executor):
    """Is never asked."""


class _Models(Models):
    """Are never asked."""


async def test_a_diff_is_kept_without_the_secrets_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, known = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "correct-horse-9"
    monkeypatch.setenv("MY_SECRET", known)
    workspace = tmp_path / "project"
    workspace.mkdir()
    state_dir = StateDir(tmp_path / "state")
    state_dir.ensure()
    effects = TaskEffects(
        request=Request(workspace=str(workspace)), task_id="task-001", executor=_Agent(), state_dir=state_dir
    )
    base = await effects.baseline("task-001-0")
    (workspace / f"{token}.py").write_text(f"X = '{token}'\n" + "y = 1\n" * 400_000 + f"Z = '{known}'\n")
    changed = await effects.changed(base)
    assert changed.diff_blob is not None
    diff = DirectoryBlobs(state_dir.blobs).read(changed.diff_blob)
    assert diff.count(b"\n+y = 1") == 400_000
    assert diff.count(b"[REDACTED:github-token:") >= 2
    assert token.encode() not in diff
    assert known.encode() not in diff


async def test_the_verdict_says_what_could_not_be_compared(tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    (workspace / ".git").mkdir(parents=True)
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (workspace / ".git" / "objects").mkdir()
    (workspace / ".git" / "refs").mkdir()
    (workspace / ".git" / "config").write_text("[core]\n\trepositoryFormatVersion = 99\n")
    state_dir = StateDir(tmp_path / "state")
    state_dir.ensure()
    effects = TaskEffects(
        request=Request(prompt="Set a", workspace=str(workspace)),
        task_id="task-001",
        executor=_Agent(),
        state_dir=state_dir,
    )
    base = await effects.baseline("task-001-0")
    (workspace / "a.py").write_text("a = 1\n")
    answer = NO_ANSWER._replace(data={"output": "Set a.", "status": "COMPLETE"})
    step = Judge(answer=answer, iteration_index=0, first_base=base)
    verdict = await effects.judge(TaskState(task_id="task-001"), step, _Models())
    assert any("git cannot be used here" in note for note in verdict.notes)
