"""The page over many runs: insights with plots."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import APIRouter, Request

from service.pages.task import Page, render
from service.pages.values import line_of
from service.state import state_of
from tracer.catalog.agentic import list_agentic
from tracer.insights.agentic_trace import judgments, read_agentic
from tracer.insights.report import insights
from tracer.redaction.redactor import Clean
from tracer.statedir import StateDir

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
