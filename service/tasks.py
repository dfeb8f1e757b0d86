"""The task endpoints (contracts 7, seed 001 section 5.2): list, read, follow, submit, respond, cancel, resume.

No logic of its own: each calls the function that the command line calls. Ids are matched exactly and never become
paths. `raw` streams the file's bytes; events are Server-Sent Events whose id is the line number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from difflib import get_close_matches
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field, StringConstraints
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from runner.core.evolve import fold
from runner.core.outcome import outcome_of
from service.problems import problem_response, responses
from service.schemas import (
    Accepted,
    NewTask,
    TaskDetail,
    TaskPage,
    TaskRowModel,
    TraceDocument,
    TraceSummary,
    UserAnswer,
)
from service.state import ServiceState, state_of
from tracer.catalog.tasks import TaskRow, list_tasks
from tracer.conversation import ConversationTracer
from tracer.errors import NotFoundError, UsageError
from tracer.events import encode
from tracer.facts import KINDS, Entry
from tracer.journal.follow import follow
from tracer.lookup import TaskRef, latest_iteration, resolve_task, summarize
from tracer.names import TaskStatus
from tracer.rows.filters import Filter, from_query
from tracer.statedir import StateDir

router = APIRouter(prefix="/api/tasks", tags=["tasks"])

TaskId = Annotated[str, PathParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", examples=["task-001"])]
_NDJSON = "application/x-ndjson"


class WholeFile(FileResponse):
    """A file sent in pieces of 1 MiB: with Starlette's 64 KiB, a large trace takes several times as long.

    What is appended meanwhile is left out: the length was announced. A range that cannot be had is a problem document.
    """

    chunk_size = 1 << 20

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = 0
        refused: Response | None = None

        async def sending(message: Message) -> None:
            nonlocal left, refused
            if message["type"] == "http.response.start":
                headers = Headers(raw=message["headers"])
                if message["status"] >= HTTPStatus.BAD_REQUEST:
                    place = {name: headers[name] for name in ("content-range",) if name in headers}
                    refused = problem_response(message["status"], "usage", "no such range of bytes", headers=place)
                    return
                left = int(headers["content-length"])
            elif refused is not None:
                return
            else:
                message = {**message, "body": message["body"][:left]}
                left -= len(message["body"])
            await send(message)

        await super().__call__(scope, receive, sending)
        if refused is not None:
            await refused(scope, receive, send)


async def found_task(request: Request, task_id: TaskId) -> TaskRef:
    """The task of the path; looked up before the answer starts, so that a stream can still be a 404."""
    ref = await asyncio.to_thread(resolve_task, state_of(request).state_dir, task_id)
    if ref.task_id != task_id:  # over HTTP an id is whole: shortened ones are for people who type
        raise NotFoundError(f"no task {task_id!r}", next_step="GET /api/tasks lists them")
    return ref


Several = Annotated[list[str] | None, Query(max_length=50)]
_RANGE = "[0-9]{1,9}(-[0-9]{1,9})?"
Ranges = Annotated[
    list[Annotated[str, StringConstraints(pattern=f"^{_RANGE}(,{_RANGE})*$")]] | None,
    Query(max_length=50, examples=[["0", "2-3"]]),
]


_KIND = "|".join("".join(f"[{c}{c.lower()}]" if c.isalpha() else c for c in kind) for kind in KINDS)
# Said in the schema alone: what is refused here is refused below, with the name that was meant.
Events = Annotated[
    list[Annotated[str, Field(json_schema_extra={"pattern": rf"^(,|({_KIND}|[^,]*\*)(,|$))*$"})]] | None,
    Query(max_length=50, examples=[["ITERATION_END", "LLM_*"]]),
]


async def wanted_facts(
    event: Events = None,
    iteration: Ranges = None,
    subtask: Several = None,
    text: Several = None,
    *,
    failed: bool = False,
) -> Filter:
    """The filter of the query, the same that `/trace` and the pages take; each name may come several times."""
    for name in (name for each in event or () for name in each.split(",") if name):
        if not name.endswith("*") and name.upper() not in KINDS:
            near = get_close_matches(name.upper(), KINDS, n=1)
            following = f"did you mean {near[0]}?" if near else f"events are {', '.join(KINDS)}; NAME* is a beginning"
            raise UsageError(f"there is no event {name!r}", next_step=following)
    named = {"event": event, "iteration": iteration, "subtask": subtask, "text": text}
    query = {name: values for name, values in named.items() if values}
    return from_query({**query, "failed": ["true"] if failed else []})


Found = Annotated[TaskRef, Depends(found_task)]
Wanted = Annotated[Filter, Depends(wanted_facts)]
_RAW: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The conversation as JSON, or with `raw` the stored lines",
        "content": {_NDJSON: {"schema": {"type": "string"}}},
    }
}


@router.get("", responses=responses(401, 403, 422, 429))
async def tasks(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    after: Annotated[str | None, Query(max_length=100)] = None,
    status: TaskStatus | None = None,
) -> TaskPage:
    """The tasks, newest first."""
    state = state_of(request)
    if status in {"QUEUED", "RUNNING"}:  # to the catalogue both run: which of them wait is known here alone
        rows = await asyncio.to_thread(list_tasks, state.state_dir, after=after, status="RUNNING")
        found = [row for row in (_row(row, state) for row in rows) if row.status == status]
    else:
        rows = await asyncio.to_thread(list_tasks, state.state_dir, after=after, status=status, limit=limit + 1)
        found = [_row(row, state) for row in rows]
    following = found[limit - 1].task_id if len(found) > limit else None
    return TaskPage(tasks=found[:limit], next=following)


@router.get("/{task_id}", responses=responses(401, 403, 404, 422, 429))
async def task(request: Request, ref: Found) -> TaskDetail:
    """One task."""
    state = state_of(request)
    rows = await asyncio.to_thread(list_tasks, state.state_dir, task_id=ref.task_id)
    if not rows:
        raise NotFoundError(f"no task {ref.task_id!r}")
    files = [_relative(path, state.state_dir) for path in (ref.path, *ref.older)]
    told = {**rows[0]._asdict(), "trace_file": files[0], "older_files": files[1:]}
    told["status"] = state.supervisor.status(ref.task_id) or rows[0].status
    return TaskDetail.model_validate(told | await asyncio.to_thread(_folded, ref.path))


@router.get(
    "/{task_id}/trace", response_model=TraceDocument, responses=_RAW | responses(401, 403, 404, 416, 422, 429, 500)
)
async def trace(
    request: Request,
    ref: Found,
    wanted: Wanted,
    *,
    latest: bool = False,
    raw: bool = False,
) -> Response | TraceDocument:
    """The conversation of a task; `latest` keeps the latest iteration, `raw` answers with the stored lines.

    `event`, `iteration`, `subtask`, `text` and `failed` keep the events that fit all of them; the summary stays whole.
    """
    state = state_of(request)
    if raw and not latest and not wanted:
        return WholeFile(ref.path, media_type=_NDJSON)
    entries = await asyncio.to_thread(ConversationTracer.read_trace, ref.path)
    shown = [entry for entry in (latest_iteration(entries) if latest else entries) if _fits(entry, wanted)]
    if raw:
        return Response(b"".join(encode(entry) for entry in shown), media_type=_NDJSON)
    return TraceDocument(
        task_id=ref.task_id,
        trace_file=_relative(ref.path, state.state_dir),
        entries=[entry.to_dict() for entry in shown],
        summary=TraceSummary.model_validate(summarize(entries).to_dict()),
    )


@router.get("/{task_id}/events", response_class=EventSourceResponse, responses=responses(401, 403, 404, 422, 429))
async def events(
    request: Request,
    ref: Found,
    last_event_id: Annotated[str | None, Header()] = None,
    after: Annotated[int, Query(ge=-1)] = -1,
) -> AsyncIterator[ServerSentEvent]:
    """Every event as it becomes durable; `id` is its sequence number, `Last-Event-ID` resumes behind it."""
    state = state_of(request)
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        after = int(last_event_id[:18])
    async for seq, line in state.until_shutdown(follow(ref.path, after=after)):
        yield ServerSentEvent(raw_data=line.decode().rstrip("\n"), id=str(seq), event="fact")
    yield ServerSentEvent(raw_data="{}", event="end")


@router.post("", status_code=202, responses=responses(400, 401, 403, 413, 422, 429, 500, 503))
async def submit(request: Request, body: NewTask) -> Accepted:
    """Start a task; answers when the request is on disk."""
    state = state_of(request)
    return Accepted(task_id=await state.supervisor.submit(state.task_request(body)))


@router.post("/{task_id}/respond", status_code=202, responses=responses(400, 401, 403, 404, 409, 413, 422, 429, 500))
async def respond(request: Request, ref: Found, body: UserAnswer) -> Accepted:
    """Record a user's answer and go on with the task."""
    supervisor, more = state_of(request).supervisor, body.max_iterations
    return Accepted(task_id=await supervisor.respond(ref.task_id, body.action, text=body.text, max_iterations=more))


@router.post("/{task_id}/cancel", status_code=202, responses=responses(401, 403, 404, 409, 422, 429, 500))
async def cancel(request: Request, ref: Found) -> Accepted:
    """End the task as CANCELLED."""
    await state_of(request).supervisor.cancel(ref.task_id)
    return Accepted(task_id=ref.task_id)


@router.post("/{task_id}/resume", status_code=202, responses=responses(401, 403, 404, 409, 422, 429, 500, 503))
async def resume(request: Request, ref: Found) -> Accepted:
    """Go on with an unfinished task, or take up one that ended short; a COMPLETE one stays as it is."""
    return Accepted(task_id=await state_of(request).supervisor.resume(ref.task_id))


def _fits(entry: Entry, wanted: Filter) -> bool:
    return wanted.accepts(
        event=entry.event,
        iteration=entry.iteration_index,
        subtask=entry.subtask_id,
        failed=entry.failed,
        value=entry.data,
    )


def _row(row: TaskRow, state: ServiceState) -> TaskRowModel:
    status: Any = state.supervisor.status(row.task_id) or row.status
    return TaskRowModel.model_validate({**row._asdict(), "status": status})


def _folded(path: Path) -> dict[str, Any]:
    """What only the whole trace tells: the answer, the question, what was verified, how the subtasks stand."""
    found = outcome_of(fold(ConversationTracer.read_trace(path)), trace_file="", chain_head=None)
    asked = {"question": found.question.text, "choices": found.question.choices} if found.question else {}
    subtasks = [one._asdict() for one in found.subtasks]
    checked = {
        "kind": found.kind or None,
        "not_verified": [one.to_dict() for one in found.not_verified],
        "tests": dict(found.tests.data) if found.tests else None,
        "files": [one._asdict() for one in found.files],
    }
    return {"answer": found.answer, **asked, **checked, "isolation": found.isolation._asdict(), "subtasks": subtasks}


def _relative(path: Path | str, state_dir: StateDir) -> str:
    try:
        return Path(path).resolve().relative_to(state_dir.project.resolve()).as_posix()
    except ValueError:
        return Path(path).name
