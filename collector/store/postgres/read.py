"""What the PostgreSQL store reads: functions of a connection, from rows to the port's values."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from collector.store.port import AuditRow, BlobRow, QaFact, StoredEvent, TokenRow, TraceRow
from collector.store.postgres.write import Connection
from tracer.redaction.redactor import CleanLine

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TRACE = (
    "SELECT trace_id::text, status, created_at_ms, metadata_json, finalized_at_ms, final_state_json, seq_last,"
    " event_count, byte_count, clock_skew_ms, final_blob_id, deleted_at_ms FROM traces"
)
_ONE_TRACE = f"{_TRACE} WHERE trace_id = %s"
_LISTED = (
    _TRACE  # noqa: S608 # our own words only
    + " WHERE (status = %s OR (%s::text IS NULL AND status != 'deleted'))"
    " AND (%s::uuid IS NULL OR (created_at_ms, trace_id) <"
    " (SELECT created_at_ms, trace_id FROM traces WHERE trace_id = %s::uuid))"
    " ORDER BY created_at_ms DESC, trace_id DESC LIMIT %s"
)
_BLOB = "SELECT blob_id, storage_uri, content_type, byte_len, redaction_json FROM blobs WHERE blob_id = %s"
_RESOLVED = """
    SELECT s.name, b.blob_id, b.storage_uri, b.content_type, b.byte_len, b.redaction_json
    FROM unnest(%s::text[]) AS s (name)
    LEFT JOIN blob_aliases AS a ON a.trace_id = %s AND a.submitted_id = s.name
    JOIN blobs AS b ON b.blob_id = coalesce(a.blob_id, s.name)
    WHERE b.shared OR EXISTS (SELECT 1 FROM trace_blobs AS t WHERE t.trace_id = %s AND t.blob_id = b.blob_id)"""
_BLOBS = """
    SELECT b.blob_id, b.storage_uri, t.content_type, b.byte_len, t.redaction_json FROM trace_blobs AS t
    JOIN blobs AS b ON b.blob_id = t.blob_id
    WHERE t.trace_id = %s AND t.used AND t.blob_id > %s ORDER BY t.blob_id LIMIT %s"""
_TOKEN = (
    "SELECT token_id, kind, token_hash, trace_id::text, label, created_at_ms, revoked_at_ms, role, developer,"  # noqa: S105
    " project, expires_at_ms FROM tokens"
)
_AUDIT = "SELECT at_ms, token_id, role, action, subject FROM audit ORDER BY number DESC LIMIT %s"
_ONE_TOKEN = f"{_TOKEN} WHERE token_hash = %s"
_TOKENS = f"{_TOKEN} ORDER BY created_at_ms, token_id"


def _trace(row: tuple[Any, ...]) -> TraceRow:
    return TraceRow(
        trace_id=row[0],
        status=row[1],
        created_at_ms=row[2],
        metadata=row[3],
        finalized_at_ms=row[4],
        final_state=row[5],
        seq_last=row[6],
        event_count=row[7],
        byte_count=row[8],
        clock_skew_ms=row[9] or 0,
        final_blob_id=row[10],
        deleted_at_ms=row[11],
    )


async def trace(connection: Connection, trace_id: str) -> TraceRow | None:
    """One trace; a text that is no UUID (the beginning of one) names none."""
    if _UUID.fullmatch(trace_id) is None:
        return None
    row = await (await connection.execute(_ONE_TRACE, (trace_id,))).fetchone()
    return _trace(row) if row is not None else None


async def listed(connection: Connection, after: str | None, limit: int, status: str | None) -> tuple[TraceRow, ...]:
    rows = await connection.execute(_LISTED, (status, status, after, after, limit))
    return tuple(_trace(row) for row in await rows.fetchall())


async def pending(connection: Connection, limit: int) -> tuple[str, ...]:
    rows = await connection.execute(
        "SELECT trace_id::text FROM traces WHERE status IN ('finalized', 'qa_running')"
        " ORDER BY finalized_at_ms, trace_id LIMIT %s",
        (limit,),
    )
    return tuple(row[0] for row in await rows.fetchall())


async def gaps(connection: Connection, trace_id: str, limit: int) -> tuple[tuple[int, int], ...]:
    rows = await connection.execute(
        "SELECT from_seq, to_seq FROM trace_gaps WHERE trace_id = %s ORDER BY from_seq LIMIT %s", (trace_id, limit)
    )
    return tuple((row[0], row[1]) for row in await rows.fetchall())


async def events(connection: Connection, trace_id: str, after: int, limit: int) -> tuple[StoredEvent, ...]:
    rows = await connection.execute(
        "SELECT event_id::text, seq, ts_ms, type, envelope_json::text, payload_jsonb::text FROM events"
        " WHERE trace_id = %s AND seq > %s ORDER BY seq LIMIT %s",
        (trace_id, after, limit),
    )
    return tuple(
        StoredEvent(row[0], row[1], row[2], row[3], CleanLine(row[4].encode()), CleanLine(row[5].encode()))
        for row in await rows.fetchall()
    )


async def facts(connection: Connection, trace_id: str) -> tuple[QaFact, ...]:
    rows = await connection.execute(
        "SELECT step, input_hash, ts_ms, result_json FROM qa_facts WHERE trace_id = %s ORDER BY number", (trace_id,)
    )
    return tuple(QaFact(row[0], row[1], row[2], row[3]) for row in await rows.fetchall())


async def blob_row(connection: Connection, blob_id: str) -> BlobRow | None:
    row = await (await connection.execute(_BLOB, (blob_id,))).fetchone()
    return _blob(row) if row is not None else None


async def blob_data(connection: Connection, blob_id: str) -> bytes | None:
    rows = await connection.execute("SELECT data FROM blobs WHERE blob_id = %s", (blob_id,), binary=True)
    row = await rows.fetchone()
    return bytes(row[0]) if row is not None and row[0] is not None else None


async def blob_rows(connection: Connection, trace_id: str, after: str, limit: int | None) -> tuple[BlobRow, ...]:
    rows = await connection.execute(_BLOBS, (trace_id, after, limit))
    return tuple(_blob(row) for row in await rows.fetchall())


async def resolved(connection: Connection, trace_id: str, submitted: Collection[str]) -> dict[str, BlobRow]:
    rows = await connection.execute(_RESOLVED, (list(submitted), trace_id, trace_id))
    return {row[0]: _blob(row[1:]) for row in await rows.fetchall()}


async def token(connection: Connection, token_hash: str) -> TokenRow | None:
    row = await (await connection.execute(_ONE_TOKEN, (token_hash,))).fetchone()
    return TokenRow(*row) if row is not None else None


async def tokens(connection: Connection) -> tuple[TokenRow, ...]:
    return tuple(TokenRow(*row) for row in await (await connection.execute(_TOKENS)).fetchall())


async def audit(connection: Connection, limit: int) -> tuple[AuditRow, ...]:
    rows = await (await connection.execute(_AUDIT, (limit,))).fetchall()
    return tuple(AuditRow(*row) for row in reversed(rows))


async def purges(connection: Connection) -> list[str]:
    """Deleted traces that are not all removed yet."""
    return [row[0] for row in await (await connection.execute("SELECT trace_id::text FROM purges")).fetchall()]


async def secret(connection: Connection, name: str) -> bytes:
    """See `TraceStore.secret`; it is there."""
    rows = await connection.execute("SELECT value FROM secrets WHERE name = %s", (name,), binary=True)
    found = await rows.fetchall()
    return bytes(found[0][0])


def _blob(row: tuple[Any, ...]) -> BlobRow:
    return BlobRow(row[0], row[1], row[2], row[3], row[4])
