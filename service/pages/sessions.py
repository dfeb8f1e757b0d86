"""Agent sessions: what the agents' own folders hold, one distilled session, and what is done with it.

A label here is what people say of a session; the *run label* (`operation:module`) is the name it is distilled under.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse

from service.pages.task import Page, form_of, render
from service.pages.values import Shown, label_view, line_of, shown
from service.state import ServiceState, state_of
from tracer.blobs import DirectoryBlobs
from tracer.catalog.agentic import AgenticRow, list_agentic
from tracer.catalog.labels import read_labels
from tracer.clock import from_epoch_ms, now_epoch_ms, now_iso
from tracer.distill.locate.find import find_sessions
from tracer.distill.locate.listing import NativeRow, list_native
from tracer.distill.native import Distilled
from tracer.distill.native import Request as Distilling
from tracer.distill.one import distill
from tracer.distill.stored import stored_at
from tracer.errors import ConflictError, NotFoundError, PmError, UsageError
from tracer.insights.agentic_trace import Step, Trace, read_agentic
from tracer.insights.loops import Loop, find_loops
from tracer.redaction.streams import Leak, audit, open_files, scrub
from tracer.statedir import StateDir, user_state_folder

router = APIRouter(include_in_schema=False)

_SESSIONS: Final = 300
_STEPS: Final = 5_000
_LEAKS: Final = 200


class StepView(NamedTuple):
    """One line of the session: a thought, a message, a tool call or an error; `line` is its number in the file."""

    line: int
    kind: str
    time: str
    name: str
    status: str
    summary: Shown
    output: Shown
    looping: bool


def agentic_view(state_dir: StateDir, name: str) -> dict[str, Any]:
    """What the session's page shows. Raises NotFoundError: the folder lists no such file."""
    row = find_session(state_dir, name)
    trace = read_agentic(Path(row.path))
    loops = find_loops(trace.steps)
    looping = {line for loop in loops for line in loop.lines}
    meta = {"label": row.label or name, "provider": row.provider, "model": row.model, "success": row.success}
    return {
        "name": name,
        "meta": {**meta, "ts": row.ts, "cost_usd": row.cost_usd, "session_id": row.session_id},
        "labels": label_view(read_labels(state_dir, kind="session", subject=name)),
        "dimensions": ("overall",),
        "counts": _counts(row, trace),
        "asked": shown(prompt_text(state_dir, row.prompt)),
        "steps": [_step(step, looping=step.line in looping) for step in trace.steps[:_STEPS]],
        "left_out": max(0, len(trace.steps) - _STEPS),
        "loops": [_named(loop) for loop in loops],
    }


def find_session(state_dir: StateDir, name: str) -> AgenticRow:
    """The distilled session that has this file name, or had it; raises NotFoundError."""
    now = stored_at(state_dir.agentic_traces / Path(name).name).name
    row = next((row for row in list_agentic(state_dir) if Path(row.path).name == now), None)
    if row is None:
        raise NotFoundError(f"no agent session {name!r}", next_step="open the list of sessions")
    return row


def _counts(row: AgenticRow, trace: Trace) -> list[tuple[str, str]]:
    """What a session came to; of its thoughts, how many can be read."""
    told = trace.meta.get("thoughts")
    thoughts = [f"{count} {name}" for name, count in told.items() if count] if isinstance(told, dict) else []
    counts = [("Tools", row.tools), ("Errors", row.errors), ("Subagents", row.agents), ("Tokens", row.used)]
    return [
        *((name, f"{count:,}") for name, count in counts if count is not None),
        ("Thoughts", ", ".join(thoughts) or "none"),
        *([("Time", f"{row.duration_s:,.1f} s")] if row.duration_s is not None else []),
    ]


def prompt_text(state_dir: StateDir, prompt: str) -> str:
    """What a session was asked, from the redacted prompt that is kept; empty where none is."""
    try:
        stored = DirectoryBlobs(state_dir.blobs).read(f"sha256:{prompt.removeprefix('sha256:')}") if prompt else b""
    except PmError:
        return ""
    return stored.decode("utf-8", "replace")


def _step(step: Step, *, looping: bool) -> StepView:
    return StepView(
        line=step.line,
        kind=step.kind,
        time=from_epoch_ms(step.seconds * 1000)[:19] if step.seconds is not None else "",
        name=step.name,
        status=step.status,
        summary=shown(step.args if step.kind == "tool" else step.text),
        output=shown(step.output),
        looping=looping,
    )


def _named(loop: Loop) -> str:
    what = "times with the same result" if loop.kind == "repeat" else "rounds of edit and failure"
    return f"{loop.tool} {loop.args[:120]}: {loop.times} {what}, steps {', '.join(str(line) for line in loop.lines)}"


@router.get("/agentic/{name}")
async def agentic_one(request: Request, name: str, *, audited: bool = False) -> Page:
    state = state_of(request)
    view = await asyncio.to_thread(agentic_view, state.state_dir, name)
    leaks = await asyncio.to_thread(_leaks, state, name) if audited else None
    kept = user_state_folder(os.environ) / "scrubbed"
    return Page(render("agentic.html", leaks=leaks, most=_LEAKS, kept=str(kept), **view))


def _leaks(state: ServiceState, name: str) -> list[Leak]:
    return audit(state.redactor(), Path(find_session(state.state_dir, name).path))


@router.post("/agentic/{name}/redact")
async def redact(request: Request, name: str) -> RedirectResponse:
    """Redact the session where it is, after its leaks were shown; a copy of what stood there stays with the user."""
    if (await form_of(request)).get("confirmed") != "yes":
        raise UsageError("this was not confirmed", next_step="look for secrets on its page first, and confirm there")
    await asyncio.to_thread(_redact, state_of(request), name)
    return RedirectResponse(f"/agentic/{quote(name)}?audited=true#secrets", status_code=303)


def _redact(state: ServiceState, name: str) -> None:
    path = Path(find_session(state.state_dir, name).path).resolve()
    kept = user_state_folder(os.environ) / "scrubbed" / now_iso().replace(":", "")
    done = scrub(state.redactor(), path, kept / path.relative_to("/"), held=open_files())
    if done.left:
        (kept / path.relative_to("/")).unlink(missing_ok=True)
        raise ConflictError("it was left as it is", why=done.left, next_step="wait a minute, then the same again")


@router.post("/sessions/distill")
async def distill_one(request: Request) -> RedirectResponse:
    """Distill one of the sessions that agents keep, named by its file or its id; again, it is brought up to date."""
    given = {name: text.strip() for name, text in (await form_of(request)).items()}
    made = await asyncio.to_thread(_distill, state_of(request), given.get("session", ""), given.get("run", ""))
    return RedirectResponse(f"/agentic/{quote(made.path.name)}", status_code=303)


def _distill(state: ServiceState, name: str, run_label: str) -> Distilled:
    found = next((one for one in find_sessions(environ=os.environ) if name in {str(one.path), one.session_id}), None)
    if found is None:
        raise NotFoundError("no agent keeps this session any more", next_step="open the list of native sessions")
    wanted = Distilling(
        label=run_label or None,
        project_root=state.state_dir.project,
        state_dir=state.state_dir.root,
        redaction=state.supervisor.redaction,
    )
    return distill(found, wanted)


@router.get("/sessions")
async def sessions_page(request: Request, *, here: bool = False) -> Page:
    folders = state_of(request).state_dir
    project = folders.project if here else None
    rows = await asyncio.to_thread(list_native, [folders.agentic_traces], project=project, environ=os.environ)
    shown_rows = [_session(row) for row in rows[:_SESSIONS]]
    return Page(render("sessions.html", rows=shown_rows, left_out=max(0, len(rows) - _SESSIONS), here=here))


def _session(row: NativeRow) -> dict[str, Any]:
    session = row.session
    return {
        "provider": session.provider,
        "session_id": line_of(session.session_id),
        "project": line_of(session.cwd),
        "path": str(session.path),
        "command": shlex.quote(str(session.path)),
        "age": _age(now_epoch_ms() - session.modified_ms),
        "modified": from_epoch_ms(session.modified_ms)[:16].replace("T", " "),
        "size": _size(session.size),
        "distilled": row.distilled,
        "trace": os.path.basename(row.trace) if row.trace else "",  # noqa: PTH119 - a name, not a place
        "days_left": row.days_left,
    }


def _age(span_ms: int) -> str:
    minutes = max(0, span_ms) // 60_000
    for limit, unit in ((60, "min"), (24, "h"), (0, "d")):
        if not limit or minutes < limit:
            return f"{minutes} {unit}"
        minutes //= limit
    return ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
