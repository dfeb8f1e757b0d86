"""Runs the quality checks of finalized traces: embedded in the server (SQLite), or from the queue (PostgreSQL).

Embedded, the store's rows are the queue, and one process per lock file works. With PgQueuer any number of
`pm admin worker` work: a dead worker's job is taken by another after `heartbeat_s`. Starts are stored as facts before
the work begins, so a trace that kills its workers is given up too; after a crash the next worker starts again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from collector.collector import Collector
from collector.judge.models import LocalPace, Pace
from collector.judge.rubric_judge import choose_judge
from collector.opening import is_postgres, open_collector
from collector.qa.pipeline import run_qa
from collector.qa.sandbox.choose import SandboxChooser
from collector.qa.settings import qa_settings
from collector.store.port import QaFact, TraceStore
from collector.store.postgres.jobs import QA_JOB, connected, enqueue, first_line, install_queue
from tracer import clock
from tracer.errors import LockedError, PmError, UnavailableError, UsageError
from tracer.lock import FileLock
from tracer.settings.layers import Settings
from tracer.statedir import StateDir

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_LOG: Final = logging.getLogger("pm.worker")
MOST_STARTS: Final = 5
WORKER_STEP: Final = "worker"
"""The step of facts that note a worker's starts and ends; their results are empty, so they leave no part in `qa`."""
REQUESTED_STEP: Final = "requested"
_FIRST_DELAY_S: Final = 5.0
_LONGEST_DELAY_S: Final = 600.0
_PENDING: Final = ("finalized", "qa_running")

Checks = Callable[[str], Awaitable[object]]
"""Run every check of one trace that is not done yet; returns when all have their facts."""


class Attempt(NamedTuple):
    """What came of it. `again` after `delay_s`; `dead` is given up, with `error` for people."""

    outcome: Literal["done", "again", "dead", "gone"]
    delay_s: float = 0.0
    error: str = ""


def open_starts(facts: Iterable[QaFact]) -> tuple[int, int]:
    """(starts since the last end, starts ever) by the worker's facts in order; a request to check again is an end."""
    since = ever = 0
    for fact in facts:
        if fact.step == REQUESTED_STEP:
            since = 0
        elif fact.step == WORKER_STEP:
            what = fact.input_hash.partition("-")[0]
            ever += what == "start"
            since = since + 1 if what == "start" else since - 1 if what == "stop" else 0
    return since, ever


def delay_after(starts: int) -> float:
    """Seconds to wait after the `starts`-th attempt failed: 5, 10, 20 … at most 600."""
    return min(_FIRST_DELAY_S * 2.0 ** max(starts - 1, 0), _LONGEST_DELAY_S)


async def attempt_checks(
    trace_id: str,
    *,
    store: TraceStore,
    checks: Checks,
    most_starts: int = MOST_STARTS,
    delay: Callable[[int], float] = delay_after,
) -> Attempt:
    """Run the checks of one trace once; `gone` if it is not pending.

    What the checks raise is logged and leads to another attempt, until the starts are used up (`qa_failed`).
    """
    row = await store.get_trace(trace_id)
    if row is None or row.status not in _PENDING:
        return Attempt("gone")
    since, ever = open_starts(await store.qa_facts(trace_id))
    if since >= most_starts:
        return await _give_up(trace_id, store, ever, f"{since} attempts ended without a result")
    await store.append_qa_fact(trace_id, _fact(f"start-{ever + 1}"))
    if not await store.set_status(trace_id, "qa_running", expected=_PENDING):
        return Attempt("gone")
    try:
        await checks(trace_id)
    except asyncio.CancelledError:  # the worker is told to end: that is no fault of the trace
        with suppress(PmError):
            await asyncio.shield(store.append_qa_fact(trace_id, _fact(f"stop-{ever + 1}")))
        raise
    except LockedError as error:  # by another worker, or by hand: that is no start of ours
        await store.append_qa_fact(trace_id, _fact(f"stop-{ever + 1}"))
        return Attempt("again", delay(1), error.line)
    except Exception as error:  # noqa: BLE001 - the worker's boundary: one trace must not end the work on all others
        _LOG.exception("the checks of trace %s failed", trace_id)
        told = f"{error.what} ({error.why})" if isinstance(error, PmError) and error.why else str(error) or repr(error)
        if since + 1 >= most_starts:
            return await _give_up(trace_id, store, ever + 1, told)
        return Attempt("again", delay(since + 1), told)
    await store.append_qa_fact(trace_id, _fact(f"end-{ever + 1}"))
    await store.set_status(trace_id, "complete", expected=("qa_running",))
    after = await store.get_trace(trace_id)
    if after is not None and after.status == "finalized":  # somebody asked for the checks again while they ran
        return Attempt("again", 0.0)
    return Attempt("done")


async def _give_up(trace_id: str, store: TraceStore, ever: int, why: str) -> Attempt:
    _LOG.error("gave up on the checks of trace %s: %s", trace_id, why)
    await store.set_status(trace_id, "qa_failed", expected=_PENDING)
    await store.append_qa_fact(trace_id, _fact(f"dead-{ever}"))
    return Attempt("dead", error=why)


def _fact(input_hash: str) -> QaFact:
    return QaFact(WORKER_STEP, input_hash, clock.now_epoch_ms(), {})


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


@dataclass(kw_only=True)
class EmbeddedWorker:
    """Runs `checks` on pending traces, at most `parallel` at once; cancel `run` to end it.

    `due` is set by whoever makes checks due (`Collector.due`); the worker clears it.
    """

    store: TraceStore
    checks: Checks
    lock_file: Path | None = None
    parallel: int = 1
    poll_s: float = 2.0
    most_starts: int = MOST_STARTS
    first_delay_s: float = 5.0
    due: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._lock = FileLock(self.lock_file) if self.lock_file is not None else None
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
        if len(self._running) >= self.parallel:
            return
        try:
            pending = await self.store.pending_traces()
        except PmError as error:
            _LOG.warning("pending traces cannot be looked up: %s", error.line)
            return
        now = clock.monotonic()
        self._not_before = {trace_id: due for trace_id, due in self._not_before.items() if due > now}
        for trace_id in pending:
            if len(self._running) >= self.parallel:
                return
            if trace_id not in self._running and trace_id not in self._not_before:
                self._running.add(trace_id)
                group.create_task(self._work(trace_id), name=f"checks of {trace_id}")

    async def _work(self, trace_id: str) -> None:
        try:
            attempt = await attempt_checks(
                trace_id,
                store=self.store,
                checks=self.checks,
                most_starts=self.most_starts,
                delay=lambda starts: delay_after(starts) * self.first_delay_s / _FIRST_DELAY_S,
            )
        except PmError as error:  # the store itself: nothing could be noted, so the next look decides
            _LOG.exception("the checks of trace %s could not be noted", trace_id)
            attempt = Attempt("again", self.poll_s, str(error))
        finally:
            self._running.discard(trace_id)
            self.due.set()
        if attempt.outcome == "again":
            self._not_before[trace_id] = clock.monotonic() + attempt.delay_s

    async def _rest(self) -> None:
        due = min(self._not_before.values(), default=float("inf")) - clock.monotonic()
        try:
            async with asyncio.timeout(max(min(self.poll_s, due), 0.0)):
                await self.due.wait()
        except TimeoutError:
            return
        self.due.clear()


_RECONCILE_S: Final = 60.0
_COLLECT_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """A worker's limits: `parallel` its own, `everywhere` over all workers (0: any).

    `heartbeat_s` (a silent worker keeps its jobs) and `poll_s` (looking for delayed and orphaned jobs) together bound
    how late the job of a dead worker starts again.
    """

    parallel: int = 2
    everywhere: int = 0
    heartbeat_s: float = 30.0
    poll_s: float = 5.0
    most_starts: int = MOST_STARTS
    first_delay_s: float = 5.0


async def reconcile(connection: AsyncConnection[Any], store: TraceStore) -> int:
    """Queue the traces that are pending and not in the queue; how many were looked at."""
    pending = await store.pending_traces()
    for key in pending:
        await enqueue(connection, key)
    return len(pending)


async def run_queue_worker(
    dsn: str, *, store: TraceStore, checks: Checks, stop: asyncio.Event, limits: QueueLimits | None = None
) -> None:
    """Take jobs until `stop` is set; what is under way is finished first."""
    limits = limits or QueueLimits()
    await install_queue(dsn)
    from pgqueuer.domain.errors import RetryRequested
    from pgqueuer.models import Job
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries

    slots = asyncio.Semaphore(limits.parallel)
    factor = limits.first_delay_s / delay_after(1)

    async def carry_out(job: Job) -> None:
        async with slots:
            try:
                attempt = await attempt_checks(
                    (job.payload or b"").decode(),
                    store=store,
                    checks=checks,
                    most_starts=limits.most_starts,
                    delay=lambda starts: delay_after(starts) * factor,
                )
            except PmError as error:  # nothing could be noted (the store is away): the queue keeps the job
                _LOG.exception("a %s job could not be carried out", QA_JOB)
                raise RetryRequested(timedelta(seconds=delay_after(job.attempts + 1)), error.what) from error
            if attempt.outcome == "again":
                raise RetryRequested(timedelta(seconds=attempt.delay_s), attempt.error or None)

    async with connected(dsn) as listening, connected(dsn) as working:
        queue = QueueManager(Queries(_driver(listening, working)))  # without its scheduler: nothing runs by the clock
        queue.entrypoint(QA_JOB, concurrency_limit=limits.everywhere, on_failure="hold")(carry_out)
        try:
            await _run(queue, partial(reconcile, working, store), stop, limits)
        except BaseExceptionGroup as errors:
            raise _cause(errors) from errors


async def _run(queue: Any, compare: Callable[[], Awaitable[int]], stop: asyncio.Event, limits: QueueLimits) -> None:
    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(_keep_reconciled(compare)), group.create_task(_stop_when_told(queue, stop))]
        await queue.run(
            batch_size=1,
            max_concurrent_tasks=max(limits.parallel, 2),
            heartbeat_timeout=timedelta(seconds=limits.heartbeat_s),
            dequeue_timeout=timedelta(seconds=limits.poll_s),
        )
        for helper in helpers:
            helper.cancel()


def _driver(listening: AsyncConnection[Any], working: AsyncConnection[Any]) -> Any:
    """PgQueuer's driver on two connections: waiting for a NOTIFY locks a psycopg connection for up to a second."""
    from pgqueuer.db import PsycopgDriver
    from typing_extensions import override  # pgqueuer needs it too

    class Driver(PsycopgDriver):
        """Listens on one connection and works on the other."""

        def __init__(self) -> None:
            super().__init__(listening)
            self._working = PsycopgDriver(working)

        @override
        async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
            return await self._working.fetch(query, *args)

        @override
        async def execute(self, query: str, *args: object) -> str:
            return await self._working.execute(query, *args)

    return Driver()


def _cause(errors: BaseException) -> BaseException:
    """The first cause in a group; trouble with the database in words of ours."""
    import psycopg

    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    if isinstance(errors, psycopg.Error):
        return UnavailableError(
            "the collector's database went away",
            why=first_line(errors),
            next_step="start the worker again: no job is lost",
        )
    return errors


async def _stop_when_told(queue: Any, stop: asyncio.Event) -> None:
    await stop.wait()
    queue.shutdown.set()


async def _keep_reconciled(compare: Callable[[], Awaitable[int]]) -> None:
    while True:
        try:
            await compare()
        except PmError as error:
            _LOG.warning("pending traces cannot be looked up: %s", error.line)
        await asyncio.sleep(_RECONCILE_S)


_LOCK: Final = "collector-worker.lock"


def is_shared(settings: Settings) -> bool:
    """Whether captures are kept in PostgreSQL, where workers of their own take the jobs."""
    return is_postgres(str(settings.get("collector.database") or ""))


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
    collector: Collector, settings: Settings, environ: Mapping[str, str], *, pace: Pace, state_dir: StateDir
) -> AsyncIterator[Checks]:
    """The checks as a function of the trace, while the block runs."""
    chosen = choose_judge(settings, environ, pace=pace)
    rules = qa_settings(settings, cache=state_dir.root / "qa-cache")
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
        async with quality_checks(collector, settings, environ, pace=pace, state_dir=state_dir) as checks:
            worker = EmbeddedWorker(
                store=collector.store,
                checks=checks,
                lock_file=state_dir.root / _LOCK,
                parallel=int(settings.get("worker.parallel")),
                due=collector.due,
            )
            async with _beside(worker.run()), _beside(keep_collecting(collector)):
                yield collector


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have this work done while the block runs."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def keep_collecting(collector: Collector) -> None:
    """Remove what no trace holds, again and again, until cancelled: contents of deleted traces too."""
    while True:
        try:
            await collector.collect_garbage()
        except PmError as error:  # a store that is away is no defect: its words, without where they came from
            _LOG.warning("contents that no capture holds cannot be removed: %s", error.line)
        await asyncio.sleep(_COLLECT_S)


async def work_from_queue(
    state_dir: StateDir,
    settings: Settings,
    *,
    environ: Mapping[str, str],
    stop: asyncio.Event,
    parallel: int | None = None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Take jobs from the queue until `stop` is set, and finish what is under way; `parallel` at once.

    `started` is called once database and blobs are open.
    """
    dsn = queue_address(settings)
    limits = QueueLimits(
        parallel=parallel or int(settings.get("worker.parallel")),
        everywhere=int(settings.get("worker.everywhere")),
        heartbeat_s=float(settings.get("worker.heartbeat")),
    )
    pace = SharedPace(dsn, per_minute=float(settings.get("judge.per_minute")))
    async with (
        open_collector(state_dir, settings, environ=environ) as collector,
        quality_checks(collector, settings, environ, pace=pace, state_dir=state_dir) as checks,
        _beside(keep_collecting(collector)),
    ):
        started()
        await run_queue_worker(dsn, store=collector.store, checks=checks, stop=stop, limits=limits)
