"""Editor and pager hold nothing up, and SIGTERM, SIGHUP or a closed terminal end the program in every state."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from runner.processes.process_table import snapshot
from tests.repl.scripts import GOOD, script
from tests.repl.support import pm
from tests.repl.terminal import CTRL_D, ENTER, ESC, Terminal

CTRL_G, CTRL_T = b"\x07", b"\x14"
_STATES = ("idle", "task", "editor", "pager", "viewer", "dialog")
# Deaf to what asks it to end; says where it is; ends when the file `enough` is there.
_PROGRAM = f"""#!{sys.executable}
import os, signal, time
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"IN THE PROGRAM\\n")
until = time.monotonic() + 100
while not os.path.exists(os.environ["ENOUGH"]) and time.monotonic() < until:
    time.sleep(0.1)
"""


def opened(project: Path, mode: str, *, delay_ms: int = 0, **extra: str) -> Terminal:
    program = project.parent / "program.py"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    path = script(project, *([{**GOOD, "delay_ms": delay_ms}] * 3))
    shown = {"EDITOR": str(program), "PAGER": str(program), "ENOUGH": str(project.parent / "enough")}
    return Terminal(project, mode, PM_EXECUTOR="scripted", PM_SCRIPT=str(path), **shown, **extra)


def ours(mark: str) -> list[int]:
    """The living processes that were started by the test which gave its program `mark`."""
    found = []
    for pid in snapshot():
        with suppress(OSError):
            if f"PM_TEST_LEAVING={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


def bring_to(terminal: Terminal, state: str) -> None:
    terminal.wait_for("pm>")
    terminal.pump(0.5)
    if state != "idle":
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("asking scripted")
    if state in {"viewer", "pager"}:
        terminal.send(CTRL_T)
        terminal.wait_for("LLM_REQUEST")
        terminal.pump(0.5)
    if state in {"editor", "pager"}:
        terminal.send(CTRL_G if state == "editor" else b"o")
        terminal.wait_for("IN THE PROGRAM")
    if state == "dialog":
        terminal.send(CTRL_D)
        terminal.wait_for("s stop and leave")


_CASES = [
    pytest.param(
        mode, state, how, marks=() if (mode, how) == ("--screen", "TERM") and state == "pager" else pytest.mark.torture
    )
    for mode in ("--screen", "--line")
    for state in _STATES
    for how in ("TERM", "HUP", "closed")
]


@pytest.mark.torture
@pytest.mark.parametrize(("mode", "state", "how"), _CASES)
def test_the_program_ends_in_every_state_and_leaves_no_process(project: Path, mode: str, state: str, how: str) -> None:
    mark = f"{mode}{state}{how}{os.getpid()}"
    with opened(project, mode, delay_ms=600_000, PM_TEST_LEAVING=mark) as terminal:
        bring_to(terminal, state)
        began = time.monotonic()
        if how == "closed":
            os.close(terminal.child.child_fd)
            while ours(mark) and time.monotonic() < began + 60:
                time.sleep(0.05)
                with suppress(OSError):
                    os.waitpid(terminal.child.pid, os.WNOHANG)
        else:
            os.kill(terminal.child.pid, {"TERM": signal.SIGTERM, "HUP": signal.SIGHUP}[how])
            assert terminal.ends() == 143
            assert terminal.raw.rfind(b"\x1b[?1049l") >= terminal.raw.rfind(b"\x1b[?1049h"), "the shell's own screen"
        took = time.monotonic() - began
        assert not ours(mark)
    assert took < 30, "five seconds at rest; a loaded machine takes longer"
    if state != "idle":
        assert '"UNFINISHED"' in pm("tasks", "--json", cwd=project).out


@pytest.mark.torture
@pytest.mark.parametrize("mode", ["--screen", pytest.param("--line", marks=pytest.mark.torture)])
def test_a_task_goes_on_behind_the_editor_and_its_end_is_told_afterwards(project: Path, mode: str) -> None:
    with opened(project, mode, delay_ms=1500) as terminal:
        bring_to(terminal, "editor")
        began = time.monotonic()
        while '"COMPLETE"' not in pm("tasks", "--json", cwd=project).out:
            assert terminal.pump(0.2)
            assert time.monotonic() < began + 60, "the task stood still behind the editor"
        assert "task-001 COMPLETE" not in terminal.text(), "the editor has the terminal"
        (project.parent / "enough").touch()
        terminal.wait_for("task-001 COMPLETE")
        terminal.send(ESC)


def test_a_thread_that_reads_on_does_not_hold_the_end_up(tmp_path: Path) -> None:
    work = "async def work(): print('here', flush=True); await asyncio.to_thread(time.sleep, 600)"
    code = f"import asyncio, time\nfrom repl.dispatch import _run_async\n{work}\n_run_async(work())"
    with Terminal(tmp_path, program=[sys.executable, "-c", code]) as terminal:
        terminal.wait_for("here")
        os.kill(terminal.child.pid, signal.SIGTERM)
        assert terminal.ends() == 143
