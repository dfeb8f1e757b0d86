"""A newcomer's twelve tasks, each through the real program in a terminal of two sizes.

A journey is a list of steps: bytes are typed, `/lines` and other texts are typed and entered, `See` waits for the
screen, and a function looks at the project.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.repl.scripts import BAD, GOOD, USAGE, script
from tests.repl.support import pm
from tests.repl.terminal import CTRL_D, ENTER, ESC, Terminal
from tests.support.tools import need_program

pytestmark = pytest.mark.torture
_PATIENCE_S = 60


class See(NamedTuple):
    """Wait for this text."""

    text: str


class Restart(NamedTuple):
    """Kill the program where it stands, and start it again."""


class Journey(NamedTuple):
    """The agent's answers, and what the newcomer does and sees; the program then ends with 0."""

    replies: tuple[dict[str, Any], ...]
    steps: tuple[bytes | str | See | Restart | Callable[[Path], None], ...]


def repository(project: Path) -> None:
    git = need_program("git", how="install git")
    named = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], [*named, "commit", "-q", "--allow-empty", "-m", "begun"]):
        subprocess.run([git, *words], cwd=project, check=True)


def changed(project: Path) -> None:
    assert (project / "hello.py").read_text() == GOOD["files"]["hello.py"]


def put_back(project: Path) -> None:
    assert not (project / "hello.py").exists()


def two_rounds(project: Path) -> None:
    assert '"iterations":2' in pm("tasks", "--json", cwd=project).out


def light(project: Path) -> None:
    assert "light" in pm("config", "get", "repl.theme", cwd=project).out


def resumable(project: Path) -> None:
    assert '"UNFINISHED"' in pm("tasks", "--json", cwd=project).out


def apart(project: Path) -> None:
    """The second one worked beside the first, and neither stands in the other's diff."""
    one, two = (json.loads(pm("show", number, "--json", cwd=project).out) for number in ("1", "2"))
    assert [one["isolation"]["where"], two["isolation"]["where"]] == ["folder", "worktree"]
    assert [one["files_modified"], two["files_modified"]] == [["hello.py"], ["greetings.py"]]


def brief(project: Path) -> None:
    two_rounds(project)
    assert (project / "hello.py").read_text() == "GREETING = 'hi'\n"


PAID_BAD, PAID = {**BAD, **USAGE, "cost_usd": 0.25}, {**GOOD, **USAGE, "cost_usd": 0.5}
SLOW = {**GOOD, "delay_ms": 4_000}
ENDLESS = {**GOOD, "delay_ms": 600_000}
DONE = See("task-001 COMPLETE")
JOURNEYS = {
    "ask a question": Journey(
        ({"output": "No, half() is used nowhere."},),
        ("/ask is half() used anywhere", See("No, half() is used nowhere."), DONE),
    ),
    "fix with review": Journey(
        (BAD, GOOD),
        (
            *("write hello.py", See("[0] REJECT"), DONE, changed, ESC, See("done"), b"v", See("task-001: review")),
            *(b"n", b"x", See("discarded"), put_back, b"x", changed, ESC, b"i"),
        ),
    ),
    "undo": Journey((GOOD,), ("write hello.py", DONE, "/undo 1", See("task-001 undone"), put_back)),
    "two tasks at once": Journey(
        (
            {**SLOW, "match": "hello.py"},
            {"output": "Created greetings.py", "files": {"greetings.py": "HI = 1\n"}, "match": "greetings"},
        ),
        (
            repository,
            "write hello.py",
            See("asking scripted"),
            "/run --isolation worktree write greetings",
            See("#2"),
            See("task-001 COMPLETE"),
            See("task-002 COMPLETE"),
            apart,
        ),
    ),
    "answer an agent": Journey(
        ({"output": "Which greeting?\n\n- Hello\n- Moin"}, GOOD),
        ("write hello.py", See("task-001 asks"), "/respond 1 hint Hello", DONE, changed),
    ),
    "steer": Journey(
        (SLOW, {"output": "Changed hello.py", "files": {"hello.py": "GREETING = 'hi'\n"}}),
        (
            "write hello.py",
            See("asking scripted"),
            "/respond 1 hint be brief",
            See("with its next request"),
            DONE,
            brief,
        ),
    ),
    "resume after kill": Journey(
        (SLOW,),
        (
            "write hello.py",
            See("asking scripted"),
            Restart(),
            See("1 unfinished"),
            resumable,
            "/resume 1",
            DONE,
            changed,
        ),
    ),
    "find a reject of last week": Journey(
        (BAD, GOOD),
        (
            "write hello.py",
            DONE,
            "/tasks --since 7d",
            See("title"),
            "/trace 1 --event REJECTION_DETAILS",
            See("REJECTION_DETAILS[0]"),
        ),
    ),
    "compare two tasks": Journey(
        (PAID,),
        ("write hello.py", DONE, "/ask what does it do", See("task-002 COMPLETE"), "/compare 1 2", See("B against A")),
    ),
    "see the cost": Journey((PAID_BAD, PAID), ("write hello.py", DONE, "/sessions cost --by task", See("$0.75"))),
    "change the theme": Journey((GOOD,), ("/config set repl.theme light --user", "/theme light", light)),
    "leave with a task running": Journey(
        (ENDLESS,), ("write hello.py", See("asking scripted"), CTRL_D, See("s stop and leave"), b"s")
    ),
}


def holds(look: Callable[[Path], None], project: Path, terminal: Terminal) -> None:
    """Look until it is so: a line that was typed takes its time."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return look(project)
        except (AssertionError, OSError):
            if time.monotonic() > deadline:
                raise
        terminal.pump(0.3)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("name", JOURNEYS)
def test_a_newcomer_gets_there(project: Path, name: str, size: tuple[int, int]) -> None:
    journey = JOURNEYS[name]
    told = {"PM_EXECUTOR": "scripted", "PM_SCRIPT": str(script(project, *journey.replies))}

    def opened() -> Terminal:
        return Terminal(project, columns=size[0], rows=size[1], **told)

    terminal = opened()
    try:
        terminal.wait_for("pm>", seconds=_PATIENCE_S)
        terminal.pump(0.5)
        for step in journey.steps:
            match step:
                case Restart():
                    os.kill(terminal.child.pid, signal.SIGKILL)
                    terminal.ends(seconds=_PATIENCE_S)
                    terminal = opened()
                    terminal.wait_for("pm>", seconds=_PATIENCE_S)
                case See():
                    terminal.wait_for(step.text, seconds=_PATIENCE_S)
                case bytes():
                    terminal.pump(0.5)  # an Esc right before a letter is that letter with Alt
                    terminal.send(step)
                case str():
                    terminal.pump(0.3)
                    terminal.send(step.encode() + ENTER)
                case _:
                    holds(step, project, terminal)
        if journey.steps[-1] != b"s":
            terminal.pump(0.5)
            terminal.send(b"/exit" + ENTER)
        assert terminal.ends(seconds=_PATIENCE_S) == 0
        if journey.steps[-1] == b"s":
            resumable(project)
    finally:
        terminal.__exit__(None, None, None)
