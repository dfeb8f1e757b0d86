"""What the PostgreSQL store writes: functions of a connection inside a transaction.

A trace's row is locked first, blobs are touched in the order of their ids: no two writers wait for each other in a
ring. Batches travel as arrays, one statement each, pipelined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, LiteralString, TypeAlias

from psycopg import AsyncConnection

from collector.store.plan import (
    Append,
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
    TokenRow,
    TraceRow,
)

Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]
_PURGE = 2_000
# %b: lists of texts go over in binary; as text each element would be escaped, which took half of a batch's time.
_EVENTS = """
    INSERT INTO events (trace_id, seq, ts_ms, type, payload_jsonb, event_id, envelope_json, identity)
    SELECT %s, s.seq, s.ts_ms, s.type, s.payload::json, s.event_id, s.envelope::json, s.identity
    FROM unnest(
        %s::bigint[], %s::bigint[], %b::text[], %b::text[], %b::text[]::uuid[], %b::text[], %b::bytea[]
    ) AS s (seq, ts_ms, type, payload, event_id, envelope, identity)
"""
_BLOBS = """
    INSERT INTO blobs AS b
        (blob_id, storage_uri, content_type, byte_len, redaction_json, held_by, touched_ms, data)
    SELECT s.blob_id, s.uri, s.content_type, s.byte_len, s.redaction::json, 1, %s, s.data
    FROM unnest(%b::text[], %b::text[], %b::text[], %s::bigint[], %b::text[], %b::bytea[])
        AS s (blob_id, uri, content_type, byte_len, redaction, data)
    ON CONFLICT (blob_id) DO UPDATE SET held_by = b.held_by +
        (NOT EXISTS (SELECT 1 FROM trace_blobs AS t WHERE t.trace_id = %s AND t.blob_id = b.blob_id))::int
"""
_HEAL = """
    UPDATE blobs AS b SET data = s.data FROM unnest(%b::text[], %b::bytea[]) AS s (blob_id, data)
    WHERE b.blob_id = s.blob_id AND b.storage_uri = 'db:' || s.blob_id
        AND s.data IS NOT NULL AND b.data IS DISTINCT FROM s.data
"""
_HELD = """
    INSERT INTO trace_blobs AS t (trace_id, blob_id, content_type, redaction_json, used)
    SELECT %s, s.blob_id, s.content_type, s.redaction::json, true
    FROM unnest(%b::text[], %b::text[], %b::text[]) AS s (blob_id, content_type, redaction)
    ON CONFLICT (trace_id, blob_id) DO UPDATE SET used = true WHERE NOT t.used
"""


async def one(connection: Connection, query: LiteralString, values: Sequence[Any]) -> tuple[Any, ...] | None:
    return await (await connection.execute(query, values)).fetchone()


async def create(connection: Connection, row: TraceRow, token: TokenRow, identity: bytes, now_ms: int) -> bool:
    added = await one(
        connection,
        "INSERT INTO traces (trace_id, status, created_at_ms, metadata_json, identity) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT DO NOTHING RETURNING 1",
        (row.trace_id, row.status, row.created_at_ms, json_text(row.metadata), identity),
    )
    if added is None:
        stored = await one(
            connection, "SELECT identity, status FROM traces WHERE trace_id = %s FOR UPDATE", (row.trace_id,)
        )
        if stored is None or bytes(stored[0]) != identity or stored[1] == "deleted":
            raise taken(row.trace_id, deleted=stored is not None and stored[1] == "deleted")
    await add_token(connection, token)
    bundle = row.metadata.get("repo", {}).get("bundle_blob_id")
    if added is not None and bundle is not None:
        await hold(connection, row.trace_id, [bundle], now_ms, needed=False)
    return added is not None


async def append(connection: Connection, asked: Append) -> AppendResult:
    trace_id, events, blobs, references, skew_ms, limits, now_ms = asked
    async with connection.pipeline():
        locked = await connection.execute(
            "SELECT status, seq_last, event_count, byte_count, clock_skew_ms FROM traces WHERE trace_id = %s"
            " FOR UPDATE",
            (trace_id,),
        )
        there = await connection.execute(
            "SELECT event_id::text, identity FROM events WHERE trace_id = %s AND event_id = ANY (%b::text[]::uuid[])",
            (trace_id, [event.event_id for event in events]),
        )
        status, seq_last, count, held, skew = await locked.fetchone() or (None, 0, 0, 0, None)
        stored = {row[0]: bytes(row[1]) for row in await there.fetchall()}
    check_open(trace_id, status)
    plan = plan_append(events, seq_last=seq_last, stored=stored)
    if not plan.events:
        await _heal(connection, [blob.blob_id for blob in blobs], [blob.data for blob in blobs])
        return AppendResult(0, plan.duplicates, plan.seq_last)
    size = sum(len(event.payload) + len(event.envelope) for event in plan.events)
    size += sum(blob.byte_len for blob in blobs)
    check_limits((count, held), events=len(plan.events), size=size, limits=limits)
    if references:
        await hold(connection, trace_id, references, now_ms, own_only=True)
    async with connection.pipeline():
        columns = [
            (e.seq, e.ts_ms, e.type, e.payload.decode(), e.event_id, e.envelope.decode(), e.identity)
            for e in plan.events
        ]
        await connection.execute(_EVENTS, (trace_id, *map(list, zip(*columns, strict=True))))
        await add_blobs(connection, trace_id, blobs, now_ms)
        if plan.gaps:
            await connection.execute(
                "INSERT INTO trace_gaps (trace_id, from_seq, to_seq)"
                " SELECT %s, * FROM unnest(%s::bigint[], %s::bigint[])",
                (trace_id, [gap[0] for gap in plan.gaps], [gap[1] for gap in plan.gaps]),
            )
        await connection.execute(
            "UPDATE traces SET seq_last = %s, event_count = %s, byte_count = %s, clock_skew_ms = %s"
            " WHERE trace_id = %s",
            (plan.seq_last, count + len(plan.events), held + size, newest_skew(skew, skew_ms), trace_id),
        )
    return AppendResult(len(plan.events), plan.duplicates, plan.seq_last, plan.gaps)


async def add_blobs(connection: Connection, trace_id: str, blobs: Sequence[NewBlob], now_ms: int) -> None:
    """Store blobs that come with the trace's own facts, as held and used by it."""
    if not blobs:
        return
    ordered = sorted(blobs, key=lambda blob: blob.blob_id)
    ids, types = [blob.blob_id for blob in ordered], [blob.content_type for blob in ordered]
    redactions = [json_text(blob.redaction) for blob in ordered]
    uris = [f"db:{blob.blob_id}" if blob.data is not None else blob.storage_uri for blob in ordered]
    sizes, data = [blob.byte_len for blob in ordered], [blob.data for blob in ordered]
    await connection.execute(_BLOBS, (now_ms, ids, uris, types, sizes, redactions, data, trace_id))
    await _heal(connection, ids, data)
    await connection.execute(_HELD, (trace_id, ids, types, redactions))


async def _heal(connection: Connection, ids: Sequence[str], data: Sequence[bytes | None]) -> None:
    """Put those right that lie here with other bytes than were sent now."""
    if any(each is not None for each in data):
        await connection.execute(_HEAL, (list(ids), list(data)))


async def hold(
    connection: Connection,
    trace_id: str,
    ids: Collection[str],
    now_ms: int,
    *,
    needed: bool = True,
    own_only: bool = False,
    used: bool = True,
) -> None:
    """Make the trace own and `use` stored blobs; unknown ones (with `own_only`, others' too) fail if `needed`."""
    for blob_id in sorted(ids):
        row = await one(
            connection,
            "SELECT b.content_type, b.redaction_json::text, b.shared OR EXISTS"
            " (SELECT 1 FROM trace_blobs AS t WHERE t.trace_id = %s AND t.blob_id = b.blob_id)"
            " FROM blobs AS b WHERE b.blob_id = %s FOR UPDATE OF b",
            (trace_id, blob_id),
        )
        if row is None or (own_only and not row[2]):
            if needed:
                raise blob_is_gone(blob_id)
            continue
        await _own(connection, trace_id, blob_id, row[0], row[1], used=used)
        await connection.execute(
            "UPDATE blobs SET touched_ms = greatest(touched_ms, %s) WHERE blob_id = %s", (now_ms, blob_id)
        )


async def _own(
    connection: Connection, trace_id: str, blob_id: str, content_type: str, redaction: str, *, used: bool
) -> None:
    added = await connection.execute(
        "INSERT INTO trace_blobs (trace_id, blob_id, content_type, redaction_json, used) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT DO NOTHING",
        (trace_id, blob_id, content_type, redaction, used),
    )
    if added.rowcount == 1:
        await connection.execute("UPDATE blobs SET held_by = held_by + 1 WHERE blob_id = %s", (blob_id,))
    elif used:
        await connection.execute(
            "UPDATE trace_blobs SET used = true WHERE trace_id = %s AND blob_id = %s AND NOT used", (trace_id, blob_id)
        )


async def finalize(
    connection: Connection,
    trace_id: str,
    *,
    final_state: dict[str, Any] | None,
    blobs: Sequence[NewBlob],
    references: Collection[str],
    at_ms: int,
) -> bool:
    """See `TraceStore.finalize`; whether this call closed the trace."""
    found = await one(
        connection, "SELECT status, metadata_json FROM traces WHERE trace_id = %s FOR UPDATE", (trace_id,)
    )
    if found is not None and found[0] not in {"open", "deleted"}:
        return False
    check_open(trace_id, found[0] if found else None, doing="be finalized")
    await hold(connection, trace_id, references, at_ms, own_only=True)
    await add_blobs(connection, trace_id, blobs, at_ms)
    bundle = found[1].get("repo", {}).get("bundle_blob_id") if found else None
    await connection.execute(
        "UPDATE trace_blobs SET used = true WHERE trace_id = %s AND blob_id = %s", (trace_id, bundle)
    )
    unused = await connection.execute(
        "DELETE FROM trace_blobs WHERE trace_id = %s AND NOT used RETURNING blob_id", (trace_id,)
    )
    await _let_go(connection, [row[0] for row in await unused.fetchall()])
    await connection.execute(
        "UPDATE traces SET status = 'finalized', finalized_at_ms = %s, final_state_json = %s WHERE trace_id = %s",
        (at_ms, json_text(final_state) if final_state is not None else None, trace_id),
    )
    return True


async def _let_go(connection: Connection, ids: Sequence[str]) -> None:
    if ids:
        await connection.execute(
            "WITH locked AS (SELECT blob_id FROM blobs WHERE blob_id = ANY (%s) ORDER BY blob_id FOR UPDATE)"
            " UPDATE blobs AS b SET held_by = held_by - 1 FROM locked WHERE b.blob_id = locked.blob_id",
            (list(ids),),
        )


async def set_status(connection: Connection, trace_id: str, status: str, expected: Collection[str] | None) -> bool:
    done = await connection.execute(
        "UPDATE traces SET status = %s WHERE trace_id = %s AND status != 'deleted'"
        " AND (%s::text[] IS NULL OR status = ANY (%s::text[]))",
        (status, trace_id, *([list(expected)] * 2 if expected is not None else (None, None))),
    )
    return done.rowcount == 1


async def set_final(connection: Connection, trace_id: str, blob_id: str, now_ms: int) -> None:
    await _check_there(connection, trace_id)
    await hold(connection, trace_id, [blob_id], now_ms, used=False)  # held, but no part of the document it is
    await connection.execute("UPDATE traces SET final_blob_id = %s WHERE trace_id = %s", (blob_id, trace_id))


async def put_fact(connection: Connection, trace_id: str, fact: QaFact, named: Collection[str], now_ms: int) -> bool:
    await _check_there(connection, trace_id)
    added = await connection.execute(
        "INSERT INTO qa_facts (trace_id, step, input_hash, ts_ms, result_json) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT DO NOTHING",
        (trace_id, fact.step, fact.input_hash, fact.ts_ms, json_text(fact.result)),
    )
    if added.rowcount != 1:
        return False
    await hold(connection, trace_id, named, now_ms)
    return True


async def replace_result(connection: Connection, trace_id: str, fact: QaFact) -> None:
    await connection.execute(
        "UPDATE qa_facts SET result_json = %s WHERE trace_id = %s AND step = %s AND input_hash = %s",
        (json_text(fact.result), trace_id, fact.step, fact.input_hash),
    )


async def _check_there(connection: Connection, trace_id: str) -> None:
    found = await one(connection, "SELECT status FROM traces WHERE trace_id = %s FOR UPDATE", (trace_id,))
    check_there(trace_id, found[0] if found else None)


async def put_blob(
    connection: Connection,
    row: BlobRow,
    *,
    trace_id: str | None,
    submitted_id: str | None,
    data: bytes | None,
    now_ms: int,
) -> None:
    if trace_id is not None:
        await _check_there(connection, trace_id)
    redaction = json_text(row.redaction)
    uri = f"db:{row.blob_id}" if data is not None else row.storage_uri
    await connection.execute(
        "INSERT INTO blobs AS b"
        " (blob_id, storage_uri, content_type, byte_len, redaction_json, shared, touched_ms, data)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (blob_id) DO UPDATE"
        " SET touched_ms = greatest(b.touched_ms, excluded.touched_ms), shared = b.shared OR excluded.shared",
        (row.blob_id, uri, row.content_type, row.byte_len, redaction, trace_id is None, now_ms, data),
    )
    await _heal(connection, [row.blob_id], [data])
    if trace_id is None:
        return
    await _own(connection, trace_id, row.blob_id, row.content_type, redaction, used=False)
    if submitted_id is not None and submitted_id != row.blob_id:
        await connection.execute(
            "INSERT INTO blob_aliases (trace_id, submitted_id, blob_id) VALUES (%s, %s, %s)"
            " ON CONFLICT (trace_id, submitted_id) DO UPDATE SET blob_id = excluded.blob_id",
            (trace_id, submitted_id, row.blob_id),
        )


async def take_garbage(connection: Connection, *, before_ms: int, limit: int) -> tuple[BlobRow, ...]:
    """See `TraceStore.take_garbage`. What has come to be held meanwhile is looked at again, and stays."""
    rows = await connection.execute(
        "DELETE FROM blobs WHERE held_by = 0 AND touched_ms < %s AND blob_id IN"
        " (SELECT blob_id FROM blobs WHERE held_by = 0 AND touched_ms < %s ORDER BY touched_ms LIMIT %s"
        " FOR UPDATE SKIP LOCKED)"
        " RETURNING blob_id, storage_uri, content_type, byte_len, redaction_json",
        (before_ms, before_ms, limit),
    )
    return tuple(BlobRow(*row) for row in await rows.fetchall())


async def delete(connection: Connection, trace_id: str, at_ms: int) -> bool:
    """Hide the trace and forget what is small; `purge_slice` removes the rest."""
    found = await one(connection, "SELECT status FROM traces WHERE trace_id = %s FOR UPDATE", (trace_id,))
    if found is not None and found[0] == "deleted":
        return False
    check_there(trace_id, found[0] if found else None)
    await connection.execute(
        "UPDATE traces SET status = 'deleted', deleted_at_ms = %s, metadata_json = '{}', final_state_json = NULL,"
        " final_blob_id = NULL, clock_skew_ms = NULL, identity = '' WHERE trace_id = %s",
        (at_ms, trace_id),
    )
    for statement in (
        "DELETE FROM qa_facts WHERE trace_id = %s",
        "DELETE FROM trace_gaps WHERE trace_id = %s",
        "DELETE FROM blob_aliases WHERE trace_id = %s",
        "DELETE FROM tokens WHERE trace_id = %s",
        "INSERT INTO purges (trace_id) VALUES (%s)",
    ):
        await connection.execute(statement, (trace_id,))
    return True


async def _release(connection: Connection, trace_id: str, ids: Sequence[str]) -> None:
    """Take blobs from the trace; those that no other holds are collected at once, whenever they were touched."""
    gone = await connection.execute(
        "DELETE FROM trace_blobs WHERE trace_id = %s AND blob_id = ANY (%s) RETURNING blob_id", (trace_id, list(ids))
    )
    released = [row[0] for row in await gone.fetchall()]
    await _let_go(connection, released)
    await connection.execute("UPDATE blobs SET touched_ms = 0 WHERE blob_id = ANY (%s) AND held_by = 0", (released,))


async def narrow(connection: Connection, trace_id: str, metadata: Mapping[str, Any], released: Collection[str]) -> None:
    await _check_there(connection, trace_id)
    await connection.execute(
        "UPDATE traces SET metadata_json = %s WHERE trace_id = %s", (json_text(metadata), trace_id)
    )
    await _release(connection, trace_id, list(released))
    await connection.execute(
        "DELETE FROM blob_aliases WHERE trace_id = %s AND blob_id = ANY (%s)", (trace_id, list(released))
    )


async def purge_slice(connection: Connection, trace_id: str) -> bool:
    """Remove a part of a deleted trace's events and blobs, small enough to hold nobody up; whether more is left."""
    events = await connection.execute(
        "DELETE FROM events WHERE trace_id = %s AND seq IN (SELECT seq FROM events WHERE trace_id = %s LIMIT %s)",
        (trace_id, trace_id, _PURGE),
    )
    if events.rowcount == _PURGE:
        return True
    held = await connection.execute("SELECT blob_id FROM trace_blobs WHERE trace_id = %s LIMIT %s", (trace_id, _PURGE))
    ids = [row[0] for row in await held.fetchall()]
    await _release(connection, trace_id, ids)
    if len(ids) == _PURGE:
        return True
    await connection.execute("DELETE FROM purges WHERE trace_id = %s", (trace_id,))
    return False


async def add_token(connection: Connection, token: TokenRow) -> None:
    await connection.execute(
        "INSERT INTO tokens (token_id, kind, token_hash, trace_id, label, created_at_ms, revoked_at_ms, role,"
        " developer, project, expires_at_ms) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        tuple(token),
    )


async def take_lease(connection: Connection, trace_id: str, holder: str, now_ms: int, until_ms: int) -> str:
    await connection.execute(
        "INSERT INTO leases AS held (trace_id, holder, until_ms) VALUES (%s, %s, %s) ON CONFLICT (trace_id) DO UPDATE"
        " SET holder = excluded.holder, until_ms = excluded.until_ms"
        " WHERE held.holder = excluded.holder OR held.until_ms <= %s",
        (trace_id, holder, until_ms, now_ms),
    )
    row = await one(connection, "SELECT holder FROM leases WHERE trace_id = %s", (trace_id,))
    return str(row[0]) if row is not None else ""  # dropped just now


async def drop_lease(connection: Connection, trace_id: str, holder: str) -> None:
    await connection.execute("DELETE FROM leases WHERE trace_id = %s AND holder = %s", (trace_id, holder))


async def add_audit(connection: Connection, row: AuditRow) -> None:
    await connection.execute(
        "INSERT INTO audit (at_ms, token_id, role, action, subject) VALUES (%s, %s, %s, %s, %s)", tuple(row)
    )
