"""`decide(state) -> Step | None`: what comes next. A pure function: same state, same step; None after the end.

`Append` steps are facts that follow from the state alone; the others touch the world and are performed by
`runner.loop`. The table in docs/architecture.md is this module in prose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from runner.rejection import modification_prompt
from runner.state import LoopState, Request, TaskState
from tracer.events import Draft

__all__ = ["Append", "AskAgent", "AwaitPerson", "Finish", "Judge", "RecordRules", "Step", "decide", "decide_loop"]

# Error kinds that the same request may survive, and those of them that are the provider's load.
_TRANSIENT: Final = frozenset({"timeout", "network", "rate_limit", "overloaded"})
_OVERLOAD: Final = frozenset({"rate_limit", "overloaded"})


class Append(NamedTuple):
    """Record `draft`: it follows from the state."""

    draft: Draft


class RecordRules(NamedTuple):
    """Read the mandatory rules and record them as SYSTEM_RULES."""


class AskAgent(NamedTuple):
    """Take a baseline (unless `base` is that of an earlier attempt), record LLM_REQUEST, ask, record LLM_RESPONSE.

    `retry` is how many times in a row the same request has failed for a passing reason; 0 means ask at once.
    """

    prompt: str
    iteration_index: int
    attempt: int
    base: str | None = None
    session_ref: str | None = None
    subtask_id: str | None = None
    retry: int = 0
    retry_after_s: float | None = None
    retry_kind: str = ""


class Judge(NamedTuple):
    """Gather evidence for the last answer, judge it, record QUALITY_JUDGMENT."""

    iteration_index: int
    answer: Mapping[str, Any]
    first_base: str | None
    subtask_id: str | None = None


class AwaitPerson(NamedTuple):
    """The limit is reached and a person is to be asked: nothing happens until a further USER_REQUEST."""

    reason: str


class Finish(NamedTuple):
    """Compare the workspace with the task's first baseline and record FINAL_SUMMARY."""

    status: str
    reason: str
    detail: str = ""


Step = Append | RecordRules | AskAgent | Judge | AwaitPerson | Finish


def decide(state: TaskState) -> Step | None:
    """The next step of a task that runs in one piece; None when it has ended or has no request yet."""
    if state.final is not None or state.request is None:
        return None
    if state.action == "accept":
        return Finish("COMPLETE", "accepted")
    if state.action == "stop":
        return Finish("CANCELLED", "cancelled")
    if state.rules is None:
        return RecordRules()
    return decide_loop(state, state.request)


def decide_loop(state: TaskState, request: Request, *, subtask_id: str | None = None) -> Step:
    """The next step of one loop, whichever fact came last."""
    loop = state.loop(subtask_id)
    match loop.phase:
        case "new":
            return _over_limit(state, request) or _ask(state, request, loop, subtask_id)
        case "requested":
            return _ask_again(state, request, loop, subtask_id)
        case "answered":
            return _after_answer(state, request, loop, subtask_id)
        case "judged":
            return _after_judgment(state, request, loop, subtask_id)
        case "rejected":
            return _end_iteration(loop, subtask_id, "REJECT")
        case "ended":
            return _after_iteration(state, request, loop, subtask_id)


def _over_limit(state: TaskState, request: Request) -> Finish | None:
    limits, totals = request.limits, state.totals
    if limits.budget_usd is not None and totals.answers and totals.cost_usd >= limits.budget_usd:
        return Finish("INCOMPLETE", "budget")
    if limits.timeout_s is not None and totals.spent_ms >= limits.timeout_s * 1000:
        return Finish("INCOMPLETE", "timeout")
    return None


def _ask(state: TaskState, request: Request, loop: LoopState, subtask_id: str | None) -> AskAgent:
    goes_on = bool(request.executor.get("continue_session")) and loop.session_ref is not None
    retrying = loop.retries > 0
    error = loop.answer.get("error") if retrying else None
    error = error if isinstance(error, dict) else {}
    wait = error.get("retry_after_s")
    return AskAgent(
        prompt=_prompt(state, request, loop, subtask_id, goes_on=goes_on),
        iteration_index=loop.iteration_index,
        attempt=loop.attempts,
        base=loop.base,
        session_ref=loop.session_ref if goes_on else None,
        subtask_id=subtask_id,
        retry=loop.retries,
        retry_after_s=float(wait) if isinstance(wait, int | float) else None,
        retry_kind=str(error.get("kind", "")),
    )


def _prompt(state: TaskState, request: Request, loop: LoopState, subtask_id: str | None, *, goes_on: bool) -> str:
    """The full text of the next request: rules and task first; in the agent's own session the correction alone."""
    task = _task_text(state, request, subtask_id)
    if loop.modification:
        body = loop.modification
    elif request.continues:
        listed = request.continues.get("tried")
        tried = tuple(str(item) for item in listed if item) if isinstance(listed, list) else ()
        body = modification_prompt(request=task, criteria_results=(), issues=(), tried=tried) if tried else task
    else:
        body = task
    if state.action == "hint" and state.hint:
        body = f"{body}\n\n## Hint from the person who asked\n{state.hint}"
    if goes_on or not state.rules:
        return body
    return f"{state.rules.rstrip()}\n\n## Task\n{body}"


def _task_text(state: TaskState, request: Request, subtask_id: str | None) -> str:
    if subtask_id is None:
        return request.prompt
    plan = state.plan.subtasks if state.plan else ()
    return next((str(item.get("description", "")) for item in plan if item.get("id") == subtask_id), "")


def _ask_again(state: TaskState, request: Request, loop: LoopState, subtask_id: str | None) -> Step:
    """Ask once more: a request without an answer means that its outcome is unknown."""
    if loop.attempts >= request.limits.max_attempts:
        return Finish("ERROR", "retries", f"{loop.attempts} requests of one iteration had no answer")
    return _ask(state, request, loop, subtask_id)


def _after_answer(state: TaskState, request: Request, loop: LoopState, subtask_id: str | None) -> Step:
    error = loop.answer.get("error")
    kind = str(error.get("kind", "")) if isinstance(error, dict) else ""
    message = str(error.get("message", "")) if isinstance(error, dict) else ""
    if kind == "auth" or loop.answer.get("status") == "BLOCKED":
        return Finish("ERROR", "auth", message)
    if kind == "budget":
        return Finish("INCOMPLETE", "budget", message)
    if kind == "unavailable":  # a program that is not there does not come back by waiting
        return Finish("ERROR", "retries", message)
    if kind in _TRANSIENT:
        over = _over_limit(state, request)
        if over is not None:
            return over
        allowed = request.limits.max_overload_retries if kind in _OVERLOAD else request.limits.max_retries
        if loop.retries >= allowed:
            return Finish("ERROR", "retries", message)
        data = {"judgment": "RETRY", "criteria_results": [], "summary": f"{kind}: {message}" if message else kind}
        return Append(Draft("QUALITY_JUDGMENT", data, loop.iteration_index, subtask_id))
    return Judge(loop.iteration_index, loop.answer, loop.first_base, subtask_id)


def _after_judgment(state: TaskState, request: Request, loop: LoopState, subtask_id: str | None) -> Step:
    judgment = str(loop.judgment.get("judgment", "REJECT"))
    if judgment != "REJECT":
        return _end_iteration(loop, subtask_id, judgment)
    results = _usable(loop.judgment.get("criteria_results"), id=str, name=str, passed=bool)
    prompt = modification_prompt(
        request=_task_text(state, request, subtask_id),
        criteria_results=results,
        issues=_usable(loop.judgment.get("issues"), criterion=str, type=str),
        tried=loop.tried.items(),
    )
    failed = [item["id"] for item in results if not item["passed"]]
    data = {"criteria_failed": failed, "modification_prompt": prompt}
    return Append(Draft("REJECTION_DETAILS", data, loop.iteration_index, subtask_id))


def _usable(value: object, **kinds: type) -> tuple[dict[str, Any], ...]:
    """The objects of a recorded list that hold these keys with these types: a trace may come from anywhere."""
    listed = value if isinstance(value, list) else []
    return tuple(
        item
        for item in listed
        if isinstance(item, dict) and all(isinstance(item.get(key), kind) for key, kind in kinds.items())
    )


def _end_iteration(loop: LoopState, subtask_id: str | None, judgment: str) -> Append:
    data = {"iteration_index": loop.iteration_index, "judgment": judgment}
    return Append(Draft("ITERATION_END", data, loop.iteration_index, subtask_id))


def _after_iteration(state: TaskState, request: Request, loop: LoopState, subtask_id: str | None) -> Step:
    if loop.passed:
        return Finish("COMPLETE", "passed")
    asks_person = request.limits.on_limit == "ask" and not state.action
    if asks_person and loop.retries == 0 and loop.judgment.get("ask_person"):
        return AwaitPerson("undecided")
    over = _over_limit(state, request)
    if over is not None:
        return over
    allowed = request.limits.max_iterations + state.granted
    if loop.retries == 0 and loop.counted >= allowed:
        return AwaitPerson("max_iterations") if asks_person else Finish("INCOMPLETE", "max_iterations")
    return _ask(state, request, loop, subtask_id)
