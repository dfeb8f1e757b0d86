"""Lines of standard input for an event loop, without ever holding the program back when it has to end.

The bytes are read by a daemon thread straight from the descriptor: a cancelled reader leaves nothing that the loop or
the interpreter would wait for. A stdin without a descriptor (tests, embedding) is read in a worker thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from threading import Thread

__all__ = ["stdin_lines"]

_CHUNK = 65536


async def stdin_lines() -> AsyncGenerator[str]:
    """Each line without its end; the last one also where it has none. Bytes that are not UTF-8 are shown as escapes."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        while line := await asyncio.to_thread(sys.stdin.readline):
            yield line.rstrip("\n")
        return
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except OSError:
                data = b""
            if loop.is_closed():
                return
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, data)
            except RuntimeError:  # the loop ended in between
                return
            if not data:
                return

    Thread(target=read, name="stdin", daemon=True).start()
    rest = b""
    while data := await chunks.get():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "backslashreplace").rstrip("\r")
    if rest:
        yield rest.decode("utf-8", "backslashreplace")
