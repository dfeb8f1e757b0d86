"""The person at the terminal of `pm run`: one line at a time, read only while one is awaited.

Nothing reads the terminal in between, so that an editor has it for itself; giving up on a line loses none.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from contextlib import suppress

__all__ = ["Person"]

_CHUNK = 65536


class Person:
    """What is typed on standard input, which is a terminal."""

    def __init__(self) -> None:
        self._typed = b""

    async def line(self) -> str | None:
        """The next line, None for Ctrl+D or a terminal that is gone. Safe to cancel."""
        while b"\n" not in self._typed:
            data = await self._read()
            if not data:
                return None
            self._typed += data
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "backslashreplace").rstrip("\r")

    async def forget_typed(self) -> None:
        """Drop what was typed before now: it cannot have been meant for the question that comes."""
        self._typed = b""
        with suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            descriptor = sys.stdin.fileno()
            loop.add_reader(descriptor, readable.set)
        except (OSError, ValueError):  # not a terminal, or none at all
            return b""
        try:
            await readable.wait()
            return os.read(descriptor, _CHUNK)
        except OSError:
            return b""
        finally:
            loop.remove_reader(descriptor)
