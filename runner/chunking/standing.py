"""How each subtask stands, for every view and for FINAL_SUMMARY: a function of the task's state. Pure."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from runner.chunking.course import Fate, fates
from runner.state import LoopState, TaskState
from runner.steps import AwaitPerson, Finish

__all__ = ["Standing", "standings", "summary_of"]

_PHASES = {"requested": "asking", "answered": "judging", "rejected": "asking again"}


class Standing(NamedTuple):
    """One subtask. `number` and `dependencies` count from 1; `iterations` have ended; times are milliseconds.

    `status`: wait, run, done, failed, skipped (never started; `detail` says why) or ask (a person is asked). `phase` is
    what a running one does now; `verdict` the last rejection (`REJECT Q3`); `cost_usd` None where a price is unknown.
    """

    subtask_id: str
    number: int
    title: str
    status: Literal["wait", "run", "done", "failed", "skipped", "ask"]
    iterations: int = 0
    phase: str = ""
    verdict: str = ""
    reason: str = ""
    detail: str = ""
    dependencies: tuple[int, ...] = ()
    cost_usd: float | None = None
    spent_ms: int = 0
    started: bool = False


def standings(state: TaskState) -> tuple[Standing, ...]:
    """How the subtasks of the plan that runs stand, in its order; empty for a task in one piece."""
    if state.plan is None or state.request is None or not state.plan.subtasks:
        return ()
    found = fates(state, state.request)
    numbers = {one: number for number, one in enumerate(state.plan.names, 1)}
    return tuple(_standing(state, one, fate, numbers) for one, fate in found.items())


def _standing(state: TaskState, subtask_id: str, fate: Fate, numbers: dict[str, int]) -> Standing:
    subtask = state.plan.subtask(subtask_id) if state.plan else {}
    loop = state.loop(subtask_id)
    needs = subtask.get("dependencies")
    step = fate.step
    reason = step.reason if isinstance(step, Finish | AwaitPerson) else ""
    if fate.kind == "skipped" and not reason:
        reason = "dependency"
    status = fate.kind if fate.kind != "run" or loop.phase != "new" or loop.iteration_index else "wait"
    return Standing(
        subtask_id=subtask_id,
        number=numbers[subtask_id],
        title=str(subtask.get("title") or subtask.get("description") or ""),
        status=status,
        iterations=loop.iteration_index,
        phase=_phase(loop) if status == "run" else "",
        verdict=_verdict(loop) if status != "done" else "",
        reason=reason,
        detail=fate.detail or (step.detail if isinstance(step, Finish) else ""),
        dependencies=tuple(numbers[str(need)] for need in needs if str(need) in numbers)
        if isinstance(needs, list)
        else (),
        cost_usd=loop.totals.cost_usd if loop.totals.answers and loop.totals.cost_known else None,
        spent_ms=loop.totals.spent_ms,
        started=loop.phase != "new",
    )


def _phase(loop: LoopState) -> str:
    if loop.phase == "judged":
        return "merging" if loop.judgment.get("judgment") == "PASS" else "asking again"
    return _PHASES.get(loop.phase, "asking again")


def _verdict(loop: LoopState) -> str:
    judgment = str(loop.judgment.get("judgment", ""))
    if judgment in {"", "PASS"}:
        return ""
    results = loop.judgment.get("criteria_results")
    listed = results if isinstance(results, list) else []
    failed = [str(r.get("id")) for r in listed if isinstance(r, dict) and r.get("passed") is False]
    return " ".join([judgment, *failed])


def summary_of(state: TaskState, *, status: str) -> list[dict[str, Any]]:
    """FINAL_SUMMARY's `subtasks`; `status` is that of the whole task. `detail` is there where it says something."""
    if state.request is None:
        return []
    return [_summary(state, one, fate, status) for one, fate in fates(state, state.request).items()]


def _summary(state: TaskState, subtask_id: str, fate: Fate, whole: str) -> dict[str, Any]:
    loop, step = state.loop(subtask_id), fate.step
    status, reason = "COMPLETE", "passed"
    if fate.kind == "failed" and isinstance(step, Finish):
        status, reason = step.status, step.reason
    elif fate.kind == "skipped":
        status, reason = "NOT_STARTED", step.reason if isinstance(step, Finish) else "dependency"
    elif fate.kind != "done":  # a person ended the task over it
        reason = "accepted" if whole == "COMPLETE" else "cancelled"
        status = whole if loop.phase != "new" else "NOT_STARTED"
    summary = {"id": subtask_id, "status": status, "reason": reason, "iterations": loop.iteration_index}
    detail = fate.detail or (step.detail if isinstance(step, Finish) else "")
    return {**summary, "detail": detail} if detail else summary
