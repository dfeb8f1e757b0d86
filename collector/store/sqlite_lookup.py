"""Where a blob's row is, by the blob's id: kept so that ids, which are random, do not scatter over the disk.

In one index each new id would touch a page of its own: a hundred pages written for a batch of a hundred blobs. So they
stand in three tables. New ones go to the smallest; each time the blobs' numbers pass a multiple of its size, what it
holds is poured into the next one in order, many to a page. An id is in one table, under the first 48 bits of its hash;
whose they are, the blob's row says. All is written in the transaction that writes the row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from collector.store.sqlite_rows import by_rows, insert_rows

__all__ = ["BY_ID", "LEVELS", "MANY", "MAY_NAME", "add_ids", "forget_ids", "key_of", "many", "spot"]

LEVELS: Final = ("blob_ids_new", "blob_ids_recent", "blob_ids")
"""The tables, the smallest first; the view `blob_numbers` shows all of them."""
BY_ID: Final = "number IN (SELECT number FROM blob_numbers WHERE key = ?) AND blob_id = ?"
"""The condition that finds one blob; its values are a `spot`."""
MAY_NAME: Final = (
    "(shared = 1 OR EXISTS (SELECT 1 FROM trace_blobs AS t WHERE t.trace_id = ? AND t.number = blobs.number))"
)
"""The further condition that a trace may name the blob; its value is the trace's id."""
MANY: Final = " UNION ALL ".join(
    # CROSS JOIN keeps the order: few ids are looked up, not all blobs walked through.
    "SELECT b.blob_id, b.number, b.content_type, b.redaction_json, b.held_by > 0 FROM json_each(?1) AS sent"  # noqa: S608 # our own names
    f" CROSS JOIN {level} AS n ON n.key = sent.value CROSS JOIN blobs AS b ON b.number = n.number"
    for level in LEVELS
)
"""Finds those of many blobs that are there; its value is `many`. May find others too, whose hashes begin alike."""

# A batch writes the first table's few pages; the second's 200 once in 2,000 blobs, the third's once in 32,000.
_POURS: Final = ((32_000, LEVELS[1], LEVELS[2]), (2_000, LEVELS[0], LEVELS[1]))
_ADD: Final = by_rows(f"{LEVELS[0]} (key, number)", "(?, ?)")
_DIGITS: Final = slice(7, 19)
_HALF: Final = 1 << 47


def key_of(blob_id: str) -> int:
    """What a blob is found by: the first 48 bits of its hash, signed to take six bytes; ascends with the id."""
    try:
        return int(blob_id[_DIGITS], 16) - _HALF
    except ValueError:  # no id; nothing has it
        return -_HALF


def spot(blob_id: str) -> tuple[int, str]:
    """The values that `BY_ID` asks for."""
    return key_of(blob_id), blob_id


def many(blob_ids: Iterable[str]) -> str:
    """The value that `MANY` asks for."""
    return orjson.dumps([key_of(blob_id) for blob_id in blob_ids]).decode("ascii")


def add_ids(connection: sqlite3.Connection, rows: Sequence[tuple[str, int]]) -> None:
    """Note the ids and numbers of new rows, the numbers ascending."""
    insert_rows(connection, _ADD, [(key_of(blob_id), number) for blob_id, number in rows])
    first, last = rows[0][1], rows[-1][1]
    for size, source, target in _POURS:
        if (first - 1) // size != last // size:
            connection.execute(f"INSERT OR FAIL INTO {target} SELECT key, number FROM {source}")  # noqa: S608 # our own names
            connection.execute(f"DELETE FROM {source}")  # noqa: S608


def forget_ids(connection: sqlite3.Connection, rows: Sequence[tuple[str, int]]) -> None:
    """Forget the ids and numbers of rows that go."""
    entries = [(key_of(blob_id), number) for blob_id, number in rows]
    for level in LEVELS:
        connection.executemany(f"DELETE FROM {level} WHERE key = ? AND number = ?", entries)  # noqa: S608
