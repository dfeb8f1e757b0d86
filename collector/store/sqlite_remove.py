"""What the SQLite store removes and what it keeps for itself: deletion, garbage, tokens' ends, shared keys."""

from __future__ import annotations

import sqlite3

import orjson

from collector.store.port import BlobRow
from collector.store.sqlite_blobs import let_go
from collector.store.sqlite_lookup import forget_ids
from tracer.errors import NotFoundError

__all__ = ["delete", "purge_slice", "revoke_token", "secret", "take_garbage"]

_PURGE = 2_000


def take_garbage(connection: sqlite3.Connection, *, before_ms: int, limit: int) -> list[BlobRow]:
    """See `TraceStore.take_garbage`."""
    rows = connection.execute(
        "SELECT blob_id, storage_uri, content_type, byte_len, redaction_json, number FROM blobs"
        " WHERE held_by = 0 AND touched_ms < ? ORDER BY touched_ms LIMIT ?",
        (before_ms, limit),
    ).fetchall()
    forget_ids(connection, [(row[0], row[5]) for row in rows])
    connection.executemany("DELETE FROM blobs WHERE number = ?", [(row[5],) for row in rows])
    return [BlobRow(row[0], row[1], row[2], row[3], orjson.loads(row[4])) for row in rows]


def delete(connection: sqlite3.Connection, trace_id: str, at_ms: int) -> bool:
    """Hide the trace and forget what is small; `purge_slice` removes the rest."""
    found = connection.execute("SELECT status FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
    if found is None:
        raise NotFoundError(f"no trace {trace_id!r}", why="no trace has this id")
    if found[0] == "deleted":
        return False
    connection.execute(
        "UPDATE traces SET status = 'deleted', deleted_at_ms = ?, metadata_json = '{}', final_state_json = NULL,"
        " final_blob_id = NULL, clock_skew_ms = NULL, identity = x'' WHERE trace_id = ?",
        (at_ms, trace_id),
    )
    for table in ("qa_facts", "trace_gaps", "blob_aliases"):
        connection.execute(f"DELETE FROM {table} WHERE trace_id = ?", (trace_id,))  # noqa: S608 # our own names
    connection.execute("DELETE FROM tokens WHERE trace_id = ?", (trace_id,))
    connection.execute("INSERT INTO purges (trace_id) VALUES (?)", (trace_id,))
    return True


def purge_slice(connection: sqlite3.Connection, trace_id: str) -> bool:
    """Remove a part of a deleted trace's events and blobs, small enough to hold nobody up; whether more is left."""
    gone = connection.execute(
        "DELETE FROM events WHERE rowid IN (SELECT rowid FROM events WHERE trace_id = ? LIMIT ?)", (trace_id, _PURGE)
    ).rowcount
    if gone == _PURGE:
        return True
    held = connection.execute("SELECT number FROM trace_blobs WHERE trace_id = ? LIMIT ?", (trace_id, _PURGE))
    numbers = [number for (number,) in held]
    connection.executemany(
        "DELETE FROM trace_blobs WHERE trace_id = ? AND number = ?", [(trace_id, number) for number in numbers]
    )
    let_go(connection, numbers)
    if len(numbers) == _PURGE:
        return True
    connection.execute("DELETE FROM purges WHERE trace_id = ?", (trace_id,))
    return False


def revoke_token(connection: sqlite3.Connection, token_id: str, at_ms: int) -> bool:
    """See `TraceStore.revoke_token`."""
    done = connection.execute(
        "UPDATE tokens SET revoked_at_ms = ? WHERE token_id = ? AND revoked_at_ms IS NULL", (at_ms, token_id)
    )
    return done.rowcount == 1


def secret(connection: sqlite3.Connection, name: str, fresh: bytes) -> bytes:
    """See `TraceStore.secret`; `fresh` is kept if there is none."""
    connection.execute("INSERT OR IGNORE INTO secrets (name, value) VALUES (?, ?)", (name, fresh))
    return bytes(connection.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()[0])
