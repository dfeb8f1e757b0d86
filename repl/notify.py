"""Calls the user back when a task rests: a bell, an OSC 9 notice or a command of theirs; never for subtasks.

Rings when the terminal has lost the focus or the task took over 30 seconds, at most once in 5 seconds.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from repl.present.text import one_line
from runner.core.task import TaskOutcome
from tracer.clock import monotonic
from tracer.settings.layers import Settings

_LONG_S = 30.0
_DEBOUNCE_S = 5.0


class Notifier:
    """`focused` is what the terminal last said; terminals that say nothing count as focused."""

    def __init__(self, settings: Settings, *, write: Callable[[str], None]) -> None:
        self.focused = True
        self._settings = settings
        self._write = write
        self._last = -_DEBOUNCE_S
        self._started: subprocess.Popen[bytes] | None = None

    def task_rests(self, outcome: TaskOutcome, seconds: float) -> None:
        if not self.focused or seconds >= _LONG_S:
            self._call(outcome.task_id, outcome.status)

    def needs_answer(self, task_id: str) -> None:
        """An agent asks permission for something, and its task stands still until then."""
        self._call(task_id, "AWAITING_RESPONSE")

    def _call(self, task_id: str, status: str) -> None:
        how = self._settings.get("repl.notify")
        if how == "off" or monotonic() - self._last < _DEBOUNCE_S:
            return
        self._last = monotonic()
        text = one_line(f"{task_id} {status}", 80)
        if how == "osc9":
            self._write(f"\x1b]9;{text}\x07")
        elif how == "command" and self._settings.get("repl.notify_command"):
            self._run(text, task_id, status)
        else:
            self._write("\x07")

    def wait(self) -> None:
        """Wait a little for a command that was started, so that none is left behind unreaped."""
        if self._started is not None:
            with suppress(subprocess.TimeoutExpired):
                self._started.wait(2)

    def _run(self, text: str, task_id: str, status: str) -> None:
        environ = {**os.environ, "PM_TASK_ID": task_id, "PM_TASK_STATUS": status}
        command = [*shlex.split(str(self._settings.get("repl.notify_command"))), text]
        try:
            self._started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environ,
                start_new_session=True,
            )
        except OSError:
            self._write("\x07")


@contextmanager
def reports(name: str, *, write: Callable[[str], None] | None) -> Generator[None]:
    """Title and focus reports while line mode has the terminal; both are given back. Without `write`, nothing."""
    if write is None:
        yield
        return
    write(f"\x1b[22;2t\x1b]2;pm · {one_line(name)}\x07\x1b[?1004h")
    try:
        yield
    finally:
        write("\x1b[?1004l\x1b[23;2t")
