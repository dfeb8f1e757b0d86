"""The journal: durable, ordered appends from many tasks of one event loop to one record, with group commit.

`append` returns the line's sequence (its zero-based number) once the line is on the device. Everything that waits at
the same moment shares one write and one sync, made by the record's one writer thread; order is the order of the calls.
A failed write raises RecordError in every caller it concerns and leaves whole lines only. A cancelled `append` may
still be recorded: it was on its way. After `append(..., last=True)` every further append is refused.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, Self, Unpack

from tracer.errors import PmError, RecordError, TraceError
from tracer.journal.follow import nudge
from tracer.journal.record_file import RecordFile, RecordOptions, TornTail
from tracer.redaction.redactor import CleanLine


class _Batch(NamedTuple):
    lines: list[bytes]
    waiting: list[asyncio.Future[int]]


class _Closable(Protocol):
    async def close(self) -> None: ...


class Closing:
    """Closed at the end of an `async with`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self: _Closable, *_error: object) -> None:
        await self.close()


class Journal(Closing):
    """One record being written. Make it with `create` or `open` and close it; it belongs to one event loop."""

    def __init__(self, record: RecordFile) -> None:
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._real_path = os.path.realpath(record.path)
        self._batch = _Batch([], [])
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._scheduled = False
        self._writing = False
        self._refusal: str | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    async def create(cls, path: str | os.PathLike[str], **options: Unpack[RecordOptions]) -> Journal:
        """Claim a new record; its file appears, whole, with the first append. Raises `LockedError`."""
        return cls(await asyncio.to_thread(RecordFile.create, path, **options))

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        refuse: Callable[[bytes], None] | None = None,
        **options: Unpack[RecordOptions],
    ) -> Journal:
        """Go on in an existing record; a torn tail is moved aside first and told in `torn`. `refuse`: see `RecordFile`.

        Raises `NotFoundError`, `LockedError`.
        """
        return cls(await asyncio.to_thread(RecordFile.open, path, refuse=refuse, **options))

    def lines(self) -> Iterator[bytes]:
        """Every durable line, through the writer's own descriptor; blocks, so read it in a thread."""
        return self._record.lines()

    @property
    def path(self) -> str:
        """The record's path."""
        return self._record.path

    @property
    def next_seq(self) -> int:
        """The sequence the next durable line will get, not counting appends under way."""
        return self._record.next_seq

    @property
    def torn(self) -> TornTail | None:
        """The tail that was moved aside when the record was opened."""
        return self._record.torn

    @property
    def chain_head(self) -> str:
        """sha256 over all durable lines (64 hex digits), or "" for a record without a chain."""
        return self._record.chain_head

    @property
    def finished(self) -> bool:
        """Whether the last line this record may hold has been appended."""
        return self._refusal is not None

    async def append(self, line: CleanLine, *, last: bool = False) -> int:
        """Append one line (ending in `\\n`, holding no other) and return its sequence when it is durable."""
        if self._refusal is not None:
            raise TraceError(
                f"nothing can be added to {self.path!r}",
                why=self._refusal,
                next_step="resume the task: it goes on in a new file",
            )
        if not line or line.find(b"\n") != len(line) - 1:
            raise TraceError("a record holds one JSON object per line", why="the line has no newline at its end only")
        future: asyncio.Future[int] = self._loop.create_future()
        self._batch.lines.append(line)
        self._batch.waiting.append(future)
        if last:
            self._refusal = "its last event is recorded"
        if not self._scheduled and not self._writing:
            self._scheduled = True
            self._loop.call_soon(self._dispatch)  # after every task that is ready now has appended
        try:
            return await future
        except RecordError:
            if last:
                self._refusal = None
            raise

    def _dispatch(self) -> None:
        self._scheduled = False
        if not self._batch.lines:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_batches, name="pm-journal", daemon=True)
            self._thread.start()
        self._writing = True
        self._idle.clear()
        batch, self._batch = self._batch, _Batch([], [])
        self._batches.put(batch)

    def _write_batches(self) -> None:
        while (batch := self._batches.get()) is not None:
            first, failure = 0, None
            try:
                first = self._record.write_batch(batch.lines)
            except PmError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - a worker's top level: reported to every caller, never swallowed
                failure = RecordError(f"cannot record in {self.path!r}", why=repr(error))
            nudge(self._real_path)
            try:
                self._loop.call_soon_threadsafe(self._settle, batch.waiting, first, failure)
            except RuntimeError:  # the loop has ended, and with it everyone who waited
                return

    def _settle(self, waiting: list[asyncio.Future[int]], first: int, failure: PmError | None) -> None:
        self._writing = False
        if failure is None:
            for seq, future in enumerate(waiting, first):
                if not future.done():
                    future.set_result(seq)
        else:
            for future in waiting:
                if not future.done():
                    # Anew for each caller: raising one object in several tasks would mix their tracebacks.
                    future.set_exception(type(failure)(failure.what, why=failure.why, next_step=failure.next_step))
        if self._batch.lines:
            self._scheduled = True
            self._loop.call_soon(self._dispatch)  # behind the tasks just woken: their next lines share the sync
        self._idle.set()

    async def sync_chain(self) -> None:
        """Make the chain file durable as well (the record itself always is)."""
        await self._until_idle()
        await asyncio.to_thread(self._record.sync_chain)

    async def close(self) -> None:
        """Wait for what is under way, then close the record and release its lock; harmless when repeated."""
        await self._until_idle()
        self._refusal = self._refusal or "it is closed"
        if self._thread is not None:
            self._batches.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        await asyncio.to_thread(self._record.close)

    async def _until_idle(self) -> None:
        while self._scheduled or self._writing:
            await asyncio.sleep(0)
            await self._idle.wait()
