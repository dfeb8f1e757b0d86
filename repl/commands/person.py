"""The person at the terminal of `pm run`: one line at a time, and giving up on one loses none.

Standard input has one reader for all questions of a run: a second one would race it for the answers.
"""

from __future__ import annotations

import asyncio
import sys
import termios
from collections.abc import AsyncGenerator
from contextlib import suppress

from repl.stdin_lines import stdin_lines

__all__ = ["Person"]

_SETTLE_S = 0.05


class Person:
    """Reads what is typed; `aclose` it at the end."""

    def __init__(self) -> None:
        self._lines = stdin_lines()
        self._next: asyncio.Task[str | None] | None = None

    async def line(self) -> str | None:
        """The next line, None at the end of the input (Ctrl+D). Safe to cancel: the line is then the next one."""
        reading = self._reading()
        text = await asyncio.shield(reading)
        if text is not None:
            self._next = None
        return text

    async def forget_typed(self) -> None:
        """Drop what was typed before now: it cannot have been meant for the question that comes."""
        with suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        while (await asyncio.wait({self._reading()}, timeout=_SETTLE_S))[0]:
            if self._reading().result() is None:
                return
            self._next = None

    async def aclose(self) -> None:
        """Stop reading."""
        if self._next is not None:
            self._next.cancel()
            with suppress(asyncio.CancelledError):
                await self._next
        await self._lines.aclose()

    def _reading(self) -> asyncio.Task[str | None]:
        if self._next is None:
            self._next = asyncio.ensure_future(_next_line(self._lines))
        return self._next


async def _next_line(lines: AsyncGenerator[str]) -> str | None:
    return await anext(lines, None)
