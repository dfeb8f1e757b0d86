"""A database that can be read and not written: what is told to who only reads, and to who writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg
import pytest

from collector.store.postgres.store import open_postgres
from collector.tokens import ADMIN
from tests.collector.final.collecting import a_collector
from tests.collector.store.samples import event, trace, uid
from tracer.errors import RecordError

T = uid(1)


async def until_refused(act: Callable[[int], Awaitable[object]]) -> RecordError:
    """What is told once the last page, which may have room for a few rows, is full."""
    for number in range(1, 500):
        try:
            await act(number)
        except RecordError as error:
            return error
    raise AssertionError


async def test_a_read_on_a_full_disk_says_that_it_could_not_be_noted_and_nothing_of_what_was_sent(
    tmp_path: Path,
) -> None:
    async with a_collector(tmp_path) as collector:
        await collector.store.create_trace(trace(), ingest_key_hash="h")
        # The least that can be said: as many pages as it has.
        await collector.store._writer.write(lambda c: c.execute("PRAGMA max_page_count = 1").fetchone())
        written = await until_refused(lambda number: collector.store.append_events(T, [event(number)]))
        read = await until_refused(lambda _number: collector.allow(ADMIN, "read", T))
    assert written.what == "the collector could not store this"
    told = f"{read.what}: {read.why}; {read.next_step}"
    assert told.startswith("the collector could not note this read in its audit: database or disk is full")
    assert "sent" not in told
    assert told.endswith("then try again")


async def test_a_postgres_that_takes_no_writes_is_told_as_that(postgres_dsn: str, tmp_path: Path) -> None:
    (name,) = psycopg.conninfo.conninfo_to_dict(postgres_dsn)["dbname"].split()
    async with open_postgres(postgres_dsn) as store:
        await store.create_trace(trace(), ingest_key_hash="h")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        with pytest.raises(RecordError, match="takes no writes") as caught:
            async with a_collector(tmp_path, database=postgres_dsn):
                pass
        assert "standby" in caught.value.why
    finally:
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


async def test_a_postgres_that_stops_taking_writes_meanwhile_is_no_defect_of_ours(postgres_dsn: str) -> None:
    async with open_postgres(postgres_dsn) as store:
        await store.create_trace(trace(), ingest_key_hash="h")

        async def write(connection: psycopg.AsyncConnection) -> None:
            await connection.execute("SET TRANSACTION READ ONLY")
            await connection.execute("DELETE FROM pm_collector.audit")

        with pytest.raises(RecordError, match="could not store this") as caught:
            await store._write(write)
    assert "read-only" in caught.value.why
