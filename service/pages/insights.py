"""Pages over many runs: insights with plots, and the sessions of agents."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request

from service.pages.task import Page, render
from service.pages.values import line_of
from service.state import state_of
from tracer.catalog.agentic import list_agentic
from tracer.clock import from_epoch_ms, now_epoch_ms
from tracer.distill.locate.listing import NativeRow, list_native
from tracer.insights.agentic_trace import judgments, read_agentic
from tracer.insights.report import insights
from tracer.redaction.redactor import Clean
from tracer.statedir import StateDir

_SESSIONS: Final = 300
_ROW: Final = 28
_LABEL: Final = 220
_WIDTH: Final = 640
_VALUE: Final = 200


class Bar(NamedTuple):
    """One bar: text left, text right, and its rectangle."""

    label: str
    value: str
    y: int
    width: float


class BarChart(NamedTuple):
    """A horizontal bar chart in user units; `title` is what a screen reader says."""

    title: str
    width: int
    height: int
    left: int
    bars: tuple[Bar, ...]


def bar_chart(title: str, rows: Sequence[tuple[str, float, str]]) -> BarChart:
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    room = _WIDTH - _LABEL - _VALUE
    bars = tuple(
        Bar(label, text, number * _ROW, round(max(0.0, value) / most * room, 1))
        for number, (label, value, text) in enumerate(rows)
    )
    return BarChart(title, _WIDTH, max(1, len(rows)) * _ROW, _LABEL, bars)


router = APIRouter(include_in_schema=False)

_NEWEST: Final = 200
_SHOWN: Final = 12


@router.get("/insights")
async def insights_page(request: Request) -> Page:
    return Page(await asyncio.to_thread(_insights_page, state_of(request).state_dir))


def _insights_page(state_dir: StateDir) -> Clean:
    paths = [Path(row.path) for row in list_agentic(state_dir, limit=_NEWEST)]
    recorded = sorted(state_dir.traces.glob("conversation-*.jsonl"))
    told = insights((read_agentic(path) for path in paths), judgments(recorded))
    rejecting = [row for row in told.rejections if row.rejected][:_SHOWN]
    return render(
        "insights.html",
        traces=told.traces,
        failed=told.failed,
        rejections=bar_chart(
            "Rejections by criterion",
            [
                (f"{row.criterion} {row.name}", row.rejected, f"{row.rejected} of {row.judged} judgments")
                for row in rejecting
            ],
        ),
        phases=bar_chart("Seconds by phase", [(row.phase, row.seconds, f"{row.seconds} s") for row in told.phases]),
        commands=bar_chart(
            "Failed calls",
            [
                (line_of(f"{row.tool} {row.args}", limit=160), row.failed, f"{row.failed} of {row.calls}")
                for row in told.failed_commands[:_SHOWN]
            ],
        ),
        loops=[
            (name, loop.lines[0], line_of(f"{loop.times} x {loop.tool} {loop.args}", limit=160))
            for name, loop in told.loops[:_SHOWN]
        ],
        omens=[
            (omen.trace, omen.line, line_of(omen.thought, limit=160), line_of(f"{omen.tool} {omen.args}", limit=160))
            for omen in told.omens[:_SHOWN]
        ],
    )


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
        "path": line_of(session.path),
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
