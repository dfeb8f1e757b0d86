"""The viewer's texts: title with totals, follow state, filter line and index bar. Pure over the model's values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from repl.present.words import cost_text, seconds_text, tokens_text
from repl.screen.cells import shown

if TYPE_CHECKING:
    from pathlib import Path

    from repl.screen.trace_model import TraceModel
    from tracer.rows.digest import Totals

__all__ = ["filter_text", "follow_text", "index_text", "title_text", "trace_name"]

_NAME: Final = re.compile(r"conversation-(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(_\d+)?\.jsonl")
_SHOWN_JUDGMENTS: Final = 6


def trace_name(path: Path) -> str:
    """The task's id for a conversation trace, else the file's name."""
    found = _NAME.fullmatch(path.name)
    return shown(found.group(1) if found else path.name)


def title_text(model: TraceModel) -> str:
    """`task-015 · COMPLETE · 2 iterations · REJECT, PASS · 7.9 s · 4,750 tok · $0.04` as far as it is known."""
    totals = model.digest.totals
    parts = [trace_name(model.file.path), *_middle(totals)]
    if totals.first_ms is not None and totals.last_ms is not None and totals.last_ms > totals.first_ms:
        parts.append(seconds_text(totals.last_ms - totals.first_ms))
    if totals.tokens is not None:
        parts.append(tokens_text(totals.tokens))
    if totals.family == "conversation" and (totals.judged or totals.cost_usd is not None):
        parts.append(cost_text(None if totals.cost_unknown else totals.cost_usd))
    return " · ".join(part for part in parts if part)


def _middle(totals: Totals) -> list[str]:
    if totals.family != "conversation":
        return [totals.family, f"{totals.failed:,} failed" if totals.failed else ""]
    status = shown(totals.status) or (f"unfinished after {shown(totals.last_event)}" if totals.last_event else "")
    parts = [status]
    if totals.iterations:
        parts.append(f"{totals.iterations} iteration{'' if totals.iterations == 1 else 's'}")
    if totals.judgments:
        last = totals.judgments[-_SHOWN_JUDGMENTS:]
        more = f"{totals.judged - len(last)} more, " if totals.judged > len(last) else ""
        parts.append(more + ", ".join(shown(word) for word in last))
    return parts


def follow_text(*, following: bool, waiting: int) -> str:
    """`FOLLOW`, `+12 facts (end to follow)`, or nothing."""
    if following:
        return "FOLLOW"
    return f"+{waiting:,} fact{'' if waiting == 1 else 's'} (end to follow)" if waiting > 0 else ""


def filter_text(model: TraceModel) -> str:
    """`filter: failed   12 of 40 facts`; says when grouping is off, when looking goes on, and what stays hidden."""
    count = model.file.index.count
    torn = f"   line {count} incomplete ({model.file.torn:,} bytes)" if model.file.torn else ""
    grouping = "" if model.file.index.runs_whole else "   too many groups: shown flat"
    if model.scan is None:
        return f"filter: none   {count:,} fact{'' if count == 1 else 's'}{torn}{grouping}"
    scan = model.scan
    going = f"   looking, {scan.done * 100 // max(count, 1)} %" if scan.done < count and not scan.full else ""
    full = "   stopped at the first matches" if scan.full else ""
    return f"filter: {describe(model)}   {len(scan.matches):,} of {count:,} facts{going}{full}{torn}"


def describe(model: TraceModel) -> str:
    """The filter in its own language."""
    wanted = model.wanted
    terms = []
    if wanted.events:
        terms.append("event:" + ",".join(wanted.events))
    if wanted.iterations:
        terms.append("it:" + ",".join(f"{low}-{high}" if low != high else str(low) for low, high in wanted.iterations))
    if wanted.subtasks:
        terms.append("sub:" + ",".join(wanted.subtasks))
    terms += [f'text:"{text}"' for text in wanted.texts]
    if wanted.failed:
        terms.append("failed")
    return shown(" ".join(terms))


def index_text(model: TraceModel, width: int) -> str:
    """A thin bar while the file is being indexed; empty once it is."""
    if model.file.indexed:
        return ""
    done = model.file.scanned / max(model.file.size, 1)
    filled = int(done * width)
    where = "   the end of the file, not numbered yet" if model.tail is not None else ""
    return f"indexing [{'#' * filled}{'.' * (width - filled)}] {done * 100:.0f} %{where}"
