"""Runs the quality checks of finalized traces: embedded in the server, or from the queue with a shared rate.

Embedded is for SQLite: the store's rows are the queue, and one process per lock file works. On PostgreSQL servers only
queue, and `pm worker` works.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from collector.collector import Collector
from collector.judge.models import LocalPace, Pace
from collector.judge.rubric_judge import choose_judge
from collector.opening import open_collector
from collector.qa.pipeline import run_qa
from collector.qa.sandbox.choose import SandboxChooser
from collector.qa.settings import qa_settings
from collector.store.port import TraceStore
from collector.work.attempt import MOST_STARTS, Attempt, Checks, attempt_checks, delay_after
from collector.work.queue import QueueLimits, run_queue_worker
from tracer import clock
from tracer.errors import LockedError, PmError, UnavailableError, UsageError
from tracer.lock import FileLock
from tracer.settings.layers import Settings
from tracer.statedir import StateDir

_TAKE: Final = """
INSERT INTO pm_pace AS pace (name, next_at) VALUES (%(name)s, clock_timestamp() + %(gap)s * interval '1 second')
ON CONFLICT (name) DO UPDATE
SET next_at = greatest(pace.next_at, clock_timestamp()) + %(gap)s * interval '1 second'
RETURNING extract(epoch FROM next_at - clock_timestamp())::float8 - %(gap)s
"""


class SharedPace:
    """At most `per_minute` requests a minute over everyone who uses the same database."""

    def __init__(self, dsn: str, *, per_minute: float) -> None:
        self._dsn = dsn
        self._gap_s = 60.0 / per_minute

    async def wait(self) -> None:
        """Return when the next request may leave."""
        import psycopg

        try:
            # A connection a request: requests are seconds apart, and a kept one would idle through long answers.
            async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
                cursor = await connection.execute(_TAKE, {"name": "judge", "gap": self._gap_s})
                row: Any = await cursor.fetchone()
        except psycopg.Error as error:
            raise UnavailableError("the judge's rate cannot be kept", why=str(error).strip()) from error
        await asyncio.sleep(max(float(row[0]), 0.0))


_LOG: Final = logging.getLogger("pm.worker")


class EmbeddedWorker:
    """Runs `checks` on pending traces, at most `parallel` at once; cancel `run` to end it."""

    def __init__(
        self,
        *,
        store: TraceStore,
        checks: Checks,
        lock_file: Path | None = None,
        parallel: int = 1,
        poll_s: float = 2.0,
        most_starts: int = MOST_STARTS,
        first_delay_s: float = 5.0,
        due: asyncio.Event | None = None,
    ) -> None:
        """`due` is set by whoever makes checks due (`Collector.due`); the worker clears it."""
        self._store = store
        self._checks = checks
        self._lock = FileLock(lock_file) if lock_file is not None else None
        self._parallel = parallel
        self._poll_s = poll_s
        self._most_starts = most_starts
        self._factor = first_delay_s / delay_after(1)
        self._nudged = due or asyncio.Event()
        self._running: set[str] = set()
        self._not_before: dict[str, float] = {}

    async def run(self) -> None:
        """Work until cancelled; trouble with the store is logged and tried again."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    if await self._may_work():
                        await self._look(group)
                    await self._rest()
        finally:
            if self._lock is not None and self._lock.held:
                self._lock.release()

    async def _may_work(self) -> bool:
        if self._lock is None or self._lock.held:
            return True
        try:
            await asyncio.to_thread(self._lock.acquire, what="the quality checks of this project")
        except LockedError:
            return False
        except PmError:
            _LOG.exception("the worker's lock cannot be taken")
            return False
        return True

    async def _look(self, group: asyncio.TaskGroup) -> None:
        if len(self._running) >= self._parallel:
            return
        try:
            pending = await self._store.pending_traces()
        except PmError:
            _LOG.exception("pending traces cannot be looked up")
            return
        now = clock.monotonic()
        self._not_before = {trace_id: due for trace_id, due in self._not_before.items() if due > now}
        for trace_id in pending:
            if len(self._running) >= self._parallel:
                return
            if trace_id not in self._running and trace_id not in self._not_before:
                self._running.add(trace_id)
                group.create_task(self._work(trace_id), name=f"checks of {trace_id}")

    async def _work(self, trace_id: str) -> None:
        try:
            attempt = await attempt_checks(
                trace_id,
                store=self._store,
                checks=self._checks,
                most_starts=self._most_starts,
                delay=lambda starts: delay_after(starts) * self._factor,
            )
        except PmError as error:  # the store itself: nothing could be noted, so the next look decides
            _LOG.exception("the checks of trace %s could not be noted", trace_id)
            attempt = Attempt("again", self._poll_s, str(error))
        finally:
            self._running.discard(trace_id)
            self._nudged.set()
        if attempt.outcome == "again":
            self._not_before[trace_id] = clock.monotonic() + attempt.delay_s

    async def _rest(self) -> None:
        due = min(self._not_before.values(), default=float("inf")) - clock.monotonic()
        try:
            async with asyncio.timeout(max(min(self._poll_s, due), 0.0)):
                await self._nudged.wait()
        except TimeoutError:
            return
        self._nudged.clear()


_LOCK: Final = "collector-worker.lock"


def is_shared(settings: Settings) -> bool:
    """Whether captures are kept in PostgreSQL, where workers of their own take the jobs."""
    return str(settings.get("collector.database") or "").startswith(("postgresql://", "postgres://"))


def queue_address(settings: Settings) -> str:
    """The database that holds the queue."""
    if not is_shared(settings):
        raise UsageError(
            "there is no queue to work from",
            why="captures are kept in SQLite, and the server that takes them in checks them too",
            next_step="pm serve, or set collector.database to a postgresql:// address",
        )
    return str(settings.get("collector.database"))


@asynccontextmanager
async def quality_checks(
    collector: Collector, settings: Settings, environ: Mapping[str, str], *, pace: Pace
) -> AsyncIterator[Checks]:
    """The checks as a function of the trace, while the block runs."""
    chosen = choose_judge(settings, environ, pace=pace)
    rules = qa_settings(settings)
    sandbox = SandboxChooser(rules.sandbox, pull=rules.pull)

    async def checks(trace_id: str) -> None:
        await run_qa(
            trace_id,
            collector=collector,
            settings=rules,
            judge=chosen.judge,
            sandbox=sandbox,
            no_judge=chosen.why,
            insist=True,
        )

    try:
        yield checks
    finally:
        if chosen.judge is not None:
            await chosen.judge.close()


@asynccontextmanager
async def collector_with_worker(
    state_dir: StateDir, settings: Settings, *, environ: Mapping[str, str]
) -> AsyncIterator[Collector]:
    """An open collector and, unless workers of their own do it, an embedded worker beside it."""
    async with open_collector(state_dir, settings, environ=environ) as collector:
        if is_shared(settings) or settings.get("worker.embedded") == "off":
            yield collector
            return
        pace = LocalPace(float(settings.get("judge.per_minute")))
        async with quality_checks(collector, settings, environ, pace=pace) as checks:
            worker = EmbeddedWorker(
                store=collector.store,
                checks=checks,
                lock_file=state_dir.root / _LOCK,
                parallel=int(settings.get("worker.parallel")),
                due=collector.due,
            )
            task = asyncio.create_task(worker.run(), name="embedded worker")
            try:
                yield collector
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def work_from_queue(
    state_dir: StateDir,
    settings: Settings,
    *,
    environ: Mapping[str, str],
    stop: asyncio.Event,
    parallel: int | None = None,
) -> None:
    """Take jobs from the queue until `stop` is set, and finish what is under way; `parallel` at once."""
    dsn = queue_address(settings)
    limits = QueueLimits(
        parallel=parallel or int(settings.get("worker.parallel")),
        everywhere=int(settings.get("worker.everywhere")),
        heartbeat_s=float(settings.get("worker.heartbeat")),
    )
    pace = SharedPace(dsn, per_minute=float(settings.get("judge.per_minute")))
    async with (
        open_collector(state_dir, settings, environ=environ) as collector,
        quality_checks(collector, settings, environ, pace=pace) as checks,
    ):
        await run_queue_worker(dsn, store=collector.store, checks=checks, stop=stop, limits=limits)
