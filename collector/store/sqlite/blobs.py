"""Blob rows in SQLite: stored, owned by traces, and found by id.

Ids are random, so one index would touch a page per new id. They stand in three tables: new ones go to the smallest,
and each time the blobs' numbers pass a multiple of its size its rows are poured into the next one in order.
Functions take a connection inside a transaction of `GroupWriter`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import orjson

from collector.store.plan import blob_is_gone, json_text
from collector.store.port import NewBlob

_SIZES: Final = (64, 16, 4, 1)  # few texts, so that each is prepared once and kept; 100 rows are four statements


def by_rows(into: str, row: str, end: str = "") -> dict[int, str]:
    """Statements that insert so many rows of the values `row` at once, the most first; `end` follows them.

    OR FAIL: a statement that could be undone by itself has SQLite copy each page it changes into a temporary file,
    which took a sixth of an append. Here whatever fails has the whole transaction undone (`GroupWriter`).
    """
    return {
        size: f"INSERT OR FAIL INTO {into} VALUES {', '.join([row] * size)} {end}"  # noqa: S608 # our own names
        for size in _SIZES
    }


def insert_rows(connection: sqlite3.Connection, statements: Mapping[int, str], rows: Sequence[Sequence[Any]]) -> None:
    """Insert `rows`, in order, by the statements that `by_rows` made."""
    at = 0
    for size, statement in statements.items():
        while len(rows) - at >= size:
            connection.execute(statement, tuple(chain.from_iterable(rows[at : at + size])))
            at += size


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


_BLOBS: Final = by_rows(
    "blobs (number, blob_id, storage_uri, content_type, byte_len, redaction_json, held_by, touched_ms, data)",
    "(?, ?, ?, ?, ?, ?, 1, ?, ?)",
)
_CONTENTS: Final = (
    "SELECT number, data FROM blobs WHERE number IN (SELECT value FROM json_each(?)) AND storage_uri = 'db:' || blob_id"
)
_BLOB: Final = "SELECT number, content_type, redaction_json, held_by > 0 FROM blobs"
_HELD: Final = by_rows("trace_blobs (trace_id, number, named)", "(?, ?, 1)")
_OWNED: Final = by_rows("trace_blobs (trace_id, number, content_type, redaction_json, named)", "(?, ?, ?, ?, 1)")
_OWNERS: Final = (
    "SELECT t.trace_id, t.number, t.named FROM json_each(?) AS sent CROSS JOIN trace_blobs AS t"
    " ON t.trace_id = json_extract(sent.value, '$[0]') AND t.number = json_extract(sent.value, '$[1]')"
)
_OWNERS_FOR_ONE: Final = (
    "SELECT trace_id, number, named FROM trace_blobs WHERE trace_id = ? AND number IN (SELECT value FROM json_each(?))"
)
USED: Final = "UPDATE trace_blobs SET named = 1 WHERE trace_id = ? AND number = ? AND named = 0"
# The first trace is counted in the blob's row, the others here: a page takes hundreds of them, but two blobs.
_MORE: Final = by_rows(
    "blob_holds (number, more)", "(?, ?)", "ON CONFLICT (number) DO UPDATE SET more = more + excluded.more"
)
_FIRST: Final = "UPDATE blobs SET held_by = held_by + 1 WHERE number = ?"
_LET_GO: Final = (
    """
    UPDATE blobs SET held_by = held_by - 1 WHERE number IN (SELECT value FROM json_each(?))
        AND number NOT IN (SELECT number FROM blob_holds)
    """,
    "UPDATE blob_holds SET more = more - 1 WHERE number IN (SELECT value FROM json_each(?))",
    "DELETE FROM blob_holds WHERE number IN (SELECT value FROM json_each(?)) AND more = 0",
)


_Known = tuple[int, str, str, int]
"""A `StoredBlob`; a name for each field takes time where there are many."""


class StoredBlob(NamedTuple):
    """A blob that is there; `held` by a trace, or by none."""

    number: int
    content_type: str
    redaction: str
    held: int


def add_blobs(connection: sqlite3.Connection, brought: Sequence[tuple[str, NewBlob, int]]) -> None:
    """Store blobs that come with facts of traces, as held and used by them: (trace, blob, time in ms), in order."""
    if len(brought) == 1:
        there = find_blob(connection, brought[0][1].blob_id)
        stored: dict[str, _Known] = {} if there is None else {brought[0][1].blob_id: there}
    else:
        asked = many([blob.blob_id for _trace_id, blob, _now_ms in brought])
        stored = {row[0]: row[1:] for row in connection.execute(MANY, (asked,))}
    number = 0
    rows: list[tuple[Any, ...]] = []
    held: list[tuple[str, int]] = []
    again: list[tuple[str, _Known, str, str]] = []
    sent: list[tuple[int, NewBlob]] = []
    same: dict[str, Any] | None = None  # most blobs of a batch share what they went through
    redaction = ""
    for trace_id, blob, now_ms in brought:
        if blob.redaction is not same:
            same, redaction = blob.redaction, json_text(blob.redaction)
        blob_id, content_type, length, _redaction, data, uri = blob
        known = stored.get(blob_id)
        if known is not None:
            again.append((trace_id, known, content_type, redaction))
            sent.append((known[0], blob))
            continue
        number = (number or connection.execute("SELECT ifnull(max(number), 0) FROM blobs").fetchone()[0]) + 1
        stored[blob_id] = (number, content_type, redaction, 1)
        kept = None
        if data is not None:
            uri, kept = f"db:{blob_id}", bytearray(data)  # as in the rows of events: no adapter is looked for
        rows.append((number, blob_id, uri, content_type, length, redaction, now_ms, kept))
        held.append((trace_id, number))
    if rows:
        insert_rows(connection, _BLOBS, rows)
        add_ids(connection, [(row[1], row[0]) for row in rows])
        insert_rows(connection, _HELD, held)
    if again:
        _own_all(connection, again)
        heal(connection, sent)


def heal(connection: sqlite3.Connection, blobs: Iterable[tuple[int, NewBlob]]) -> None:
    """Put those right, by their numbers, that lie here with other bytes than were sent now.

    Nearly always none does: read in one statement, one of 2 kB takes 1.5 us, with an UPDATE that finds nothing 2.5 us.
    """
    sent = {number: blob for number, blob in blobs if blob.data is not None}
    found = connection.execute(_CONTENTS, (orjson.dumps([*sent]).decode("ascii"),)) if sent else ()
    wrong = [(sent[number].data, number) for number, data in found if data != sent[number].data]
    connection.executemany("UPDATE blobs SET data = ? WHERE number = ?", wrong)


def _own_all(connection: sqlite3.Connection, blobs: Sequence[tuple[str, _Known, str, str]]) -> None:
    """As `own` for many (trace, blob, content type, redaction), as used."""
    owned = _owned(connection, [(trace_id, blob[0]) for trace_id, blob, _content_type, _redaction in blobs])
    alike: list[tuple[str, int]] = []
    unlike: list[tuple[str, int, str | None, str | None]] = []
    more: dict[int, int] = {}
    unheld: set[int] = set()
    for trace_id, (number, its_type, its_redaction, held), content_type, redaction in blobs:
        pair = (trace_id, number)
        used = owned.get(pair)
        if used is None:
            own_type = None if content_type == its_type else content_type
            own_redaction = None if redaction == its_redaction else redaction
            if own_type is own_redaction is None:
                alike.append(pair)
            else:
                unlike.append((*pair, own_type, own_redaction))
            if held or number in unheld:
                more[number] = more.get(number, 0) + 1
            else:
                unheld.add(number)
        elif not used:
            connection.execute(USED, pair)
        owned[pair] = 1
    insert_rows(connection, _HELD, alike)
    insert_rows(connection, _OWNED, unlike)
    _count(connection, more, unheld)


def _owned(connection: sqlite3.Connection, pairs: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Which of the pairs of a trace and a blob's number are there, and whether the trace names the blob."""
    traces = {trace_id for trace_id, _number in pairs}
    if len(traces) == 1:
        numbers = orjson.dumps([number for _trace_id, number in pairs]).decode("ascii")
        found = connection.execute(_OWNERS_FOR_ONE, (*traces, numbers))
    else:
        found = connection.execute(_OWNERS, (orjson.dumps(pairs).decode("ascii"),))
    return {(trace_id, number): named for trace_id, number, named in found}


def _count(connection: sqlite3.Connection, more: Mapping[int, int], unheld: Collection[int]) -> None:
    """Count how many traces more hold each blob, and one for each of those that none held."""
    insert_rows(connection, _MORE, tuple(more.items()))
    for number in unheld:
        connection.execute(_FIRST, (number,))


def let_go(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Count for each of the blobs that one trace less holds it."""
    listed = orjson.dumps(numbers).decode("ascii")
    for statement in _LET_GO:
        connection.execute(statement, (listed,))


def check_references(connection: sqlite3.Connection, trace_id: str, references: Collection[str]) -> None:
    """Refuse a blob that the trace may not name."""
    for blob_id in references:
        row = connection.execute(f"{_BLOB} WHERE {BY_ID} AND {MAY_NAME}", (*spot(blob_id), trace_id)).fetchone()
        if row is None:
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
        connection.execute("UPDATE blobs SET touched_ms = max(touched_ms, ?) WHERE number = ?", (now_ms, stored.number))


def find_blob(connection: sqlite3.Connection, blob_id: str) -> StoredBlob | None:
    """What is known of a blob that is there."""
    row = connection.execute(f"{_BLOB} WHERE {BY_ID}", spot(blob_id)).fetchone()
    return StoredBlob(*row) if row is not None else None


def own(
    connection: sqlite3.Connection, trace_id: str, blob: StoredBlob, content_type: str, redaction: str, *, used: bool
) -> None:
    """Make a stored blob the trace's, unless it is already."""
    added = connection.execute(
        "INSERT OR IGNORE INTO trace_blobs (trace_id, number, content_type, redaction_json, named)"
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
        _count(connection, {blob.number: 1} if blob.held else {}, () if blob.held else (blob.number,))
    elif used:
        connection.execute(USED, (trace_id, blob.number))
