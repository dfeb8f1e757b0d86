"""What is passed on from the pages: a task, an agent session, a capture, or all that a filter finds as one archive.

Everything is redacted once more, with the paths of this machine, and looked at a second time; what would still hold
something is not passed on. What an archive had to leave out stands in it with the reason.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import zipfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from collector.handover.export import write_export
from service.export import export_task
from service.pages.capture import TraceId
from service.pages.lists import Filter, find_captures
from service.pages.sessions import find_session
from service.pages.task import find_task
from service.state import ServiceState, state_of
from tracer.catalog.labels import read_labels
from tracer.catalog.search import search_sessions, search_tasks
from tracer.errors import ConflictError, NotFoundError, PmError, UsageError
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.leaks import verify_clean
from tracer.redaction.streams import redacted_pieces

router = APIRouter(include_in_schema=False)

_MOST: Final = 1_000
_CHUNK: Final = 1 << 20
_IN_MEMORY: Final = 8 << 20
_TYPES: Final = {"md": "text/markdown", "json": "application/json", "html": "text/html"}

Kind = Literal["tasks", "sessions", "captures"]
TaskForm = Annotated[Literal["md", "json", "html"], Query(alias="format")]
CaptureForm = Annotated[Literal["atif", "chat", "otlp", "json"], Query(alias="format")]


@router.get("/tasks/{task_id}/export")
async def task_export(request: Request, task_id: str, form: TaskForm = "html") -> Response:
    state = state_of(request)
    text = await asyncio.to_thread(_task, state, _redactor(state), task_id, form)
    return _file(text, f"{task_id}.{form}", f"{_TYPES[form]}; charset=utf-8")


@router.get("/agentic/{name}/export")
async def session_export(request: Request, name: str) -> Response:
    state = state_of(request)
    return _file(await asyncio.to_thread(_session, state, _redactor(state), name), name, "application/x-ndjson")


@router.get("/captures/{trace_id}/export")
async def capture_export(request: Request, trace_id: TraceId, form: CaptureForm = "atif") -> Response:
    state = state_of(request)
    line = await _capture(state, _redactor(state), trace_id.lower(), form)
    return _file(line, f"capture-{trace_id[:8].lower()}.{form}.json", "application/json")


@router.get("/export/{kind}")
async def set_export(request: Request, kind: Kind, q: Filter = "", form: CaptureForm = "atif") -> Response:
    """All that the filter finds as `set.jsonl`, with its labels; of captures in the format asked for."""
    state = state_of(request)
    match kind:
        case "tasks":
            found = await asyncio.to_thread(search_tasks, state.state_dir, q, status_of=state.supervisor.status)
            keys = [row.task_id for row in found.rows]
        case "sessions":
            found = await asyncio.to_thread(search_sessions, state.state_dir, q)
            keys = [Path(row.path).name for row in found.rows]
        case "captures":
            keys = [row["trace_id"] for row in (await find_captures(state, q)).rows]
    if not keys:
        raise NotFoundError("the filter finds nothing", next_step="go back and change it")
    if len(keys) > _MOST:
        why = f"the filter finds {len(keys):,}"
        raise UsageError(f"one archive holds at most {_MOST:,}", why=why, next_step="narrow it, by since: or until:")
    file = await _archive(state, kind, keys, form)
    named = {"content-disposition": f'attachment; filename="{kind}.zip"'}
    return StreamingResponse(_pieces(file), media_type="application/zip", headers=named)


async def _archive(state: ServiceState, kind: Kind, keys: list[str], form: str) -> IO[bytes]:
    redactor, left_out = _redactor(state), []
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by who sends it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("set.jsonl", "w", force_zip64=True) as rows:
            for key in keys:
                try:
                    await asyncio.to_thread(rows.write, await _line(state, redactor, kind, key, form))
                except PmError as error:
                    left_out.append({"key": key, "reason": ": ".join(filter(None, (error.what, error.why)))})
        of_kind = read_labels(state.state_dir, kind=kind.removesuffix("s"))
        chosen = set(keys) - {each["key"] for each in left_out}
        labels = [one._asdict() for one in of_kind if one.subject in chosen]
        for name, lines in (("labels.jsonl", labels), ("left_out.jsonl", left_out)):
            archive.writestr(name, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    if len(left_out) == len(keys):
        file.close()
        raise ConflictError("nothing of it can be passed on", why=left_out[0]["reason"])
    return file


async def _line(state: ServiceState, redactor: ProjectRedactor, kind: Kind, key: str, form: str) -> bytes:
    if kind == "captures":
        return await _capture(state, redactor, key, form)
    if kind == "tasks":
        text = await asyncio.to_thread(_task, state, redactor, key, "json")
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_APPEND_NEWLINE)
    steps = (await asyncio.to_thread(_session, state, redactor, key)).splitlines()
    return orjson.dumps(
        {"session": key, "lines": [orjson.Fragment(step) for step in steps]}, option=orjson.OPT_APPEND_NEWLINE
    )


def _task(state: ServiceState, redactor: ProjectRedactor, task_id: str, form: Any) -> bytes:
    ref = find_task(state.state_dir, task_id)
    return export_task(state.state_dir, ref, form=form, redactor=redactor).text.encode()


def _session(state: ServiceState, redactor: ProjectRedactor, name: str) -> bytes:
    """The distilled session's lines. Raises LeakError: something in it still looks like a secret."""
    path = Path(find_session(state.state_dir, name).path)
    data = b"".join(redacted_pieces(redactor, path, Counter()))
    verify_clean(redactor, data.decode("utf-8", "surrogateescape"), what=f"the export of {name}")
    return data


async def _capture(state: ServiceState, redactor: ProjectRedactor, trace_id: str, form: Any) -> bytes:
    collector = state.collector
    row = await collector.row(trace_id)
    if row.status == "open":
        raise ConflictError(f"the capture {trace_id} is not finalized", next_step="end it first")
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        await write_export(
            file,  # type: ignore[arg-type]  # a spooled file has every method of BinaryIO
            row,
            form,
            store=collector.store,
            contents=collector.contents,
            redactor=redactor,
            what=f"the export of capture {trace_id}",
        )
        await collector.note("export", f"{trace_id} as {form}")
        file.seek(0)
        return file.read()


def _redactor(state: ServiceState) -> ProjectRedactor:
    return state.redactor(rewrite_paths=True, truncate=False)


def _file(data: bytes, name: str, media_type: str) -> Response:
    named = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(data, media_type=media_type, headers=named)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while chunk := file.read(_CHUNK):
            yield chunk
