"""An agent that gets at pm's own record with everyday commands: the run goes on to its verdict, the record is whole."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.repl.support import command_line, environment, pm, pm_process

AGENT = Path(__file__).parents[1] / "support" / "fake_acp_agent.py"
DONE: list[dict[str, Any]] = [{"write": ["a.py", "x = 1\n"]}, {"say": "Done: a.py now sets x to 1."}]
RUN = ("run", "write a.py", "--executor", "acp:fake", "--permissions", "full", "--max-iterations", "2", "--no-input")


def agent(project: Path, steps: list[dict[str, Any]]) -> None:
    script = project.parent / "steps.json"
    script.write_text(json.dumps(steps))
    command = json.dumps([sys.executable, str(AGENT), str(script)])
    assert pm("config", "set", "agents.fake", command, "--user", cwd=project).code == 0


def facts(project: Path) -> list[dict[str, Any]]:
    (path,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    "command",
    [
        "grep -rl task . | xargs sed -i s/task/tosk/",
        pytest.param("rm -rf .pm-orchestrator", marks=pytest.mark.torture),
        pytest.param("for f in .pm-orchestrator/*/*.jsonl*; do : > $f; done", marks=pytest.mark.torture),
        pytest.param(
            "mv .pm-orchestrator/traces .pm-orchestrator/old && rm -rf .pm-orchestrator/locks",
            marks=pytest.mark.torture,
        ),
    ],
)
def test_invariant_15_an_agent_that_changes_the_running_record_is_judged_and_the_record_stays_whole(
    project: Path, command: str
) -> None:
    agent(project, [DONE[0], {"run": command}, DONE[1]])
    ran = pm(*RUN, cwd=project, PM_SANDBOX_MODE="off")
    assert ran.code == 6, ran.err
    assert ran.err.count("REJECT   Q10") == 2
    assert "(undone)" in ran.err
    story = facts(project)
    assert [fact["event"] for fact in story].count("LLM_RESPONSE") == 2
    assert story[-1]["data"]["status"] == "INCOMPLETE"
    (judged, _) = (fact["data"] for fact in story if fact["event"] == "QUALITY_JUDGMENT")
    named = {issue["path"] for issue in judged["issues"] if issue["type"] == "protected"}
    assert any(name.startswith("traces/conversation-task-001-") for name in named)
    verified = pm("trace", "verify", "1", cwd=project)
    assert verified.code == 0
    assert "chain intact, ok" in verified.out
    assert pm("trace", "verify", "--session", cwd=project).code == 0


def test_an_agent_that_removes_the_state_dir_leaves_the_records_of_other_tasks_whole(project: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    agent(project, DONE)
    assert pm(*RUN, cwd=project, PM_SANDBOX_MODE="off").code == 0
    before = [pm(*words, cwd=project) for words in (("show", "1"), ("trace", "verify", "1"))]
    listed = pm("tasks", cwd=project).out.count("task-001")
    agent(
        project, [{"run": "rm -rf .pm-orchestrator"}, {"write": ["b.py", "x = 2\n"]}, {"say": "Done: b.py is there."}]
    )
    ran = pm(*RUN, cwd=project, PM_SANDBOX_MODE="off")
    assert ran.code == 6, ran.err
    assert "(undone)" in ran.err
    assert "lost" not in ran.err
    assert pm("tasks", cwd=project).out.count("task-001") == listed == 1
    assert [pm(*words, cwd=project) for words in (("show", "1"), ("trace", "verify", "1"))] == before
    assert pm("undo", "2", "--yes", cwd=project).code == 0
    assert pm("undo", "1", "--yes", cwd=project).code == 0
    assert not (project / "a.py").exists()


@pytest.mark.torture
@pytest.mark.parametrize(
    ("command", "with_git"),
    [
        ("rm -rf .pm-orchestrator", True),
        ("rm -rf .pm-orchestrator", False),
        ("for f in .pm-orchestrator/traces/*; do : > $f; done", True),
    ],
)
def test_invariant_15_a_run_that_is_killed_before_it_put_the_record_back_is_resumed_from_the_whole_record(
    project: Path, command: str, *, with_git: bool
) -> None:
    done = project.parent / "done"
    if with_git:  # else the baseline is in the state dir
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    agent(project, [{"run": f"{command}; touch {done}"}, {"sleep": 3}])
    running = subprocess.Popen(
        command_line(*RUN), cwd=project, env=environment(PM_SANDBOX_MODE="off"), stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            if done.exists():
                break
            time.sleep(0.05)
    finally:
        running.kill()
        running.wait()
    agent(project, DONE)
    resumed = pm_process("resume", "1", cwd=project, PM_SANDBOX_MODE="off")
    assert resumed.code == 0, resumed.err
    assert "was changed while a killed pm wrote it: put back" in resumed.err
    story = [fact["event"] for fact in facts(project) if not fact["event"].startswith("SESSION_")]
    assert story[:4] == ["USER_REQUEST", "SYSTEM_RULES", "LLM_REQUEST", "LLM_REQUEST"]
    assert story[-1] == "FINAL_SUMMARY"
    assert "chain intact, ok" in pm("trace", "verify", "1", cwd=project).out


@pytest.mark.parametrize("page", ["workspace", "formats"])
def test_the_pages_name_the_criterion_that_it_fails(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text()
    assert "criterion Q10" in text
    assert "criterion Q6" not in text
