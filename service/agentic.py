"""Distilled agent sessions as their page shows them: one card a step, loops marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from service.views import Shown, shown
from tracer.catalog import list_agentic
from tracer.clock import from_epoch_ms
from tracer.errors import NotFoundError
from tracer.insights.files import read_agentic
from tracer.insights.loops import Loop, find_loops
from tracer.insights.model import Step
from tracer.statedir import StateDir

__all__ = ["agentic_rows", "agentic_view"]

_STEPS: Final = 5_000


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


def agentic_rows(state_dir: StateDir) -> list[dict[str, Any]]:
    """The rows of the list, newest first; `name` is the file's name."""
    return [{**row._asdict(), "name": Path(row.path).name} for row in list_agentic(state_dir, limit=500)]


def agentic_view(state_dir: StateDir, name: str) -> dict[str, Any]:
    """What the session's page shows.

    Raises:
        NotFoundError: the folder lists no such file.

    """
    row = next((row for row in list_agentic(state_dir) if Path(row.path).name == name), None)
    if row is None:
        raise NotFoundError(f"no agent session {name!r}", next_step="open the list of sessions")
    trace = read_agentic(Path(row.path))
    loops = find_loops(trace.steps)
    looping = {line for loop in loops for line in loop.lines}
    meta = {"label": row.label, "provider": row.provider, "model": row.model, "success": row.success}
    return {
        "meta": {**meta, "ts": row.ts, "cost_usd": row.cost_usd},
        "steps": [_step(step, looping=step.line in looping) for step in trace.steps[:_STEPS]],
        "left_out": max(0, len(trace.steps) - _STEPS),
        "loops": [_named(loop) for loop in loops],
    }


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
