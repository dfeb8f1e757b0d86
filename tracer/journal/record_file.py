"""One append-only file of `\\n`-framed lines, written by one process: the synchronous core under the journal.

Promises: a line is durable when `write_batch` returns; a new file appears with its first batch whole (written aside,
synced, linked); a torn tail left by a crash is moved aside, under the lock, before anything is appended; after a failed
write the file holds whole lines again; after a failed sync nothing more is written, because nobody can know what the
device holds. A file that changes under the writer's hands (another program appends, truncates or deletes) is an error.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import NamedTuple

from tracer.durable import create_aside, link_new, publish, sync_file, sync_folder, write_all
from tracer.errors import NotFoundError, RecordError, TraceError
from tracer.journal.chain import ChainFile
from tracer.lock import FileLock

_CHUNK = 1 << 20
_JOIN_LIMIT = 1 << 22


class TornTail(NamedTuple):
    """Bytes after the last whole line: where they began, how many, and the file they were moved to ("" if not yet)."""

    offset: int
    length: int
    moved_to: str


class RecordFile:
    """The writer's end of one record. Use `create` or `open`; not thread-safe: one thread writes."""

    def __init__(self, path: str | os.PathLike[str], *, lock: FileLock, chained: bool) -> None:
        self.path = os.fspath(path)
        self.torn: TornTail | None = None
        self.next_seq = 0
        self.size = 0
        self._lock = lock
        self._chain = ChainFile(self.path) if chained else None
        self._descriptor: int | None = None
        self._broken = ""

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], *, lock_path: str | os.PathLike[str] | None = None, chained: bool = True
    ) -> RecordFile:
        """Claim the free name `path`; the file itself appears with the first batch.

        Raises:
            LockedError: another writer holds the lock.
            RecordError: the name is taken or the folder cannot be written.

        """
        record = cls(path, lock=_take_lock(path, lock_path), chained=chained)
        if os.path.lexists(record.path):
            record.close()
            raise _failure(path, FileExistsError(17, "the file exists already"))
        return record

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, lock_path: str | os.PathLike[str] | None = None, chained: bool = True
    ) -> RecordFile:
        """Take up an existing record: its torn tail, if any, is moved aside and told in `torn`.

        Raises:
            NotFoundError: there is no such file.
            LockedError: another writer holds the lock.
            RecordError: the file cannot be written.

        """
        if not os.path.exists(path):
            raise NotFoundError(f"no record at {os.fspath(path)!r}")
        record = cls(path, lock=_take_lock(path, lock_path), chained=chained)
        try:
            record._take_up()
        except OSError as error:
            record.close()
            raise _failure(path, error) from error
        except BaseException:
            record.close()
            raise
        return record

    @property
    def chain_head(self) -> str:
        """The chain's head, or "" for a record without one."""
        return self._chain.head if self._chain else ""

    def _take_up(self) -> None:
        require_file(self.path)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
        self.torn = torn_tail(self.path)
        self.size = os.fstat(self._descriptor).st_size
        if self.torn:
            moved_to = _save_tail(self.path, self.torn)
            os.ftruncate(self._descriptor, self.torn.offset)
            sync_file(self._descriptor)
            self.torn = self.torn._replace(moved_to=moved_to)
            self.size = self.torn.offset
        self.next_seq = _count_lines(self.path, self.size)
        if self._chain:
            self._chain.resume(self.path, self.size)

    def write_batch(self, lines: list[bytes]) -> int:
        """Append `lines` (each ending in `\\n`) with one write and one sync; the sequence of the first.

        Raises:
            RecordError: they are not recorded; the record holds what it held before.

        """
        if self._broken:
            raise RecordError(f"cannot record in {self.path!r}", why=self._broken, next_step="free space, then resume")
        first = self.next_seq
        total = sum(map(len, lines))
        if self._descriptor is None:
            self._create(lines)
        else:
            self._check_untouched(self._descriptor)
            self._append(self._descriptor, lines, total)
        self.size += total
        self.next_seq += len(lines)
        if self._chain:
            try:
                self._chain.extend(lines)
            except OSError as error:
                self._broken = f"the chain file could not be extended: {error.strerror or error}"
                raise _failure(self.path, error) from error
        return first

    def _create(self, lines: list[bytes]) -> None:
        descriptor, aside = -1, ""
        try:
            descriptor, aside = create_aside(self.path)
            _write_lines(descriptor, lines)
            sync_file(descriptor)
            link_new(aside, self.path)
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(aside)
                if os.path.lexists(self.path):  # linked, but the name may not be durable: only a reopen can tell
                    self._broken = f"the folder could not be synced: {error.strerror or error}"
            raise _failure(self.path, error) from error
        self._descriptor = descriptor

    def _append(self, descriptor: int, lines: list[bytes], total: int) -> None:
        try:
            if len(lines) == 1:
                write_all(descriptor, lines[0])
            elif total <= _JOIN_LIMIT:
                write_all(descriptor, b"".join(lines))
            else:
                _write_lines(descriptor, lines)
        except OSError as error:
            try:
                os.ftruncate(descriptor, self.size)
            except OSError as second:
                self._broken = f"a partial line could not be taken back: {second.strerror or second}"
            raise _failure(self.path, error) from error
        try:
            sync_file(descriptor)
        except OSError as error:
            self._broken = f"the device did not confirm an earlier write: {error.strerror or error}"
            raise _failure(self.path, error) from error

    def _check_untouched(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if status.st_size == self.size and status.st_nlink:
            return
        deleted = not status.st_nlink
        self._broken = "it was deleted" if deleted else f"its size is {status.st_size} bytes instead of {self.size}"
        raise RecordError(
            f"{self.path!r} was changed by another program while it was being written",
            why=self._broken,
            next_step="keep agents and scripts out of the state directory; then resume",
        )

    def sync_chain(self) -> None:
        """Make the chain file durable too.

        Raises:
            RecordError: it could not be.

        """
        if self._chain:
            try:
                self._chain.sync()
            except OSError as error:
                raise _failure(self._chain.path, error) from error

    def close(self) -> None:
        """Close the files and give the lock back; harmless when repeated."""
        if self._chain:
            self._chain.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._broken = self._broken or "it is closed"
        self._lock.release()


def require_file(path: str | os.PathLike[str]) -> None:
    """Refuse what is no regular file: an agent may have put a pipe there, which would never end.

    Raises:
        OSError: there is nothing at `path`.
        TraceError: it is a folder, a pipe, a device or a socket.

    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise TraceError(f"{os.fspath(path)!r} is not a file", next_step="look at what put it there, then remove it")


def torn_tail(path: str | os.PathLike[str]) -> TornTail | None:
    """The bytes of `path` after its last whole line, or None.

    Lines at the very end that hold NUL bytes belong to the tail: a crash of the machine leaves zeroed pages.

    Raises:
        OSError: the file cannot be read.

    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        end = _line_start(file.fileno(), size)
        while end:
            start = _line_start(file.fileno(), end - 1)
            if not _has_nul(file.fileno(), start, end):
                break
            end = start
    return TornTail(end, size - end, "") if end < size else None


def _line_start(descriptor: int, end: int) -> int:
    """Where the line that ends (without its newline) at byte `end` begins."""
    while end:
        start = max(0, end - _CHUNK)
        at = os.pread(descriptor, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def _has_nul(descriptor: int, start: int, end: int) -> bool:
    while start < end:
        chunk = os.pread(descriptor, min(_CHUNK, end - start), start)
        if not chunk or b"\0" in chunk:
            return bool(chunk)
        start += len(chunk)
    return False


def _count_lines(path: str, size: int) -> int:
    lines = 0
    with open(path, "rb", buffering=0) as file:
        while size > 0 and (chunk := file.read(min(_CHUNK, size))):
            lines += chunk.count(b"\n")
            size -= len(chunk)
    return lines


def _save_tail(path: str, torn: TornTail) -> str:
    """Copy the tail to `<path>.torn-<offset>` and make it durable before it is cut off."""
    with open(path, "rb") as file:
        file.seek(torn.offset)
        data = file.read()
    number = 1
    while True:
        target = f"{path}.torn-{torn.offset}" + (f"_{number}" if number > 1 else "")
        try:
            publish(target, data)
        except FileExistsError:
            with open(target, "rb") as file:
                if file.read() == data:  # a crash came between saving and cutting
                    return target
            number += 1
        else:
            sync_folder(os.path.dirname(path) or ".")
            return target


def _write_lines(descriptor: int, lines: list[bytes]) -> None:
    for line in lines:
        write_all(descriptor, line)


def _take_lock(path: str | os.PathLike[str], lock_path: str | os.PathLike[str] | None) -> FileLock:
    lock = FileLock(lock_path if lock_path is not None else os.fspath(path) + ".lock")
    lock.acquire(what=repr(os.path.basename(os.fspath(path))))
    return lock


def _failure(path: str | os.PathLike[str], error: OSError) -> TraceError:
    return RecordError(
        f"cannot record in {os.fspath(path)!r}",
        why=error.strerror or str(error),
        next_step="free space or make the state directory writable, then resume",
    )
