"""An agent asks for permission and a user answers: on the command line, in line mode, in full screen, with nobody."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from repl.permissions import PermissionDesk, answer_of, answered_text, choices_text, question_text
from runner.executors.executor_port import PermissionQuestion
from tests.repl.screen.running import screen, until
from tests.repl.support import pm, pm_process
from tests.repl.terminal import CTRL_D, ENTER, Terminal

pytestmark = pytest.mark.torture  # seconds a test: programs are really run

AGENT = Path(__file__).parents[1] / "support" / "fake_acp_agent.py"
STEPS: list[dict[str, Any]] = [{"run": "touch made.txt"}, {"say": "Looked around, nothing to change."}]
QUESTION = PermissionQuestion(task_id="task-001", subtask_id=None, agent="fake", title="Run \x1b[2Jmake", always="")


def prepared(project: Path, steps: list[dict[str, Any]] = STEPS) -> dict[str, str]:
    script = project.parent / "steps.json"
    script.write_text(json.dumps(steps))
    command = json.dumps([sys.executable, str(AGENT), str(script)])
    assert pm("config", "set", "agents.fake", command, "--user", cwd=project).code == 0
    return {"PM_EXECUTOR": "acp:fake", "PM_KIND": "question"}


def responses(project: Path) -> list[dict[str, Any]]:
    (path,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [entry["data"] for entry in entries if entry["event"] == "LLM_RESPONSE"]


async def test_an_unanswered_question_is_refused_after_its_time() -> None:
    changes: list[int] = []
    desk = PermissionDesk(wait_s=0.05, changed=lambda: changes.append(len(desk.waiting)))
    assert await desk.ask(QUESTION) == "no"
    assert changes == [1, 0]


async def test_the_oldest_question_is_answered_first_and_a_cancelled_one_leaves() -> None:
    desk = PermissionDesk(wait_s=30, changed=lambda: None)
    first = asyncio.create_task(desk.ask(QUESTION))
    second = asyncio.create_task(desk.ask(QUESTION._replace(title="second")))
    waiting = await desk.first()
    first.cancel()
    await asyncio.wait({first})
    assert answered_text(waiting) == "not answered: refused"
    assert desk.answer("always") == QUESTION._replace(title="second")
    assert await second == "always"
    assert desk.answer("yes") is None


def test_the_words_of_an_agent_cannot_reach_the_terminal_as_they_are() -> None:
    assert "\x1b" not in question_text(QUESTION) + choices_text(QUESTION._replace(always="\x1b[31m"))
    assert answer_of(" Y ") == "yes"
    assert answer_of("yes please") is None


@pytest.mark.parametrize(
    ("typed", "word", "made"),
    [
        (b"y", "allowed once", True),
        pytest.param(b"n", "refused", False, marks=pytest.mark.torture),
    ],
)
def test_pm_run_asks_on_a_terminal_and_does_what_is_answered(
    project: Path, typed: bytes, word: str, *, made: bool
) -> None:
    with Terminal(project, "run", "look around", **prepared(project)) as terminal:
        terminal.wait_for("task-001: fake asks for permission: Run touch made.txt")
        terminal.wait_for("y allow once · a always this · n refuse?")
        terminal.send(b"what" + ENTER)
        terminal.pump(0.3)
        assert not (project / "made.txt").exists()
        terminal.send(typed + ENTER)
        terminal.wait_for(f"  {word}\n")
        terminal.wait_for("COMPLETE")
        assert terminal.ends() == 0
    assert (project / "made.txt").exists() is made


@pytest.mark.torture
def test_what_was_typed_before_the_question_does_not_answer_it(project: Path) -> None:
    steps = [{"say": "hm"}, {"sleep": 1}, *STEPS]
    with Terminal(project, "run", "look around", **prepared(project, steps)) as terminal:
        terminal.wait_for("task-001 started")
        terminal.send(b"y" + ENTER)
        terminal.wait_for("n refuse?")
        terminal.pump(0.5)
        assert not (project / "made.txt").exists()
        terminal.send(CTRL_D)
        terminal.wait_for("  refused\n")
        assert terminal.ends() == 0


@pytest.mark.torture
def test_an_unanswered_question_of_pm_run_is_refused_and_the_run_goes_on(project: Path) -> None:
    words = ("run", "--permission-wait", "1", "look around")
    with Terminal(project, *words, **prepared(project)) as terminal:
        terminal.wait_for("n refuse?")
        terminal.wait_for("not answered: refused")
        assert terminal.ends() == 0
    assert responses(project)[0]["denied_calls"] == 1


@pytest.mark.torture
def test_an_interrupt_at_the_question_stops_the_run_and_leaves_it_resumable(project: Path) -> None:
    with Terminal(project, "run", "look around", **prepared(project)) as terminal:
        terminal.wait_for("n refuse?")
        os.kill(terminal.child.pid, signal.SIGINT)
        assert terminal.ends() == 130
        assert "pm resume task-001" in terminal.text()
    assert not (project / "made.txt").exists()


def test_without_a_terminal_it_is_refused_at_once(project: Path) -> None:
    ran = pm_process("run", "look around", cwd=project, **prepared(project))
    assert ran.code == 0, ran.err
    assert "asks for permission" not in ran.err
    assert responses(project)[0]["denied_calls"] == 1


@pytest.mark.parametrize("typed", [b"y", pytest.param(b"/permit yes", marks=pytest.mark.torture)])
def test_line_mode_shows_the_question_above_the_prompt_and_takes_the_answer_as_a_line(
    project: Path, typed: bytes
) -> None:
    with Terminal(project, "--line", **prepared(project)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"look around" + ENTER)
        terminal.wait_for("task-001: fake asks for permission: Run touch made.txt")
        terminal.wait_for("y allow once · a always this · n refuse, then Enter")
        terminal.send(typed + ENTER)
        terminal.wait_for("allowed once")
        terminal.wait_for("task-001 COMPLETE")
        terminal.wait_gone("then Enter")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0
    assert (project / "made.txt").exists()


async def test_the_full_screen_shows_the_question_and_takes_the_answer_at_the_prompt(project: Path) -> None:
    environ = prepared(project)
    async with screen(project, **environ) as (app, pilot):
        app.home.prompt.put("look around")
        await pilot.press("enter")
        await until(pilot, lambda: "Run touch made.txt" in app.home.transcript.text)
        await until(pilot, lambda: "n refuse, then Enter at pm>" in str(app.home.query_one("#home-status").content))
        await pilot.press("n", "enter")
        await until(pilot, lambda: "  refused" in app.home.transcript.text)
        await until(pilot, lambda: "task-001 COMPLETE" in app.home.transcript.text)
    assert not (project / "made.txt").exists()


@pytest.mark.parametrize(("ran", "told"), [("true", "the session ran true"), ("python -m pytest -q a.py; true", "")])
def test_what_an_acp_agent_reports_is_held_against_the_calls_it_announced(project: Path, ran: str, told: str) -> None:
    report = {"status": "done", "files": ["a.py"], "commands": [{"run": "pytest -q", "exit": 0}]}
    said = f"a.py sets x to 1 now.\n\n```pm-report\n{json.dumps(report)}\n```\n"
    script = project.parent / "steps.json"
    script.write_text(json.dumps([{"write": ["a.py", "x = 1\n"]}, {"run": ran}, {"say": said}]))
    command = json.dumps([sys.executable, str(AGENT), str(script)])
    assert pm("config", "set", "agents.fake", command, "--user", cwd=project).code == 0
    flags = ("--executor", "acp:fake", "--permissions", "full", "--max-iterations", "1", "--no-input")
    ended = pm("run", "Set x to 1 in a.py", *flags, cwd=project, PM_SANDBOX_MODE="off")
    assert (ended.code, told in ended.err) == (6 if told else 0, True), ended.err
