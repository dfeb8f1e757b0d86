"""Group commit: one thread writes; whatever waits while a commit is under way shares the next one.

A result is returned only once its transaction is on the disk. Work that raises a `PmError` (before it writes) changes
nothing. After any other failure the group is undone and its pieces tried one by one, so only the faulty one fails.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from collector.errors import OverloadedError
from tracer.errors import PmError, RecordError, UnavailableError

MOST_GROUPED: Final = 1_000
_GROUP_BYTES: Final = 16 << 20
_MOST_WAITING: Final = 20_000
_WAITING_BYTES: Final = 256 << 20
_Result = TypeVar("_Result")
_Piece = TypeVar("_Piece")
_Done = tuple[asyncio.Future[Any], Any, BaseException | None]


class _Job(NamedTuple):
    do: Callable[[sqlite3.Connection, Sequence[Any]], Sequence[Any]]
    piece: Any
    size: int
    future: asyncio.Future[Any]


class GroupWriter:
    """Owns the writing connection; made and used on one event loop. `group` 1 commits each piece of work by itself."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, group: int = MOST_GROUPED) -> None:
        self._loop = asyncio.get_running_loop()
        self._connect = connect
        self._group = group
        self._jobs: deque[_Job] = deque()
        self._waiting_bytes = 0
        self._wake = threading.Event()
        self._closing = False
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="collector-writer", daemon=True)

    async def start(self) -> None:
        """Open the connection; raises what opening raises."""
        self._thread.start()
        await self._opened

    async def write(self, work: Callable[[sqlite3.Connection], _Result], *, size: int = 0) -> _Result:
        """Run `work`, of about `size` bytes, in a shared transaction, durable on return; see the module on errors."""
        result: _Result = await self._queued(_each, work, size)
        return result

    async def write_together(
        self,
        do: Callable[[sqlite3.Connection, Sequence[_Piece]], Sequence[_Result | PmError]],
        piece: _Piece,
        *,
        size: int = 0,
    ) -> _Result:
        """As `write`, where `do` does many pieces at once: what became of each, in order, errors given and not raised.

        `do` must be the same function in every call whose pieces it may do together. Raises as `write`.
        """
        result: _Result = await self._queued(do, piece, size)
        return result

    def _queued(
        self, do: Callable[[sqlite3.Connection, Sequence[Any]], Sequence[Any]], piece: Any, size: int
    ) -> asyncio.Future[Any]:
        if self._closing:
            raise UnavailableError("the store is closed")
        if len(self._jobs) >= _MOST_WAITING or self._waiting_bytes + size > max(_WAITING_BYTES, size):
            raise OverloadedError("too much is waiting to be written")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting_bytes += size
        self._jobs.append(_Job(do, piece, size, future))
        self._wake.set()
        return future

    async def close(self) -> None:
        """Write what is waiting and end the thread."""
        self._closing = True
        self._wake.set()
        if self._thread.ident is not None:  # else it was never started
            await asyncio.to_thread(self._thread.join)

    # -- the thread

    def _run(self) -> None:
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 # as in `_commit`: whoever opens the store waits for it
            self._tell_opened(error)
            return
        self._tell_opened(None)
        try:
            while True:
                closing = self._closing  # read before the jobs: nothing comes after it
                jobs = self._take()
                if jobs:
                    self._tell(_commit(connection, jobs), jobs)
                elif closing:
                    return
                else:
                    self._wake.wait()
                    self._wake.clear()
        finally:
            connection.close()

    def _take(self) -> list[_Job]:
        jobs: list[_Job] = []
        size = 0
        while self._jobs and len(jobs) < self._group and size < _GROUP_BYTES:
            jobs.append(self._jobs.popleft())
            size += jobs[-1].size
        return jobs

    def _tell_opened(self, error: BaseException | None) -> None:
        def settle() -> None:
            if self._opened.done():  # whoever opened the store was cancelled, and closes it
                return
            if error is not None:
                self._opened.set_exception(error)
            else:
                self._opened.set_result(None)

        self._on_the_loop(settle)

    def _tell(self, done: list[_Done], jobs: list[_Job]) -> None:
        size = sum(job.size for job in jobs)

        def settle() -> None:
            self._waiting_bytes -= size
            for future, result, error in done:
                if future.done():  # the caller was cancelled; the work is done all the same
                    continue
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            self._loop.call_soon(jobs.clear)  # what was written is let go when its senders have their answers

        self._on_the_loop(settle)

    def _on_the_loop(self, settle: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(settle)


def _commit(connection: sqlite3.Connection, jobs: list[_Job]) -> list[_Done]:
    try:
        connection.execute("BEGIN IMMEDIATE")
        done = [outcome for do, run in groupby(jobs, attrgetter("do")) for outcome in _outcomes(do, run, connection)]
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 # the boundary of the worker thread: every error goes to its caller
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # SQLite has undone it already
                connection.execute("ROLLBACK")
        if len(jobs) > 1 and not _concerns_all(error):
            return [outcome for job in jobs for outcome in _commit(connection, [job])]
        return [(job.future, None, _told(error)) for job in jobs]
    return done


def _concerns_all(error: Exception) -> bool:
    """Whether trying one by one cannot help: the disk is full or fails, or another process writes for too long."""
    return code_of(error) in {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CORRUPT,
    }


def code_of(error: Exception) -> int:
    """SQLite's primary code; 0 where there is none: not every error of sqlite3 has one."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _outcomes(
    do: Callable[[sqlite3.Connection, Sequence[Any]], Sequence[Any]],
    run: Iterable[_Job],
    connection: sqlite3.Connection,
) -> Iterator[_Done]:
    jobs = list(run)
    for job, result in zip(jobs, do(connection, [job.piece for job in jobs]), strict=True):
        if isinstance(result, PmError):
            yield job.future, None, result
        else:
            yield job.future, result, None


def _each(
    connection: sqlite3.Connection, pieces: Sequence[Callable[[sqlite3.Connection], _Result]]
) -> list[_Result | PmError]:
    """Work that knows of no other, piece by piece."""
    done: list[_Result | PmError] = []
    for work in pieces:
        try:
            done.append(work(connection))
        except PmError as error:
            done.append(error)
    return done


def _told(error: Exception) -> Exception:
    if code_of(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return OverloadedError("the collector's database is busy with another process")
    if isinstance(error, sqlite3.Error):
        return RecordError(
            "the collector could not store this",
            why=str(error),
            next_step="free space or make the database writable, then try again",
        )
    return error
