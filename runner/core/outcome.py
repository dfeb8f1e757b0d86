"""How a task stands, and how one that ended short is taken up again in a new file. Pure.

The new file's USER_REQUEST repeats the prompt and says in `continues` which file it follows, why that one ended, what
was tried (so that the next request names it), and which script replies are used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from runner.core.decide import decide
from runner.core.evolve import fold
from runner.core.state import LoopState, TaskState
from runner.core.steps import AwaitPerson
from runner.core.subtasks import standings
from runner.core.task import TaskOutcome, TaskStatus
from tracer.events import Entry
from tracer.verification import unverified_in, verification_of

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
        answer=state.answer,
        verification=verification_of(state.last_judgments),
        not_verified=unverified_in(state.last_judgments),
        next_step=_mend(state) if status == "ERROR" else "",
        refused=status == "ERROR" and any(answer.get("status") == "BLOCKED" for answer in _answers(state)),
        iterations=state.iterations,
        judgments=state.judgments.items(),
        files_modified=files,
        cost_usd=totals.cost,
        usage=totals.usage or None,
        duration_ms=totals.spent_ms,
        trace_file=trace_file,
        subtasks=standings(state),
        chain_head=chain_head,
    )


def _answers(state: TaskState) -> list[Mapping[str, Any]]:
    """The last answer of the task's own loop and of each subtask's."""
    return [state.main.answer, *(loop.answer for _, loop in sorted(state.subtasks.items()))]


def _mend(state: TaskState) -> str:
    """The next step that the last trouble came with: of the task's own answer, or of a subtask's."""
    errors = [error for answer in _answers(state) if isinstance(error := answer.get("error"), dict)]
    return next((str(error["next_step"]) for error in errors if error.get("next_step")), "")


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
    limits = {**first.get("limits", {}), **_limits_given_later(entries), **overrides}
    continues: dict[str, Any] = {
        "file": trace_file,
        "reason": str((state.final or {}).get("reason", "")),
        "tried": [*earlier.get("tried", ()), *state.main.tried.items()],
        "history": [*earlier.get("history", ()), *state.history.items()],
    }
    if state.plan is not None and state.plan.subtasks and not state.plan.proposed:
        continues["plan"] = _plan(state)
        continues["subtasks_tried"] = _tried_by_subtask(state, earlier)
    into = {"into": state.request.into} if state.request and state.request.into else {}
    return {
        **{key: value for key, value in first.items() if key not in {"redactions", "action", "into"}},
        **into,
        "limits": limits,
        "continues": continues,
    }


def _limits_given_later(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the person set when they went on with the ended file: it holds for the task, not for that file."""
    later: dict[str, Any] = {}
    for entry in entries:
        limits = entry.data.get("limits")
        if entry.event == "USER_REQUEST" and entry.data.get("action") and isinstance(limits, dict):
            later |= limits
    return later


def _plan(state: TaskState) -> dict[str, Any]:
    """The plan that ran, without repairs that failed; `done` names what need not be done again."""
    subtasks, repairs = (state.plan.subtasks, state.plan.repairs) if state.plan else ((), 0)
    passed = [str(item["id"]) for item in subtasks if state.loop(str(item["id"])).passed]
    first = len(subtasks) - repairs
    planned = [*subtasks[:first], *(item for item in subtasks[first:] if item["id"] in passed)]
    return {"subtasks": planned, "done": passed, "base": state.main.first_base}


def _tried_by_subtask(state: TaskState, earlier: Mapping[str, Any]) -> dict[str, list[str]]:
    before = earlier.get("subtasks_tried")
    before = before if isinstance(before, dict) else {}
    tried: dict[str, list[str]] = {key: list(value) for key, value in before.items()}
    for subtask_id, loop in sorted(state.subtasks.items()):
        if found := _tried(loop):
            tried[subtask_id] = [*tried.get(subtask_id, ()), *found]
    return tried


def _tried(loop: LoopState) -> tuple[str, ...]:
    return loop.tried.items()
