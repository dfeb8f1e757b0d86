"""One append-only file of `\\n`-framed lines, written by one process: the synchronous core under the journal.

Promises: a line is durable when `write_batch` returns; a new file appears with its first batch whole (written aside,
synced, linked); a torn tail left by a crash is moved aside, under the lock, before anything is appended; after a failed
write the file holds whole lines again; after a failed sync nothing more is written, because nobody can know what the
device holds. What another program does to the file, its chain or its lock meanwhile is put back
(`tracer.journal.second_copy`) before the next append, and told by `disturbed`; where that fails, it is an error.

`copies` is the folder of second copies. They go when the writer ends well; one that is there when a record is opened
was left by a killed process, and what that one could not put back is put back then.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypedDict, Unpack

from tracer.blobs import DirectoryBlobs
from tracer.durable import create_aside, ensure_folder, link_new, publish, replacing, sync_file, sync_folder, write_all
from tracer.errors import LockedError, NotFoundError, RecordError, TraceError
from tracer.journal.chain import CHAIN_WIDTH, ChainFile, chain_of, vouched_part, whole_lines
from tracer.journal.second_copy import KeptFile, pieces
from tracer.lock import FileLock
from tracer.statedir import StateDir, parse_trace_name

_CHUNK = 1 << 20
_JOIN_LIMIT = 1 << 22


class TornTail(NamedTuple):
    """Bytes after the last whole line: where they began, how many, and the file they were moved to ("" if not yet)."""

    offset: int
    length: int
    moved_to: str


class RecordOptions(TypedDict, total=False):
    """Where a record's lock is (beside it), whether it gets a chain (it does), the folder of second copies (none)."""

    lock_path: str | os.PathLike[str] | None
    chained: bool
    copies: str | os.PathLike[str] | None


class RecordFile:
    """The writer's end of one record. Use `create` or `open`; one thread writes, others may call `disturbed`."""

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[RecordOptions]) -> None:
        self.path = os.fspath(path)
        self.torn: TornTail | None = None
        self.next_seq = 0
        copies, lock = options.get("copies"), options.get("lock_path") or f"{self.path}.lock"
        copy = os.path.join(copies, os.path.basename(self.path)) if copies else ""
        self._locks = _take_locks(self.path, os.fspath(lock), copy)
        self._copy = copy if len(self._locks) > 1 else ""  # only who holds its lock may touch it
        self._file = KeptFile(self.path, self._copy)
        self._chain = ChainFile(self.path, copy_of_trace=self._copy) if options.get("chained", True) else None
        self._broken = ""
        self._disturbed = False
        self._busy = threading.RLock()
        self._real_path = os.path.realpath(self.path)
        _open_records.add(self)

    @classmethod
    def create(cls, path: str | os.PathLike[str], **options: Unpack[RecordOptions]) -> RecordFile:
        """Claim the free name `path`; the file itself appears with the first batch. Raises `LockedError`."""
        record = cls(path, **options)
        if os.path.lexists(record.path):
            record.close()
            raise _failure(path, FileExistsError(17, "the file exists already"))
        return record

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        refuse: Callable[[bytes], None] | None = None,
        **options: Unpack[RecordOptions],
    ) -> RecordFile:
        """Take up an existing record: its torn tail, if any, is moved aside and told in `torn`.

        `refuse` gets the last whole line, and raises where nothing may be added; a tail behind it is moved aside even
        then.
        Raises `NotFoundError`, `LockedError`.
        """
        if not os.path.exists(path):
            raise NotFoundError(f"no record at {os.fspath(path)!r}")
        record = cls(path, **options)
        try:
            record._settle()
            record._take_up(refuse)
        except OSError as error:
            record.close()
            raise _failure(path, error) from error
        except BaseException:
            record.close()
            raise
        return record

    @classmethod
    def recover(cls, path: str | os.PathLike[str], **options: Unpack[RecordOptions]) -> bool:
        """Put back what a killed writer of `path` could not, even if the file is gone; whether there was anything.

        Raises `LockedError`.
        """
        record = cls(path, **options)
        try:
            return record._settle()
        except OSError as error:
            raise _failure(path, error) from error
        finally:
            record.close()

    @property
    def chain_head(self) -> str:
        """The chain's head, or "" for a record without one."""
        return self._chain.head if self._chain else ""

    def share(self) -> int | None:
        """A descriptor for a reader in this process, to be read with `pread`; None before the first batch."""
        with self._busy:
            return None if self._file.descriptor is None else os.dup(self._file.descriptor)

    def is_at(self, place: str) -> bool:
        """Whether `place` (a real path) is the record or a folder it lies in."""
        return f"{self._real_path}{os.sep}".startswith(os.path.join(place, ""))

    def _settle(self) -> bool:
        """Put back the lines that a copy's chain vouches for, where they are not in the record; the copy goes.

        The copies were not synced, and the power may have failed: what is not vouched for may be anything. What stood
        in the record's place is kept beside it.
        """
        if not self._copy:
            return False
        lines, size = vouched_part(self._copy)
        both = ((self.path, self._copy, size), (chain_of(self.path), chain_of(self._copy), lines * CHAIN_WIDTH))
        changed = [(path, copy, length) for path, copy, length in both if not _begins_with(path, copy, length)]
        for path, copy, length in changed:
            ensure_folder(os.path.dirname(path) or ".")
            _move_aside(path)
            with replacing(path) as file, open(copy, "rb") as whole:
                file.writelines(pieces(whole.fileno(), length))
        for _, copy, _ in both:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(copy)
        return bool(changed)

    def _take_up(self, refuse: Callable[[bytes], None] | None) -> None:
        require_file(self.path)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
        try:
            self.torn = torn_tail(descriptor)
            if self.torn:
                moved_to = _save_tail(descriptor, self.path, self.torn)
                os.ftruncate(descriptor, self.torn.offset)
                sync_file(descriptor)
                self.torn = self.torn._replace(moved_to=moved_to)
            last = os.fstat(descriptor).st_size
            if refuse is not None and last:
                refuse(b"".join(pieces(descriptor, last, start=_line_start(descriptor, last - 1))))
            self.next_seq = self._file.take(descriptor, os.fstat(descriptor).st_size)
        except BaseException:
            if self._file.descriptor is None:
                os.close(descriptor)
            raise
        if self._chain:
            self._chain.resume(descriptor, self._file.size)

    def lines(self) -> Iterator[bytes]:
        """Every line of the record, each with its newline, read through the writer's own descriptor."""
        if self._file.descriptor is not None:
            yield from whole_lines(self._file.descriptor, self._file.size)

    def write_batch(self, lines: list[bytes]) -> int:
        """Append `lines` (each ending in `\n`) with one write and one sync; the sequence of the first."""
        with self._busy:
            if self._broken:
                raise RecordError(
                    f"cannot record in {self.path!r}", why=self._broken, next_step="free space, then resume"
                )
            self._put_back()
            first = self.next_seq
            data = lines if len(lines) == 1 or sum(map(len, lines)) > _JOIN_LIMIT else [b"".join(lines)]
            if self._file.descriptor is None:
                self._create(data)
            else:
                self._append(self._file.descriptor, data)
            self.next_seq += len(lines)
            if self._chain:
                try:
                    self._chain.extend(lines)
                except OSError as error:
                    self._broken = f"the chain file could not be extended: {error.strerror or error}"
                    raise _failure(self.path, error) from error
            return first

    def _create(self, data: Sequence[bytes]) -> None:
        descriptor, aside = -1, ""
        try:
            descriptor, aside = create_aside(self.path)
            _write_pieces(descriptor, data)
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
        self._file.take(descriptor, sum(map(len, data)))

    def _append(self, descriptor: int, data: Sequence[bytes]) -> None:
        try:
            _write_pieces(descriptor, data)
        except OSError as error:
            try:
                os.ftruncate(descriptor, self._file.size)
            except OSError as second:
                self._broken = f"a partial line could not be taken back: {second.strerror or second}"
            raise _failure(self.path, error) from error
        try:
            sync_file(descriptor)
        except OSError as error:
            self._broken = f"the device did not confirm an earlier write: {error.strerror or error}"
            raise _failure(self.path, error) from error
        self._file.extended(data)

    def put_back(self) -> None:
        """Undo what another program did to the record, its chain and its locks."""
        with self._busy:
            if self._file.descriptor is None or self._broken:
                return
            self._put_back()
            self._disturbed |= self._locks[0].put_back()
            for lock in self._locks[1:]:  # the copy's is not in the state directory
                lock.put_back()

    def disturbed(self) -> bool:
        """Whether another program changed the record since the last call; it is put back where that can be done."""
        with self._busy:
            with contextlib.suppress(RecordError):  # told by the next append
                self.put_back()
            found, self._disturbed = self._disturbed, False
            return found

    def _put_back(self) -> None:
        try:
            self._disturbed |= self._file.put_back()
            if self._chain:
                self._disturbed |= self._chain.put_back()
        except OSError as error:
            self._disturbed = True
            raise _failure(self.path, error) from error
        except RecordError as error:
            self._disturbed, self._broken = True, error.what
            raise

    def sync_chain(self) -> None:
        """Make the chain file durable too."""
        if self._chain:
            try:
                with self._busy:
                    self._chain.sync()
            except OSError as error:
                raise _failure(self._chain.path, error) from error

    def close(self) -> None:
        """Close the files and give the locks back; harmless when repeated. A copy that may still be needed stays."""
        with self._busy:
            whole = not self._broken
            if whole:
                try:
                    self._put_back()
                except RecordError:
                    whole = False
            if self._chain:
                self._chain.close(drop_copy=whole)
            if whole:
                self._file.drop_copy()
            self._file.close()
            self._broken = self._broken or "it is closed"
            _open_records.discard(self)
            for lock in reversed(self._locks):
                lock.release()


_open_records: set[RecordFile] = set()


def open_records(place: str | os.PathLike[str]) -> list[RecordFile]:
    """The records that this process writes: the one at `place`, or those below it."""
    real = os.path.realpath(place)
    return sorted((one for one in _open_records.copy() if one.is_at(real)), key=lambda one: one.path)


def _begins_with(path: str, copy: str, size: int) -> bool:
    if not size:
        return True
    try:
        require_file(path)
        with open(path, "rb") as file, open(copy, "rb") as other:
            both = zip(pieces(file.fileno(), size), pieces(other.fileno(), size), strict=False)
            return os.fstat(file.fileno()).st_size >= size and all(one == two for one, two in both)
    except (FileNotFoundError, TraceError):
        return False


def _move_aside(path: str) -> None:
    number = 1
    while os.path.lexists(aside := f"{path}.changed-{number}"):
        number += 1
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, aside)


def require_file(path: str | os.PathLike[str]) -> None:
    """Refuse what is no regular file: an agent may have put a pipe there, which would never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise TraceError(f"{os.fspath(path)!r} is not a file", next_step="look at what put it there, then remove it")


def torn_tail(place: int | str | os.PathLike[str]) -> TornTail | None:
    """The bytes of a file (an open descriptor, or a path) after its last whole line, or None.

    Lines at the very end that hold NUL bytes belong to the tail: a crash of the machine leaves zeroed pages.
    """
    if not isinstance(place, int):
        with open(place, "rb") as file:
            return torn_tail(file.fileno())
    size = os.fstat(place).st_size
    end = _line_start(place, size)
    while end:
        start = _line_start(place, end - 1)
        if not _has_nul(place, start, end):
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


def _save_tail(descriptor: int, path: str, torn: TornTail) -> str:
    """Copy the tail to `<path>.torn-<offset>` and make it durable before it is cut off."""
    data = b"".join(pieces(descriptor, torn.offset + torn.length, start=torn.offset))
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


def _write_pieces(descriptor: int, data: Sequence[bytes]) -> None:
    for piece in data:
        write_all(descriptor, piece)


def _take_locks(path: str, lock_path: str, copy: str) -> list[FileLock]:
    """The record's lock, and the copy's: the first lies where an agent may delete it, and two writers would begin."""
    what = repr(os.path.basename(path))
    locks = [FileLock(lock_path)]
    locks[0].acquire(what=what)
    if copy:
        try:
            ensure_folder(os.path.dirname(copy))
            second = FileLock(f"{copy}.lock")
            second.acquire(what=what)
            locks.append(second)
        except LockedError:
            locks[0].release()
            raise
        except (OSError, RecordError):  # no state folder of the user: the record goes without a copy
            pass
    return locks


def _failure(path: str | os.PathLike[str], error: OSError) -> RecordError:
    return RecordError(
        f"cannot record in {os.fspath(path)!r}",
        why=error,
        next_step="free space or make the state directory writable, then resume",
    )


def recover_records(state_dir: StateDir) -> list[str]:
    """Put back what killed writers of this state directory could not, and name it; a folder's look-up otherwise.

    A writer that ends well leaves no second copy, so one that nobody holds is a killed writer's.
    """
    if (copies := state_dir.copies) is None or not copies.is_dir():
        return []
    found = []
    for name in sorted(name for name in os.listdir(copies) if name.endswith(".jsonl")):
        state_dir.ensure()
        trace = parse_trace_name(name)
        folder = state_dir.tracepack if trace is None else state_dir.traces
        lock = None if trace is None else state_dir.task_lock(trace.task_id)
        with contextlib.suppress(LockedError):  # it is being written
            if RecordFile.recover(folder / name, lock_path=lock, chained=False, copies=copies):
                found.append(f"{folder.name}/{name}")
    if found:
        with contextlib.suppress(OSError):
            DirectoryBlobs(state_dir.blobs, second=state_dir.second_blobs).put_back(every=True)
    return found
