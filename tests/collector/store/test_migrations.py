"""Databases of every earlier version open, keep their traces, and become the newest; later ones are refused.

`data/` holds a dump of each released version with one trace in it; a new version adds its own dump here.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import psycopg
import pytest

from collector.store import postgres_schema, sqlite_schema
from collector.store.postgres import open_postgres
from collector.store.sqlite import open_sqlite
from collector.store.sqlite_schema import migrate
from tests.collector.store.samples import blob, event, trace, uid
from tracer.errors import TraceError

_DATA = Path(__file__).with_name("data")


def _shape(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    return [(name, " ".join(sql.split())) for name, sql in rows]


@pytest.mark.parametrize("version", range(1, len(sqlite_schema.MIGRATIONS) + 1))
async def test_each_earlier_sqlite_file_opens_with_what_is_in_it(version, tmp_path):
    path = tmp_path / "old.sqlite"
    old = sqlite3.connect(path)
    old.executescript((_DATA / f"sqlite-{version}.sql").read_text())
    old.close()
    async with open_sqlite(path) as store:
        assert (await store.get_trace(uid(1))).seq_last == 2
        assert [each.body for each in await store.read_events(uid(1))] == [event(1).body, event(2).body]
        assert await store.blob_data(blob("a patch").blob_id) == b"a patch"
        assert (await store.append_events(uid(1), [event(2), event(3)])).accepted == 1
    fresh, now = sqlite3.connect(":memory:", isolation_level=None), sqlite3.connect(path)
    migrate(fresh)
    assert _shape(now) == _shape(fresh)
    assert now.execute("PRAGMA user_version").fetchone() == (len(sqlite_schema.MIGRATIONS),)
    fresh.close()
    now.close()


async def test_a_sqlite_file_of_a_later_version_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "later.sqlite"
    later = sqlite3.connect(path)
    later.execute(f"PRAGMA user_version = {len(sqlite_schema.MIGRATIONS) + 1}")
    later.commit()
    later.close()
    with pytest.raises(TraceError, match="version") as caught:
        async with open_sqlite(path):
            pass
    assert "newer program" in caught.value.next_step
    again = sqlite3.connect(path)
    assert again.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    again.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(TraceError, match="cannot open"):
        async with open_sqlite(path):
            pass


def test_a_migration_that_fails_leaves_the_old_version_whole(monkeypatch):
    monkeypatch.setattr(sqlite_schema, "MIGRATIONS", (*sqlite_schema.MIGRATIONS, ("CREATE TABLE x (a)", "NONSENSE")))
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection)
    assert _shape(connection) == []
    connection.close()


async def test_two_stores_may_open_a_fresh_file_at_once(tmp_path):
    async def opened(number: int) -> None:
        async with open_sqlite(tmp_path / "one.sqlite") as store:
            await store.create_trace(trace(number), ingest_key_hash=f"h{number}")
            for seq in range(1, 6):
                await store.append_events(uid(number), [event(seq)], [blob("shared")])

    await asyncio.gather(*(opened(number) for number in range(1, 5)))
    async with open_sqlite(tmp_path / "one.sqlite") as store:
        assert [row.event_count for row in await store.list_traces()] == [5] * 4


@pytest.mark.parametrize("version", range(1, len(postgres_schema.MIGRATIONS) + 1))
async def test_each_earlier_postgres_database_opens_with_what_is_in_it(version, postgres_dsn):
    async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as old:
        await old.execute((_DATA / f"postgres-{version}.sql").read_text())
    async with open_postgres(postgres_dsn) as store:
        assert (await store.get_trace(uid(1))).seq_last == 2
        assert [each.body for each in await store.read_events(uid(1))] == [event(1).body, event(2).body]
        assert await store.blob_data(blob("a patch").blob_id) == b"a patch"
        assert (await store.append_events(uid(1), [event(2), event(3)])).accepted == 1


async def test_a_postgres_database_of_a_later_version_is_refused(postgres_dsn):
    async with open_postgres(postgres_dsn):
        pass
    async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as connection:
        await connection.execute("INSERT INTO pm_collector.schema_version (version) VALUES (99)")
    with pytest.raises(TraceError, match="version 99"):
        async with open_postgres(postgres_dsn):
            pass


async def test_many_servers_may_start_on_a_fresh_postgres_database_at_once(postgres_dsn):
    async def opened(number: int) -> None:
        async with open_postgres(postgres_dsn, pool_size=2) as store:
            await store.create_trace(trace(number), ingest_key_hash=f"h{number}")

    await asyncio.gather(*(opened(number) for number in range(1, 5)))
    async with open_postgres(postgres_dsn) as store:
        assert len(await store.list_traces()) == 4
