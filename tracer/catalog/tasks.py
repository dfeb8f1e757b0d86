"""The catalogue as commands read it: tasks, newest first, on json and sqlite3 alone.

`list_tasks` brings the projection up to the files first, so what it says is never older than the call. With 10,000
tasks it stays below ten interpreter starts: nothing here imports asyncio, orjson, dataclasses or logging.
"""

from __future__ import annotations

import os
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

from tracer.catalog.store import open_catalog, refresh
from tracer.names import OPEN_STATUSES
from tracer.statedir import StateDir


class TaskRow(NamedTuple):
    """One task as its newest trace tells it. Times are the facts' own (ISO 8601, UTC); `cost_usd` None is unknown.

    `status`: RUNNING, AWAITING_RESPONSE, UNFINISHED (no process holds it), COMPLETE, INCOMPLETE, ERROR or CANCELLED.
    `trace_file` is the newest file's path; `older_files` how many earlier ones it continues. `tokens` are those of each
    answer, `used` all of them, `worked_ms` what they took, `sessions` the agent's own that they came from.
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
    tokens: tuple[int, ...] = ()
    worked_ms: int = 0
    verification: str = ""
    sessions: tuple[str, ...] = ()
    used: int = 0


_TASKS_SQL = """
select task_id, title, final_status, awaiting, iterations, judgments, cost_usd, updated_at, executor, model, reason,
       last_event, seq, damaged, name, tokens, worked_ms, verification, sessions,
       (select min(created_at) from traces o where o.number = t.number and o.task_id = t.task_id) as created_at,
       (select count(*) - 1 from traces o where o.number = t.number and o.task_id = t.task_id) as older,
       used
from traces t
where not exists (select 1 from traces n where n.number = t.number and n.task_id = t.task_id and n.ordinal > t.ordinal)
  and (:after is null or (number, task_id) < (select number, task_id from traces where task_id = :after limit 1))
  and (:task_id is null or task_id = :task_id)
  and (:since is null or updated_at >= :since)
  and (:final is null or final_status = :final)
  and (:open is null or final_status is null)
order by number desc, task_id desc
"""


def list_tasks(
    state_dir: StateDir,
    *,
    status: str | None = None,
    since: str | None = None,
    after: str | None = None,
    task_id: str | None = None,
    limit: int | None = None,
) -> list[TaskRow]:
    """The tasks, highest number first; `after` is the last task id of the page before, `since` an ISO time."""
    values = {
        "after": after,
        "task_id": task_id,
        "since": since,
        "final": None if status in OPEN_STATUSES else status,
        "open": 1 if status in OPEN_STATUSES else None,
    }
    with closing(open_catalog(state_dir)) as connection:
        refresh(connection, state_dir)
        rows = (task_row(found, state_dir) for found in connection.execute(_TASKS_SQL, values))
        return list(islice((row for row in rows if status is None or row.status == status), limit))


def task_row(found: tuple[Any, ...], place: StateDir) -> TaskRow:
    """One found row; a task without an end is asked for its writer."""
    (task_id, title, final, waits, iterations, judgments, cost, updated, executor, model, reason) = found[:11]
    last_event, facts, damaged, name, tokens, worked_ms, verification, sessions, created, older, used = found[11:]
    status = final or ("AWAITING_RESPONSE" if waits else "")
    if not status:
        status = "UNFINISHED" if place.writer_of(task_id) is None else "RUNNING"
    path = f"{os.fspath(place.traces)}/{name}"
    verdicts = tuple(judgments.split("\n")) if judgments else ()
    return TaskRow(
        task_id, title, status, iterations, verdicts, cost, created, updated, executor, model, reason, last_event,
        facts, damaged, path, older, tuple(map(int, tokens.split())), worked_ms, verification,
        tuple(sessions.split("\n")) if sessions else (), used,
    )  # fmt: skip
