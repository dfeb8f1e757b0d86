"""Looks distilled traces up: by time, operation, module, provider, model, outcome, cost, errors and text.

Everything but `text` is answered by the catalogue, which is rebuilt from the files whenever it is missing; `text` is
looked for in the files that passed the other conditions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from tracer.catalog.store import open_catalog, refresh
from tracer.distill.native import PROVIDER_NAMES
from tracer.statedir import StateDir

_SUCCESS: Final = {"success": True, "failure": False, "unknown": None}
_FIELDS: Final = ("text", "args_summary", "output_tail", "name", "path")
_SQL: Final = """
select name, ts, label, operation, module, provider, model, success, cost_usd, duration_s, session_id, tools, errors,
       thoughts, size, native_bytes, used, agents, prompt
from agentic where :since is null or ts >= :since order by ts desc, name desc limit :limit
"""


class AgenticRow(NamedTuple):
    """One distilled session as its meta line tells it; `success` None is not told.

    `used` are input and output tokens, `agents` how many subagents it had, `prompt` the hash of what was asked.
    """

    path: str
    ts: str
    label: str
    operation: str
    module: str
    provider: str
    model: str
    success: bool | None
    cost_usd: float | None
    duration_s: float | None
    session_id: str
    tools: int | None
    errors: int | None = None
    thoughts: int | None = None
    size: int = 0
    native_bytes: int | None = None
    used: int | None = None
    agents: int | None = None
    prompt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Conditions that must all hold; None asks nothing.

    `since` and `until` are ISO 8601 UTC. `operation`, `module` and `model` take the wildcards * and ?. `provider` is
    either name (`claude` or `anthropic`). Costs are US dollars; a trace of unknown cost fails every cost condition.
    """

    since: str | None = None
    until: str | None = None
    operation: str | None = None
    module: str | None = None
    provider: str | None = None
    model: str | None = None
    outcome: Literal["success", "failure", "unknown"] | None = None
    least_cost: float | None = None
    most_cost: float | None = None
    least_errors: int | None = None
    session_id: str | None = None
    text: str | None = None


def list_agentic(state_dir: StateDir, *, since: str | None = None, limit: int | None = None) -> list[AgenticRow]:
    """The distilled sessions, newest first."""
    values = {"since": since, "limit": -1 if limit is None else limit}
    folder = os.fspath(state_dir.agentic_traces)
    with closing(open_catalog(state_dir)) as connection:
        refresh(connection, state_dir)
        return [agentic_row(folder, row) for row in connection.execute(_SQL, values)]


def agentic_row(folder: str, row: Sequence[Any]) -> AgenticRow:
    """One row of the catalogue, its columns in the order of `AgenticRow`."""
    success = None if row[7] is None else bool(row[7])
    return AgenticRow._make((os.path.join(folder, row[0]), *row[1:7], success, *row[8:]))


def find_traces(state_dir: StateDir, query: TraceQuery, *, limit: int | None = None) -> list[AgenticRow]:
    """The traces that fit, newest first."""
    since = query.since[:19] if query.since else None
    found: list[AgenticRow] = []
    for row in list_agentic(state_dir, since=since):
        if _fits(row, query) and (not query.text or _holds(Path(row.path), query.text)):
            found.append(row)
            if limit is not None and len(found) >= limit:
                break
    return found


def _fits(row: AgenticRow, query: TraceQuery) -> bool:
    wanted = ((query.operation, row.operation), (query.module, row.module), (query.model, row.model))
    if any(pattern and not fnmatchcase(value, pattern) for pattern, value in wanted):
        return False
    if query.until and row.ts > query.until[:19]:
        return False
    if query.provider and row.provider != PROVIDER_NAMES.get(query.provider, query.provider):
        return False
    if query.outcome and row.success is not _SUCCESS[query.outcome]:
        return False
    if query.session_id and row.session_id != query.session_id:
        return False
    if query.least_errors is not None and (row.errors or 0) < query.least_errors:
        return False
    return _cost_fits(row.cost_usd, query)


def _cost_fits(cost: float | None, query: TraceQuery) -> bool:
    if query.least_cost is None and query.most_cost is None:
        return True
    if cost is None:
        return False
    return (query.least_cost or 0.0) <= cost and (query.most_cost is None or cost <= query.most_cost)


def _holds(path: Path, text: str) -> bool:
    wanted = text.lower()
    try:
        with path.open("rb") as file:
            return any(wanted in piece.lower() for line in file for piece in texts_of(line))
    except OSError:
        return False


def texts_of(line: bytes) -> Iterator[str]:
    """The texts of one trace line that a person would search; nothing of the meta line or a damaged one."""
    try:
        fields: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        return
    if not isinstance(fields, dict) or fields.get("type") == "meta":
        return
    for key in _FIELDS:
        if isinstance(fields.get(key), str):
            yield fields[key]
    diagnostics = fields.get("diagnostics")
    if isinstance(diagnostics, list):
        yield from (piece for piece in diagnostics if isinstance(piece, str))
