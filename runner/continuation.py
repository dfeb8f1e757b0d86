"""How a task stands, and how one that ended short is taken up again in a new file. Pure.

The new file's USER_REQUEST repeats the prompt and says in `continues` which file it follows, why that one ended, what
was tried (so that the next request names it), and which script replies are used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from runner.decide import AwaitPerson, decide
from runner.evolve import fold
from runner.state import TaskState
from runner.task import TaskOutcome, TaskStatus
from tracer.events import Entry

__all__ = ["continuation_data", "outcome_of"]

_FINAL: Final[Mapping[str, TaskStatus]] = {
    "COMPLETE": "COMPLETE",
    "INCOMPLETE": "INCOMPLETE",
    "ERROR": "ERROR",
    "CANCELLED": "CANCELLED",
}


def outcome_of(state: TaskState, *, trace_file: str, chain_head: str | None) -> TaskOutcome:
    """`state` as callers see it; a task without an end is AWAITING_RESPONSE or UNFINISHED."""
    status, reason, detail, files = _standing(state)
    totals = state.totals
    return TaskOutcome(
        task_id=state.task_id,
        status=status,
        reason=reason,
        detail=detail,
        iterations=state.iterations,
        judgments=state.judgments.items(),
        files_modified=files,
        cost_usd=totals.cost_usd if totals.answers and totals.cost_known else None,
        usage=totals.usage or None,
        duration_ms=totals.spent_ms,
        trace_file=trace_file,
        chain_head=chain_head,
    )


def _standing(state: TaskState) -> tuple[TaskStatus, str, str, tuple[str, ...]]:
    if state.final is not None:
        final = state.final
        files = final.get("files_modified")
        return (
            _FINAL.get(str(final.get("status")), "ERROR"),
            str(final.get("reason", "")),
            str(final.get("detail", "")),
            tuple(str(path) for path in files) if isinstance(files, list) else (),
        )
    step = decide(state)
    if isinstance(step, AwaitPerson):
        return "AWAITING_RESPONSE", step.reason, "", ()
    return "UNFINISHED", "", "", ()


def continuation_data(entries: Sequence[Entry], *, trace_file: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """USER_REQUEST's data for the file that follows the ended one which holds `entries`."""
    state = fold(entries)
    first = next(entry.data for entry in entries if entry.event == "USER_REQUEST")
    earlier = state.request.continues if state.request and state.request.continues else {}
    limits = {**first.get("limits", {}), **overrides}
    tried = [*earlier.get("tried", ()), *_tried(state)]
    return {
        **{key: value for key, value in first.items() if key not in {"redactions", "action"}},
        "limits": limits,
        "continues": {
            "file": trace_file,
            "reason": str((state.final or {}).get("reason", "")),
            "tried": tried,
            "history": [*earlier.get("history", ()), *state.history.items()],
        },
    }


def _tried(state: TaskState) -> list[str]:
    loops = [state.main, *state.subtasks.values()]
    return [summary for loop in loops for summary in loop.tried.items()]
