"""What the SQLite store reads: functions of a connection, from rows to the port's values."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

import orjson

from collector.store.port import AuditRow, BlobRow, QaFact, StoredEvent, TokenRow, TraceRow
from collector.store.sqlite.blobs import BY_ID, MAY_NAME, spot

_TRACE = (
    "SELECT trace_id, status, created_at_ms, metadata_json, finalized_at_ms, final_state_json, seq_last, event_count,"
    " byte_count, clock_skew_ms, final_blob_id, deleted_at_ms FROM traces"
)
_BLOB = "SELECT blob_id, storage_uri, content_type, byte_len, redaction_json FROM blobs"
_DATA = "SELECT data FROM blobs"
_HELD = (
    "SELECT b.blob_id, b.storage_uri, coalesce(t.content_type, b.content_type), b.byte_len,"
    " coalesce(t.redaction_json, b.redaction_json) FROM trace_blobs AS t"
    " JOIN blobs AS b ON b.number = t.number WHERE t.trace_id = ? AND t.named = 1"
)
_SORTED = 4
_TOKEN = (
    "SELECT token_id, kind, token_hash, trace_id, label, created_at_ms, revoked_at_ms, role, developer, project,"  # noqa: S105
    " expires_at_ms FROM tokens"
)


def _trace(row: tuple[Any, ...]) -> TraceRow:
    return TraceRow(
        trace_id=row[0],
        status=row[1],
        created_at_ms=row[2],
        metadata=orjson.loads(row[3]),
        finalized_at_ms=row[4],
        final_state=orjson.loads(row[5]) if row[5] is not None else None,
        seq_last=row[6],
        event_count=row[7],
        byte_count=row[8],
        clock_skew_ms=row[9] or 0,
        final_blob_id=row[10],
        deleted_at_ms=row[11],
    )


def trace(connection: sqlite3.Connection, trace_id: str) -> TraceRow | None:
    """One trace."""
    row = connection.execute(f"{_TRACE} WHERE trace_id = ?", (trace_id,)).fetchone()
    return _trace(row) if row is not None else None


def listed(connection: sqlite3.Connection, after: str | None, limit: int, status: str | None) -> tuple[TraceRow, ...]:
    where = ["status = ?"] if status is not None else ["status != 'deleted'"]
    values: list[Any] = [status] if status is not None else []
    if after is not None:
        where.append("(created_at_ms, trace_id) < (SELECT created_at_ms, trace_id FROM traces WHERE trace_id = ?)")
        values.append(after)
    rows = connection.execute(
        f"{_TRACE} WHERE {' AND '.join(where)} ORDER BY created_at_ms DESC, trace_id DESC LIMIT ?", (*values, limit)
    )
    return tuple(_trace(row) for row in rows)


def pending(connection: sqlite3.Connection, limit: int) -> tuple[str, ...]:
    rows = connection.execute(
        "SELECT trace_id FROM traces WHERE status IN ('finalized', 'qa_running')"
        " ORDER BY finalized_at_ms, trace_id LIMIT ?",
        (limit,),
    )
    return tuple(row[0] for row in rows)


def gaps(connection: sqlite3.Connection, trace_id: str, limit: int) -> tuple[tuple[int, int], ...]:
    rows = connection.execute(
        "SELECT from_seq, to_seq FROM trace_gaps WHERE trace_id = ? ORDER BY from_seq LIMIT ?", (trace_id, limit)
    )
    return tuple((row[0], row[1]) for row in rows)


def events(connection: sqlite3.Connection, trace_id: str, after: int, limit: int) -> tuple[StoredEvent, ...]:
    rows = connection.execute(
        "SELECT event_id, seq, ts_ms, type, CAST(envelope_json AS BLOB), CAST(payload_jsonb AS BLOB) FROM events"
        " WHERE trace_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (trace_id, after, limit),
    )
    return tuple(StoredEvent(*row) for row in rows)


def facts(connection: sqlite3.Connection, trace_id: str) -> tuple[QaFact, ...]:
    rows = connection.execute(
        "SELECT step, input_hash, ts_ms, result_json FROM qa_facts WHERE trace_id = ? ORDER BY number", (trace_id,)
    )
    return tuple(QaFact(row[0], row[1], row[2], orjson.loads(row[3])) for row in rows)


def blob_row(connection: sqlite3.Connection, blob_id: str) -> BlobRow | None:
    row = connection.execute(f"{_BLOB} WHERE {BY_ID}", spot(blob_id)).fetchone()
    return _blob(row) if row is not None else None


def blob_data(connection: sqlite3.Connection, blob_id: str) -> bytes | None:
    row = connection.execute(f"{_DATA} WHERE {BY_ID}", spot(blob_id)).fetchone()
    return bytes(row[0]) if row is not None and row[0] is not None else None


def blob_rows(connection: sqlite3.Connection, trace_id: str, after: str, limit: int | None) -> tuple[BlobRow, ...]:
    """See `TraceStore.blob_rows`: sorted once into a temporary table, which the following pages are read from."""
    if limit is None:
        rows = connection.execute(f"{_HELD} AND b.blob_id > ? ORDER BY b.blob_id", (trace_id, after))
        return tuple(_blob(row) for row in rows)
    table = "sorted_" + "".join(sign for sign in trace_id if sign.isascii() and sign.isalnum())
    names = [row[0] for row in connection.execute("SELECT name FROM temp.sqlite_schema WHERE type = 'table'")]
    if not after or table not in names:
        for old in (table, *names[: max(0, len(names) - _SORTED)]):
            connection.execute(f"DROP TABLE IF EXISTS temp.{old}")
        connection.execute(f"CREATE TEMP TABLE {table} (id TEXT PRIMARY KEY, a, b, c, d) WITHOUT ROWID")
        connection.execute(f"INSERT INTO temp.{table} {_HELD} ORDER BY b.blob_id", (trace_id,))
    found = connection.execute(f"SELECT * FROM temp.{table} WHERE id > ? ORDER BY id LIMIT ?", (after, limit))  # noqa: S608
    page = tuple(_blob(row) for row in found)
    if len(page) < limit:
        connection.execute(f"DROP TABLE temp.{table}")
    return page


def resolved(connection: sqlite3.Connection, trace_id: str, submitted: Collection[str]) -> dict[str, BlobRow]:
    found: dict[str, BlobRow] = {}
    for name in submitted:
        alias = connection.execute(
            "SELECT blob_id FROM blob_aliases WHERE trace_id = ? AND submitted_id = ?", (trace_id, name)
        ).fetchone()
        found_by = spot(alias[0] if alias else name)
        row = connection.execute(f"{_BLOB} WHERE {BY_ID} AND {MAY_NAME}", (*found_by, trace_id)).fetchone()
        if row is not None:
            found[name] = _blob(row)
    return found


def token(connection: sqlite3.Connection, token_hash: str) -> TokenRow | None:
    row = connection.execute(f"{_TOKEN} WHERE token_hash = ?", (token_hash,)).fetchone()
    return TokenRow(*row) if row is not None else None


def tokens(connection: sqlite3.Connection) -> tuple[TokenRow, ...]:
    return tuple(TokenRow(*row) for row in connection.execute(f"{_TOKEN} ORDER BY created_at_ms, token_id"))


def audit(connection: sqlite3.Connection, limit: int) -> tuple[AuditRow, ...]:
    newest = "SELECT at_ms, token_id, role, action, subject FROM audit ORDER BY number DESC LIMIT ?"
    return tuple(AuditRow(*row) for row in reversed(connection.execute(newest, (limit,)).fetchall()))


def purges(connection: sqlite3.Connection) -> list[str]:
    """Deleted traces that are not all removed yet."""
    return [row[0] for row in connection.execute("SELECT trace_id FROM purges")]


def _blob(row: tuple[Any, ...]) -> BlobRow:
    return BlobRow(row[0], row[1], row[2], row[3], orjson.loads(row[4]))
