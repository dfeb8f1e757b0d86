"""Blobs are found by their ids whatever has come and gone, and no look-up walks through a table."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.store.sqlite import blobs
from collector.store.sqlite.blobs import BY_ID, LEVELS, MANY, MAY_NAME, add_blobs, find_blob, key_of, let_go, many, spot
from collector.store.sqlite.schema import migrate
from collector.store.sqlite.write import take_garbage
from tests.collector.store.samples import blob, uid
from tracer.blobs import blob_id_of

_ALIKE = "0123456789ab"


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    pours = tuple((size, *rest[1:]) for size, rest in zip((12, 4), blobs._POURS, strict=True))
    monkeypatch.setattr(blobs, "_POURS", pours)


def opened() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    return connection


def named(number: int) -> str:
    """An id; three of four begin with the same 48 bits."""
    digits = blob_id_of(b"%d" % number).removeprefix("sha256:")
    return "sha256:" + (digits if number % 4 == 0 else _ALIKE + digits[12:])


def levels(connection: sqlite3.Connection) -> list[set[int]]:
    return [{row[0] for row in connection.execute(f"SELECT number FROM {level}")} for level in LEVELS]


# A batch that one trace brings, or the end of all that it holds.
steps = st.tuples(st.integers(1, 3), st.lists(st.integers(0, 60), max_size=20) | st.none())


@settings(deadline=None)
@given(st.lists(steps, max_size=25))
def test_every_blob_is_found_and_no_other(taken):
    holders: dict[str, set[int]] = {}
    with closing(opened()) as connection:
        for trace, numbers in taken:
            if numbers is None:
                held = [blob_id for blob_id, who in holders.items() if trace in who]
                let_go(connection, [find_blob(connection, blob_id).number for blob_id in held])
                connection.execute("DELETE FROM trace_blobs WHERE trace_id = ?", (uid(trace),))
                gone = {row.blob_id for row in take_garbage(connection, before_ms=1 << 60, limit=1_000)}
                for blob_id in held:
                    holders[blob_id].discard(trace)
                assert gone == {blob_id for blob_id, who in holders.items() if not who}
                holders = {blob_id: who for blob_id, who in holders.items() if who}
            elif numbers:
                brought = [(uid(trace), blob("x", blob_id=named(number)), 1) for number in numbers]
                add_blobs(connection, brought)
                for number in numbers:
                    holders.setdefault(named(number), set()).add(trace)
        rows = dict(connection.execute("SELECT blob_id, number FROM blobs"))
        assert rows.keys() == holders.keys()
        for number in range(61):
            there = find_blob(connection, named(number))
            assert (there.number if there else None) == rows.get(named(number))
        found = {row[0]: row[1] for row in connection.execute(MANY, (many(map(named, range(61))),))}
        assert found == rows
        where = levels(connection)
        assert sum(map(len, where)) == len(rows)
        assert set.union(*where) == set(rows.values())
        for blob_id, number in rows.items():
            (counted,) = connection.execute(
                "SELECT held_by + ifnull((SELECT more FROM blob_holds AS h WHERE h.number = b.number), 0)"
                " FROM blobs AS b WHERE number = ?",
                (number,),
            ).fetchone()
            assert counted == len(holders[blob_id])


def test_ids_move_on_in_heaps_and_the_smallest_table_stays_small():
    with closing(opened()) as connection:
        for number in range(0, 400, 4):
            add_blobs(connection, [(uid(1), blob("x", blob_id=named(number)), 1)])
            new, recent, all_others = map(len, levels(connection))
            assert (new, recent) < (4, 12)
            assert new + recent + all_others == number // 4 + 1


def test_what_is_no_id_is_not_found():
    with closing(opened()) as connection:
        add_blobs(connection, [(uid(1), blob("x"), 1)])
        for name in ("", "sha256:", "nothing of the kind", "sha256:" + "g" * 64):
            assert find_blob(connection, name) is None
            assert connection.execute(f"SELECT data FROM blobs WHERE {BY_ID}", spot(name)).fetchone() is None


def test_keys_ascend_with_ids_and_fit_into_six_bytes():
    ids = sorted(map(named, range(0, 400, 4)))
    keys = [key_of(each) for each in ("", "sha256:" + "0" * 64, *ids, "sha256:" + "f" * 64)]
    assert keys == sorted(keys)
    assert keys[0] >= -(1 << 47)
    assert keys[-1] < 1 << 47


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (f"SELECT data FROM blobs WHERE {BY_ID}", spot(named(0))),
        (f"SELECT 1 FROM blobs WHERE {BY_ID} AND {MAY_NAME}", (*spot(named(0)), uid(1))),
        (MANY, (many([named(0)]),)),
    ],
)
def test_no_look_up_walks_through_a_table(query, values):
    with closing(opened()) as connection:
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
    walked = [
        step for step in steps if step.startswith("SCAN") and not step.startswith(("SCAN sent", "SCAN json_each"))
    ]
    assert walked == []
