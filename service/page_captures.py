"""The pages of captured sessions and of the agents' native ones. What a page shows is made in `service.capture_view`.

A capture's page holds a piece of its timeline, so the first page of a million events comes at once; contents are read
only where they are short enough to be shown.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse

from collector.collector import Collector
from service.capture_view import Content, blobs_named, timeline
from service.pages import render
from service.qa_view import judged, proof_of
from service.state import state_of
from service.views import diff_lines, shown
from tracer.clock import from_epoch_ms, now_epoch_ms
from tracer.distill.listing import NativeRow, list_native
from tracer.errors import PmError
from tracer.statedir import StateDir

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

_ROWS: Final = 50
_EVENTS: Final = 150
_SHOWN: Final = 64 * 1024  # bytes of a content that a page reads
_LOOKED_AT: Final = 4 << 20  # longer blobs are only linked: reading one checks the whole of it
_CITABLE: Final = 5  # pages of 1,000 events searched for the events that scores rest on
_SESSIONS: Final = 300

TraceId = Annotated[str, Path(pattern=r"^[0-9a-fA-F-]{36}$")]


@router.get("/captures")
async def captures_page(request: Request, after: Annotated[str | None, Query(max_length=36)] = None) -> HTMLResponse:
    """The captured sessions, newest first."""
    collector = state_of(request).collector
    rows, following = await collector.listing(after=after, limit=_ROWS)
    return HTMLResponse(render("captures.html", rows=[_row(row) for row in rows], next=following))


@router.get("/captures/{trace_id}")
async def capture_page(
    request: Request, trace_id: TraceId, after: Annotated[int, Query(ge=0, le=2**53 - 1)] = 0
) -> HTMLResponse:
    """One captured session: its report, its proof, its scores, and a piece of its timeline."""
    collector = state_of(request).collector
    metadata = await collector.metadata(trace_id.lower())
    page = await collector.events_page(trace_id.lower(), after=after, limit=_EVENTS)
    events: list[dict[str, Any]] = [orjson.loads(event.body) for event in page.events]
    qa, final = metadata["qa"] or {}, metadata["final_state"] or {}
    diff_id = (final.get("pr") or {}).get("diff_blob_id")
    rationale_id = (qa.get("judge") or {}).get("rationale_blob_id")
    wanted = (*blobs_named(events), *(blob for blob in (diff_id, rationale_id) if blob))
    contents = await _contents(collector, wanted)
    diff = contents[diff_id].text if diff_id else None
    rationale = (contents[rationale_id].text if rationale_id else None) or ""
    return HTMLResponse(
        render(
            "capture.html",
            **_head(metadata),
            proof=proof_of(qa.get("tests")),
            judged=judged(qa.get("judge"), rationale=rationale, seqs=await _seqs(collector, metadata)),
            diff=diff_lines(diff.expandtabs(4).rstrip("\n")) if diff else (),
            diff_id=diff_id,
            steps=timeline(events, contents),
            first=after == 0,
            following=page.next_after,
            page_events=len(events),
            live=metadata["status"] in {"open", "finalized", "qa_running"},
        )
    )


@router.get("/sessions")
async def sessions_page(request: Request, *, here: bool = False) -> HTMLResponse:
    """What the agents' own folders hold, and what of it was distilled."""
    rows = await asyncio.to_thread(_sessions, state_of(request).state_dir, here=here)
    shown_rows = [_session(row) for row in rows[:_SESSIONS]]
    return HTMLResponse(render("sessions.html", rows=shown_rows, left_out=max(0, len(rows) - _SESSIONS), here=here))


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    qa = row["qa"] or {}
    proof = proof_of(qa.get("tests"))
    return {
        "trace_id": row["trace_id"],
        "title": _text(row["task"]["bug_report"]["title"]) or row["trace_id"],
        "repo": _text(row["repo"]["repo_id"]),
        "developer": _text(row["developer"]["developer_id"]),
        "status": row["status"],
        "events": row["event_count"],
        "created": from_epoch_ms(row["created_at_ms"])[:19].replace("T", " "),
        "tests": proof.outcome if proof else "",
        "overall": (qa.get("judge") or {}).get("overall"),
    }


def _head(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Who, what and when; the bug report with its empty parts left out."""
    report, developer = metadata["task"]["bug_report"], metadata["developer"]
    consent = developer.get("consent_flags") or {}
    final = metadata["final_state"] or {}
    parts = (("Description", "description"), ("Steps", "repro_steps"), ("Expected", "expected"), ("Actual", "actual"))
    return {
        "capture": {
            **_row({**metadata, "qa": None}),
            "commit_base": metadata["repo"]["commit_base"][:12],
            "commit_head": str(final.get("commit_head") or "")[:12],
            "experience": developer.get("experience_level", "unknown"),
            "mode": metadata["store"].replace("_", " "),
            "consent": [name.replace("_", " ") for name, given in consent.items() if given],
            "gaps": sum(last - first + 1 for first, last in metadata["ingestion"]["gaps"]),
            "skew_s": metadata["ingestion"]["clock_skew_ms_est"] / 1000,
            "finalized": _time(metadata["finalized_at_ms"]),
            "pr_title": _text((final.get("pr") or {}).get("title")),
            "pr_description": shown((final.get("pr") or {}).get("description")),
            "final_blob": final.get("final_trace_blob_id"),
        },
        "report": [(label, shown(report[name])) for label, name in parts if report.get(name)],
    }


async def _contents(collector: Collector, blob_ids: Sequence[str]) -> dict[str, Content]:
    return {blob_id: await _content(collector, blob_id) for blob_id in blob_ids}


async def _content(collector: Collector, blob_id: str) -> Content:
    row = await collector.store.get_blob_row(blob_id)
    if row is None or row.byte_len > _LOOKED_AT:
        return Content(None, row.byte_len if row else 0)
    try:
        data = await collector.contents.read(blob_id)
    except PmError:  # a content is a convenience here: the page stays, and the link says what is wrong
        return Content(None, row.byte_len)
    head = data[:_SHOWN]
    if b"\0" in head:
        return Content(None, row.byte_len)
    return Content(head.decode("utf-8", "replace"), row.byte_len)


async def _seqs(collector: Collector, metadata: Mapping[str, Any]) -> dict[str, int]:
    """Where the events stand that the scores rest on, as far as a few pages tell."""
    detail = ((metadata["qa"] or {}).get("judge") or {}).get("detail") or {}
    citations = detail.get("citations")
    lists = citations.values() if isinstance(citations, dict) else ()
    wanted = {name for names in lists if isinstance(names, list) for name in names if isinstance(name, str)}
    found: dict[str, int] = {}
    after = 0
    for _page in range(_CITABLE):
        if len(found) == len(wanted):
            break
        page = await collector.events_page(metadata["trace_id"], after=after, limit=1000)
        found |= {event.event_id: event.seq for event in page.events if event.event_id in wanted}
        if page.next_after is None:
            break
        after = page.next_after
    return found


def _sessions(state_dir: StateDir, *, here: bool) -> list[NativeRow]:
    project = state_dir.project if here else None
    return list_native([state_dir.agentic_traces], project=project, environ=os.environ)


def _session(row: NativeRow) -> dict[str, Any]:
    session = row.session
    return {
        "provider": session.provider,
        "session_id": _text(session.session_id),
        "project": _text(session.cwd),
        "path": _text(session.path),
        "age": _age(now_epoch_ms() - session.modified_ms),
        "modified": from_epoch_ms(session.modified_ms)[:16].replace("T", " "),
        "size": _size(session.size),
        "distilled": row.distilled,
        "trace": os.path.basename(row.trace) if row.trace else "",  # noqa: PTH119 - a name, not a place
        "days_left": row.days_left,
    }


def _text(value: object) -> str:
    return shown(" ".join(str(value).split()), limit=300).text if value else ""


def _time(epoch_ms: int | None) -> str:
    return from_epoch_ms(epoch_ms)[:19].replace("T", " ") if epoch_ms else ""


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
