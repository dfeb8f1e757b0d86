"""Appends of a group, written to SQLite together: functions of a connection inside a transaction of `GroupWriter`.

Every statement serves the whole group, so that its cost and the thread's wait for the interpreter are paid once and
not by each append. Appends count in the order given: what an earlier one takes is taken for those behind it. Each is
looked at before anything is written; one that is refused leaves no trace and hinders no other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from collector.store.plan import Plan, check_limits, check_open, newest_skew, plan_append
from collector.store.port import AppendResult, NewBlob, StoredEvent, TraceLimits
from collector.store.sqlite_blobs import add_blobs, check_references, hold
from collector.store.sqlite_rows import by_rows, insert_rows
from tracer.errors import PmError

__all__ = ["Append", "append_together"]

_HEADS: Final = (
    "SELECT json_group_array(json_array(t.trace_id, t.status, t.seq_last, t.event_count, t.byte_count,"
    " t.clock_skew_ms)) FROM json_each(?) AS sent CROSS JOIN traces AS t ON t.trace_id = sent.value"
)
# CROSS JOIN keeps the order: without it SQLite walks through all events of the trace.
_KNOWN: Final = (
    "SELECT e.trace_id, e.event_id, e.identity FROM json_each(?) AS sent CROSS JOIN events AS e INDEXED BY events_by_id"
    " ON e.trace_id = json_extract(sent.value, '$[0]') AND e.event_id = json_extract(sent.value, '$[1]')"
)
_ADVANCE: Final = (
    "UPDATE traces SET seq_last = json_extract(moved.value, '$[1]'), event_count = json_extract(moved.value, '$[2]'),"
    " byte_count = json_extract(moved.value, '$[3]'), clock_skew_ms = json_extract(moved.value, '$[4]')"
    " FROM json_each(?) AS moved WHERE traces.trace_id = json_extract(moved.value, '$[0]')"
)
_KNOWN_OF_ONE: Final = (
    "SELECT e.trace_id, e.event_id, e.identity FROM json_each(?) AS sent CROSS JOIN events AS e INDEXED BY events_by_id"
    " ON e.trace_id = ? AND e.event_id = sent.value"
)
_ONE_HEAD: Final = (
    "SELECT trace_id, status, seq_last, event_count, byte_count, clock_skew_ms FROM traces WHERE trace_id = ?"
)
_ONE_EVENT: Final = (  # head and identity in one: the usual case of live capture
    "SELECT t.status, t.seq_last, t.event_count, t.byte_count, t.clock_skew_ms, (SELECT e.identity FROM events AS e"
    " INDEXED BY events_by_id WHERE e.trace_id = t.trace_id AND e.event_id = ?2) FROM traces AS t WHERE t.trace_id = ?1"
)
_ONE_ADVANCE: Final = (
    "UPDATE traces SET seq_last = ?, event_count = ?, byte_count = ?, clock_skew_ms = ? WHERE trace_id = ?"
)
_GAP: Final = "INSERT INTO trace_gaps (trace_id, from_seq, to_seq) VALUES (?, ?, ?)"
_EVENTS: Final = by_rows(
    "events (trace_id, seq, ts_ms, type, payload_jsonb, event_id, envelope_json, identity)",
    "(?, ?, ?, ?, ?, ?, ?, ?)",
)


class Append(NamedTuple):
    """The arguments of `TraceStore.append_events`, and the time."""

    trace_id: str
    events: Sequence[StoredEvent]
    blobs: Sequence[NewBlob]
    references: Collection[str]
    skew_ms: int | None
    limits: TraceLimits | None
    now_ms: int


class _Head:
    """Where a trace stands, with what the group has added to it."""

    __slots__ = ("count", "seq_last", "size", "skew_ms", "status")

    def __init__(self, status: str | None, seq_last: int, count: int, size: int, skew_ms: int | None) -> None:
        self.status, self.seq_last, self.count, self.size, self.skew_ms = status, seq_last, count, size, skew_ms


class _Planned(NamedTuple):
    append: Append
    plan: Plan


def append_together(connection: sqlite3.Connection, appends: Sequence[Append]) -> list[AppendResult | PmError]:
    """Store them; what became of each, in order (see `TraceStore.append_events`)."""
    outcomes: list[AppendResult | PmError] = []
    for run in _runs(appends):
        outcomes += _append_run(connection, run)
    return outcomes


def _runs(appends: Sequence[Append]) -> Iterator[Sequence[Append]]:
    """`appends` cut so that one that names stored blobs stands alone: an append before it may bring them."""
    start = 0
    for at, append in enumerate(appends):
        if append.references:
            if at > start:
                yield appends[start:at]
            yield appends[at : at + 1]
            start = at + 1
    if start < len(appends):
        yield appends[start:]


def _append_run(connection: sqlite3.Connection, appends: Sequence[Append]) -> list[AppendResult | PmError]:
    heads, known = _found(connection, appends)
    outcomes: list[AppendResult | PmError] = []
    planned: list[_Planned] = []
    for append in appends:
        head, there = heads[append.trace_id], known[append.trace_id]
        try:
            plan = _planned(connection, append, head, there)
        except PmError as error:
            outcomes.append(error)
            continue
        outcomes.append(AppendResult(len(plan.events), plan.duplicates, plan.seq_last, plan.gaps))
        if plan.events:
            planned.append(_Planned(append, plan))
            if len(appends) > 1:
                there.update((event.event_id, event.identity) for event in plan.events)
    if planned:
        _write(connection, planned, heads)
    return outcomes


def _planned(connection: sqlite3.Connection, append: Append, head: _Head, there: dict[str, bytes]) -> Plan:
    """What to write of the append; `head` counts it in. Raises its `PmError` before it has changed anything."""
    check_open(append.trace_id, head.status)
    plan = plan_append(append.events, seq_last=head.seq_last, stored=there)
    if not plan.events:
        return plan
    size = sum([len(event.payload) + len(event.envelope) for event in plan.events])
    size += sum([blob.byte_len for blob in append.blobs])
    check_limits((head.count, head.size), events=len(plan.events), size=size, limits=append.limits)
    if append.references:
        check_references(connection, append.trace_id, append.references)
    head.seq_last = plan.seq_last
    head.count += len(plan.events)
    head.size += size
    head.skew_ms = newest_skew(head.skew_ms, append.skew_ms)
    return plan


def _write(connection: sqlite3.Connection, planned: Sequence[_Planned], heads: dict[str, _Head]) -> None:
    for append, _plan in planned:
        if append.references:
            hold(connection, append.trace_id, append.references, append.now_ms)
    insert_rows(connection, _EVENTS, [_row(append.trace_id, e) for append, plan in planned for e in plan.events])
    blobs = [(append.trace_id, blob, append.now_ms) for append, _plan in planned for blob in append.blobs]
    if blobs:
        add_blobs(connection, blobs)
    gaps = [(append.trace_id, *gap) for append, plan in planned for gap in plan.gaps]
    if gaps:
        connection.executemany(_GAP, gaps)
    moved = {append.trace_id: heads[append.trace_id] for append, _plan in planned}
    if len(moved) == 1:
        ((trace_id, head),) = moved.items()
        connection.execute(_ONE_ADVANCE, (head.seq_last, head.count, head.size, head.skew_ms, trace_id))
    else:
        listed = [(each, head.seq_last, head.count, head.size, head.skew_ms) for each, head in moved.items()]
        connection.execute(_ADVANCE, (orjson.dumps(listed).decode("ascii"),))


def _row(trace_id: str, event: StoredEvent) -> tuple[Any, ...]:
    # str and bytearray go to SQLite as they are; for bytes sqlite3 looks for an adapter each time (2,500 instructions).
    event_id, seq, ts_ms, kind, envelope, payload, identity = event
    return trace_id, seq, ts_ms, kind, str(payload, "utf-8"), event_id, str(envelope, "utf-8"), bytearray(identity)


def _found(
    connection: sqlite3.Connection, appends: Sequence[Append]
) -> tuple[dict[str, _Head], dict[str, dict[str, bytes]]]:
    """Where the traces stand, and what of the events is there already."""
    if len(appends) > 1 or len(appends[0].events) != 1:
        return _heads(connection, appends), _known(connection, appends)
    trace_id, event_id = appends[0].trace_id, appends[0].events[0].event_id
    row = connection.execute(_ONE_EVENT, (trace_id, event_id)).fetchone()
    if row is None:
        return {trace_id: _Head(None, 0, 0, 0, None)}, {trace_id: {}}
    *head, identity = row
    return {trace_id: _Head(*head)}, {trace_id: {} if identity is None else {event_id: bytes(identity)}}


def _heads(connection: sqlite3.Connection, appends: Sequence[Append]) -> dict[str, _Head]:
    ids = {append.trace_id for append in appends}
    if len(ids) == 1:
        found = connection.execute(_ONE_HEAD, tuple(ids)).fetchall()
    else:
        (text,) = connection.execute(_HEADS, (orjson.dumps(list(ids)).decode("ascii"),)).fetchone()
        found = orjson.loads(text)
    heads = {trace_id: _Head(None, 0, 0, 0, None) for trace_id in ids}
    heads.update((row[0], _Head(*row[1:])) for row in found)
    return heads


def _known(connection: sqlite3.Connection, appends: Sequence[Append]) -> dict[str, dict[str, bytes]]:
    """Of each trace, the identities of those of its events that are there already, by id."""
    known: dict[str, dict[str, bytes]] = {append.trace_id: {} for append in appends}
    if len(known) == 1:
        ids = [event.event_id for append in appends for event in append.events]
        found = connection.execute(_KNOWN_OF_ONE, (orjson.dumps(ids).decode("ascii"), appends[0].trace_id))
    else:
        pairs = [(append.trace_id, event.event_id) for append in appends for event in append.events]
        found = connection.execute(_KNOWN, (orjson.dumps(pairs).decode("ascii"),))
    for trace_id, event_id, identity in found:
        known[trace_id][event_id] = bytes(identity)
    return known
