"""Watching a record grow, from the writing process or any other, without the writer knowing.

`follow` pulls: it reads whole lines from the file at its own speed and waits for a nudge (in process), a file-system
event (watchfiles) or half a second, whichever is first. Sequence = zero-based line number, so `after` resumes exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator

import orjson

from tracer.errors import TraceError
from tracer.nudge import listening
from tracer.recordfile import require_file

__all__ = ["follow", "is_final"]

_CHUNK = 1 << 20
_POLL_S = 0.5


def is_final(line: bytes) -> bool:
    """Whether `line` is a FINAL_SUMMARY fact: nothing follows it in its file."""
    if b'"FINAL_SUMMARY"' not in line:
        return False
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(fields, dict) and fields.get("event") == "FINAL_SUMMARY"


async def follow(
    path: str | os.PathLike[str], after: int = -1, *, until_final: bool = True, poll_s: float = _POLL_S
) -> AsyncGenerator[tuple[int, bytes]]:
    """(seq, line with its newline) for every line behind `after`, then for each new one as it becomes whole.

    Ends after FINAL_SUMMARY (unless `until_final` is false) and when the file is deleted; a file that does not exist
    yet is waited for. `poll_s` bounds the delay where the file system tells nothing.

    Raises:
        TraceError: the file became shorter than what was read, or cannot be read.

    """
    position = _Position(os.fspath(path))
    with listening(path) as event:
        watch = asyncio.create_task(_watch(position.path, event))
        try:
            while True:
                event.clear()
                while lines := position.read():
                    for seq, line in lines:
                        if seq > after:
                            yield seq, line
                        if until_final and is_final(line):
                            return
                if position.gone:
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), poll_s)
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
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

    def read(self) -> list[tuple[int, bytes]]:
        """The next whole lines (about a megabyte at most, or one longer line), or nothing."""
        try:
            size = os.stat(self.path).st_size
            require_file(self.path)
        except FileNotFoundError:
            self.gone = self._existed
            return []
        except OSError as error:
            raise TraceError(f"cannot read {self.path!r}", why=error.strerror or str(error)) from error
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
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(self._offset)
                parts: list[bytes] = []
                while chunk := file.read(_CHUNK):
                    end = chunk.rfind(b"\n")
                    if end >= 0:
                        parts.append(chunk[: end + 1])
                        return parts[0] if len(parts) == 1 else b"".join(parts)
                    parts.append(chunk)
        except OSError as error:
            raise TraceError(f"cannot read {self.path!r}", why=error.strerror or str(error)) from error
        return b""


async def _watch(path: str, event: asyncio.Event) -> None:
    """Set `event` at file-system changes of `path`; where that does not work, the poll remains."""
    folder = os.path.dirname(os.path.realpath(path))
    name = os.path.basename(path)
    try:
        changes = _changes(folder)
        async for batch in changes:
            if any(os.path.basename(changed) == name for _, changed in batch):
                event.set()
    except (OSError, RuntimeError, ImportError):  # watch limit reached, folder gone, no wheel for this platform
        return


def _changes(folder: str) -> AsyncIterator[set[tuple[object, str]]]:
    from watchfiles import awatch  # 70 ms: only who follows pays it

    return awatch(folder, watch_filter=None, debounce=50, step=10, recursive=False, rust_timeout=500)  # type: ignore[return-value]  # Change is an IntEnum
