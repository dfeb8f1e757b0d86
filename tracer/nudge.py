"""In-process nudges: a writer says "there is more at this path", followers in any thread or loop wake up.

A nudge carries nothing; followers read the file. So a follower that is slow, gone or failing costs the writer nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["listening", "nudge"]

_lock = threading.Lock()
_listeners: dict[str, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}


@contextmanager
def listening(path: str | os.PathLike[str]) -> Iterator[asyncio.Event]:
    """An event of the running loop that is set at every nudge for `path` while the block runs."""
    key, entry = os.path.realpath(path), (asyncio.get_running_loop(), asyncio.Event())
    with _lock:
        _listeners.setdefault(key, []).append(entry)
    try:
        yield entry[1]
    finally:
        with _lock:
            _listeners[key].remove(entry)
            if not _listeners[key]:
                del _listeners[key]


def nudge(path: str) -> None:
    """Wake the followers of `path` (as `os.path.realpath` gives it); from any thread, never blocks."""
    if not _listeners:
        return
    with _lock:
        entries = tuple(_listeners.get(path, ()))
    for loop, event in entries:
        with suppress(RuntimeError):  # that loop has ended; its follower has too
            loop.call_soon_threadsafe(event.set)
