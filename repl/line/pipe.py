"""Lines from a pipe: each runs as if typed, waits until it has ended, and the worst exit code is the program's.

No prompt_toolkit here: nothing moves, facts are printed as they become durable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal

from repl.actions import KeyRow, key_rows
from repl.present.feed import Feed
from repl.present.output import Output
from repl.session import Session
from repl.shell import Shell
from tracer.errors import UsageError


class PipeView:
    """A `repl.shell.View` without a user."""

    name: Literal["line", "screen", "pipe"] = "pipe"

    def __init__(self, session: Session, output: Output) -> None:
        self.session = session
        self.output = output
        self._left = False
        self._shell = Shell(session, output=output, view=self)
        self._feed = Feed(session, output, changed=lambda: None, ended=lambda _outcome, _seconds: None)

    async def run(self, lines: AsyncIterator[str]) -> int:
        try:
            self._feed.adopt()
            await self._feed.drain()
            async for line in lines:
                self.session.context.running_task = ""
                await self._shell.run(line)
                self.session.context.running_task = next(iter(self.session.running), "")
                await self._feed.drain()
                if self._left:
                    break
        finally:
            await self._feed.close()
        code = max(self._shell.worst, self._feed.worst)
        self.output.ended = True
        return code

    def leave(self, to: str = "") -> None:
        if to:
            raise UsageError(f"/{to} needs a terminal", next_step="start pm in a terminal")
        self._left = True

    def clear(self) -> None:
        """Nothing to empty."""

    def set_option(self, name: str, value: Any) -> None:
        """Nothing moves or is coloured on a pipe."""

    def key_rows(self) -> list[KeyRow]:
        return key_rows(self.session.settings.family("repl.keys"), mode="line")

    async def open_trace(self, task_id: str) -> None:
        raise UsageError("full screen needs a terminal", next_step=f"/trace {task_id}")

    def take_back(self, text: str) -> None:
        """There is no line to put it on."""

    async def edit_text(self, text: str, *, suffix: str) -> str | None:
        raise UsageError(f"an editor for {len(text)} characters needs a terminal", next_step=f"--file PLAN{suffix}")
