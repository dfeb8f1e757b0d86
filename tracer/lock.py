"""One writer per record, across processes, with a name to show for it.

The lock is the kernel's (`flock` on a small file beside the record), so it ends with its holder however that ends; the
file's text only says who holds it: pid, host, program and since when. The file is removed on release; whoever waits
behind it notices that its file has lost its name and starts again, so two processes never hold two files of one name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self, TypeVar

from tracer.clock import monotonic, now_iso
from tracer.durable import ensure_folder
from tracer.errors import LockedError, RecordError, told_as

_PAUSE_S = 0.005
T = TypeVar("T")


class Holder(NamedTuple):
    """Who holds a lock. `since` is ISO 8601 UTC; fields are empty where the file could not be read."""

    pid: int
    host: str
    program: str
    since: str

    def describe(self) -> str:
        """For people: the process, its program and since when."""
        where = f" on {self.host}" if self.host and self.host != os.uname().nodename else ""
        return f"process {self.pid}{where} ({self.program or 'unknown program'}, since {self.since or 'unknown'})"


class FileLock:
    """An exclusive lock on the name `path`, held from `acquire` to `release` or the end of the process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self, *, what: str = "this record", patience_s: float = 0.1) -> Self:
        """Take the lock within `patience_s` seconds or say who has it; a `with` of the result gives it back.

        Raises:
            LockedError: another writer holds it.
            RecordError: the lock file cannot be made (read-only, not ours, full).

        """
        until = monotonic() + patience_s  # a reader that asks who holds it has it for microseconds
        while not self._try_acquire():
            if monotonic() >= until:
                raise LockedError(
                    f"{what} is being written by {_read_holder(self.path).describe()}",
                    why="a record has one writer at a time",
                    next_step="wait until it is done, or stop it first",
                )
            time.sleep(_PAUSE_S)
        return self

    def _try_acquire(self) -> bool:
        next_step = "make the state directory writable, or name another one"
        with told_as(RecordError, f"cannot lock {self.path!r}", next_step=next_step):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _still_named(descriptor, self.path):
                os.close(descriptor)
                return False
            program = os.path.basename(sys.argv[0] if sys.argv else "")[:80]
            text = json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "program": program, "since": now_iso()})
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as error:
            if error.errno != errno.ENOSPC:  # the lock holds without its text
                os.close(descriptor)
                raise RecordError(f"cannot lock {self.path!r}", why=error) from error
        self._descriptor = descriptor
        return True

    def put_back(self) -> bool:
        """Give a held lock its name again where another program took it; whether one had.

        Raises `RecordError` (the lock file cannot be made).
        """
        held = self._descriptor
        if held is None or _still_named(held, self.path):
            return False
        with contextlib.suppress(OSError):  # the folder may be gone too; what cannot be made is told below
            ensure_folder(os.path.dirname(self.path) or ".")
        if self._try_acquire():  # else somebody has the new one: the next call tries again
            os.close(held)
        return True

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> Self:
        return self if self.held else self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


def each_unheld(items: Iterable[T], lock_of: Callable[[T], str | os.PathLike[str]]) -> Iterator[T]:
    """Each item that nobody writes, its lock held while the caller works on it; the others are left out."""
    for item in items:
        lock = FileLock(lock_of(item))
        try:
            lock.acquire()
        except LockedError:
            continue
        with lock:
            yield item


def holder_of(path: str | os.PathLike[str]) -> Holder | None:
    """Who holds the lock `path` now, or None. Never blocks; takes a shared lock for an instant to find out."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read_holder(os.fspath(path))
    else:
        return None
    finally:
        os.close(descriptor)


def _still_named(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _read_holder(path: str) -> Holder:
    fields: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        with open(path, "rb") as file:
            loaded = json.loads(file.read(4096))
        fields = loaded if isinstance(loaded, dict) else {}
    pid = fields.get("pid")
    return Holder(
        pid if isinstance(pid, int) else 0,
        str(fields.get("host", "")),
        str(fields.get("program", "")),
        str(fields.get("since", "")),
    )
