"""Blobs in SQLite and whose they are: functions of a connection inside a transaction of `GroupWriter`."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import orjson

from collector.store.plan import blob_is_gone
from collector.store.port import NewBlob
from collector.store.sqlite_rows import by_rows, insert_rows

__all__ = ["StoredBlob", "add_blobs", "check_references", "find_blob", "hold", "own"]

_BLOBS: Final = by_rows(
    "INSERT INTO blobs"
    " (number, blob_id, storage_uri, content_type, byte_len, redaction_json, held_by, touched_ms, data)",
    "(?, ?, ?, ?, ?, ?, 1, ?, ?)",
)
_HELD: Final = by_rows("INSERT INTO trace_blobs (trace_id, number, used)", "(?, ?, 1)")
# CROSS JOIN keeps the order: few ids are looked up, not all blobs walked through.
_STORED: Final = (
    "SELECT b.blob_id, b.number, b.content_type, b.redaction_json FROM json_each(?) AS sent"
    " CROSS JOIN blobs AS b INDEXED BY blobs_by_id ON b.blob_id = sent.value"
)


class StoredBlob(NamedTuple):
    """A blob that is there."""

    number: int
    content_type: str
    redaction: str


def add_blobs(connection: sqlite3.Connection, brought: Sequence[tuple[str, NewBlob, int]]) -> None:
    """Store blobs that come with facts of traces, as held and used by them: (trace, blob, time in ms), in order."""
    if len(brought) == 1:
        there = find_blob(connection, brought[0][1].blob_id)
        stored = {} if there is None else {brought[0][1].blob_id: there}
    else:
        ids = orjson.dumps([blob.blob_id for _trace_id, blob, _now_ms in brought]).decode("ascii")
        stored = {row[0]: StoredBlob(*row[1:]) for row in connection.execute(_STORED, (ids,))}
    (last,) = connection.execute("SELECT max(number) FROM blobs").fetchone()
    number = last or 0
    rows: list[tuple[Any, ...]] = []
    held: list[tuple[str, int]] = []
    again: list[tuple[str, StoredBlob, NewBlob, str]] = []
    same: dict[str, Any] | None = None  # most blobs of a batch share what they went through
    redaction = ""
    for trace_id, blob, now_ms in brought:
        if blob.redaction is not same:
            same, redaction = blob.redaction, _json(blob.redaction)
        there = stored.get(blob.blob_id)
        if there is not None:
            again.append((trace_id, there, blob, redaction))
            continue
        number += 1
        stored[blob.blob_id] = StoredBlob(number, blob.content_type, redaction)
        uri, data = blob.storage_uri, None
        if blob.data is not None:
            uri, data = f"db:{blob.blob_id}", bytearray(blob.data)  # as in the rows of events: no adapter is looked for
        rows.append((number, blob.blob_id, uri, blob.content_type, blob.byte_len, redaction, now_ms, data))
        held.append((trace_id, number))
    insert_rows(connection, _BLOBS, rows)
    insert_rows(connection, _HELD, held)
    for trace_id, there, blob, redaction in again:
        own(connection, trace_id, there, blob.content_type, redaction, used=True)


def _json(value: dict[str, Any]) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode("utf-8")


def check_references(connection: sqlite3.Connection, trace_id: str, references: Collection[str]) -> None:
    """Refuse a blob that the trace may not name.

    Raises:
        IntakeError: rule `unknown_blob`.

    """
    for blob_id in references:
        its_own = connection.execute(
            "SELECT 1 FROM blobs AS b WHERE b.blob_id = ? AND (b.shared = 1 OR EXISTS"
            " (SELECT 1 FROM trace_blobs AS t WHERE t.trace_id = ? AND t.number = b.number))",
            (blob_id, trace_id),
        ).fetchone()
        if its_own is None:
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
        stored = find_blob(connection, blob_id)
        if stored is None:
            if needed:
                raise blob_is_gone(blob_id)
            continue
        own(connection, trace_id, stored, stored.content_type, stored.redaction, used=used)
        connection.execute("UPDATE blobs SET touched_ms = max(touched_ms, ?) WHERE blob_id = ?", (now_ms, blob_id))


def find_blob(connection: sqlite3.Connection, blob_id: str) -> StoredBlob | None:
    """What is known of a blob that is there."""
    row = connection.execute(
        "SELECT number, content_type, redaction_json FROM blobs WHERE blob_id = ?", (blob_id,)
    ).fetchone()
    return StoredBlob(*row) if row is not None else None


def own(
    connection: sqlite3.Connection, trace_id: str, blob: StoredBlob, content_type: str, redaction: str, *, used: bool
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
