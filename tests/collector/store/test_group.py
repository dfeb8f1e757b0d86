"""Group commit under trouble: full disk, too much waiting, callers that went away, a piece of work at fault."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time

import pytest

from collector.errors import OverloadedError
from collector.store.sqlite import group as group_module
from collector.store.sqlite import store as sqlite_module
from collector.store.sqlite.blobs import by_rows, insert_rows
from collector.store.sqlite.group import GroupWriter
from collector.store.sqlite.store import open_sqlite
from tests.collector.store.samples import blob, event, trace, uid
from tracer.errors import RecordError, TraceError, UnavailableError, UsageError

T = uid(1)


@pytest.fixture
async def writer(tmp_path):
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(tmp_path / "x.sqlite", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS t (a UNIQUE)")
        return connection

    made = GroupWriter(connect)
    await made.start()
    yield made
    await made.close()


def put(value):
    return lambda connection: connection.execute("INSERT INTO t VALUES (?)", (value,)).lastrowid


def count(connection):
    return connection.execute("SELECT count(*) FROM t").fetchone()[0]


async def test_what_waits_shares_a_transaction(writer):
    started, go = threading.Event(), threading.Event()

    def hold(_connection):
        started.set()
        go.wait(10)

    first = asyncio.create_task(writer.write(hold))
    await asyncio.to_thread(started.wait)
    changes = [asyncio.create_task(writer.write(lambda c: c.total_changes)) for _each in range(2)]
    others = [asyncio.create_task(writer.write(put(number))) for number in range(50)]
    await asyncio.sleep(0.05)
    go.set()
    await asyncio.gather(first, *changes, *others)
    assert await writer.write(count) == 50


async def test_work_at_fault_fails_alone(writer):
    await writer.write(put("taken"))

    def refuse(_connection):
        raise UsageError("no")

    results = await asyncio.gather(
        *(writer.write(work) for work in (put(1), put("taken"), refuse, put(2))), return_exceptions=True
    )
    assert isinstance(results[1], RecordError)
    assert isinstance(results[2], UsageError)
    assert await writer.write(count) == 3


async def test_rows_of_which_one_is_refused_leave_nothing_and_hinder_no_other(writer):
    statements = by_rows("t (a)", "(?)")

    def rows(*values):
        return lambda connection: insert_rows(connection, statements, [(value,) for value in values])

    results = await asyncio.gather(
        writer.write(rows(*range(10))),
        writer.write(rows(*range(10, 80), 10, *range(80, 90))),
        writer.write(rows(*range(100, 110))),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), RecordError, type(None)]
    assert await writer.write(count) == 20


async def test_a_caller_that_went_away_leaves_its_work_done_and_the_others_alone(writer):
    started, go = threading.Event(), threading.Event()

    def hold(_connection):
        started.set()
        go.wait(10)

    first = asyncio.create_task(writer.write(hold))
    await asyncio.to_thread(started.wait)
    gone, stays = asyncio.create_task(writer.write(put(1))), asyncio.create_task(writer.write(put(2)))
    await asyncio.sleep(0)
    gone.cancel()
    go.set()
    await asyncio.gather(first, stays)
    assert await writer.write(count) == 2


async def test_too_much_waiting_is_refused(writer, monkeypatch):
    monkeypatch.setattr(group_module, "_WAITING_BYTES", 1_000)
    started, go = threading.Event(), threading.Event()

    def hold(_connection):
        started.set()
        go.wait(10)

    first = asyncio.create_task(writer.write(hold, size=600))
    await asyncio.to_thread(started.wait)
    with pytest.raises(OverloadedError, match="waiting") as caught:
        await writer.write(put(1), size=600)
    assert caught.value.retry_after_s >= 1
    go.set()
    await first
    assert await writer.write(count) == 0


async def test_a_closed_writer_takes_nothing(writer):
    await writer.close()
    with pytest.raises(UnavailableError):
        await writer.write(put(1))


async def test_what_came_just_before_closing_is_written(writer, monkeypatch):
    idle, go = threading.Event(), threading.Event()
    take = writer._take

    def take_and_stay():
        jobs = take()
        if not jobs:  # nothing waits any more: now something comes, and closing
            idle.set()
            go.wait(10)
        return jobs

    monkeypatch.setattr(writer, "_take", take_and_stay)
    await writer.write(put(1))
    await asyncio.to_thread(idle.wait, 10)
    last = asyncio.create_task(writer.write(put(2)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(writer.close())
    await asyncio.sleep(0)
    go.set()
    await closing
    assert await asyncio.wait_for(last, 5) == 2


async def test_while_another_process_writes_a_group_waits_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_module, "_BUSY_S", 0.2)
    async with open_sqlite(tmp_path / "c.sqlite") as store:
        for number in range(1, 41):
            await store.create_trace(trace(number), ingest_key_hash=f"h{number}")
        other = sqlite3.connect(tmp_path / "c.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        appends = [store.append_events(uid(number), [event(1)]) for number in range(1, 41)]
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert time.monotonic() - begun < 4  # each by itself: 8 s
        assert {type(result) for result in results} == {OverloadedError}
        other.execute("ROLLBACK")
        other.close()
        assert (await store.append_events(T, [event(1)])).accepted == 1


async def test_every_way_of_being_busy_is_told_as_busy(writer):
    def recovering(_connection):
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY_RECOVERY
        raise error

    with pytest.raises(OverloadedError, match="another process"):
        await writer.write(recovering)


async def test_damaged_text_fails_whoever_reads_it_and_no_other(writer):
    def read(connection):
        return connection.execute("SELECT CAST(x'ff' AS TEXT)").fetchone()

    with pytest.raises(RecordError):
        await asyncio.wait_for(writer.write(read), 5)
    await asyncio.wait_for(writer.write(put(1)), 5)


async def test_whatever_opening_raises_is_told():
    def connect() -> sqlite3.Connection:
        raise ValueError("embedded null byte")

    broken = GroupWriter(connect)
    with pytest.raises(ValueError, match="null byte"):
        await asyncio.wait_for(broken.start(), 5)
    await broken.close()


async def test_a_read_while_the_store_closes_is_told_so(tmp_path):
    async with open_sqlite(tmp_path / "c.sqlite") as store:
        started, go = threading.Event(), threading.Event()

        def hold(_connection):
            started.set()
            go.wait(10)

        under_way = asyncio.create_task(store._long(hold))
        await asyncio.to_thread(started.wait, 10)
        closing = asyncio.create_task(store.close())
        while not store._scanner._shutdown:
            await asyncio.sleep(0.001)
        with pytest.raises(TraceError, match="closed"):
            await store.list_traces()
        go.set()
        await asyncio.gather(under_way, closing)


async def test_a_full_disk_is_told_and_stores_nothing_of_the_batch(tmp_path):
    async with open_sqlite(tmp_path / "c.sqlite") as store:
        await store.create_trace(trace(), ingest_key_hash="h")
        await store.append_events(T, [event(1)])
        pages = await store._writer.write(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
        await store._writer.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 4}").fetchone())
        with pytest.raises(RecordError, match="could not store") as caught:
            await store.append_events(T, [event(2)], [blob("x" * 60_000)])
        assert "free space" in caught.value.next_step
        await store._writer.write(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchone())
        assert (await store.get_trace(T)).seq_last == 1
        assert (await store.append_events(T, [event(2)], [blob("x" * 60_000)])).accepted == 1


@pytest.mark.parametrize("name", ["c.sqlite", "folder/c.sqlite"])
async def test_a_folder_that_cannot_be_written_is_told(name, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot open") as caught:
        async with open_sqlite(tmp_path / "file" / name):
            pass
    assert caught.value.why == "Not a directory"
    assert "collector.database" in caught.value.next_step


async def test_the_database_is_the_owners_alone(tmp_path):
    async with open_sqlite(tmp_path / "state" / "c.sqlite") as store:
        await store.create_trace(trace(), ingest_key_hash="h")
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
    assert set(modes.values()) == {0o600}
    assert "c.sqlite-wal" in modes


async def test_what_was_deleted_is_not_in_the_file_any_more(tmp_path):
    secret = b"a secret plan that nobody may find"
    async with open_sqlite(tmp_path / "c.sqlite") as store:
        await store.create_trace(trace(), ingest_key_hash="h")
        await store.append_events(T, [event(1)], [blob(secret.decode() * 100)])
        await store.delete_trace(T, 5)
        await store.take_garbage(before_ms=1 << 60)
    assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())
