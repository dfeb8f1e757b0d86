"""Everything a worker needs, from the settings: the judge, its rate, the checks of one trace, embedded or queued.

Embedded is for SQLite: the server's own process works. On PostgreSQL servers only queue, and `pm worker` works.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from collector.collector import Collector
from collector.opening import open_collector
from collector.qa.judge_choice import choose_judge
from collector.qa.judge_pace import LocalPace, Pace
from collector.qa.pipeline import run_qa
from collector.qa.pipeline_settings import qa_settings
from collector.qa.sandbox_choose import SandboxChooser
from collector.worker import EmbeddedWorker
from collector.worker_attempt import Checks
from collector.worker_pace import SharedPace
from collector.worker_queue import QA_JOB, TASK_JOB, Handler, Pending, QueueLimits, run_queue_worker
from runner.settings.layers import Settings
from tracer.errors import UsageError
from tracer.statedir import StateDir

__all__ = ["collector_with_worker", "is_shared", "quality_checks", "queue_address", "work_from_queue"]

_LOCK: Final = "collector-worker.lock"


def is_shared(settings: Settings) -> bool:
    """Whether captures are kept in PostgreSQL, where workers of their own take the jobs."""
    return str(settings.get("collector.database") or "").startswith(("postgresql://", "postgres://"))


def queue_address(settings: Settings) -> str:
    """The database that holds the queue.

    Raises:
        UsageError: captures are not kept in PostgreSQL.

    """
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
    """The checks as a function of the trace, while the block runs.

    Raises:
        ConfigError: a setting or a recording that cannot be used.
        CredentialsError: a key file that others can read.

    """
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
    """An open collector and, unless workers of their own do it, an embedded worker beside it.

    Raises:
        ConfigError, UnavailableError: as `open_collector` and `quality_checks`.

    """
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
    others: Mapping[str, Handler] | None = None,
    pending: Mapping[str, Pending] | None = None,
) -> None:
    """Take jobs from the queue until `stop` is set, and finish what is under way; `parallel` at once.

    `others` carry out further kinds of jobs, `pending` says which of those are due.

    Raises:
        UsageError: captures are not kept in PostgreSQL.
        ConfigError, UnavailableError: as `open_collector`, `quality_checks` and `run_queue_worker`.

    """
    dsn = queue_address(settings)
    limits = QueueLimits(
        parallel=parallel or int(settings.get("worker.parallel")),
        everywhere={
            QA_JOB: int(settings.get("worker.everywhere")),
            TASK_JOB: int(settings.get("worker.tasks_everywhere")),
        },
        heartbeat_s=float(settings.get("worker.heartbeat")),
    )
    pace = SharedPace(dsn, per_minute=float(settings.get("judge.per_minute")))
    async with (
        open_collector(state_dir, settings, environ=environ) as collector,
        quality_checks(collector, settings, environ, pace=pace) as checks,
    ):
        await run_queue_worker(
            dsn, store=collector.store, checks=checks, stop=stop, limits=limits, others=others, pending=pending
        )
