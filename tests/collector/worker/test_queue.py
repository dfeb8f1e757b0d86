"""Workers on PostgreSQL and PgQueuer: finalized and queued together, shared, found again after a kill, given up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from collector.opening import open_collector
from collector.store.port import TraceRow
from collector.store.postgres.jobs import check_database, connected, enqueue, install_queue
from collector.store.postgres.store import PostgresStore, open_postgres
from collector.work.worker import QueueLimits, SharedPace, open_starts, reconcile, run_queue_worker
from tracer import clock
from tracer.errors import ConfigError, SandboxError, UnavailableError
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.xdist_group("postgres")


def uid(number: int) -> str:
    return f"30000000-0000-4000-8000-{number:012d}"


async def finalized(store: PostgresStore, *numbers: int) -> list[str]:
    for number in numbers:
        row = TraceRow(trace_id=uid(number), created_at_ms=number, metadata={})
        await store.create_trace(row, ingest_key_hash=f"hash-{number}")
        await store.finalize(uid(number), final_state=None, at_ms=2)
    return [uid(number) for number in numbers]


async def queued(dsn: str) -> list[str]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = await connection.execute("SELECT convert_from(payload, 'UTF8') FROM pgqueuer ORDER BY id")
        return [row[0] for row in await cursor.fetchall()]


async def until(condition: Any, *, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


def all_have(store: PostgresStore, ids: list[str], status: str) -> Any:
    async def look() -> bool:
        rows = [await store.get_trace(trace_id) for trace_id in ids]
        return all(row is not None and row.status == status for row in rows)

    return look


@asynccontextmanager
async def working(dsn: str, store: PostgresStore, checks: Any, **limits: Any) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    quick = QueueLimits(**{"heartbeat_s": 2.0, "poll_s": 0.2, "first_delay_s": 0.05, **limits})
    async with asyncio.TaskGroup() as group:
        group.create_task(run_queue_worker(dsn, store=store, checks=checks, stop=stop, limits=quick))
        try:
            yield stop
        finally:
            stop.set()


class Child:
    """A worker process; its log tells what it did."""

    def __init__(self, dsn: str, log: Path, *, seconds: float = 0.0, **options: Any) -> None:
        log.touch()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.collector.worker.queue_child",
                dsn,
                str(log),
                str(seconds),
                json.dumps(options),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
        )
        self.log = log

    def lines(self, word: str) -> list[str]:
        return [line.split()[1] for line in self.log.read_text().splitlines() if line.startswith(f"{word} ")]

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(20)


@pytest.fixture
async def store(postgres_dsn: str) -> AsyncIterator[PostgresStore]:
    await install_queue(postgres_dsn)
    async with open_postgres(postgres_dsn, on_finalize=enqueue) as opened:
        yield opened


async def test_a_trace_is_finalized_and_queued_in_one_transaction(postgres_dsn: str, store: PostgresStore) -> None:
    ids = await finalized(store, 1, 2)
    await store.finalize(ids[0], final_state=None, at_ms=3)
    assert await queued(postgres_dsn) == ids


async def test_asking_for_the_checks_again_queues_the_trace_again(postgres_dsn: str, store: PostgresStore) -> None:
    (only,), ran = await finalized(store, 1), Counter[str]()

    async def checks(trace_id: str) -> None:
        ran[trace_id] += 1

    async with working(postgres_dsn, store, checks):
        await until(all_have(store, [only], "complete"))
        assert await store.set_status(only, "finalized", expected={"complete"})
        await until(all_have(store, [only], "complete"))
    assert ran[only] == 2


async def test_what_cannot_be_queued_is_not_finalized(postgres_dsn: str) -> None:
    async def refuse(connection: Any, trace_id: str) -> None:
        await enqueue(connection, trace_id)
        raise UnavailableError("the queue is away")

    await install_queue(postgres_dsn)
    async with open_postgres(postgres_dsn, on_finalize=refuse) as store:
        with pytest.raises(UnavailableError):
            await finalized(store, 1)
        row = await store.get_trace(uid(1))
    assert row is not None
    assert row.status == "open"
    assert await queued(postgres_dsn) == []


async def test_queued_traces_are_run_once_and_the_queue_is_empty_afterwards(
    postgres_dsn: str, store: PostgresStore
) -> None:
    ids, ran = await finalized(store, *range(1, 13)), Counter[str]()

    async def checks(trace_id: str) -> None:
        ran[trace_id] += 1

    async with working(postgres_dsn, store, checks, parallel=4):
        await until(all_have(store, ids, "complete"))
    assert ran == dict.fromkeys(ids, 1)
    assert await queued(postgres_dsn) == []


async def test_no_more_run_at_once_than_this_worker_may(postgres_dsn: str, store: PostgresStore) -> None:
    ids, now, most = await finalized(store, *range(1, 7)), 0, 0

    async def checks(_trace_id: str) -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.05)
        now -= 1

    async with working(postgres_dsn, store, checks, parallel=1):
        await until(all_have(store, ids, "complete"))
    assert most == 1


@pytest.mark.torture
async def test_a_limit_of_one_kind_holds_over_all_workers(postgres_dsn: str, store: PostgresStore) -> None:
    ids, now, most = await finalized(store, *range(1, 9)), 0, 0

    async def checks(_trace_id: str) -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.05)
        now -= 1

    limits = {"parallel": 4, "everywhere": 2}
    async with working(postgres_dsn, store, checks, **limits), working(postgres_dsn, store, checks, **limits):
        await until(all_have(store, ids, "complete"))
    assert most == 2


async def test_a_failing_job_is_tried_again_and_given_up(postgres_dsn: str, store: PostgresStore) -> None:
    (bad, good), tries = await finalized(store, 1, 2), 0

    async def checks(trace_id: str) -> None:
        nonlocal tries
        if trace_id == bad:
            tries += 1
            raise SandboxError("no engine")

    async with working(postgres_dsn, store, checks, most_starts=3):
        await until(all_have(store, [bad], "qa_failed"))
        await until(all_have(store, [good], "complete"))
    assert tries == 3
    assert await queued(postgres_dsn) == []


async def test_a_pending_trace_that_nobody_queued_is_found(postgres_dsn: str) -> None:
    await install_queue(postgres_dsn)
    async with open_postgres(postgres_dsn) as store:
        ids = await finalized(store, 1)
        assert await queued(postgres_dsn) == []
        async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as connection:
            assert await reconcile(connection, store) == 1
            assert await reconcile(connection, store) == 1
        assert await queued(postgres_dsn) == ids


async def test_installing_twice_at_once_is_harmless(postgres_dsn: str) -> None:
    await asyncio.gather(*(install_queue(postgres_dsn) for _ in range(4)))
    assert await queued(postgres_dsn) == []


async def test_who_may_not_make_tables_is_told_before_any_is_made(postgres_dsn: str) -> None:
    name = f"reader_{os.getpid()}"
    async with connected(postgres_dsn) as connection:
        await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
        await connection.execute("ALTER SCHEMA public OWNER TO pg_database_owner")  # as a new database has it
        try:
            dsn = psycopg.conninfo.make_conninfo(postgres_dsn, user=name, password="x")
            for use in (check_database, install_queue):
                with pytest.raises(ConfigError, match=f"the user {name} may not make tables") as told:
                    await use(dsn)
                assert "OWNER TO" in told.value.next_step
            assert (await check_database(postgres_dsn)).startswith("PostgreSQL 1")
            await connection.execute(f"ALTER DATABASE {connection.info.dbname} OWNER TO {name}")
            await install_queue(dsn)
            await install_queue(dsn)
        finally:
            await connection.execute(f"ALTER DATABASE {connection.info.dbname} OWNER TO CURRENT_USER")
            await connection.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER")
            await connection.execute(f"DROP ROLE {name}")


async def test_servers_of_one_database_with_two_redaction_keys_are_told(
    postgres_dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"PM_COLLECTOR_DATABASE": postgres_dsn}
    for folder, told in (("first", 0), ("first", 0), ("other", 1)):
        caplog.clear()
        state = StateDir(tmp_path / folder)
        async with open_collector(state, load_settings(project=state.root, environ=environ), environ=environ):
            assert (folder, len(caplog.messages)) == (folder, told)
    assert f"than {tmp_path}/other/redaction.key" in caplog.messages[0]


async def test_a_database_that_is_away_is_said_so() -> None:
    with pytest.raises(UnavailableError, match="database cannot be reached"):
        await install_queue("postgresql://nobody@127.0.0.1:1/none")


async def test_a_database_that_is_not_in_utf8_is_refused(postgres_dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as connection:
        await connection.execute(
            "CREATE DATABASE ascii_only ENCODING SQL_ASCII LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    dsn = psycopg.conninfo.make_conninfo(postgres_dsn, dbname="ascii_only")
    with pytest.raises(ConfigError, match="SQL_ASCII"):
        await install_queue(dsn)


async def test_the_judge_rate_is_shared_by_everyone_on_the_database(postgres_dsn: str) -> None:
    await install_queue(postgres_dsn)
    paces = [SharedPace(postgres_dsn, per_minute=600) for _ in range(3)]
    began = clock.monotonic()
    await asyncio.gather(*(pace.wait() for pace in paces for _ in range(2)))
    assert clock.monotonic() - began >= 0.5


@pytest.mark.torture
async def test_two_workers_share_the_queue_and_run_nothing_twice(
    postgres_dsn: str, store: PostgresStore, tmp_path: Path
) -> None:
    ids = await finalized(store, *range(1, 21))
    workers = [Child(postgres_dsn, tmp_path / f"{name}.log", seconds=0.1) for name in "ab"]
    try:
        await until(all_have(store, ids, "complete"))
    finally:
        codes = [worker.end() for worker in workers]
    assert sorted(workers[0].lines("start") + workers[1].lines("start")) == sorted(ids)
    assert all(worker.lines("end") for worker in workers)
    assert codes == [0, 0]


@pytest.mark.torture
async def test_a_job_whose_worker_is_killed_is_taken_by_another(
    postgres_dsn: str, store: PostgresStore, tmp_path: Path
) -> None:
    (only,) = await finalized(store, 1)
    first = Child(postgres_dsn, tmp_path / "first.log", seconds=60)

    async def started() -> bool:
        return first.lines("start") == [only]

    await until(started)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait(10)
    second = Child(postgres_dsn, tmp_path / "second.log")
    try:
        await until(all_have(store, [only], "complete"))
    finally:
        second.end()
    assert second.lines("end") == [only]
    assert open_starts(await store.qa_facts(only)) == (0, 2)


@pytest.mark.torture
async def test_a_job_that_kills_every_worker_ends_as_a_dead_letter(
    postgres_dsn: str, store: PostgresStore, tmp_path: Path
) -> None:
    (bad, good) = await finalized(store, 1, 2)
    limits = {"most_starts": 3, "parallel": 1}
    for number in range(8):
        child = Child(postgres_dsn, tmp_path / f"{number}.log", die=True, limits=limits)
        try:
            child.process.wait(12)
        except subprocess.TimeoutExpired:
            child.end()
            break
    row = await store.get_trace(bad)
    assert row is not None
    assert row.status == "qa_failed"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(working(postgres_dsn, store, _nothing))
        await until(lambda: _ended(store, good))


async def _nothing(_trace_id: str) -> None:
    pass


async def _ended(store: PostgresStore, trace_id: str) -> bool:
    row = await store.get_trace(trace_id)
    return row is not None and row.status in {"complete", "qa_failed"}


@pytest.mark.torture
async def test_being_told_to_end_finishes_what_is_under_way(
    postgres_dsn: str, store: PostgresStore, tmp_path: Path
) -> None:
    (only,) = await finalized(store, 1)
    child = Child(postgres_dsn, tmp_path / "a.log", seconds=1.0)

    async def started() -> bool:
        return child.lines("start") == [only]

    await until(started)
    assert child.end() == 0
    assert child.lines("end") == [only]
    assert await all_have(store, [only], "complete")()
