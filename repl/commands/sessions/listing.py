"""Native sessions, distilled traces and their prompts: list, find, print; `pm admin reindex`."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

from repl.context import Context
from repl.present.text import age_text, cost_text, count_text, one_line, padded, width_cut
from tracer.blobs import DirectoryBlobs
from tracer.catalog.agentic import AgenticRow, TraceQuery, find_traces
from tracer.catalog.store import rebuild
from tracer.clock import now_epoch_ms, since_iso
from tracer.distill.locate.find import PROVIDERS, provider_root
from tracer.distill.locate.listing import NativeRow, list_native
from tracer.errors import NotFoundError, UsageError

_LIMIT = 50
_PROJECT = 34
_SHORT_ID, _LONG_ID = 8, 36


def sessions(context: Context, arguments: Namespace) -> None:
    limit = _LIMIT if arguments.limit is None else arguments.limit
    project = context.folder if arguments.here else None
    folders = [context.state_dir.agentic_traces]
    rows = list_native(folders, provider=arguments.provider, project=project, environ=context.environ)
    output = context.output
    for row in rows[:limit]:
        output.record(row.to_dict())
    output.lines(_table(rows[:limit], shown=_shown_of_ids([one_line(row.session.session_id) for row in rows])))
    if not rows:
        searched = (arguments.provider,) if arguments.provider else PROVIDERS
        output.note(
            "no native sessions in " + ", ".join(str(provider_root(name, context.environ)) for name in searched)
        )
        output.note("  next:  pm distill --session PATH")
    elif len(rows) > limit:
        output.note(f"… {len(rows) - limit} older; --limit {len(rows)} shows all")
    shown = {"sessions": [row.to_dict() for row in rows[:limit]], "total": len(rows)}
    output.result("sessions", shown if output.form == "json" else {"count": len(rows[:limit]), "total": len(rows)})


def _table(rows: list[NativeRow], *, shown: int) -> list[str]:
    """The list; `shown` characters of each id."""
    if not rows:
        return []
    head = f"{'agent':<7} {'session':<{shown}} {'project':<{_PROJECT}} {'age':>7} {'size':>9}"
    lines = [f"{head}  {'distilled':<9} deleted in"]
    now = now_epoch_ms()
    for row in rows:
        session = row.session
        project = padded(width_cut(one_line(session.cwd or "?"), _PROJECT), _PROJECT)
        left = "kept" if row.days_left is None else f"{row.days_left} d"
        lines.append(
            f"{session.provider:<7} {one_line(session.session_id)[:shown]:<{shown}} {project} "
            f"{age_text(now - session.modified_ms):>7} {_size(session.size):>9}  {row.distilled:<9} {left}"
        )
    return lines


def _shown_of_ids(ids: list[str]) -> int:
    """How many characters of the ids tell them apart: what is shown can be given to `pm distill --session`."""
    apart = len(set(ids))
    return next((size for size in range(_SHORT_ID, _LONG_ID) if len({text[:size] for text in ids}) == apart), _LONG_ID)


def _size(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000  # type: ignore[assignment]  # a float from here on
    return f"{count:.1f} GB"


_LABEL = 30


def traces(context: Context, arguments: Namespace) -> None:
    limit = _LIMIT if arguments.limit is None else arguments.limit
    rows = find_traces(context.state_dir, _query(arguments), limit=limit + 1)
    output, shown = context.output, rows[:limit]
    for row in shown:
        output.record(row._asdict())
    output.lines(_traces_table(shown))
    if not rows:
        output.note("no distilled session matches")
        output.note("  next:  pm sessions   or   pm distill --latest")
    elif len(rows) > limit:
        output.note(f"the newest {limit}; --limit shows more")
    fields: dict[str, Any] = {"traces": [row._asdict() for row in shown]}
    output.result("sessions find", fields if output.form == "json" else {"count": len(shown)})


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


def _traces_table(rows: list[AgenticRow]) -> list[str]:
    if not rows:
        return []
    head = f"{'ended (UTC)':<16}  {'label':<{_LABEL}}  {'provider':<9}  {'outcome':<7}"
    head += f"  {'cost':>8}  {'tools':>5}  {'err':>4}"
    lines = [f"{head}  file"]
    for row in rows:
        label = padded(width_cut(one_line(row.label), _LABEL), _LABEL)
        outcome = "?" if row.success is None else "ok" if row.success else "failed"
        cost = cost_text(row.cost_usd).removeprefix("cost ")
        lines.append(
            f"{row.ts[:16].replace('T', ' '):<16}  {label}  {one_line(row.provider):<9}  {outcome:<7}  "
            f"{cost:>8}  {_number(row.tools):>5}  {_number(row.errors):>4}  {one_line(row.path.rsplit('/', 1)[-1])}"
        )
    return lines


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)


def reindex(context: Context, arguments: Namespace) -> None:
    del arguments
    count = rebuild(context.state_dir)
    context.output.line(f"catalogue rebuilt from {count_text(count, 'file')}")
    context.output.result("admin reindex", {"files": count})


_DIGITS = re.compile(r"(?:sha256:)?([0-9a-fA-F]{4,64})")


def show(context: Context, arguments: Namespace) -> None:
    match = _DIGITS.fullmatch(arguments.sha256)
    if match is None:
        raise UsageError(f"{arguments.sha256!r} is no hash", why="give at least 4 hexadecimal digits")
    wanted, blobs = match.group(1).lower(), DirectoryBlobs(context.state_dir.blobs)
    known = [blob for blob in blobs.ids() if blob.removeprefix("sha256:").startswith(wanted)]
    if len(known) != 1:
        what = "no prompt" if not known else f"{len(known)} stored texts"
        raise NotFoundError(f"{what} with hash {wanted!r}", next_step="the meta line of a trace has it: prompt_sha256")
    text = blobs.read(known[0])
    if context.output.human:
        context.output.data(text if text.endswith(b"\n") else text + b"\n")
    shown = {"sha256": known[0].removeprefix("sha256:"), "prompt": text.decode("utf-8", "replace")}
    context.output.result("prompts show", shown)
