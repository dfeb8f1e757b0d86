"""What the SQLite store writes: functions of a connection inside a transaction of `GroupWriter`.

Each looks first and raises its `PmError` before it has written anything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

import orjson

from collector.store.plan import blob_is_gone, check_open
from collector.store.port import BlobRow, NewBlob, QaFact, TokenRow, TraceRow
from collector.store.sqlite_blobs import StoredBlob, add_blobs, check_references, find_blob, hold, let_go, own
from collector.store.sqlite_lookup import add_ids
from tracer.errors import ConflictError, NotFoundError

__all__ = [
    "add_token",
    "create",
    "finalize",
    "put_blob",
    "put_fact",
    "set_final",
    "set_status",
]


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
    if bundle is not None:
        stored = find_blob(connection, bundle)
        if stored is not None:
            connection.execute(
                "UPDATE trace_blobs SET named = 1 WHERE trace_id = ? AND number = ?", (trace_id, stored.number)
            )
    unnamed = connection.execute("SELECT number FROM trace_blobs WHERE trace_id = ? AND named = 0", (trace_id,))
    let_go(connection, [number for (number,) in unnamed])
    connection.execute("DELETE FROM trace_blobs WHERE trace_id = ? AND named = 0", (trace_id,))
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
        if find_blob(connection, blob_id) is None:
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
    """See `TraceStore.add_token`."""
    connection.execute(
        "INSERT INTO tokens (kind, token_hash, trace_id, label, created_at_ms, revoked_at_ms, token_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*token[1:], token[0]),
    )


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode("utf-8")
