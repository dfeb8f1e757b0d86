"""What the terminal itself is asked to do, on a real pty: copy, suspend and come back, and one that is not UTF-8."""

from __future__ import annotations

import base64
import re
import shlex
import time
from pathlib import Path

import pytest

from tests.repl.scripts import GOOD, run_scripted, script
from tests.repl.support import command_line
from tests.repl.terminal import CTRL_D, ENTER, ESC, Terminal
from tests.support.tools import need_program

pytestmark = pytest.mark.torture  # seconds a test: programs are really run

CTRL_Z = b"\x1a"


def opened(project: Path, *words: str, columns: int = 100, **extra: str) -> Terminal:
    path = script(project, GOOD)
    return Terminal(project, *words, columns=columns, **{"PM_EXECUTOR": "scripted", "PM_SCRIPT": str(path), **extra})


def wait_raw(terminal: Terminal, wanted: bytes, *, start: int = 0) -> None:
    deadline = time.monotonic() + 60
    while wanted not in terminal.raw[start:]:
        assert terminal.pump(), terminal.raw[-2000:]
        assert time.monotonic() < deadline, terminal.raw[-2000:]


def test_copying_in_full_screen_goes_to_the_terminals_clipboard(project: Path) -> None:
    run_scripted(project, GOOD)
    with opened(project, "--screen") as terminal:
        wait_raw(terminal, b"pm> ")
        terminal.pump(0.8)
        terminal.send(ESC)
        terminal.pump(0.8)
        terminal.send(b"y")
        wait_raw(terminal, b"\x1b]52;c;" + base64.b64encode(b"task-001") + b"\x07")


@pytest.mark.parametrize("mode", ["--screen", pytest.param("--line", marks=pytest.mark.torture)])
def test_ctrl_z_suspends_to_the_shell_and_fg_brings_everything_back(project: Path, mode: str) -> None:
    bash = need_program("bash", how="install bash")
    environ = {"PM_EXECUTOR": "scripted", "PM_SCRIPT": str(script(project, GOOD)), "PS1": "shell$ "}
    with Terminal(project, program=[bash, "--norc", "--noprofile", "-i"], **environ) as terminal:
        terminal.wait_for("shell$")
        terminal.send(shlex.join(command_line(mode)).encode() + ENTER)
        wait_raw(terminal, b"pm 0.1.0")
        terminal.pump(1.0)
        terminal.send(b"half a line")
        wait_raw(terminal, b"half a line")
        before = len(terminal.raw)
        terminal.send(CTRL_Z)
        wait_raw(terminal, b"Stopped", start=before)
        if mode == "--screen":
            assert b"\x1b[?1049l" in terminal.raw[before:], "the shell has its own screen back"
        terminal.send(b"echo in-the-$((1+1))nd-shell" + ENTER)
        wait_raw(terminal, b"in-the-2nd-shell", start=before)
        before = len(terminal.raw)
        terminal.send(b"fg" + ENTER)
        wait_raw(terminal, b"half a line", start=before)
        terminal.send(b"\x03")
        terminal.pump(0.5)
        terminal.send(b"/version" + ENTER)
        wait_raw(terminal, b"pm 0.1.0", start=before)
        terminal.send(CTRL_D)
        terminal.pump(1.0)
        before = len(terminal.raw)
        terminal.send(b"echo code-$?" + ENTER)
        wait_raw(terminal, b"code-0", start=before)


def test_a_terminal_that_is_not_utf8_gets_line_mode_in_ascii(project: Path) -> None:
    with opened(project, PYTHONIOENCODING="ascii") as terminal:
        terminal.wait_for("pm 0.1.0 - project - executor scripted - 0 tasks")
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("task-001 COMPLETE, tests not run: no test command was found")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0
        terminal.raw.decode("ascii")
        assert b"\x1b[?1049h" not in terminal.raw


@pytest.mark.parametrize(
    ("words", "value", "coloured"),
    [
        (("--screen",), "1", False),
        (("--screen",), "", True),
        (("--screen", "--no-color"), "", False),
        (("trace", "1", "--screen"), "1", False),
        (("trace", "1", "--screen", "--no-color"), "", False),
    ],
)
def test_no_color_leaves_the_terminal_s_own_two_colours(
    project: Path, words: tuple[str, ...], value: str, *, coloured: bool
) -> None:
    run_scripted(project, GOOD)
    with opened(project, *words, NO_COLOR=value) as terminal:
        wait_raw(terminal, b"USER_REQUEST" if "trace" in words else b"pm 0.1.0")
        terminal.pump(0.5)
        codes = {code for codes in re.findall(rb"\x1b\[([0-9;]*)m", terminal.raw) for code in codes.split(b";")}
        used = {int(code or 0) for code in codes}
        assert bool(used - {0, 1, 2, 3, 4, 7, 9, *range(21, 30), 39, 49}) == coloured
        assert {39, 49} <= used
        assert not used & {38, 48}, "a colour that is not the terminal's own"


def test_what_line_mode_printed_stands_in_the_full_screen_s_transcript(project: Path) -> None:
    with opened(project, "--line") as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("task-001 COMPLETE")
        terminal.pump(0.3)
        before = len(terminal.raw)
        terminal.send(b"/screen" + ENTER)
        wait_raw(terminal, b"\x1b[?1049h", start=before)
        for line in (b"pm> write hello.py", b"task-001 started", b"[0] PASS", b"task-001 COMPLETE"):
            wait_raw(terminal, line, start=before)


def test_the_list_of_tasks_fits_the_terminal(project: Path) -> None:
    run_scripted(project, GOOD, words=("write hello.py " + "and more " * 20,))
    with opened(project, "tasks") as terminal:
        terminal.wait_for("task-001")
        terminal.ends()
        (row,) = [line for line in terminal.text().splitlines() if "task-001" in line]
        assert row.endswith("…")
        assert len(row) < 100
        assert all("task-001" in line or "title" in line for line in terminal.text().strip().splitlines())


def test_a_list_in_ascii_fits_the_terminal_too(project: Path) -> None:
    run_scripted(project, GOOD, words=("write hello.py " + "and more " * 20,))
    with opened(project, "tasks", columns=80, PYTHONIOENCODING="ascii") as terminal:
        terminal.wait_for("task-001")
        terminal.ends()
        (row,) = [line for line in terminal.text().splitlines() if "task-001" in line]
        assert row.endswith("...")


@pytest.mark.parametrize("asked", [b"/keys", b"?"])
def test_the_table_of_keys_breaks_between_words(project: Path, asked: bytes) -> None:
    with opened(project, "--line", columns=80) as terminal:
        terminal.wait_for("pm>")
        terminal.send(asked if asked == b"?" else asked + ENTER)
        text = terminal.wait_for("empty line: the keys that hold")
        terminal.pump(0.3)
        text = terminal.text()
        rows = text[text.index("Ctrl+R ") : text.index("the keys that hold")].splitlines()
        assert all(row[:42].strip() or row.startswith(" " * 42) for row in rows)
        words = {word for row in rows for word in row[42:].split()}
        assert {"clear", "line;", "wait,", "full", "queued", "screen:"} <= words
