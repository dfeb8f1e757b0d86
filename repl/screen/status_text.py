"""The running tasks in one line each, and the texts of the screen's head. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repl.present.progress import Progress
from repl.present.words import cost_text, tokens_text
from repl.screen.cells import cell_len
from tracer.catalog import TaskRow

__all__ = ["head_text", "session_cost", "status_text"]


def status_text(progress: Progress, *, now: float, budget: float | None = None) -> str:
    """`task-015 · it 1/3 · 2/6 subtasks · 14.2k tok · $0.12 · claude · asking claude · 12 s`; `!` near the budget."""
    money = cost_text(progress.cost_so_far) if progress.tokens_so_far or progress.cost_so_far else ""
    if budget and progress.cost_so_far is not None and progress.cost_so_far > 0.8 * budget:
        money = f"! {money} of {cost_text(budget)}"
    parts = [
        progress.task_id,
        f"it {min(progress.iteration + 1, progress.max_iterations)}/{progress.max_iterations}"
        if progress.max_iterations and not progress.board.standings
        else "",
        progress.subtasks_text(),
        tokens_text(progress.tokens_so_far, short=True) if progress.tokens_so_far else "",
        money,
        progress.executor,
        progress.permissions,
        progress.status(now).replace("Esc stops", "Ctrl+C stops"),
    ]
    return " · ".join(part for part in parts if part)


def head_text(left: str, parts: Iterable[str], width: int) -> str:
    """`left` and the joined parts at both ends of a line of `width` cells; parts drop from the right."""
    kept = [part for part in parts if part]
    while kept and cell_len(left) + cell_len(" · ".join(kept)) + 3 > width:
        kept.pop()
    right = " · ".join(kept) + " " if kept else ""
    return left + " " * max(width - cell_len(left) - cell_len(right), 1) + right


def session_cost(rows: Sequence[TaskRow], started: Iterable[str]) -> str:
    """What this session's tasks cost; empty before the first."""
    mine = set(started)
    costs = [row.cost_usd for row in rows if row.task_id in mine]
    known = [cost for cost in costs if cost is not None]
    return cost_text(sum(known) if known else None) if costs else ""
