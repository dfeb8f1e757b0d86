"""A real process, really killed at every append: nothing recorded is lost or doubled, and there is an end."""

from __future__ import annotations

import json
import multiprocessing
import random
from pathlib import Path
from typing import Any

import pytest

from tests.runner import kill_child

REPLIES = [
    {
        "output": "TODO: implement this",
        "files": {"login.py": "def login():\n    # TODO: implement this\n    return 1\n"},
    },
    {"error": {"kind": "network", "message": "reset", "retry_after_s": 0}},
    {"output": "Fully implemented", "files": {"login.py": "def login() -> bool:\n    return True\n"}},
]
STORY = [
    *("USER_REQUEST", "SYSTEM_RULES"),
    *("LLM_REQUEST", "LLM_RESPONSE", "QUALITY_JUDGMENT", "REJECTION_DETAILS", "ITERATION_END"),
    *("LLM_REQUEST", "LLM_RESPONSE", "QUALITY_JUDGMENT", "ITERATION_END"),
    *("LLM_REQUEST", "LLM_RESPONSE", "QUALITY_JUDGMENT", "ITERATION_END", "FINAL_SUMMARY"),
]


CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["tests.runner.kill_server"])


def run_child(project: Path, where: str, after: int) -> tuple[int | None, str]:
    """How the process ended, and the task where it came to its end."""
    script, told = project.with_name("script.jsonl"), project.with_name("told")
    script.write_text("".join(json.dumps(reply) + "\n" for reply in REPLIES))
    told.write_text("")
    child = CHILDREN.Process(target=kill_child.run, args=(project, script, where, after, told))
    child.start()
    child.join(60)
    return child.exitcode, told.read_text()


def facts(project: Path) -> list[dict[str, Any]]:
    (trace,) = (project / ".pm-orchestrator" / "traces").glob("conversation-*.jsonl")
    return [json.loads(line) for line in trace.read_bytes().split(b"\n") if line]


def killed_again_and_again(project: Path, points: list[tuple[str, int]]) -> int:
    """Run, kill at each point in turn, then let it end; returns how many runs were killed."""
    project.mkdir(parents=True)
    kills = 0
    before: list[dict[str, Any]] = []
    for where, after in points:
        code, told = run_child(project, where, after)
        if code == 0:
            break
        assert code == -9
        kills += 1
        if (project / ".pm-orchestrator" / "traces").is_dir() and any(project.rglob("conversation-*.jsonl")):
            now = facts(project)
            assert now[: len(before)] == before
            before = now
    else:
        code, told = run_child(project, "never", -1)
    assert (code, told) == (0, "COMPLETE")
    whole = facts(project)
    assert whole[: len(before)] == before
    story = [fact["event"] for fact in whole]
    again = [
        number for number, fact in enumerate(whole) if fact["event"] == "LLM_REQUEST" and fact["data"]["attempt"] > 0
    ]
    assert [event for number, event in enumerate(story) if number not in again] == STORY
    assert story.count("FINAL_SUMMARY") == 1
    assert whole[-1]["data"]["files_modified"] == ["login.py"]
    assert (project / "login.py").read_text() == "def login() -> bool:\n    return True\n"
    return kills


@pytest.mark.parametrize(
    ("where", "after"),
    [
        ("after", 1),
        ("during", 5),
        *(pytest.param(*point, marks=pytest.mark.torture) for point in (("after", 3), ("before", 3), ("after", 16))),
    ],
)
def test_invariant_03_a_killed_process_loses_nothing(tmp_path: Path, where: str, after: int) -> None:
    assert killed_again_and_again(tmp_path / "project", [(where, after)]) == 1


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(8))
def test_invariant_03_two_hundred_real_kills_lose_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    kills, number = 0, 0
    while kills < 25:
        # At most two kills in one run of asking: a third unanswered request ends the task by rule.
        points = [(chance.choice(["before", "after", "during"]), chance.randint(1, 16)) for _ in range(2)]
        kills += killed_again_and_again(tmp_path / f"project-{number}", points)
        number += 1
