"""Pages over many runs: insights with plots, and two tasks side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from service.pages.task import diff_reader, find_task, render
from service.pages.values import TaskView, shown, task_view
from service.state import state_of
from tracer.catalog.tasks import list_agentic
from tracer.conversation import ConversationTracer
from tracer.errors import NotFoundError
from tracer.insights.agentic_trace import judgments, read_agentic
from tracer.insights.report import insights
from tracer.statedir import StateDir

_ROW: Final = 28
_LABEL: Final = 220
_WIDTH: Final = 640
_VALUE: Final = 90


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
    """A chart of (label, value, value as text); the longest bar fills the space."""
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    room = _WIDTH - _LABEL - _VALUE
    bars = tuple(
        Bar(label[:34], text, number * _ROW, round(max(0.0, value) / most * room, 1))
        for number, (label, value, text) in enumerate(rows)
    )
    return BarChart(title, _WIDTH, max(1, len(rows)) * _ROW, _LABEL, bars)


router = APIRouter(include_in_schema=False)

_NEWEST: Final = 200
_SHOWN: Final = 12


@router.get("/insights")
async def insights_page(request: Request) -> HTMLResponse:
    """What the newest agent sessions and all judgments tell together."""
    return HTMLResponse(await asyncio.to_thread(_insights_page, state_of(request).state_dir))


@router.get("/compare")
async def compare_page(
    request: Request,
    a: Annotated[str, Query(max_length=100)] = "",
    b: Annotated[str, Query(max_length=100)] = "",
) -> HTMLResponse:
    """Two tasks side by side."""
    return HTMLResponse(await asyncio.to_thread(_compare_page, state_of(request).state_dir, a.strip(), b.strip()))


def _insights_page(state_dir: StateDir) -> str:
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
                (_line(f"{row.tool} {row.args}"), row.failed, f"{row.failed} of {row.calls}")
                for row in told.failed_commands[:_SHOWN]
            ],
        ),
        loops=[
            (name, loop.lines[0], _line(f"{loop.times} x {loop.tool} {loop.args}"))
            for name, loop in told.loops[:_SHOWN]
        ],
        omens=[
            (omen.trace, omen.line, _line(omen.thought), _line(f"{omen.tool} {omen.args}"))
            for omen in told.omens[:_SHOWN]
        ],
    )


def _line(text: str) -> str:
    return shown(" ".join(text.split()), limit=160).text


def _compare_page(state_dir: StateDir, a: str, b: str) -> str:
    problem, sides = "", []
    if a and b:
        try:
            sides = [_view(state_dir, each) for each in (a, b)]
        except NotFoundError as error:
            problem = error.what
    values: dict[str, Any] = {"a": a, "b": b, "problem": problem, "sides": sides}
    return render("compare.html", **values)


def _view(state_dir: StateDir, task_id: str) -> TaskView:
    entries = ConversationTracer.read_trace(find_task(state_dir, task_id).path)
    return task_view(entries, diff_of=diff_reader(state_dir))
