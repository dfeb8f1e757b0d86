"""What moves in line mode: the status lines above the prompt and the toolbar below it. Pure text from values."""

from __future__ import annotations

from collections.abc import Sequence

from repl.present.escape import width_cut
from repl.present.progress import Progress
from repl.present.words import cost_text, tokens_text

__all__ = ["fit", "running_parts", "status_lines", "stream_lines"]


def fit(parts: Sequence[str], columns: int) -> str:
    """The parts joined by dots, dropped from the right until they fit; the first one is cut if it must be."""
    kept = [part for part in parts if part]
    while len(kept) > 1 and len(" · ".join(kept)) > columns:
        kept.pop()
    return width_cut(" · ".join(kept), columns) if columns > 0 else " · ".join(kept)


def running_parts(progress: Progress, *, others: int, queued: int, budget: float | None) -> list[str]:
    """The toolbar while a task runs: what matters most comes first."""
    parts = [progress.task_id]
    if progress.max_iterations and not progress.board.standings:
        parts.append(f"it {min(progress.iteration + 1, progress.max_iterations)}/{progress.max_iterations}")
    parts.append(progress.subtasks_text())
    tokens = progress.tokens_so_far
    parts.extend((tokens_text(tokens or None, short=True), _money(progress.cost_so_far if tokens else None, budget)))
    parts.extend((progress.executor, progress.permissions))
    if others:
        parts.append(f"{others} more running")
    if queued:
        parts.append(f"queued {queued}")
    return parts


def _money(cost: float | None, budget: float | None) -> str:
    text = cost_text(cost)
    return f"! {text} of {cost_text(budget)}" if budget and cost is not None and cost > 0.8 * budget else text


def status_lines(progress: Progress, *, now: float, columns: int, most: int = 12) -> list[str]:
    """The moving lines above the prompt: subtasks and their bar, what is going on."""
    width = max(columns - 1, 20)
    lines = progress.table(now, most=most)
    if bar := progress.bar(now):
        lines.append(f"  {bar}")
    lines.append("  " + progress.status(now))
    return [width_cut(line, width) for line in lines]


def stream_lines(progress: Progress, *, live: bool, detail: bool, columns: int, rows: int) -> list[str]:
    """What the agent says and does just now: its text with `live`, its tools and thoughts too with `detail`."""
    width, most = max(columns - 7, 20), max(min(rows // 3, 12), 3)
    if detail:
        found = progress.stream.detail_rows(width, most)
    else:
        found = progress.stream.text_rows(width, most) if live else []
    return [f"      {line}" for line in found]
