"""Looks distilled traces up: by time, operation, module, provider, model, outcome, cost, errors and text.

Everything but `text` is answered by the catalogue, which is rebuilt from the files whenever it is missing; `text` is
looked for in the files that passed the other conditions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from tracer.catalog.store import open_catalog, refresh
from tracer.distill.native import PROVIDER_NAMES
from tracer.statedir import StateDir

_FIELDS: Final = ("text", "args_summary", "output_tail", "name", "path")
_SQL: Final = """
from agentic
where (:since is null or ts >= :since) and (:until is null or ts <= :until)
  and (:operation is null or operation glob :operation) and (:module is null or module glob :module)
  and (:provider is null or provider = :provider) and (:model is null or model glob :model)
  and (:outcome is null or case success when 1 then 'success' when 0 then 'failure' else 'unknown' end = :outcome)
  and (:least_cost is null or cost_usd >= :least_cost) and (:most_cost is null or cost_usd <= :most_cost)
  and (:least_errors is null or coalesce(errors, 0) >= :least_errors)
order by ts desc, name desc
"""


class AgenticRow(NamedTuple):
    """One distilled session as its meta line tells it; `success` None is not told.

    `used` are input and output tokens, `agents` how many subagents it had, `prompt` the hash of what was asked,
    `project` that of the folder it ran in.
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
    project: str = ""


AGENTIC_COLUMNS: Final = ", ".join(("name", *AgenticRow._fields[1:]))


class TraceQuery(NamedTuple):
    """Conditions that must all hold; None or an empty text asks nothing.

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
    text: str | None = None


def list_agentic(state_dir: StateDir, *, since: str | None = None, limit: int | None = None) -> list[AgenticRow]:
    """The distilled sessions, newest first."""
    return find_traces(state_dir, TraceQuery(since=since), limit=limit)


def agentic_row(folder: str, row: Sequence[Any]) -> AgenticRow:
    """One row of `AGENTIC_COLUMNS`."""
    success = None if row[7] is None else bool(row[7])
    return AgenticRow._make((os.path.join(folder, row[0]), *row[1:7], success, *row[8:]))


def find_traces(state_dir: StateDir, query: TraceQuery, *, limit: int | None = None) -> list[AgenticRow]:
    """The traces that fit, newest first."""
    named = PROVIDER_NAMES.get(query.provider or "", query.provider)
    asked = query._replace(since=(query.since or "")[:19], until=(query.until or "")[:19], provider=named)
    values = {name: None if value == "" else value for name, value in asked._asdict().items()}
    folder = os.fspath(state_dir.agentic_traces)
    with closing(open_catalog(state_dir)) as connection:
        refresh(connection, state_dir)
        rows = (agentic_row(folder, row) for row in connection.execute(f"select {AGENTIC_COLUMNS} {_SQL}", values))
        return list(islice((row for row in rows if not query.text or _holds(Path(row.path), query.text)), limit))


def _holds(path: Path, text: str) -> bool:
    wanted = text.lower()
    with suppress(OSError), path.open("rb") as file:
        return any(wanted in piece.lower() for line in file for piece in _texts_of(line))
    return False


def _texts_of(line: bytes) -> Iterator[str]:
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
