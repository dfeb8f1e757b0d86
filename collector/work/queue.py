"""Work shared by any number of machines: jobs in PostgreSQL through PgQueuer, beside the traces they belong to.

A job whose worker dies is taken by another after `heartbeat_s`. Starts are counted in the trace's facts (the queue does
not count a redelivery), so a job that kills its workers ends as a dead letter. The checks are idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from collector.store.port import TraceStore
from collector.store.postgres.jobs import QA_JOB, connected, enqueue, first_line, install_queue
from collector.work.attempt import MOST_STARTS, Checks, attempt_checks, delay_after
from tracer.errors import PmError, UnavailableError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_LOG: Final = logging.getLogger("pm.worker")
_RECONCILE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How a worker works. `parallel` is this worker's, `everywhere` the most over all workers (0: any).

    `heartbeat_s` is how long a silent worker keeps its jobs, `poll_s` how often delayed and orphaned jobs are looked
    for; together they bound how late the job of a dead worker starts again.
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
            "the job database went away", why=first_line(errors), next_step="start the worker again: no job is lost"
        )
    return errors


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
