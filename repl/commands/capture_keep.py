"""What stays of captures on this machine: `pm capture prune`, the same by itself, and what was never sent."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Final

from collector.spool_keep import Kept, prune_sent, sent_before, unsent
from repl.present.escape import one_line
from repl.present.words import age_text, count_text, size_text
from tracer.clock import now_epoch_ms
from tracer.errors import ConfigError, PmError, UsageError
from tracer.prune import parse_age

if TYPE_CHECKING:
    from repl.commands.context import Context

__all__ = ["note_unsent", "prune", "prune_by_itself"]

_ALWAYS: Final = "always"


def prune(context: Context, arguments: Namespace) -> int:
    """`pm capture prune [--older-than AGE] [--yes]`: captures that the collector has whole."""
    age = parse_age(arguments.older_than) if arguments.older_than else _kept_ms(context)
    output = context.output
    chosen = [] if age is None else sent_before(context.state_root, older_than_ms=age)
    if arguments.yes:
        chosen = prune_sent(context.state_root, chosen)
    for kept in chosen:
        ago = age_text(now_epoch_ms() - kept.sent_at_ms)
        output.line(f"{kept.spool.trace_id[:8]}  sent {ago:>6} ago  {size_text(kept.size):>9}  {_title(kept)}")
    freed = sum(kept.size for kept in chosen)
    waiting = unsent(context.state_root)
    verb = "deleted here" if arguments.yes else "would go"
    output.line(f"{count_text(len(chosen), 'sent capture')} {verb}, {size_text(freed)}; {len(waiting)} not sent stay")
    if age is None:
        output.note("capture.keep_sent is 'always': give --older-than 30d")
    if chosen and not arguments.yes:
        output.note("nothing was deleted; give --yes to delete")
    names = [kept.spool.trace_id for kept in chosen]
    fields = {"dry_run": not arguments.yes, "captures": names, "bytes": freed, "unsent": len(waiting)}
    output.result("capture prune", fields)
    return 0


def prune_by_itself(context: Context) -> None:
    """Remove what `capture.keep_sent` lets go and say so; trouble with it is told and stops nothing."""
    try:
        age = _kept_ms(context)
        if age is None:
            return
        removed = prune_sent(context.state_root, sent_before(context.state_root, older_than_ms=age))
    except PmError as error:
        context.output.note(f"old captures stay: {one_line(error.what)}" + (f" ({error.why})" if error.why else ""))
        return
    if removed:
        told = count_text(len(removed), "capture")
        context.output.note(f"deleted here: {told} that the collector has longer than {_keep(context)}")


def note_unsent(context: Context) -> int:
    """Say what waits to be sent; how many captures that are."""
    waiting = unsent(context.state_root)
    if waiting:
        events = count_text(sum(each.events for each in waiting), "event")
        newest = waiting[0].spool.trace_id[:8]
        context.output.note(f"not sent: {count_text(len(waiting), 'capture')}, {events}   pm record upload {newest}")
    return len(waiting)


def _keep(context: Context) -> str:
    return str(context.settings().get("capture.keep_sent"))


def _kept_ms(context: Context) -> int | None:
    """How long what was sent stays; None for always."""
    text = _keep(context)
    if text == _ALWAYS:
        return None
    try:
        return parse_age(text)
    except UsageError as error:
        raise ConfigError(
            f"capture.keep_sent is {text!r}", why=error.what, next_step="pm config set capture.keep_sent 30d"
        ) from error


def _title(kept: Kept) -> str:
    bug = kept.spool.header.get("request", {}).get("task", {}).get("bug_report", {})
    return one_line(str(bug.get("title") or ""), 50)
