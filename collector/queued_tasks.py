"""Whole agent tasks in PostgreSQL: what is to be done, where, and every fact of the conversation as it happens.

A task is stored and queued in one transaction. Facts are the trace's own lines, kept by attempt and line number, so a
view anywhere reads them in order and a worker that dies leaves what was recorded; the next attempt begins anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import orjson

from collector.work.queue import (
    TASK_JOB,
    connected,
    enqueue,
    install_queue,
)
from tracer import clock
from tracer.errors import NotFoundError, TraceError, UnavailableError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

MOST_ATTEMPTS: Final = 3
QueuedStatus = Literal[
    "QUEUED", "RUNNING", "COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED", "AWAITING_RESPONSE", "UNFINISHED"
]
_LARGEST_DIFF: Final = 16 << 20
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS pm_tasks (
  task_id text PRIMARY KEY, repository text NOT NULL, commit_id text NOT NULL, request jsonb NOT NULL,
  status text NOT NULL, attempt integer NOT NULL DEFAULT 0, created_ms bigint NOT NULL, ended_ms bigint,
  result jsonb, diff text
);
CREATE TABLE IF NOT EXISTS pm_task_facts (
  task_id text NOT NULL REFERENCES pm_tasks, attempt integer NOT NULL, seq integer NOT NULL, line bytea NOT NULL,
  PRIMARY KEY (task_id, attempt, seq)
);
"""
_COLUMNS: Final = "task_id, repository, commit_id, request, status, attempt, created_ms, result, diff"


class QueuedTask(NamedTuple):
    """A task as stored. `request` holds the prompt and the limits asked for, `result` the outcome once it has ended."""

    task_id: str
    repository: str
    commit: str
    request: dict[str, Any]
    status: QueuedStatus
    attempt: int
    created_ms: int
    result: dict[str, Any] | None = None
    diff: str | None = None


class QueuedTasks:
    """The tasks of one database; made by `open_queued_tasks`. One connection: calls wait for each other."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    async def submit(self, *, task_id: str, repository: str, commit: str, request: dict[str, Any]) -> None:
        """Store and queue a task, or neither."""
        values = (task_id, repository, commit, orjson.dumps(request).decode(), clock.now_epoch_ms())
        async with self._connection.transaction():
            await self._connection.execute(
                "INSERT INTO pm_tasks (task_id, repository, commit_id, request, status, created_ms)"
                " VALUES (%s, %s, %s, %s::jsonb, 'QUEUED', %s)",
                values,
            )
            await enqueue(self._connection, task_id, kind=TASK_JOB)

    async def get(self, task_id: str) -> QueuedTask:
        """The task.

        Raises:
            NotFoundError: no such task.

        """
        rows = await self._rows(f"SELECT {_COLUMNS} FROM pm_tasks WHERE task_id = %s", task_id)  # noqa: S608 - ours
        if not rows:
            raise NotFoundError(f"no queued task {task_id!r}", next_step="pm queued")
        return rows[0]

    async def listing(self, limit: int = 50) -> list[QueuedTask]:
        """The newest tasks."""
        return await self._rows(
            f"SELECT {_COLUMNS} FROM pm_tasks ORDER BY created_ms DESC, task_id LIMIT %s",  # noqa: S608 - ours
            limit,
        )

    async def pending(self) -> list[str]:
        """Ids of the tasks that have not ended, oldest first."""
        cursor = await self._connection.execute(
            "SELECT task_id FROM pm_tasks WHERE status IN ('QUEUED', 'RUNNING') ORDER BY created_ms LIMIT 1000"
        )
        return [str(row[0]) for row in await cursor.fetchall()]

    async def begin(self, task_id: str) -> QueuedTask | None:
        """Take note of a new attempt; None where the task has ended or its attempts are used up (it ends then)."""
        cursor = await self._connection.execute(
            "UPDATE pm_tasks SET status = 'RUNNING', attempt = attempt + 1"
            " WHERE task_id = %s AND status IN ('QUEUED', 'RUNNING') AND attempt < %s",
            (task_id, MOST_ATTEMPTS),
        )
        if cursor.rowcount:
            return await self.get(task_id)
        why = {"reason": "crash", "detail": f"{MOST_ATTEMPTS} workers ended without a result"}
        await self._connection.execute(
            "UPDATE pm_tasks SET status = 'ERROR', result = %s::jsonb, ended_ms = %s"
            " WHERE task_id = %s AND status IN ('QUEUED', 'RUNNING')",
            (orjson.dumps(why).decode(), clock.now_epoch_ms(), task_id),
        )
        return None

    async def add_fact(self, task_id: str, attempt: int, seq: int, line: bytes) -> None:
        """Store one line of the conversation; storing it again is the same."""
        await self._connection.execute(
            "INSERT INTO pm_task_facts (task_id, attempt, seq, line) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (task_id, attempt, seq, line),
        )

    async def facts(self, task_id: str, *, attempt: int, after: int = -1) -> list[tuple[int, bytes]]:
        """The lines of one attempt behind `after`, in order, at most 1,000 at once."""
        cursor = await self._connection.execute(
            "SELECT seq, line FROM pm_task_facts WHERE task_id = %s AND attempt = %s AND seq > %s"
            " ORDER BY seq LIMIT 1000",
            (task_id, attempt, after),
        )
        return [(int(row[0]), bytes(row[1])) for row in await cursor.fetchall()]

    async def end(self, task_id: str, *, attempt: int, status: QueuedStatus, result: dict[str, Any], diff: str) -> bool:
        """Store how the task ended; False where a later attempt has taken over."""
        if len(diff) > _LARGEST_DIFF:
            diff, result = "", {**result, "diff_left_out": f"longer than {_LARGEST_DIFF >> 20} MB"}
        cursor = await self._connection.execute(
            "UPDATE pm_tasks SET status = %s, result = %s::jsonb, diff = %s, ended_ms = %s"
            " WHERE task_id = %s AND attempt = %s AND status = 'RUNNING'",
            (status, orjson.dumps(result).decode(), diff.replace("\0", ""), clock.now_epoch_ms(), task_id, attempt),
        )
        return cursor.rowcount > 0

    async def _rows(self, query: str, *values: Any) -> list[QueuedTask]:
        cursor = await self._connection.execute(query, values)
        return [QueuedTask(*row) for row in await cursor.fetchall()]


@asynccontextmanager
async def open_queued_tasks(dsn: str) -> AsyncIterator[QueuedTasks]:
    """The tasks in the database that `dsn` names; its tables are made where they are missing.

    Raises:
        UnavailableError: the database cannot be reached, or went away.

    """
    import psycopg  # 200 ms, for these commands alone

    await install_queue(dsn)
    try:
        async with connected(dsn) as connection:
            await connection.execute("SELECT pg_advisory_lock(hashtext('pm-orchestrator/tasks'))")
            await connection.execute(_TABLES)
            await connection.execute("SELECT pg_advisory_unlock(hashtext('pm-orchestrator/tasks'))")
            yield QueuedTasks(connection)
    except psycopg.OperationalError as error:
        raise UnavailableError("the task database went away", why=(str(error).splitlines() or [""])[0]) from error
    except psycopg.DataError as error:
        raise TraceError("a task cannot be stored", why=(str(error).splitlines() or [""])[0]) from error
