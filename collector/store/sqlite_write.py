"""What the SQLite store writes: functions of a connection inside a transaction of `GroupWriter`.

Each looks first and raises its `PmError` before it has written anything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import orjson

from collector.store.plan import blob_is_gone, check_limits, check_open, newest_skew, plan_append
from collector.store.port import AppendResult, BlobRow, NewBlob, QaFact, StoredEvent, TokenRow, TraceLimits, TraceRow
from tracer.errors import ConflictError, NotFoundError

__all__ = [
    "add_token",
    "append",
    "create",
    "finalize",
    "hold",
    "put_blob",
    "put_fact",
    "set_final",
    "set_status",
]

_EVENT = (
    "INSERT INTO events (trace_id, seq, ts_ms, type, payload_jsonb, event_id, envelope_json, identity)"
    " VALUES (?, ?, ?, ?, CAST(? AS TEXT), ?, CAST(? AS TEXT), ?)"
)
_BLOB = (
    "INSERT INTO blobs"
    " (number, blob_id, storage_uri, content_type, byte_len, redaction_json, held_by, touched_ms, data)"
    " VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)"
)
_HELD = "INSERT INTO trace_blobs (trace_id, number, used) VALUES (?, ?, 1)"
_STORED = (
    "SELECT b.blob_id, b.number, b.content_type, b.redaction_json FROM json_each(?) AS sent"
    " CROSS JOIN blobs AS b INDEXED BY blobs_by_id ON b.blob_id = sent.value"
)
# CROSS JOIN keeps the order: without it SQLite walks through all events of the trace.
_KNOWN = (
    "SELECT e.event_id, e.identity FROM json_each(?) AS sent CROSS JOIN events AS e INDEXED BY events_by_id"
    " ON e.trace_id = ? AND e.event_id = sent.value"
)


class _Stored(NamedTuple):
    """A blob that is there."""

    number: int
    content_type: str
    redaction: str


def create(connection: sqlite3.Connection, row: TraceRow, token: TokenRow, identity: bytes, now_ms: int) -> bool:
    """See `TraceStore.create_trace`."""
    stored = connection.execute("SELECT identity, status FROM traces WHERE trace_id = ?", (row.trace_id,)).fetchone()
    if stored is not None and (bytes(stored[0]) != identity or stored[1] == "deleted"):
        raise ConflictError(
            f"the trace {row.trace_id!r} is already there",
            why="it was deleted" if stored[1] == "deleted" else "it was created with other content",
            next_step="use a fresh id",
        )
    add_token(connection, token)
    if stored is not None:
        return False
    connection.execute(
        "INSERT INTO traces (trace_id, status, created_at_ms, metadata_json, identity) VALUES (?, ?, ?, ?, ?)",
        (row.trace_id, row.status, row.created_at_ms, _json(row.metadata), identity),
    )
    bundle = row.metadata.get("repo", {}).get("bundle_blob_id")
    if bundle is not None:
        hold(connection, row.trace_id, [bundle], now_ms, needed=False)
    return True


def append(
    connection: sqlite3.Connection,
    trace_id: str,
    events: Sequence[StoredEvent],
    blobs: Sequence[NewBlob],
    *,
    references: Collection[str],
    skew_ms: int | None,
    limits: TraceLimits | None,
    now_ms: int,
) -> AppendResult:
    """See `TraceStore.append_events`."""
    found = connection.execute(
        "SELECT status, seq_last, event_count, byte_count, clock_skew_ms FROM traces WHERE trace_id = ?", (trace_id,)
    ).fetchone()
    status, seq_last, count, held, skew = found or (None, 0, 0, 0, None)
    check_open(trace_id, status)
    plan = plan_append(events, seq_last=seq_last, stored=_known(connection, trace_id, events))
    if not plan.events:
        return AppendResult(0, plan.duplicates, plan.seq_last)
    size = sum(len(event.payload) + len(event.envelope) for event in plan.events)
    size += sum(blob.byte_len for blob in blobs)
    check_limits((count, held), events=len(plan.events), size=size, limits=limits)
    if references:
        _check_references(connection, trace_id, references)
        hold(connection, trace_id, references, now_ms)
    connection.executemany(
        _EVENT,
        [(trace_id, e.seq, e.ts_ms, e.type, e.payload, e.event_id, e.envelope, e.identity) for e in plan.events],
    )
    if blobs:
        add_blobs(connection, trace_id, blobs, now_ms)
    if plan.gaps:
        connection.executemany(
            "INSERT INTO trace_gaps (trace_id, from_seq, to_seq) VALUES (?, ?, ?)",
            [(trace_id, first, last) for first, last in plan.gaps],
        )
    connection.execute(
        "UPDATE traces SET seq_last = ?, event_count = ?, byte_count = ?, clock_skew_ms = ? WHERE trace_id = ?",
        (plan.seq_last, count + len(plan.events), held + size, newest_skew(skew, skew_ms), trace_id),
    )
    return AppendResult(len(plan.events), plan.duplicates, plan.seq_last, plan.gaps)


def add_blobs(connection: sqlite3.Connection, trace_id: str, blobs: Sequence[NewBlob], now_ms: int) -> None:
    """Store blobs that come with the trace's own facts, as held and used by it."""
    if len(blobs) == 1 and _stored(connection, blobs[0].blob_id) is None:  # the usual case of live capture
        blob = blobs[0]
        uri = f"db:{blob.blob_id}" if blob.data is not None else blob.storage_uri
        row = (None, blob.blob_id, uri, blob.content_type, blob.byte_len, _json(blob.redaction), now_ms, blob.data)
        connection.execute(_HELD, (trace_id, connection.execute(_BLOB, row).lastrowid))
        return
    ids = orjson.dumps([blob.blob_id for blob in blobs]).decode("ascii")
    stored = {row[0]: _Stored(*row[1:]) for row in connection.execute(_STORED, (ids,))}
    (last,) = connection.execute("SELECT max(number) FROM blobs").fetchone()
    rows: list[tuple[Any, ...]] = []
    for blob in blobs:
        redaction = _json(blob.redaction)
        if (there := stored.get(blob.blob_id)) is not None:
            _own(connection, trace_id, there, blob.content_type, redaction, used=True)
            continue
        uri = f"db:{blob.blob_id}" if blob.data is not None else blob.storage_uri
        number = (last or 0) + len(rows) + 1
        rows.append((number, blob.blob_id, uri, blob.content_type, blob.byte_len, redaction, now_ms, blob.data))
    connection.executemany(_BLOB, rows)
    connection.executemany(_HELD, [(trace_id, row[0]) for row in rows])


def _known(connection: sqlite3.Connection, trace_id: str, events: Sequence[StoredEvent]) -> dict[str, bytes]:
    if len(events) == 1:
        row = connection.execute(
            "SELECT event_id, identity FROM events WHERE trace_id = ? AND event_id = ?", (trace_id, events[0].event_id)
        ).fetchone()
        return {row[0]: bytes(row[1])} if row is not None else {}
    ids = orjson.dumps([event.event_id for event in events]).decode("ascii")
    return {event_id: bytes(identity) for event_id, identity in connection.execute(_KNOWN, (ids, trace_id))}


def _check_references(connection: sqlite3.Connection, trace_id: str, references: Collection[str]) -> None:
    for blob_id in references:
        own = connection.execute(
            "SELECT 1 FROM blobs AS b WHERE b.blob_id = ? AND (b.shared = 1 OR EXISTS"
            " (SELECT 1 FROM trace_blobs AS t WHERE t.trace_id = ? AND t.number = b.number))",
            (blob_id, trace_id),
        ).fetchone()
        if own is None:
            raise blob_is_gone(blob_id)


def hold(
    connection: sqlite3.Connection,
    trace_id: str,
    ids: Collection[str],
    now_ms: int,
    *,
    needed: bool = True,
    used: bool = True,
) -> None:
    """Make stored blobs belong to the trace and be `used` by it; unknown ones are an error unless not `needed`."""
    for blob_id in ids:
        stored = _stored(connection, blob_id)
        if stored is None:
            if needed:
                raise blob_is_gone(blob_id)
            continue
        _own(connection, trace_id, stored, stored.content_type, stored.redaction, used=used)
        connection.execute("UPDATE blobs SET touched_ms = max(touched_ms, ?) WHERE blob_id = ?", (now_ms, blob_id))


def _stored(connection: sqlite3.Connection, blob_id: str) -> _Stored | None:
    row = connection.execute(
        "SELECT number, content_type, redaction_json FROM blobs WHERE blob_id = ?", (blob_id,)
    ).fetchone()
    return _Stored(*row) if row is not None else None


def _own(
    connection: sqlite3.Connection, trace_id: str, blob: _Stored, content_type: str, redaction: str, *, used: bool
) -> None:
    """Make a stored blob the trace's, unless it is already."""
    added = connection.execute(
        "INSERT OR IGNORE INTO trace_blobs (trace_id, number, content_type, redaction_json, used)"
        " VALUES (?, ?, ?, ?, ?)",
        (
            trace_id,
            blob.number,
            content_type if content_type != blob.content_type else None,
            redaction if redaction != blob.redaction else None,
            used,
        ),
    )
    if added.rowcount == 1:
        connection.execute("UPDATE blobs SET held_by = held_by + 1 WHERE number = ?", (blob.number,))
    elif used:
        connection.execute(
            "UPDATE trace_blobs SET used = 1 WHERE trace_id = ? AND number = ? AND used = 0", (trace_id, blob.number)
        )


def finalize(
    connection: sqlite3.Connection,
    trace_id: str,
    *,
    final_state: dict[str, Any] | None,
    blobs: Sequence[NewBlob],
    references: Collection[str],
    at_ms: int,
) -> None:
    """See `TraceStore.finalize`; blobs that were uploaded for the trace and never named are let go."""
    found = connection.execute("SELECT status, metadata_json FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
    if found is not None and found[0] not in {"open", "deleted"}:
        return
    check_open(trace_id, found[0] if found else None, doing="be finalized")
    if references:
        _check_references(connection, trace_id, references)
        hold(connection, trace_id, references, at_ms)
    if blobs:
        add_blobs(connection, trace_id, blobs, at_ms)
    bundle = orjson.loads(found[1]).get("repo", {}).get("bundle_blob_id")
    if bundle is not None:
        connection.execute(
            "UPDATE trace_blobs SET used = 1 WHERE trace_id = ?"
            " AND number = (SELECT number FROM blobs WHERE blob_id = ?)",
            (trace_id, bundle),
        )
    connection.execute(
        "UPDATE blobs SET held_by = held_by - 1 WHERE number IN"
        " (SELECT number FROM trace_blobs WHERE trace_id = ? AND used = 0)",
        (trace_id,),
    )
    connection.execute("DELETE FROM trace_blobs WHERE trace_id = ? AND used = 0", (trace_id,))
    connection.execute(
        "UPDATE traces SET status = 'finalized', finalized_at_ms = ?, final_state_json = ? WHERE trace_id = ?",
        (at_ms, _json(final_state) if final_state is not None else None, trace_id),
    )


def set_status(connection: sqlite3.Connection, trace_id: str, status: str, expected: Collection[str] | None) -> bool:
    """See `TraceStore.set_status`."""
    found = connection.execute("SELECT status FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
    if found is None or found[0] == "deleted" or (expected is not None and found[0] not in expected):
        return False
    connection.execute("UPDATE traces SET status = ? WHERE trace_id = ?", (status, trace_id))
    return True


def set_final(connection: sqlite3.Connection, trace_id: str, blob_id: str, now_ms: int) -> None:
    """See `TraceStore.set_final_document`."""
    _check_there(connection, trace_id)
    hold(connection, trace_id, [blob_id], now_ms, used=False)  # held, but no part of the document it is
    connection.execute("UPDATE traces SET final_blob_id = ? WHERE trace_id = ?", (blob_id, trace_id))


def put_fact(connection: sqlite3.Connection, trace_id: str, fact: QaFact, named: Collection[str], now_ms: int) -> bool:
    """See `TraceStore.append_qa_fact`."""
    _check_there(connection, trace_id)
    there = connection.execute(
        "SELECT 1 FROM qa_facts WHERE trace_id = ? AND step = ? AND input_hash = ?",
        (trace_id, fact.step, fact.input_hash),
    ).fetchone()
    if there is not None:
        return False
    for blob_id in named:
        if connection.execute("SELECT 1 FROM blobs WHERE blob_id = ?", (blob_id,)).fetchone() is None:
            raise blob_is_gone(blob_id)
    hold(connection, trace_id, named, now_ms)
    connection.execute(
        "INSERT INTO qa_facts (trace_id, step, input_hash, ts_ms, result_json) VALUES (?, ?, ?, ?, ?)",
        (trace_id, fact.step, fact.input_hash, fact.ts_ms, _json(fact.result)),
    )
    return True


def _check_there(connection: sqlite3.Connection, trace_id: str) -> None:
    found = connection.execute("SELECT status FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
    if found is None or found[0] == "deleted":
        raise NotFoundError(f"no trace {trace_id!r}", why="it was deleted" if found else "no trace has this id")


def put_blob(
    connection: sqlite3.Connection,
    row: BlobRow,
    *,
    trace_id: str | None,
    submitted_id: str | None,
    data: bytes | None,
    now_ms: int,
) -> None:
    """See `TraceStore.put_blob_row`."""
    if trace_id is not None:
        _check_there(connection, trace_id)
    redaction = _json(row.redaction)
    uri = f"db:{row.blob_id}" if data is not None else row.storage_uri
    connection.execute(
        "INSERT INTO blobs (blob_id, storage_uri, content_type, byte_len, redaction_json, shared, touched_ms, data)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (blob_id) DO UPDATE"
        " SET touched_ms = max(touched_ms, ?7), shared = max(shared, ?6)",
        (row.blob_id, uri, row.content_type, row.byte_len, redaction, trace_id is None, now_ms, data),
    )
    if trace_id is None:
        return
    stored = _stored(connection, row.blob_id)
    if stored is not None:
        _own(connection, trace_id, stored, row.content_type, redaction, used=False)
    if submitted_id is not None and submitted_id != row.blob_id:
        connection.execute(
            "INSERT INTO blob_aliases (trace_id, submitted_id, blob_id) VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET blob_id = excluded.blob_id",
            (trace_id, submitted_id, row.blob_id),
        )


def add_token(connection: sqlite3.Connection, token: TokenRow) -> None:
    """See `TraceStore.add_token`."""
    connection.execute(
        "INSERT INTO tokens (kind, token_hash, trace_id, label, created_at_ms, revoked_at_ms, token_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*token[1:], token[0]),
    )


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode("utf-8")
