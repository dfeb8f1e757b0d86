"""What may be deleted, as a plan first (`pm admin prune`): unreferenced blobs and finished tasks.

A blob is referenced when its 64 hexadecimal digits stand in a record, a database of the state directory or a
referenced blob. A prune plan never holds a task that is unfinished, awaits a person or is being written. Applying a
plan takes the locks and looks again, so what changed since stays.
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
from tracer.catalog.tasks import list_tasks
from tracer.clock import from_epoch_ms, now_epoch_ms, parse_duration
from tracer.durable import TEMPORARY_SUFFIX, sync_folder
from tracer.errors import RecordError, TraceError, UsageError
from tracer.lock import each_unheld
from tracer.lookup import trace_files
from tracer.names import FINAL_STATUSES
from tracer.statedir import StateDir


class PruneItem(NamedTuple):
    """One task to forget: its files (traces, chains, saved tails), their bytes, and its last fact's time."""

    task_id: str
    title: str
    status: str
    updated_at: str
    files: tuple[str, ...]
    size: int


class PrunePlan(NamedTuple):
    """What would go, oldest first, and how many tasks stay."""

    items: tuple[PruneItem, ...]
    kept: int

    @property
    def size(self) -> int:
        """Bytes that would be freed."""
        return sum(item.size for item in self.items)


def parse_age(text: str) -> int:
    """`30d`, `12h`, `90s` in milliseconds; `UsageError` for anything else, a number without a unit included."""
    seconds = parse_duration(text, needs_unit=True)  # what is deleted must not depend on a unit that was forgotten
    if seconds is None:
        raise UsageError(f"{text!r} is not an age", next_step="write it as 90s, 15m, 12h, 30d or 2w")
    return round(seconds * 1000)


def plan_prune(state_dir: StateDir, *, older_than_ms: int | None = None, keep: int | None = None) -> PrunePlan:
    """The finished tasks whose last fact is older than `older_than_ms`, beyond the `keep` newest ones of all."""
    if older_than_ms is None and keep is None:
        raise UsageError("prune needs a limit", next_step="give --older-than 30d, --keep 50, or both")
    before = None if older_than_ms is None else from_epoch_ms(max(0, now_epoch_ms() - older_than_ms))
    rows = list_tasks(state_dir)
    items = [
        _item(state_dir, row.task_id, row.title, row.status, row.updated_at)
        for row in rows[max(0, keep or 0) :]
        if row.status in FINAL_STATUSES and (before is None or row.updated_at < before)
    ]
    items.sort(key=lambda item: (item.updated_at, item.task_id))
    return PrunePlan(tuple(items), len(rows) - len(items))


def _item(state_dir: StateDir, task_id: str, title: str, status: str, updated_at: str) -> PruneItem:
    traces = {path.name for path in trace_files(state_dir, task_id)}
    traces.add(f"undo-{task_id}.jsonl")
    names = [name for name in os.listdir(state_dir.traces) if name in traces or _owner(name) in traces]
    paths = tuple(os.path.join(os.fspath(state_dir.traces), name) for name in sorted(names))
    return PruneItem(task_id, title, status, updated_at, paths, sum(map(_size, paths)))


def _owner(name: str) -> str:
    """The trace that a side file (`.jsonl.chain`, `.jsonl.torn-…`) belongs to, or ""."""
    stem, dot, suffix = name.partition(".jsonl.")
    return f"{stem}.jsonl" if dot and (suffix == "chain" or suffix.startswith("torn-")) else ""


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def apply_prune(state_dir: StateDir, plan: PrunePlan) -> list[PruneItem]:
    """Delete what `plan` names; the items that went. A task that went on since, or has a writer now, stays."""
    gone = []
    for item in each_unheld(plan.items, lambda item: state_dir.task_lock(item.task_id)):
        rows = list_tasks(state_dir, task_id=item.task_id)
        if rows and (rows[0].status, rows[0].updated_at) == (item.status, item.updated_at):
            for path in sorted(item.files, key=lambda path: not path.endswith(".jsonl")):
                _delete(path)
            gone.append(item)
    if gone:
        with contextlib.suppress(OSError):
            sync_folder(state_dir.traces)
    return gone


def _delete(path: str) -> bool:
    """Whether there was something to delete."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RecordError(f"cannot delete {path!r}", why=error) from error
    return True


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
    """Find what nothing needs; changes nothing."""
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
            why=error,
            next_step="nothing is collected while a record cannot be read",
        ) from error
    return GcPlan(tuple(sorted(blobs)), tuple(sorted(leftovers)), kept)


def apply_gc(state_dir: StateDir, plan: GcPlan) -> int:
    """Delete what `plan` names if it is still old and still unreferenced; the bytes freed."""
    planned = set(plan.blobs + plan.leftovers)
    if not planned:
        return 0
    store = DirectoryBlobs(state_dir.blobs)
    try:
        with store.sharing(exclusive=True) if store.root.is_dir() else contextlib.nullcontext():
            now = plan_gc(state_dir)
            return sum(size for path, size in planned.intersection(now.blobs + now.leftovers) if _delete(path))
    except OSError as error:
        raise RecordError(f"cannot lock {error.filename!r}", why=error) from error


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
