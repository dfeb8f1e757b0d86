"""Follows a record as it grows, from the writing process or any other.

`follow` reads whole lines at its own speed and waits for a wake-up from the writer (same process), a file-system
event or half a second, whichever comes first. Sequence = zero-based line number, so `after` resumes exactly. A slow
or failing follower costs the writer nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tracer.errors import TraceError, told_as
from tracer.journal.record_file import open_records, require_file

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


_CHUNK = 1 << 20
_POLL_S = 0.5


def is_final(line: bytes) -> bool:
    """Whether `line` is a FINAL_SUMMARY fact: nothing follows it in its file."""
    if b'"FINAL_SUMMARY"' not in line:
        return False
    import orjson  # as in tracer.events

    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(fields, dict) and fields.get("event") == "FINAL_SUMMARY"


async def follow(
    path: str | os.PathLike[str],
    after: int = -1,
    *,
    until: asyncio.Future[Any] | None = None,
    poll_s: float = _POLL_S,
) -> AsyncGenerator[tuple[int, bytes]]:
    """(seq, line with its newline) for every line behind `after`, then for each new one as it becomes whole.

    Ends after FINAL_SUMMARY, when the file is deleted, and with what it holds when
    `until` is done; a file that does not exist yet is waited for. `poll_s` bounds the delay where the file system
    tells nothing.

    Raises:
        TraceError: the file became shorter than what was read, or cannot be read.

    """
    position = _Position(os.fspath(path))
    with listening(path) as event:
        watch = asyncio.create_task(_watch(position.path, event))
        if until is not None:
            until.add_done_callback(lambda _: event.set())
        try:
            while True:
                event.clear()
                last_look = until is not None and until.done()
                while lines := position.read():
                    for seq, line in lines:
                        if seq > after:
                            yield seq, line
                        if is_final(line):
                            return
                    await asyncio.sleep(0)  # a long record that was seen before must not hold up the loop
                if position.gone or last_look:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), poll_s)
        finally:
            position.close()
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


class _Position:
    """Where a follower stands: only whole lines are taken, so a torn tail that is moved aside was never seen."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.gone = False
        self._offset = 0
        self._seq = 0
        self._seen = 0
        self._existed = False
        self._file: int | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        """The file that has the path's name now: a writer may have put another in its place.

        Where this process writes the record, the writer's descriptor is shared.
        """
        named = os.stat(self.path)
        if self._file is None:
            self._file = next((record.share() for record in open_records(self.path)), None)
        if self._file is not None and not os.path.samestat(os.fstat(self._file), named):
            self.close()
        if self._file is None:
            self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._file

    def read(self) -> list[tuple[int, bytes]]:
        """The next whole lines (about a megabyte at most, or one longer line), or nothing."""
        try:
            size = os.stat(self.path).st_size
            require_file(self.path)
        except FileNotFoundError:
            self.gone = self._existed
            return []
        except OSError as error:
            raise TraceError(f"cannot read {self.path!r}", why=error) from error
        self._existed = True
        if size < self._offset:
            raise TraceError(f"{self.path!r} became shorter while it was followed", next_step="pm trace verify")
        if size in {self._offset, self._seen}:
            return []
        data = self._whole_lines()
        if not data:
            self._seen = size  # an unfinished line: look again when the size changes
            return []
        self._seen = 0
        first = self._seq
        lines = [line + b"\n" for line in data[:-1].split(b"\n")]
        self._seq += len(lines)
        self._offset += len(data)
        return list(enumerate(lines, first))

    def _whole_lines(self) -> bytes:
        with told_as(TraceError, f"cannot read {self.path!r}"):
            file, at = self._opened(), self._offset
            parts: list[bytes] = []
            while chunk := os.pread(file, _CHUNK, at):
                at += len(chunk)
                end = chunk.rfind(b"\n")
                if end >= 0:
                    parts.append(chunk[: end + 1])
                    return parts[0] if len(parts) == 1 else b"".join(parts)
                parts.append(chunk)
        return b""


async def _watch(path: str, event: asyncio.Event) -> None:
    """Set `event` at file-system changes of `path`; where that does not work, the poll remains."""
    folder = os.path.dirname(os.path.realpath(path))
    name = os.path.basename(path)
    try:
        from watchfiles import awatch  # 70 ms: only who follows pays it

        changes = awatch(folder, watch_filter=None, debounce=50, step=10, recursive=False, rust_timeout=500)
        async for batch in changes:
            if any(os.path.basename(changed) == name for _, changed in batch):
                event.set()
    except (OSError, RuntimeError, ImportError):  # watch limit reached, folder gone, no wheel for this platform
        return
