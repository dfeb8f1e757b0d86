"""Writes to SQLite: traces, appended events, QA facts, blobs, tokens, deletion, garbage.

Functions take a connection inside a transaction of `GroupWriter`; each checks first and raises its `PmError` before it
has written anything. Appends of a group share their statements; a refused one leaves nothing and hinders no other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from collector.store.plan import (
    Append,
    Plan,
    blob_is_gone,
    check_limits,
    check_open,
    check_there,
    json_text,
    newest_skew,
    plan_append,
    taken,
)
from collector.store.port import (
    AppendResult,
    AuditRow,
    BlobRow,
    NewBlob,
    QaFact,
    StoredEvent,
    TokenRow,
    TraceRow,
)
from collector.store.sqlite.blobs import (
    USED,
    StoredBlob,
    add_blobs,
    add_ids,
    by_rows,
    check_references,
    find_blob,
    forget_ids,
    heal,
    hold,
    insert_rows,
    let_go,
    own,
)
from tracer.errors import PmError

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
    "events (trace_id, seq, ts_ms, type, payload_jsonb, event_id, envelope_json, identity)", "(?, ?, ?, ?, ?, ?, ?, ?)"
)


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
        if not plan.events:
            there_already = [(find_blob(connection, blob.blob_id), blob) for blob in append.blobs]
            heal(connection, [(stored.number, blob) for stored, blob in there_already if stored is not None])
        else:
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


def create(connection: sqlite3.Connection, row: TraceRow, token: TokenRow, identity: bytes, now_ms: int) -> bool:
    stored = connection.execute("SELECT identity, status FROM traces WHERE trace_id = ?", (row.trace_id,)).fetchone()
    if stored is not None and (bytes(stored[0]) != identity or stored[1] == "deleted"):
        raise taken(row.trace_id, deleted=stored[1] == "deleted")
    add_token(connection, token)
    if stored is not None:
        return False
    connection.execute(
        "INSERT INTO traces (trace_id, status, created_at_ms, metadata_json, identity) VALUES (?, ?, ?, ?, ?)",
        (row.trace_id, row.status, row.created_at_ms, json_text(row.metadata), identity),
    )
    bundle = row.metadata.get("repo", {}).get("bundle_blob_id")
    if bundle is not None:
        hold(connection, row.trace_id, [bundle], now_ms, needed=False)
    return True


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
        check_references(connection, trace_id, references)
        hold(connection, trace_id, references, at_ms)
    if blobs:
        add_blobs(connection, [(trace_id, blob, at_ms) for blob in blobs])
    bundle = orjson.loads(found[1]).get("repo", {}).get("bundle_blob_id")
    stored = find_blob(connection, bundle) if bundle is not None else None
    if stored is not None:
        connection.execute(USED, (trace_id, stored.number))
    unnamed = connection.execute("SELECT number FROM trace_blobs WHERE trace_id = ? AND named = 0", (trace_id,))
    let_go(connection, [number for (number,) in unnamed])
    connection.execute("DELETE FROM trace_blobs WHERE trace_id = ? AND named = 0", (trace_id,))
    connection.execute(
        "UPDATE traces SET status = 'finalized', finalized_at_ms = ?, final_state_json = ? WHERE trace_id = ?",
        (at_ms, json_text(final_state) if final_state is not None else None, trace_id),
    )


def set_status(connection: sqlite3.Connection, trace_id: str, status: str, expected: Collection[str] | None) -> bool:
    found = connection.execute("SELECT status FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
    if found is None or found[0] == "deleted" or (expected is not None and found[0] not in expected):
        return False
    connection.execute("UPDATE traces SET status = ? WHERE trace_id = ?", (status, trace_id))
    return True


def set_final(connection: sqlite3.Connection, trace_id: str, blob_id: str, now_ms: int) -> None:
    _check_there(connection, trace_id)
    hold(connection, trace_id, [blob_id], now_ms, used=False)  # held, but no part of the document it is
    connection.execute("UPDATE traces SET final_blob_id = ? WHERE trace_id = ?", (blob_id, trace_id))


def put_fact(connection: sqlite3.Connection, trace_id: str, fact: QaFact, named: Collection[str], now_ms: int) -> bool:
    _check_there(connection, trace_id)
    there = connection.execute(
        "SELECT 1 FROM qa_facts WHERE trace_id = ? AND step = ? AND input_hash = ?",
        (trace_id, fact.step, fact.input_hash),
    ).fetchone()
    if there is not None:
        return False
    for blob_id in named:
        if find_blob(connection, blob_id) is None:
            raise blob_is_gone(blob_id)
    hold(connection, trace_id, named, now_ms)
    connection.execute(
        "INSERT INTO qa_facts (trace_id, step, input_hash, ts_ms, result_json) VALUES (?, ?, ?, ?, ?)",
        (trace_id, fact.step, fact.input_hash, fact.ts_ms, json_text(fact.result)),
    )
    return True


def replace_result(connection: sqlite3.Connection, trace_id: str, fact: QaFact) -> None:
    connection.execute(
        "UPDATE qa_facts SET result_json = ? WHERE trace_id = ? AND step = ? AND input_hash = ?",
        (json_text(fact.result), trace_id, fact.step, fact.input_hash),
    )


def _check_there(connection: sqlite3.Connection, trace_id: str) -> None:
    found = connection.execute("SELECT status FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
    check_there(trace_id, found[0] if found else None)


def put_blob(
    connection: sqlite3.Connection,
    row: BlobRow,
    *,
    trace_id: str | None,
    submitted_id: str | None,
    data: bytes | None,
    now_ms: int,
) -> None:
    if trace_id is not None:
        _check_there(connection, trace_id)
    redaction = json_text(row.redaction)
    uri = f"db:{row.blob_id}" if data is not None else row.storage_uri
    stored = find_blob(connection, row.blob_id)
    if stored is None:
        added = connection.execute(
            "INSERT INTO blobs (blob_id, storage_uri, content_type, byte_len, redaction_json, shared, touched_ms, data)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (row.blob_id, uri, row.content_type, row.byte_len, redaction, trace_id is None, now_ms, data),
        )
        stored = StoredBlob(added.lastrowid or 0, row.content_type, redaction, 0)
        add_ids(connection, [(row.blob_id, stored.number)])
    else:
        connection.execute(
            "UPDATE blobs SET touched_ms = max(touched_ms, ?), shared = max(shared, ?) WHERE number = ?",
            (now_ms, trace_id is None, stored.number),
        )
        heal(connection, [(stored.number, NewBlob(row.blob_id, "", row.byte_len, {}, data))])
    if trace_id is None:
        return
    own(connection, trace_id, stored, row.content_type, redaction, used=False)
    if submitted_id is not None and submitted_id != row.blob_id:
        connection.execute(
            "INSERT INTO blob_aliases (trace_id, submitted_id, blob_id) VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET blob_id = excluded.blob_id",
            (trace_id, submitted_id, row.blob_id),
        )


def add_token(connection: sqlite3.Connection, token: TokenRow) -> None:
    connection.execute(
        "INSERT INTO tokens (token_id, kind, token_hash, trace_id, label, created_at_ms, revoked_at_ms, role,"
        " developer, project, expires_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        token,
    )


def take_lease(connection: sqlite3.Connection, trace_id: str, holder: str, now_ms: int, until_ms: int) -> str:
    connection.execute(
        "INSERT INTO leases (trace_id, holder, until_ms) VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
        " SET holder = excluded.holder, until_ms = excluded.until_ms WHERE holder = excluded.holder OR until_ms <= ?",
        (trace_id, holder, until_ms, now_ms),
    )
    (held,) = connection.execute("SELECT holder FROM leases WHERE trace_id = ?", (trace_id,)).fetchone()
    return str(held)


def drop_lease(connection: sqlite3.Connection, trace_id: str, holder: str) -> None:
    connection.execute("DELETE FROM leases WHERE trace_id = ? AND holder = ?", (trace_id, holder))


def add_audit(connection: sqlite3.Connection, row: AuditRow) -> None:
    connection.execute("INSERT INTO audit (at_ms, token_id, role, action, subject) VALUES (?, ?, ?, ?, ?)", row)


_PURGE = 2_000


def take_garbage(connection: sqlite3.Connection, *, before_ms: int, limit: int) -> tuple[BlobRow, ...]:
    rows = connection.execute(
        "SELECT blob_id, storage_uri, content_type, byte_len, redaction_json, number FROM blobs"
        " WHERE held_by = 0 AND touched_ms < ? ORDER BY touched_ms LIMIT ?",
        (before_ms, limit),
    ).fetchall()
    forget_ids(connection, [(row[0], row[5]) for row in rows])
    connection.executemany("DELETE FROM blobs WHERE number = ?", [(row[5],) for row in rows])
    return tuple(BlobRow(row[0], row[1], row[2], row[3], orjson.loads(row[4])) for row in rows)


def delete(connection: sqlite3.Connection, trace_id: str, at_ms: int) -> bool:
    """Hide the trace and forget what is small; `purge_slice` removes the rest."""
    found = connection.execute("SELECT status FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
    if found is not None and found[0] == "deleted":
        return False
    check_there(trace_id, found[0] if found else None)
    connection.execute(
        "UPDATE traces SET status = 'deleted', deleted_at_ms = ?, metadata_json = '{}', final_state_json = NULL,"
        " final_blob_id = NULL, clock_skew_ms = NULL, identity = x'' WHERE trace_id = ?",
        (at_ms, trace_id),
    )
    for table in ("qa_facts", "trace_gaps", "blob_aliases", "tokens"):
        connection.execute(f"DELETE FROM {table} WHERE trace_id = ?", (trace_id,))  # noqa: S608 # our own names
    connection.execute("INSERT INTO purges (trace_id) VALUES (?)", (trace_id,))
    return True


def _release(connection: sqlite3.Connection, trace_id: str, numbers: Sequence[int]) -> None:
    """Take blobs from the trace; those that no other holds are collected at once, whenever they were touched."""
    connection.executemany(
        "DELETE FROM trace_blobs WHERE trace_id = ? AND number = ?", [(trace_id, number) for number in numbers]
    )
    let_go(connection, numbers)
    connection.executemany(
        "UPDATE blobs SET touched_ms = 0 WHERE number = ? AND held_by = 0", [(number,) for number in numbers]
    )


def narrow(
    connection: sqlite3.Connection, trace_id: str, metadata: Mapping[str, Any], released: Collection[str]
) -> None:
    _check_there(connection, trace_id)
    connection.execute("UPDATE traces SET metadata_json = ? WHERE trace_id = ?", (json_text(metadata), trace_id))
    for blob_id in released:
        found = find_blob(connection, blob_id)
        owned = "SELECT 1 FROM trace_blobs WHERE trace_id = ? AND number = ?"
        if found is not None and connection.execute(owned, (trace_id, found.number)).fetchone():
            _release(connection, trace_id, [found.number])
        connection.execute("DELETE FROM blob_aliases WHERE trace_id = ? AND blob_id = ?", (trace_id, blob_id))


def purge_slice(connection: sqlite3.Connection, trace_id: str) -> bool:
    """Remove a part of a deleted trace's events and blobs, small enough to hold nobody up; whether more is left."""
    gone = connection.execute(
        "DELETE FROM events WHERE rowid IN (SELECT rowid FROM events WHERE trace_id = ? LIMIT ?)", (trace_id, _PURGE)
    ).rowcount
    if gone == _PURGE:
        return True
    held = connection.execute("SELECT number FROM trace_blobs WHERE trace_id = ? LIMIT ?", (trace_id, _PURGE))
    numbers = [number for (number,) in held]
    _release(connection, trace_id, numbers)
    if len(numbers) == _PURGE:
        return True
    connection.execute("DELETE FROM purges WHERE trace_id = ?", (trace_id,))
    return False


def revoke_token(connection: sqlite3.Connection, token_id: str, at_ms: int) -> bool:
    done = connection.execute(
        "UPDATE tokens SET revoked_at_ms = ? WHERE token_id = ? AND revoked_at_ms IS NULL", (at_ms, token_id)
    )
    return done.rowcount == 1


def secret(connection: sqlite3.Connection, name: str, fresh: bytes) -> bytes:
    """See `TraceStore.secret`; `fresh` is kept if there is none."""
    connection.execute("INSERT OR IGNORE INTO secrets (name, value) VALUES (?, ?)", (name, fresh))
    return bytes(connection.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()[0])
