"""An append-only file that its writer can put back: it knows every byte, and a second copy gets the same appends.

A program that works in the project may edit, truncate, replace, move or delete the file. Its writer asks before every
append whether the file is as it left it (identity, mode, size, times). Where it is not, the file is written anew,
aside, synced and renamed over, from the first of the two descriptors whose bytes still have the known sha256. The
second copy lies elsewhere and is not synced: it stands in where programs do damage, not where the power fails. A copy
that cannot be written is done without; deletion, replacement and additions are put back even then.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence

from tracer.durable import ensure_folder, sync_file, sync_folder, unlock_mode, write_all, written_aside
from tracer.errors import RecordError

_CHUNK = 1 << 20
_Looks = tuple[int, ...]


class KeptFile:
    """One open file and its second copy ("" for none). Not thread-safe."""

    def __init__(self, path: str, copy_path: str = "") -> None:
        self.path = path
        self.size = 0
        self.descriptor: int | None = None
        self._copy_path = copy_path
        self._copy: int | None = None
        self._hash = hashlib.sha256()
        self._looks: _Looks = ()
        self._copy_looks: _Looks = ()

    def take(self, descriptor: int, size: int) -> int:
        """Become the keeper of the open file, which holds `size` bytes; the number of lines in them."""
        self.descriptor, self.size = descriptor, size
        lines = 0
        for piece in pieces(descriptor, size):
            self._hash.update(piece)
            lines += piece.count(b"\n")
        self._looks = _looks(os.fstat(descriptor))
        self._begin_copy()
        return lines

    def extended(self, data: Sequence[bytes]) -> None:
        """Note that `data` was appended to the file, and append it to the copy."""
        if self.descriptor is None:
            return
        for piece in data:
            self.size += len(piece)
            self._hash.update(piece)
        self._looks = _looks(os.fstat(self.descriptor))
        if self._copy is not None:
            try:
                for piece in data:
                    write_all(self._copy, piece)
                self._copy_looks = _looks(os.fstat(self._copy))
            except OSError:
                self.drop_copy()

    def put_back(self) -> bool:
        """Make the file what it was, if it is not; whether it was something else."""
        if self.descriptor is None:
            return False
        touched = _named(self.path) != self._looks
        copy_touched = self._copy is not None and _named(self._copy_path) != self._copy_looks
        if not touched and not copy_touched:
            return False
        looks = _looks(os.fstat(self.descriptor))  # before its bytes are read: a later change is found next time
        source = next((one for one in (self.descriptor, self._copy) if one is not None and self._holds(one)), None)
        if source is None:
            raise RecordError(
                f"{self.path!r} was changed by another program while it was being written",
                why="what it held cannot be told any more",
                next_step="keep agents and scripts out of the state directory; then resume",
            )
        harmed = touched and (source != self.descriptor or _named(self.path)[:4] != self._looks[:4])
        if harmed:
            looks = self._rewrite(self.descriptor, source)
        self._looks = looks
        if copy_touched:
            self._begin_copy()
        return harmed

    def _holds(self, descriptor: int) -> bool:
        """Whether the bytes behind `descriptor` begin with all that was written."""
        found = hashlib.sha256()
        try:
            for piece in pieces(descriptor, self.size):
                found.update(piece)
        except OSError:
            return False
        return found.digest() == self._hash.digest()

    def _rewrite(self, damaged: int, source: int) -> _Looks:
        folder = os.path.dirname(self.path) or "."
        for one in (os.path.dirname(folder) or ".", folder):  # what is still wrong then is told by what follows
            with contextlib.suppress(OSError):
                unlock_mode(one)
        ensure_folder(folder)
        mode = stat.S_IMODE(self._looks[2])
        with written_aside(self.path, mode) as (descriptor, aside):
            for piece in pieces(source, self.size):
                write_all(descriptor, piece)
            os.fchmod(descriptor, mode)
            sync_file(descriptor)
            os.replace(aside, self.path)
            sync_folder(folder)
            self.descriptor = os.dup(descriptor)
        os.close(damaged)
        return _looks(os.fstat(self.descriptor))

    def _begin_copy(self) -> None:
        """Make the copy anew from the file."""
        self.drop_copy()
        if not self._copy_path or self.descriptor is None:
            return
        flags = os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        try:
            ensure_folder(os.path.dirname(self._copy_path))
            self._copy = os.open(self._copy_path, flags, 0o600)
            for piece in pieces(self.descriptor, self.size):
                write_all(self._copy, piece)
            self._copy_looks = _looks(os.fstat(self._copy))
        except OSError:
            self.drop_copy()

    def drop_copy(self) -> None:
        """Do without the copy from now on, and remove it."""
        if self._copy is not None:
            os.close(self._copy)
            self._copy = None
            with contextlib.suppress(OSError):
                os.unlink(self._copy_path)

    def close(self) -> None:
        """Close both; the copy stays where it is unless it was dropped. Harmless when repeated."""
        for descriptor in (self.descriptor, self._copy):
            if descriptor is not None:
                os.close(descriptor)
        self.descriptor = self._copy = None


def pieces(descriptor: int, size: int, *, start: int = 0) -> Iterator[bytes]:
    """The bytes behind `descriptor` from `start` to `size`, or as many as there are, wherever it stands."""
    at = start
    while at < size and (piece := os.pread(descriptor, min(_CHUNK, size - at), at)):
        yield piece
        at += len(piece)


def _looks(facts: os.stat_result) -> _Looks:
    """What changes with a file; the change time, which no program can set back, with its names too."""
    return (facts.st_dev, facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def _named(path: str) -> _Looks:
    try:
        return _looks(os.lstat(path))
    except OSError:
        return ()
