"""`pm gc`: blobs that no record names, and files that a crash left half made, as a plan first.

A blob is referenced when its 64 hexadecimal digits stand anywhere in a record, a database of the state directory or a
referenced blob (manifests name other blobs). Everything younger than the grace period stays: its fact may be on the
way. Applying holds the store's lock, which every `put` shares and which renews a blob's age, so nothing just put goes.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

from tracer.blobs import DirectoryBlobs
from tracer.clock import now_epoch_ms
from tracer.durable import TEMPORARY_SUFFIX
from tracer.errors import RecordError, TraceError
from tracer.statedir import StateDir

__all__ = ["GcPlan", "apply_gc", "plan_gc"]

_GRACE_MS: Final = 3_600_000
_RUN: Final = re.compile(rb"[0-9a-f]{64,}")
_DIGEST: Final = 64
_CHUNK: Final = 1 << 20
_SQLITE: Final = b"SQLite format 3\0"


class GcPlan(NamedTuple):
    """What would go: (path, bytes) of blobs no record names, and of files a crash left half made."""

    blobs: tuple[tuple[str, int], ...]
    leftovers: tuple[tuple[str, int], ...]
    kept: int

    @property
    def size(self) -> int:
        """Bytes that would be freed."""
        return sum(size for _, size in self.blobs + self.leftovers)


def plan_gc(state_dir: StateDir, *, grace_ms: int = _GRACE_MS) -> GcPlan:
    """Find what nothing needs; changes nothing.

    Raises:
        TraceError: a record cannot be read, so nothing can be said about what it names.

    """
    store = DirectoryBlobs(state_dir.blobs)
    try:
        stored = set(store.ids())
        referenced = _referenced(state_dir, store, {blob_id[7:].encode() for blob_id in stored})
        blobs, kept = [], 0
        for blob_id in stored:
            path = os.fspath(store.path_of(blob_id))
            if blob_id[7:].encode() in referenced or not _is_old(path, grace_ms):
                kept += 1
            else:
                blobs.append((path, os.stat(path).st_size))
        leftovers = [
            (path, os.stat(path).st_size)
            for path in _files(os.fspath(state_dir.root))
            if os.path.basename(path).startswith(".") and path.endswith(TEMPORARY_SUFFIX) and _is_old(path, grace_ms)
        ]
    except OSError as error:
        raise TraceError(
            f"cannot read {error.filename or os.fspath(state_dir.root)!r}",
            why=error.strerror or str(error),
            next_step="nothing is collected while a record cannot be read",
        ) from error
    return GcPlan(tuple(sorted(blobs)), tuple(sorted(leftovers)), kept)


def apply_gc(state_dir: StateDir, plan: GcPlan, *, grace_ms: int = _GRACE_MS) -> int:
    """Delete what `plan` names if it is still old and still unreferenced; the bytes freed.

    Raises:
        TraceError: a record cannot be read.
        RecordError: a file cannot be deleted.

    """
    store, freed = DirectoryBlobs(state_dir.blobs), 0
    if not (plan.blobs or plan.leftovers):
        return 0
    try:
        with store.sharing(exclusive=True):
            now = plan_gc(state_dir, grace_ms=grace_ms)
            for path, size in set(plan.blobs + plan.leftovers) & set(now.blobs + now.leftovers):
                os.unlink(path)
                freed += size
    except FileNotFoundError:
        return freed
    except OSError as error:
        raise RecordError(f"cannot delete {error.filename!r}", why=error.strerror or str(error)) from error
    return freed


def _is_old(path: str, grace_ms: int) -> bool:
    """Whether the file's time lies `grace_ms` back; a time in the future (the clock stepped back) is young."""
    try:
        return now_epoch_ms() - os.stat(path).st_mtime_ns // 1_000_000 > grace_ms
    except FileNotFoundError:
        return False


def _referenced(state_dir: StateDir, store: DirectoryBlobs, stored: set[bytes]) -> set[bytes]:
    """Every stored digest named by a record, and by the blobs those name."""
    found: set[bytes] = set()
    blobs, catalog = os.fspath(state_dir.blobs) + os.sep, os.fspath(state_dir.catalog)
    captures = os.path.join(os.fspath(state_dir.root), "collector")  # its database and blobs name only each other
    roots = {os.fspath(state_dir.root), os.fspath(state_dir.agentic_traces)}
    for root in filter(os.path.isdir, roots):  # a folder comes into being with its first record
        for path in _files(root):
            if not path.startswith((blobs, catalog, captures)):
                found |= _named_in(path, stored)
    fresh = set(found)
    while fresh:
        named: set[bytes] = set()
        for digest in fresh:
            named |= _named_in(os.fspath(store.path_of(digest.decode())), stored)
        fresh = named - found
        found |= named
    return found


def _files(root: str) -> Iterator[str]:
    for folder, _, names in os.walk(root, onerror=_raise):
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISREG(os.lstat(path).st_mode):
                    yield path


def _raise(error: OSError) -> None:
    raise error


def _named_in(path: str, stored: set[bytes]) -> set[bytes]:
    try:
        with open(path, "rb") as file:
            start = file.read(len(_SQLITE))
            if start == _SQLITE:
                return _named_in_database(path, stored)
            found: set[bytes] = set()
            rest = start
            while chunk := file.read(_CHUNK):
                data = rest + chunk
                found |= _named(data, stored)
                rest = data[-_DIGEST + 1 :]
            return found | _named(rest, stored)
    except FileNotFoundError:
        return set()


def _named(data: bytes, stored: set[bytes]) -> set[bytes]:
    """The stored digests that stand in `data`, at any place of a longer run of hexadecimal digits too."""
    return {
        digest
        for run in _RUN.finditer(data)
        for at in range(run.start(), run.end() - _DIGEST + 1)
        if (digest := data[at : at + _DIGEST]) in stored
    }


def _named_in_database(path: str, stored: set[bytes]) -> set[bytes]:
    """Digests in any value of any table: a value may lie across pages, so the file's bytes would not show it."""
    found: set[bytes] = set()
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
            for table in tables:
                quoted = table.replace('"', '""')
                for row in connection.execute(f'select * from "{quoted}"'):  # noqa: S608 - a name from the file's own list
                    for value in row:
                        if isinstance(value, str | bytes):
                            found |= _named(value.encode() if isinstance(value, str) else value, stored)
    except sqlite3.Error as error:
        raise TraceError(
            f"cannot read the database {path!r}",
            why=str(error),
            next_step="nothing is collected while a record cannot be read",
        ) from error
    return found
