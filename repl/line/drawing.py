"""What line mode draws: the prompt with the moving lines above it, and the toolbar. Reads the view, changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.formatted_text import FormattedText

from repl.line.keymap import shown
from repl.line.status import fit, running_parts, status_lines, stream_lines
from repl.permissions import choices_text
from repl.present.escape import one_line
from tracer.clock import monotonic

if TYPE_CHECKING:
    from repl.line.view import LineView

__all__ = ["message", "moving", "toolbar"]

_PROMPT = ("class:prompt", "pm> ")


def message(view: LineView) -> FormattedText:
    """The prompt; while a search or a question is open, that instead."""
    if view.done:
        return FormattedText([_PROMPT])
    if view.search is not None:
        found = one_line(view.search.match(view.buffer.text), 100) or "(nothing)"
        return FormattedText([("class:moving", f"search {view.search.scope}: {found}\n"), ("class:prompt", "find> ")])
    if view.leaving:
        names = ", ".join(view.session.running) or "a task"
        question = f"{names} still runs: w wait · s stop and leave (resumable) · c cancel "
        return FormattedText([("class:prompt", question)])
    return FormattedText([*((style, f"{line}\n") for style, line in moving(view)), _PROMPT])


def moving(view: LineView) -> list[tuple[str, str]]:
    """(style, line) above the prompt that say what goes on; none at rest or in plain mode."""
    progress = view.feed.shown
    if progress is None or view.output.plain:
        return []
    waiting = view.session.permissions.open_question()
    if waiting is not None:
        return [("class:moving", fit([f"  {choices_text(waiting.question)}, then Enter"], view.size.columns - 1))]
    size = view.size
    streamed = stream_lines(progress, live=view.live, detail=view.feed.detail, columns=size.columns, rows=size.rows)
    standing = status_lines(progress, now=monotonic(), columns=size.columns, most=max(size.rows // 3, 4))
    return [*(("class:live", line) for line in streamed), *(("class:moving", line) for line in standing)]


def toolbar(view: LineView) -> str:
    """The line below the prompt; parts drop from the right where it is narrow."""
    if view.hint:
        return fit([view.hint], view.size.columns)
    progress = view.feed.shown
    if progress is None:
        asking = f"{len(view.session.asking)} waiting for your answer" if view.session.asking else ""
        return fit([view.shell.status_line(), asking, "? keys"], view.size.columns)
    others, queued = len(view.session.running) - 1, len(view.session.queue)
    parts = running_parts(progress, others=others, queued=queued, budget=view.session.chosen("budget_usd")[0])
    return fit([*parts, f"{shown(view.keys['stop'][0])} stop", "? keys"], view.size.columns)
