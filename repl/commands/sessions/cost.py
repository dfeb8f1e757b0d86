"""`pm sessions cost`: what agents cost, pm's own tasks and distilled sessions alike, as a table with bars."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from repl.context import Context
from repl.present.text import cost_text, count_text, one_line, padded, tokens_text, width_cut, width_of
from tracer.catalog.agentic import list_agentic
from tracer.catalog.tasks import list_tasks
from tracer.clock import since_iso
from tracer.prices import price_source
from tracer.statedir import folder_sha256

_BAR, _NAME, _BESIDE = 30, 32, 38  # `_BESIDE`: what else stands in a row, with a pane's frame


class _Spent(NamedTuple):
    """One task or session; `usd` None is unknown, `tokens` None not told; `place` is the hash of the project's path."""

    day: str
    project: str
    place: str
    model: str
    task: str
    usd: float | None
    tokens: int | None


def cost(context: Context, arguments: Namespace) -> None:
    by, since = arguments.by or "day", since_iso(arguments.since) if arguments.since else None
    groups: dict[str, list[_Spent]] = {}
    for spent in _told_apart(list(_spent(context, since))):
        groups.setdefault(getattr(spent, by) or "n/a", []).append(spent)
    names = sorted(groups) if by == "day" else sorted(groups, key=lambda name: -(_usd(groups[name]) or 0))
    most = max((_usd(each) or 0 for each in groups.values()), default=0)
    output = context.output
    width = max((min(width_of(one_line(name)), _NAME) for name in names), default=3)
    room = min(max(output.columns - width - _BESIDE, 8), _BAR) if output.columns else _BAR
    for name in names:
        each, usd = groups[name], _usd(groups[name])
        bar = "█" * round(room * (usd or 0) / most) if most else ""
        unknown = sum(one.usd is None for one in each)
        tokens = sum(one.tokens or 0 for one in each)
        parts = [count_text(len(each), "run"), tokens_text(tokens, short=True) if tokens else ""]
        parts += [f"{unknown} n/a" if unknown and usd is not None else ""]
        told = cost_text(usd).removeprefix("cost ")
        shown = padded(width_cut(one_line(name), width), width)
        output.line(f"{shown} {told:>9}  {bar:<{room}}  {', '.join(filter(None, parts))}".rstrip())
    every = [one for each in groups.values() for one in each]
    if not every:
        output.note("nothing has cost anything yet   pm distill --all counts what agents did by themselves")
    else:
        total = cost_text(_usd(every)).removeprefix("cost ")
        output.line(f"{'all':<{width}} {total:>9}  {count_text(len(every), 'run')}")
    for source in sorted({source for one in every if (source := price_source(one.model))}):
        output.note(f"  prices: {source}; models that are not there are n/a")
    rows = [{by: name, "usd": _usd(groups[name]), "runs": len(groups[name])} for name in names]
    output.result("sessions cost", {"by": by, "rows": rows, "usd": _usd(every)})


def _spent(context: Context, since: str | None) -> Iterator[_Spent]:
    """Every task, and every distilled session that is none of a task's."""
    state_dir, seen = context.state_dir, set[str]()
    project, place = state_dir.project.name, folder_sha256(state_dir.project)
    for row in list_tasks(state_dir):
        seen.update(row.sessions)
        if since is None or row.updated_at >= since:
            model = row.model or row.executor
            yield _Spent(row.created_at[:10], project, place, model, row.task_id, row.cost_usd, sum(row.tokens))
    for session in list_agentic(state_dir, since=since):
        if not any(session.session_id and ref.endswith(session.session_id) for ref in seen):
            name = session.label or PurePath(session.path).stem
            operation, _, ran_in = (session.label or "").partition(":")  # distilled from wherever the agent ran
            where = (ran_in, session.project) if operation == "session" and ran_in else (project, place)
            yield _Spent(session.ts[:10], *where, session.model, name, session.cost_usd, None)


def _told_apart(spent: list[_Spent]) -> Iterator[_Spent]:
    """The same, where projects of one name are named with the beginning of their hash too."""
    places: dict[str, set[str]] = {}
    for one in spent:
        places.setdefault(one.project, set()).update({one.place} - {""})  # older traces tell none
    for one in spent:
        several = len(places[one.project]) > 1
        yield one._replace(project=f"{one.project} ({one.place[:6] or '?'})") if several else one


def _usd(spent: list[_Spent]) -> float | None:
    known = [one.usd for one in spent if one.usd is not None]
    return sum(known) if known else None
