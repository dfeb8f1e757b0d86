"""`pm sessions`: what the agents' own folders hold, what of it was distilled, and what is about to be deleted."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from repl.present.escape import one_line, width_cut
from repl.present.words import age_text
from tracer.clock import now_epoch_ms
from tracer.distill.listing import NativeRow, list_native
from tracer.distill.locate import PROVIDERS, provider_root
from tracer.errors import UsageError

if TYPE_CHECKING:
    from repl.commands.context import Context

__all__ = ["sessions"]

_LIMIT = 50
_PROJECT = 34
_SHORT_ID, _LONG_ID = 8, 36


def sessions(context: Context, arguments: Namespace) -> int:
    """`pm sessions [--provider P] [--here] [--limit N]`."""
    limit = arguments.limit if arguments.limit is not None else _LIMIT
    if limit < 1:
        raise UsageError("--limit must be 1 or more")
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
    return 0


def _table(rows: list[NativeRow], *, shown: int) -> list[str]:
    """The list; `shown` characters of each id."""
    if not rows:
        return []
    head = f"{'agent':<7} {'session':<{shown}} {'project':<{_PROJECT}} {'age':>7} {'size':>9}"
    lines = [f"{head}  {'distilled':<9} deleted in"]
    now = now_epoch_ms()
    for row in rows:
        session = row.session
        project = width_cut(one_line(session.cwd or "?"), _PROJECT)
        left = "kept" if row.days_left is None else f"{row.days_left} d"
        lines.append(
            f"{session.provider:<7} {one_line(session.session_id)[:shown]:<{shown}} {project:<{_PROJECT}} "
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
