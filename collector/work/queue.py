"""Work shared by any number of machines: jobs in PostgreSQL through PgQueuer, beside the traces they belong to.

`enqueue` runs inside the caller's transaction, so a trace is finalized and queued together or not at all. A job whose
worker dies is taken by another after `heartbeat_s`. Starts are counted in the trace's facts (the queue does not count a
redelivery), so a job that kills its workers ends as a dead letter. Handlers must be idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from collector.work.attempt import (
    MOST_STARTS,
    Checks,
    WorkStore,
    attempt_checks,
    delay_after,
)
from tracer.errors import ConfigError, PmError, UnavailableError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

QA_JOB: Final = "qa"
TASK_JOB: Final = "task"
_LOG: Final = logging.getLogger("pm.worker")
_RECONCILE_S: Final = 60.0

Handler = Callable[[str], Awaitable[None]]
"""Carry out one job by its key (a trace id); it raises `RetryLater` to be called again."""


Pending = Callable[[], Awaitable[Sequence[str]]]
"""The keys of jobs of one kind that are due or under way."""


class RetryLater(Exception):  # noqa: N818 - a request, not an error
    """The job is to run again after `delay_s`."""

    def __init__(self, delay_s: float, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_s = delay_s


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How a worker works. `parallel` is this worker's, `everywhere` the most of one kind over all workers (0: any).

    `heartbeat_s` is how long a silent worker keeps its jobs, `poll_s` how often delayed and orphaned jobs are looked
    for; together they bound how late the job of a dead worker starts again.
    """

    parallel: int = 2
    everywhere: Mapping[str, int] | None = None
    heartbeat_s: float = 30.0
    poll_s: float = 5.0
    most_starts: int = MOST_STARTS
    first_delay_s: float = 5.0


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[AsyncConnection[Any]]:
    """A connection of one's own, each statement its own transaction; UnavailableError where there is none."""
    psycopg = _psycopg()
    try:
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    except psycopg.Error as error:
        raise UnavailableError(
            "the job database cannot be reached", why=_reason(error), next_step="check collector.database"
        ) from error
    try:
        yield connection
    finally:
        await connection.close()


def _reason(errors: BaseException) -> str:
    """The first line: later ones may repeat what was sent."""
    return (str(errors).splitlines() or [type(errors).__name__])[0]


def _psycopg() -> Any:
    try:
        import psycopg  # 200 ms, for workers and servers on PostgreSQL alone
    except ImportError as error:
        raise ConfigError(
            "workers on PostgreSQL need the psycopg and pgqueuer packages",
            next_step="pip install 'pm-orchestrator[all]'",
        ) from error
    return psycopg


def _queries(connection: AsyncConnection[Any]) -> Any:
    from pgqueuer.db import PsycopgDriver  # 490 ms with the rest of the package
    from pgqueuer.queries import Queries

    return Queries(PsycopgDriver(connection))


async def install_queue(dsn: str) -> None:
    """Make the queue's tables where they are not there yet; several may try at once.

    Raises:
        ConfigError: the database is not in UTF-8.
        UnavailableError: the database cannot be reached.

    """
    async with connected(dsn) as connection:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":  # texts would come back as bytes, and JSON could not be stored
            raise ConfigError(
                f"the collector's database is in {encoding}, and must be in UTF8",
                next_step="createdb --encoding=UTF8 --template=template0 NAME, and set collector.database to it",
            )
        queries = _queries(connection)
        await connection.execute("SELECT pg_advisory_lock(hashtext('pm-orchestrator/queue'))")
        if not await queries.has_table("pgqueuer"):
            await queries.install()
        else:
            await queries.upgrade()
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS pm_pace (name text PRIMARY KEY, next_at timestamptz NOT NULL)"
        )


async def enqueue(connection: AsyncConnection[Any], key: str, *, kind: str = QA_JOB) -> None:
    """Queue a job on `connection`, inside whatever transaction is open there; queued already is the same."""
    await _queries(connection).enqueue(kind, key.encode(), dedupe_key=f"{kind}:{key}", on_conflict="skip")


async def reconcile(
    connection: AsyncConnection[Any], store: WorkStore, *, others: Mapping[str, Pending] | None = None
) -> int:
    """Queue what is pending and not in the queue, traces and the jobs of `others` by kind; how many were looked at."""
    sources: dict[str, Pending] = {QA_JOB: store.pending_traces, **(others or {})}
    count = 0
    for kind, pending in sources.items():
        for key in await pending():
            await enqueue(connection, key, kind=kind)
            count += 1
    return count


async def run_queue_worker(
    dsn: str,
    *,
    store: WorkStore,
    checks: Checks,
    stop: asyncio.Event,
    limits: QueueLimits | None = None,
    others: Mapping[str, Handler] | None = None,
    pending: Mapping[str, Pending] | None = None,
) -> None:
    """Take jobs until `stop` is set; what is under way is finished first.

    `checks` serves the jobs of `QA_JOB`, `others` further kinds by name; `pending` says which of those are due.

    Raises:
        UnavailableError: the database cannot be reached.

    """
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries

    limits = limits or QueueLimits()
    await install_queue(dsn)
    slots = asyncio.Semaphore(limits.parallel)
    factor = limits.first_delay_s / delay_after(1)

    async def check(key: str) -> None:
        attempt = await attempt_checks(
            key,
            store=store,
            checks=checks,
            most_starts=limits.most_starts,
            delay=lambda starts: delay_after(starts) * factor,
        )
        if attempt.outcome == "again":
            raise RetryLater(attempt.delay_s, attempt.error)

    async with connected(dsn) as listening, connected(dsn) as working:
        queue = QueueManager(Queries(_driver(listening, working)))  # without its scheduler: nothing runs by the clock
        for kind, handler in {QA_JOB: check, **(others or {})}.items():
            _register(queue, kind, handler, slots, (limits.everywhere or {}).get(kind, 0))
        try:
            await _run(queue, partial(reconcile, working, store, others=pending), stop, limits)
        except BaseExceptionGroup as errors:
            raise _cause(errors) from errors


async def _run(queue: Any, compare: Callable[[], Awaitable[int]], stop: asyncio.Event, limits: QueueLimits) -> None:
    async with asyncio.TaskGroup() as group:
        helpers = [
            group.create_task(_keep_reconciled(compare)),
            group.create_task(_stop_when_told(queue, stop)),
        ]
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
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    if isinstance(errors, _psycopg().Error):
        return UnavailableError(
            "the job database went away", why=_reason(errors), next_step="start the worker again: no job is lost"
        )
    return errors


def _register(queue: Any, kind: str, handler: Handler, slots: asyncio.Semaphore, everywhere: int) -> None:
    from pgqueuer.domain.errors import RetryRequested
    from pgqueuer.models import Job

    async def carry_out(job: Job) -> None:
        async with slots:
            try:
                await handler((job.payload or b"").decode())
            except RetryLater as later:
                raise RetryRequested(timedelta(seconds=later.delay_s), str(later) or None) from later
            except PmError as error:  # nothing could be noted (the store is away): the queue keeps the job
                _LOG.exception("a %s job could not be carried out", kind)
                raise RetryRequested(timedelta(seconds=delay_after(job.attempts + 1)), error.what) from error

    queue.entrypoint(kind, concurrency_limit=everywhere, on_failure="hold")(carry_out)


async def _stop_when_told(queue: Any, stop: asyncio.Event) -> None:
    await stop.wait()
    queue.shutdown.set()


async def _keep_reconciled(compare: Callable[[], Awaitable[int]]) -> None:
    while True:
        try:
            await compare()
        except PmError:
            _LOG.exception("pending traces cannot be looked up")
        await asyncio.sleep(_RECONCILE_S)
