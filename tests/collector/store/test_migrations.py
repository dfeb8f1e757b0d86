"""Databases of every earlier version open, keep their traces, and become the newest; later ones are refused.

`data/` holds a dump of each released version with one trace in it; a new version adds its own dump here.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from collector.store.postgres import schema as postgres_schema
from collector.store.postgres.store import open_postgres
from collector.store.sqlite import schema as sqlite_schema
from collector.store.sqlite.schema import migrate, use_wal
from collector.store.sqlite.store import open_sqlite
from tests.collector.store.samples import blob, event, trace, uid
from tracer.errors import TraceError

_DATA = Path(__file__).with_name("data")
_ROOT = Path(__file__).parents[3]
# Opens the file at argv[1] and dies when it computes the key of blob number argv[2].
_KILLED = """
import os, signal, sqlite3, sys
from collector.store.sqlite import schema
left = int(sys.argv[2])
def key(blob_id, key_of=schema.key_of):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return key_of(blob_id)
schema.key_of = key
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("PRAGMA cache_size = 1")  # what is not committed goes to the disk too
schema.migrate(connection)
"""


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


def _of_version_1(path: Path) -> None:
    """A file as version 1 left it: two traces that share a blob, an alias, a fact, an upload that nobody names."""
    old = sqlite3.connect(path)
    old.executescript((_DATA / "sqlite-1.sql").read_text())
    shared, upload = blob("shared"), blob("upload")
    blobs = [
        (2, shared.blob_id, f"db:{shared.blob_id}", 6, 2, shared.data),
        (3, upload.blob_id, "file:///u", 6, 0, None),
    ]
    old.execute(
        "INSERT INTO traces"
        " SELECT ?, status, 1001, NULL, metadata_json, NULL, 1, 1, 9, 7, NULL, NULL, x'01' FROM traces",
        (uid(2),),
    )
    old.execute(
        "INSERT INTO events"
        " SELECT ?, seq, ts_ms, type, payload_jsonb, event_id, envelope_json, identity FROM events WHERE seq = 1",
        (uid(2),),
    )
    old.executemany(
        """
        INSERT INTO blobs
            (number, blob_id, storage_uri, content_type, byte_len, redaction_json, held_by, touched_ms, data)
            VALUES (?, ?, ?, 'text/plain', ?, '{"applied":true,"rules":["secret_scan"]}', ?, 5, ?)
        """,
        blobs,
    )
    old.executemany("INSERT INTO trace_blobs VALUES (?, 2, NULL, NULL, ?)", [(uid(1), 1), (uid(2), 0)])
    old.execute("INSERT INTO blob_aliases VALUES (?, 'sha256:sent', ?)", (uid(2), shared.blob_id))
    old.execute("INSERT INTO qa_facts VALUES (1, ?, 'schema', 'h', 3, '{\"schema_valid\":true}')", (uid(1),))
    old.commit()
    old.close()


async def test_everything_in_a_sqlite_file_of_version_1_is_there_and_goes_on(tmp_path):
    path = tmp_path / "old.sqlite"
    _of_version_1(path)
    shared, patch, upload = blob("shared"), blob("a patch"), blob("upload")
    async with open_sqlite(path) as store:
        assert [row.blob_id for row in await store.blob_rows(uid(1))] == sorted([patch.blob_id, shared.blob_id])
        assert await store.blob_rows(uid(2)) == ()
        assert (await store.resolve_blobs(uid(2), ["sha256:sent"]))["sha256:sent"].blob_id == shared.blob_id
        assert await store.blob_data(shared.blob_id) == b"shared"
        assert (await store.get_blob_row(upload.blob_id)).storage_uri == "file:///u"
        assert [fact.step for fact in await store.qa_facts(uid(1))] == ["schema"]
        assert (await store.append_events(uid(2), [event(1), event(2)], [shared, patch])).duplicates == 1
        assert [row.blob_id for row in await store.blob_rows(uid(2))] == sorted([patch.blob_id, shared.blob_id])
        assert [row.blob_id for row in await store.take_garbage(before_ms=1 << 60)] == [upload.blob_id]
        await store.delete_trace(uid(1), 9)
        assert await store.take_garbage(before_ms=1 << 60) == ()
        await store.delete_trace(uid(2), 9)
        gone = await store.take_garbage(before_ms=1 << 60)
        assert {row.blob_id for row in gone} == {patch.blob_id, shared.blob_id}
        assert await store.get_blob_row(shared.blob_id) is None


@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_a_kill_in_the_middle_of_a_migration_leaves_version_1_whole(calls, tmp_path):
    path = tmp_path / "old.sqlite"
    _of_version_1(path)
    before = sqlite3.connect(path)
    whole = (_shape(before), list(before.iterdump()))
    before.close()
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED, str(path), str(calls), cwd=_ROOT)
    assert await killed.wait() == -signal.SIGKILL
    after = sqlite3.connect(path)
    assert after.execute("PRAGMA user_version").fetchone() == (1,)
    assert (_shape(after), list(after.iterdump())) == whole
    after.close()
    async with open_sqlite(path) as store:
        assert await store.blob_data(blob("shared").blob_id) == b"shared"


async def test_a_program_of_version_1_that_still_runs_stores_no_blob_that_nobody_finds(tmp_path):
    path = tmp_path / "one.sqlite"
    async with open_sqlite(path) as store:
        await store.create_trace(trace(), ingest_key_hash="h")
    older = sqlite3.connect(path)
    with pytest.raises(sqlite3.OperationalError, match="no column named used"):
        older.execute("INSERT INTO trace_blobs (trace_id, number, used) VALUES (?, 1, 1)", (uid(1),))
    older.close()


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


def test_connections_that_turn_fresh_files_to_wal_at_once_wait_for_each_other(tmp_path):
    at_once = threading.Barrier(4)

    def opened(number: int) -> str:
        connection = sqlite3.connect(tmp_path / f"{number}.sqlite", isolation_level=None)
        try:
            at_once.wait(60)
            use_wal(connection, patience_s=30)
            return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
        finally:
            connection.close()

    with ThreadPoolExecutor(at_once.parties) as threads:
        modes = list(threads.map(opened, [number for number in range(100) for _ in range(at_once.parties)]))
    assert modes == ["wal"] * 100 * at_once.parties


def test_a_file_that_stays_locked_is_told_of_when_patience_ends(tmp_path):
    holding = sqlite3.connect(tmp_path / "one.sqlite", isolation_level=None)
    holding.execute("BEGIN EXCLUSIVE")
    waiting = sqlite3.connect(tmp_path / "one.sqlite", isolation_level=None, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        use_wal(waiting, patience_s=0.05)
    waiting.close()
    holding.close()


async def test_a_store_whose_opening_is_cancelled_leaves_no_thread_behind(tmp_path):
    async def opened() -> None:
        async with open_sqlite(tmp_path / "one.sqlite"):
            await asyncio.sleep(60)

    opening = asyncio.create_task(opened())
    await asyncio.sleep(0)  # the thread has been started, the file may not be open yet
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert [thread.name for thread in threading.enumerate() if thread.name == "collector-writer"] == []


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
