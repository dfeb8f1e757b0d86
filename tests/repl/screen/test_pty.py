"""The real program on a real terminal: it opens, runs a task, is silent at rest, and leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.repl.screen.facts import write_seed
from tests.repl.screen.running import GOOD
from tests.repl.support import command_line, environment
from tracer.clock import monotonic

pytestmark = pytest.mark.torture  # seconds a test: programs are really run


class Terminal:
    """A program on a pty; `seen` is everything it has written."""

    def __init__(self, process: subprocess.Popen[bytes], handle: int) -> None:
        self.process = process
        self.handle = handle
        self.seen = b""

    def read(self, seconds: float) -> bytes:
        """What is written within `seconds`, or until the program ends."""
        end = monotonic() + seconds
        found = b""
        while (left := end - monotonic()) > 0:
            if not select.select([self.handle], [], [], left)[0]:
                break
            try:
                piece = os.read(self.handle, 65536)
            except OSError:
                break
            if not piece:
                break
            found += piece
        self.seen += found
        return found

    def until(self, text: bytes) -> None:
        """Wait until `text` has been written."""
        end = monotonic() + 60
        while text not in self.seen:
            assert monotonic() < end, self.seen[-3000:]
            self.read(0.1)

    def send(self, keys: bytes) -> None:
        os.write(self.handle, keys)

    def ended(self) -> int:
        """Read on until the program ends; its exit code."""
        end = monotonic() + 60
        while self.process.poll() is None and monotonic() < end:
            self.read(0.1)
        self.read(0.1)
        return self.process.wait(1)


@contextmanager
def terminal(folder: Path, *words: str, size: tuple[int, int] = (110, 30), **extra: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    process = subprocess.Popen(
        command_line(*words), cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env=environment(TERM="xterm-256color", **extra),
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


@pytest.fixture
def scripted(project: Path) -> dict[str, str]:
    script = project.parent / "replies.jsonl"
    script.write_text(json.dumps(GOOD) + "\n")
    return {"PM_EXECUTOR": "scripted", "PM_SCRIPT": str(script)}


def test_pm_opens_the_screen_runs_a_task_is_silent_at_rest_and_restores_the_terminal(
    project: Path, scripted: dict[str, str]
) -> None:
    with terminal(project, **scripted) as shown:
        shown.until(b"pm>")
        shown.send(b"make f\r")
        shown.until(b"COMPLETE")
        while shown.read(1.2):
            pass
        assert shown.read(1.5) == b""
        shown.send(b"/exit\r")
        assert shown.ended() == 0
        assert shown.seen.rindex(b"\x1b[?1049l") > shown.seen.rindex(b"\x1b[?1049h")


def test_sigterm_leaves_at_once_with_143_and_the_terminal_restored(project: Path, scripted: dict[str, str]) -> None:
    with terminal(project, **scripted) as shown:
        shown.until(b"pm>")
        shown.read(0.5)
        shown.process.send_signal(signal.SIGTERM)
        assert shown.ended() == 143
        assert b"\x1b[?1049l" in shown.seen


def test_sigint_does_what_ctrl_c_does_and_never_kills(project: Path, scripted: dict[str, str]) -> None:
    with terminal(project, **scripted) as shown:
        shown.until(b"pm>")
        shown.read(0.5)
        shown.process.send_signal(signal.SIGINT)
        shown.until(b"/exit leaves")
        assert shown.process.poll() is None


def test_trace_screen_opens_the_viewer_alone(project: Path) -> None:
    traces = project / ".pm-orchestrator" / "traces"
    traces.mkdir(parents=True)
    write_seed(traces)
    with terminal(project, "trace", "15", "--screen") as shown:
        shown.until(b"QUALITY_JUDGMENT")
        shown.send(b"q")
        assert shown.ended() == 0
