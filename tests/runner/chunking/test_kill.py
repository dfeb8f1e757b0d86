"""A real process with real worktrees, killed at any point: the next one ends with the same tree and nothing left."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runner.chunking import project as support
from tests.runner.chunking.project import DONE, files, left_over
from tracer.journal.verify_trace import verify_trace

ROOT = Path(__file__).resolve().parents[3]
FACTS = 30  # about as many as the whole story has


def start(project: Path, where: str = "never", after: int = 0, *how: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.runner.chunking.kill_child", str(project), where, str(after), *how]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def facts(project: Path) -> list[dict[str, Any]]:
    found = sorted((project / ".pm-orchestrator" / "traces").glob("conversation-*.jsonl"))
    return [json.loads(line) for path in found for line in path.read_bytes().split(b"\n") if line.endswith(b"}")]


def ends_well(project: Path, before: list[dict[str, Any]], *how: str) -> None:
    """The next process completes the task; what was recorded stays, nothing is done twice, nothing is left."""
    last = start(project, "never", 0, *how)
    out, err = last.communicate(timeout=120)
    assert (out, last.returncode) == (b"COMPLETE", 0), err.decode()
    whole = facts(project)
    assert whole[: len(before)] == before
    assert files(project) == DONE
    assert left_over(project) == []
    assert [fact["event"] for fact in whole].count("FINAL_SUMMARY") == 1
    passed = [f.get("subtask_id") for f in whole if f["event"] == "ITERATION_END" and f["data"]["judgment"] == "PASS"]
    parts = [] if how else ["1", "2", "3", "4"]
    assert sorted(str(one).rpartition("-")[2] for one in passed) == [*parts, "None"]
    (trace,) = (project / ".pm-orchestrator" / "traces").glob("conversation-*.jsonl")
    assert [one for one in verify_trace(trace).findings if one.level == "damage"] == []


def killed_at(project: Path, where: str, after: int) -> None:
    child = start(project, where, after)
    _, err = child.communicate(timeout=120)
    assert child.returncode in (-9, 0), err.decode()
    ends_well(project, facts(project))


@pytest.mark.torture
@pytest.mark.parametrize(("where", "after"), [("during", 9), ("before", 19)])
def test_invariant_03_subtasks_survive_a_kill(tmp_path: Path, where: str, after: int) -> None:
    killed_at(support.make(tmp_path), where, after)


@pytest.mark.torture
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(60))
def test_invariant_03_subtasks_survive_a_kill_at_any_fact(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    killed_at(support.make(tmp_path), chance.choice(["before", "during", "after"]), chance.randint(1, FACTS))


@pytest.mark.torture
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(100, 180))
def test_invariant_03_subtasks_survive_a_kill_at_any_moment(tmp_path: Path, seed: int) -> None:
    """Between facts too: while git makes a worktree, while results are merged, while files are handed over."""
    project = support.make(tmp_path)
    child = start(project)
    time.sleep(random.Random(seed).uniform(0.3, 2.5))
    child.kill()
    child.communicate()
    ends_well(project, facts(project))


WHOLE = [{"output": "Created and changed the files", "files": DONE}] * 4  # one for each request that a kill may cost


@pytest.mark.parametrize(("where", "after"), [("after", 7)])
def test_invariant_03_a_task_in_a_worktree_survives_a_kill(tmp_path: Path, where: str, after: int) -> None:
    project = support.make(tmp_path, script=WHOLE)
    start(project, where, after, "whole").communicate(timeout=120)
    ends_well(project, facts(project), "whole")


@pytest.mark.torture
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(200, 260))
def test_invariant_03_a_task_in_a_worktree_survives_a_kill_at_any_moment(tmp_path: Path, seed: int) -> None:
    project = support.make(tmp_path, script=WHOLE)
    child = start(project, "never", 0, "whole")
    time.sleep(random.Random(seed).uniform(0.3, 2.5))
    child.kill()
    child.communicate()
    ends_well(project, facts(project), "whole")
