"""`pm traces`: look distilled sessions up; `pm reindex`: rebuild the catalogue that answers."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from repl.commands.tasks import since_iso
from repl.present.escape import one_line, width_cut
from repl.present.words import cost_text, count_text
from tracer.catalog import AgenticRow, rebuild
from tracer.distill.index import TraceQuery, find_traces
from tracer.errors import UsageError

if TYPE_CHECKING:
    from repl.commands.context import Context

__all__ = ["reindex", "traces"]

_LIMIT = 50
_LABEL = 30


def traces(context: Context, arguments: Namespace) -> int:
    """`pm traces [TEXT] [--failed] [--since D] [--op NAME] …`."""
    limit = arguments.limit if arguments.limit is not None else _LIMIT
    if limit < 1:
        raise UsageError("--limit must be 1 or more")
    rows = find_traces(context.state_dir, _query(arguments), limit=limit + 1)
    output, shown = context.output, rows[:limit]
    for row in shown:
        output.record(row._asdict())
    output.lines(_table(shown))
    if not rows:
        output.note("no distilled session matches")
        output.note("  next:  pm sessions   or   pm distill --latest")
    elif len(rows) > limit:
        output.note(f"the newest {limit}; --limit shows more")
    fields: dict[str, Any] = {"traces": [row._asdict() for row in shown]}
    output.result("traces", fields if output.form == "json" else {"count": len(shown)})
    return 0


def _query(arguments: Namespace) -> TraceQuery:
    if arguments.failed and arguments.outcome not in {None, "failure"}:
        raise UsageError("--failed and --outcome exclude each other", next_step="give one of them")
    return TraceQuery(
        since=since_iso(arguments.since) if arguments.since else None,
        until=since_iso(arguments.until) if arguments.until else None,
        operation=arguments.op,
        module=arguments.module,
        provider=arguments.provider,
        model=arguments.model,
        outcome="failure" if arguments.failed else arguments.outcome,
        least_cost=arguments.min_cost,
        most_cost=arguments.max_cost,
        least_errors=arguments.errors,
        text=" ".join(arguments.text) if arguments.text else None,
    )


def _table(rows: list[AgenticRow]) -> list[str]:
    if not rows:
        return []
    head = f"{'ended (UTC)':<16}  {'label':<{_LABEL}}  {'provider':<9}  {'outcome':<7}"
    head += f"  {'cost':>8}  {'tools':>5}  {'err':>4}"
    lines = [f"{head}  file"]
    for row in rows:
        label = width_cut(one_line(row.label), _LABEL)
        outcome = "?" if row.success is None else "ok" if row.success else "failed"
        cost = cost_text(row.cost_usd).removeprefix("cost ")
        lines.append(
            f"{row.ts[:16].replace('T', ' '):<16}  {label:<{_LABEL}}  {one_line(row.provider):<9}  {outcome:<7}  "
            f"{cost:>8}  {_number(row.tools):>5}  {_number(row.errors):>4}  {one_line(row.path.rsplit('/', 1)[-1])}"
        )
    return lines


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)


def reindex(context: Context, arguments: Namespace) -> int:
    """`pm reindex`."""
    del arguments
    count = rebuild(context.state_dir)
    context.output.line(f"catalogue rebuilt from {count_text(count, 'file')}")
    context.output.result("reindex", {"files": count})
    return 0
