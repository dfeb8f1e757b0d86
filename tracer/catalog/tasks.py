"""The catalogue as commands read it: tasks and distilled sessions, newest first, on json and sqlite3 alone.

`list_tasks` brings the projection up to the files first, so what it says is never older than the call. With 10,000
tasks it stays below ten interpreter starts: nothing here imports asyncio, orjson, dataclasses or logging.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from tracer.catalog.store import open_catalog, refresh
from tracer.names import OPEN_STATUSES
from tracer.statedir import StateDir


class TaskRow(NamedTuple):
    """One task as its newest trace tells it. Times are the facts' own (ISO 8601, UTC); `cost_usd` None is unknown.

    `status`: RUNNING, AWAITING_RESPONSE, UNFINISHED (no process holds it), COMPLETE, INCOMPLETE, ERROR or CANCELLED.
    `trace_file` is the newest file's path; `older_files` how many earlier ones it continues.
    """

    task_id: str
    title: str
    status: str
    iterations: int
    judgments: tuple[str, ...]
    cost_usd: float | None
    created_at: str
    updated_at: str
    executor: str
    model: str
    reason: str
    last_event: str
    facts: int
    damaged: int
    trace_file: str
    older_files: int


class AgenticRow(NamedTuple):
    """One distilled session as its meta line tells it; `success` None is not told."""

    path: str
    ts: str
    label: str
    operation: str
    module: str
    provider: str
    model: str
    success: bool | None
    cost_usd: float | None
    duration_s: float | None
    session_id: str
    tools: int | None
    errors: int | None = None
    thoughts: int | None = None
    size: int = 0
    native_bytes: int | None = None


TASKS_SQL = """
select task_id, title, final_status, awaiting, iterations, judgments, cost_usd, updated_at, executor, model, reason,
       last_event, seq, damaged, name,
       (select min(created_at) from traces o where o.number = t.number and o.task_id = t.task_id) as created_at,
       (select count(*) - 1 from traces o where o.number = t.number and o.task_id = t.task_id) as older
from traces t
where not exists (select 1 from traces n where n.number = t.number and n.task_id = t.task_id and n.ordinal > t.ordinal)
  and (:after is null or (number, task_id) < (select number, task_id from traces where task_id = :after limit 1))
  and (:task_id is null or task_id = :task_id)
  and (:since is null or updated_at >= :since)
  and (:final is null or final_status = :final)
  and (:open is null or final_status is null)
order by number desc, task_id desc
"""
AGENTIC_SQL = """
select name, ts, label, operation, module, provider, model, success, cost_usd, duration_s, session_id, tools, errors,
       thoughts, size, native_bytes
from agentic
where (:failed is null or success = 0) and (:since is null or ts >= :since)
  and (:operation is null or operation = :operation) and (:provider is null or provider = :provider)
order by ts desc, name desc
limit :limit
"""


def list_tasks(
    state_dir: StateDir | str | os.PathLike[str],
    *,
    status: str | None = None,
    since: str | None = None,
    after: str | None = None,
    task_id: str | None = None,
    limit: int | None = None,
) -> list[TaskRow]:
    """The tasks, highest number first; `after` is the last task id of the page before, `since` an ISO time."""
    place = _place(state_dir)
    connection = open_catalog(place)
    try:
        refresh(connection, place)
        return list(_tasks(connection, place, status, since, after, task_id, -1 if limit is None else limit))
    finally:
        connection.close()


def _tasks(
    connection: sqlite3.Connection,
    place: StateDir,
    status: str | None,
    since: str | None,
    after: str | None,
    task_id: str | None,
    limit: int,
) -> Iterator[TaskRow]:
    final = status if status is not None and status not in OPEN_STATUSES else None
    values = {
        "after": after,
        "task_id": task_id,
        "since": since,
        "final": final,
        "open": 1 if status in OPEN_STATUSES else None,
    }
    for found in connection.execute(TASKS_SQL, values):
        if limit == 0:
            return
        row = task_row(found, place)
        if status is None or row.status == status:
            limit -= 1
            yield row


def task_row(found: tuple[Any, ...], place: StateDir) -> TaskRow:
    """The row of TASKS_SQL as a value; a task without an end is asked for its writer."""
    (task_id, title, final, waits, iterations, judgments, cost, updated, executor, model, reason) = found[:11]
    last_event, facts, damaged, name, created, older = found[11:]
    status = final or ("AWAITING_RESPONSE" if waits else "")
    if not status:
        status = "UNFINISHED" if place.writer_of(task_id) is None else "RUNNING"
    path = f"{os.fspath(place.traces)}/{name}"
    verdicts = tuple(judgments.split("\n")) if judgments else ()
    return TaskRow(
        task_id, title, status, iterations, verdicts, cost, created, updated, executor, model, reason, last_event,
        facts, damaged, path, older,
    )  # fmt: skip


def list_agentic(
    state_dir: StateDir | str | os.PathLike[str],
    *,
    failed: bool = False,
    since: str | None = None,
    operation: str | None = None,
    provider: str | None = None,
    limit: int | None = None,
) -> list[AgenticRow]:
    """The distilled sessions, newest first; `failed` keeps those whose success is false."""
    place = _place(state_dir)
    connection = open_catalog(place)
    try:
        refresh(connection, place)
        values = {
            "failed": 1 if failed else None,
            "since": since,
            "operation": operation,
            "provider": provider,
            "limit": -1 if limit is None else limit,
        }
        return [agentic_row(found, place) for found in connection.execute(AGENTIC_SQL, values)]
    finally:
        connection.close()


def agentic_row(found: tuple[Any, ...], place: StateDir) -> AgenticRow:
    """The row of AGENTIC_SQL as a value."""
    name, success = found[0], found[7]
    path = os.path.join(os.fspath(place.agentic_traces), name)
    return AgenticRow._make((path, *found[1:7], None if success is None else bool(success), *found[8:]))


def rebuild(state_dir: StateDir | str | os.PathLike[str]) -> int:
    """Forget every row and read all files again; the number of files read."""
    place = _place(state_dir)
    connection = open_catalog(place)
    try:
        connection.execute("delete from traces")
        connection.execute("delete from agentic")
        connection.execute("delete from folders")
        return refresh(connection, place)
    finally:
        connection.close()


def _place(state_dir: StateDir | str | os.PathLike[str]) -> StateDir:
    if isinstance(state_dir, StateDir):
        return state_dir
    from pathlib import Path

    return StateDir(Path(state_dir))
