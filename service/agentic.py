"""Distilled agent sessions as their page shows them: one card a step, loops marked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from service.views import Shown, shown
from tracer.catalog import list_agentic
from tracer.errors import NotFoundError
from tracer.statedir import StateDir

__all__ = ["agentic_rows", "agentic_view"]

_STEPS: Final = 5_000
_REPEATS: Final = 3
_WINDOW: Final = 20


class Step(NamedTuple):
    """One line of the session: a thought, a message, a tool call or an error."""

    kind: str
    ts: str
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
    lines = _lines(Path(row.path))
    looping = _looping(lines)
    steps = [_step(line, looping=number in looping) for number, line in enumerate(lines)]
    meta = {"label": row.label, "provider": row.provider, "model": row.model, "success": row.success}
    return {
        "meta": {**meta, "ts": row.ts, "cost_usd": row.cost_usd},
        "steps": steps,
        "loops": _named(lines, looping),
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with path.open("rb") as file:
        for raw in file:
            try:
                line = orjson.loads(raw)
            except orjson.JSONDecodeError:
                line = {"type": "error", "text": "this line cannot be read"}
            if isinstance(line, dict) and line.get("type") != "meta":
                found.append(line)
            if len(found) == _STEPS:
                found.append({"type": "error", "text": f"more than {_STEPS} steps: the file has the rest"})
                break
    return found


def _step(line: dict[str, Any], *, looping: bool) -> Step:
    tool = line.get("type") == "tool"
    return Step(
        kind=str(line.get("type", "")),
        ts=str(line.get("ts", "")),
        name=str(line.get("name", "")) if tool else str(line.get("role", "")),
        status=str(line.get("status", "")) if tool else "",
        summary=shown(line.get("args_summary") if tool else line.get("text")),
        output=shown(line.get("output_tail")),
        looping=looping,
    )


def _call(line: dict[str, Any]) -> tuple[str, str, str, str]:
    return (
        str(line.get("name")),
        str(line.get("args_summary")),
        str(line.get("status")),
        str(line.get("output_tail")),
    )


def _looping(lines: list[dict[str, Any]]) -> set[int]:
    """The steps that belong to a loop: one call three times or more, with one result, within 20 steps."""
    marked: set[int] = set()
    calls = [(number, _call(line)) for number, line in enumerate(lines) if line.get("type") == "tool"]
    for position, (number, call) in enumerate(calls):
        near = [at for at, other in calls[position:] if other == call and at - number <= _WINDOW]
        if len(near) >= _REPEATS:
            marked.update(near)
    return marked


def _named(lines: list[dict[str, Any]], looping: set[int]) -> list[str]:
    counts = Counter(_call(lines[number])[:2] for number in looping)
    return [f"{name} {summary[:120]} ({count} times, same result)" for (name, summary), count in counts.most_common()]
