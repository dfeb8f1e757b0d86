"""Rules every store shares. Pure.

Seq increases strictly in a trace; an id that is there with the same identity is a repetition; an id with other content,
or a seq that is not beyond the last one, is a conflict; a skipped run of seq is accepted and reported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple

import orjson

from collector.errors import EventConflictError, IntakeError, TooLargeError, other_content
from collector.store.port import NewBlob, StoredEvent, TraceLimits, TraceRow
from tracer.errors import ConflictError, NotFoundError, TraceError

TRACE_FIELDS: Final = tuple(field.name for field in fields(TraceRow))
"""The columns of a trace in the order in which the stores select them."""


def json_text(value: Any) -> str:
    """JSON as the stores keep it."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode("utf-8")


def named_blobs(value: Any) -> frozenset[str]:
    """Ids under keys ending in `_blob_id`, at any depth; null is none."""
    found: set[str] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for name, inner in item.items():
                if name.endswith("_blob_id") and isinstance(inner, str):
                    found.add(inner)
                elif isinstance(inner, dict | list):
                    stack.append(inner)
        elif isinstance(item, list):
            stack.extend(item)
    return frozenset(found)


class Append(NamedTuple):
    """The arguments of `TraceStore.append_events`, and the time."""

    trace_id: str
    events: Sequence[StoredEvent]
    blobs: Sequence[NewBlob]
    references: Collection[str]
    skew_ms: int | None
    limits: TraceLimits | None
    now_ms: int


class Plan(NamedTuple):
    """What to write."""

    events: Sequence[StoredEvent]
    duplicates: int
    seq_last: int
    gaps: tuple[tuple[int, int], ...]


def plan_append(events: Sequence[StoredEvent], *, seq_last: int, stored: Mapping[str, bytes]) -> Plan:
    """What of `events` to write behind `seq_last`; `stored` has the identity of each event id that is there already."""
    if not stored and events and events[-1].seq == seq_last + len(events) and _is_run(events):  # the usual case
        return Plan(events, 0, seq_last + len(events), ())
    seen = dict(stored)
    new: list[StoredEvent] = []
    gaps: list[tuple[int, int]] = []
    for event in events:
        known = seen.get(event.event_id)
        if known is not None:
            if known != event.identity:
                raise other_content(event.event_id, seq=event.seq)
            continue
        if event.seq <= seq_last:
            raise EventConflictError(
                f"seq {event.seq} of the event {event.event_id!r} is not beyond the last one, {seq_last}",
                event_id=event.event_id,
                seq=event.seq,
                why="seq increases strictly in a trace",
                next_step=f"go on with seq {seq_last + 1}",
            )
        if event.seq > seq_last + 1:
            gaps.append((seq_last + 1, event.seq - 1))
        seen[event.event_id] = event.identity
        new.append(event)
        seq_last = event.seq
    return Plan(new, len(events) - len(new), seq_last, tuple(gaps))


def _is_run(events: Sequence[StoredEvent]) -> bool:
    """Whether each follows the one before it, all with ids of their own."""
    if len(events) == 1:
        return True
    seqs = [event.seq for event in events]
    return seqs == list(range(seqs[0], seqs[0] + len(seqs))) and len({event.event_id for event in events}) == len(seqs)


def taken(trace_id: str, *, deleted: bool) -> ConflictError:
    """A new trace has the id of another one."""
    why = "it was deleted" if deleted else "it was created with other content"
    return ConflictError(f"the trace {trace_id!r} is already there", why=why, next_step="use a fresh id")


def check_version(version: int, newest: int) -> None:
    """Raise where a newer program has written the database."""
    if version > newest:
        raise TraceError(
            f"the collector's database is of version {version}",
            why=f"this program knows versions up to {newest}",
            next_step="use the newer program that wrote it",
        )


def check_there(trace_id: str, status: str | None, *, next_step: str = "") -> None:
    """Raise `NotFoundError` where there is no such trace (any more)."""
    if status is None or status == "deleted":
        why = "it was deleted" if status else "no trace has this id"
        raise NotFoundError(f"no trace {trace_id!r}", why=why, next_step=next_step)


def check_open(trace_id: str, status: str | None, *, doing: str = "take events") -> None:
    """Raise unless the trace is open: `NotFoundError` where there is none (any more), else `ConflictError`."""
    check_there(trace_id, status, next_step="pm capture list shows those that are here")
    if status != "open":
        raise ConflictError(
            f"the trace {trace_id!r} cannot {doing}", why=f"it is {status}", next_step="create a new trace"
        )


def check_limits(held: tuple[int, int], *, events: int, size: int, limits: TraceLimits | None) -> None:
    """Raise `TooLargeError` if the trace, which holds so many events and bytes, would grow beyond its limits."""
    if limits is None:
        return
    if held[0] + events > limits.events:
        raise TooLargeError("the trace has too many events", place="events", rule="trace_events", limit=limits.events)
    if held[1] + size > limits.size:
        raise TooLargeError("the trace is too large", place="events", rule="trace_bytes", limit=limits.size)


def newest_skew(known: int | None, measured: int | None) -> int | None:
    """The better of two measurements of client clock minus server clock: the one with less delay on the way."""
    if known is None or measured is None:
        return measured if known is None else known
    return max(known, measured)


def blob_is_gone(blob_id: str) -> IntakeError:
    """An event names a blob that is not (or no longer) the trace's."""
    return IntakeError(
        f"the blob {blob_id} is not here",
        place="events",
        rule="unknown_blob",
        why="a trace may only name blobs that were uploaded for it",
        next_step="upload it again (PUT /blobs/{sha256})",
    )
