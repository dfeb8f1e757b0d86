"""`pm` in a real pseudo-terminal: keys and signals in, the screen as a person sees it out."""

from __future__ import annotations

import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pexpect
import pyte

from tests.repl.support import command_line, environment

# What pyte does not know and would print: focus reports, title stack, key protocols.
_UNKNOWN = re.compile(rb"\x1b\[\?1004[hl]|\x1b\[\d+;2t|\x1b\[[<>=]?\d*u|\x1b\[\?2026[hl]|\x1b\[[>?][0-9;]*m")
ENTER, CTRL_C, CTRL_D, ESC, UP = b"\r", b"\x03", b"\x04", b"\x1b", b"\x1b[A"


class Terminal:
    """A child on a pty of 100x30; `raw` is everything it wrote. `program` runs something else than `pm WORDS`."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        columns: int = 100,
        rows: int = 30,
        program: list[str] | None = None,
        **extra: str,
    ) -> None:
        command = program or command_line(*words)
        env = environment(**{"TERM": "xterm-256color", "LANG": "C.UTF-8", **extra})
        self.child = pexpect.spawn(command[0], command[1:], cwd=str(folder), env=env, dimensions=(rows, columns))
        self._screen = pyte.HistoryScreen(columns, rows, history=2000)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(self.text())
        with suppress(OSError):  # a test may have closed the terminal itself
            self.child.close(force=True)

    def send(self, data: bytes) -> None:
        self.child.send(data)

    def pump(self, seconds: float = 0.05) -> bool:
        """Read for a while; false at the end of the child's output."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                data = self.child.read_nonblocking(65536, 0.02)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                return False
            self.raw += data
            self._stream.feed(_UNKNOWN.sub(b"", data))
            if b"\x1b[6n" in data:  # prompt_toolkit asks where the cursor is
                cursor = self._screen.cursor
                self.child.send(b"\x1b[%d;%dR" % (cursor.y + 1, cursor.x + 1))
        return True

    def text(self) -> str:
        """The scrollback and the screen, without trailing blanks."""
        history = ["".join(row[x].data for x in range(self._screen.columns)) for row in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*history, *self._screen.display]).rstrip() + "\n"

    def resize(self, rows: int, columns: int) -> None:
        self.child.setwinsize(rows, columns)
        self._screen.resize(rows, columns)

    def wait_for(self, wanted: str, *, seconds: float = 60) -> str:
        """The text once it holds `wanted`."""
        deadline = time.monotonic() + seconds
        while wanted not in self.text():
            alive = self.pump()
            if wanted in self.text():
                break
            assert alive, f"ended without {wanted!r}:\n{self.text()}"
            assert time.monotonic() < deadline, f"no {wanted!r} in:\n{self.text()}"
        return self.text()

    def wait_gone(self, unwanted: str, *, seconds: float = 60) -> str:
        """The screen (without scrollback) once it no longer holds `unwanted`."""
        deadline = time.monotonic() + seconds
        while any(unwanted in line for line in self._screen.display):
            alive = self.pump()
            assert alive, f"ended with {unwanted!r}:\n{self.text()}"
            assert time.monotonic() < deadline, f"still {unwanted!r} in:\n{self.text()}"
        return self.text()

    def last_line(self, start: str = "pm>") -> str:
        """The lowest line of the screen that begins with `start`."""
        return next((line.rstrip() for line in reversed(self._screen.display) if line.startswith(start)), "")

    def ends(self, *, seconds: float = 60) -> int:
        """The exit code once the child has ended."""
        deadline = time.monotonic() + seconds
        while self.pump() and time.monotonic() < deadline:
            pass
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else 128 + (self.child.signalstatus or 0)
