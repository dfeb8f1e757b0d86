"""`pm tasks prune`: which finished tasks' records may go, as a plan first.

A plan never holds a task that is unfinished, waits for a person, or is being written; nor one of the `keep` newest. Age
is by the task's last fact. Applying a plan takes each task's lock and looks again, so what changed since stays.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from tracer.catalog import list_tasks
from tracer.clock import from_epoch_ms, now_epoch_ms
from tracer.durable import sync_folder
from tracer.errors import LockedError, RecordError, UsageError
from tracer.lock import FileLock
from tracer.lookup import trace_files
from tracer.statedir import StateDir

__all__ = ["PruneItem", "PrunePlan", "apply_prune", "parse_age", "plan_prune"]

_FINAL = frozenset({"COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED"})
_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


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
    """`30d`, `12h`, `90m`, `2w` in milliseconds.

    Raises:
        UsageError: anything else.

    """
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS_MS or not (number.isascii() and number.isdigit()) or len(number) > 6:
        raise UsageError(f"{text!r} is not an age", next_step="write it as 30d, 12h, 90m or 2w")
    return int(number) * _UNITS_MS[unit]


def plan_prune(state_dir: StateDir, *, older_than_ms: int | None = None, keep: int | None = None) -> PrunePlan:
    """The finished tasks whose last fact is older than `older_than_ms`, beyond the `keep` newest ones of all.

    Raises:
        UsageError: neither limit was given.
        TraceError: the state directory cannot be read.

    """
    if older_than_ms is None and keep is None:
        raise UsageError("prune needs a limit", next_step="give --older-than 30d, --keep 50, or both")
    before = None if older_than_ms is None else from_epoch_ms(now_epoch_ms() - older_than_ms)
    rows = list_tasks(state_dir)
    items = [
        _item(state_dir, row.task_id, row.title, row.status, row.updated_at)
        for row in rows[max(0, keep or 0) :]
        if row.status in _FINAL and (before is None or row.updated_at < before)
    ]
    items.sort(key=lambda item: (item.updated_at, item.task_id))
    return PrunePlan(tuple(items), len(rows) - len(items))


def _item(state_dir: StateDir, task_id: str, title: str, status: str, updated_at: str) -> PruneItem:
    traces = {path.name for path in trace_files(state_dir, task_id)}
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
    """Delete what `plan` names; the items that went. A task that went on since, or has a writer now, stays.

    Raises:
        RecordError: a file cannot be deleted.

    """
    gone = []
    for item in plan.items:
        lock = FileLock(state_dir.task_lock(item.task_id))
        try:
            lock.acquire(what=item.task_id)
        except LockedError:
            continue
        try:
            rows = list_tasks(state_dir, task_id=item.task_id)
            if rows and (rows[0].status, rows[0].updated_at) == (item.status, item.updated_at):
                _delete(item.files)
                gone.append(item)
        finally:
            lock.release()
    if gone:
        with contextlib.suppress(OSError):
            sync_folder(state_dir.traces)
    return gone


def _delete(paths: tuple[str, ...]) -> None:
    for path in sorted(paths, key=lambda path: not path.endswith(".jsonl")):  # side files without a trace are nothing
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RecordError(f"cannot delete {path!r}", why=error.strerror or str(error)) from error
