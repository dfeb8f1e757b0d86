"""`evolve(state, entry) -> state`: the fold. Total and pure: it ignores what it does not know and raises nothing.

Readers have validated the lines (`tracer.events.parse_line`); here a missing optional key simply has its default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runner.state import EMPTY, Limits, LoopState, Plan, Request, TaskState, Totals
from tracer.events import Entry

__all__ = ["evolve", "fold", "request_of"]


def fold(entries: Iterable[Entry], state: TaskState = EMPTY) -> TaskState:
    """The state after all `entries`, in file order."""
    for entry in entries:
        state = evolve(state, entry)
    return state


def evolve(state: TaskState, entry: Entry) -> TaskState:
    """The state after one more fact."""
    handler = _HANDLERS.get(entry.event)
    if handler is None:
        return state._replace(facts=state.facts + 1)
    return handler(state, entry)


def request_of(data: Mapping[str, Any]) -> Request:
    """The request that a first USER_REQUEST's `data` holds; values of a wrong type give way to the default."""
    continues = data.get("continues")
    return Request(
        prompt=str(data.get("prompt", "")),
        title=str(data.get("title", "")),
        kind=str(data.get("kind", "auto")),
        workspace=str(data.get("workspace", "")),
        executor=_mapping(data.get("executor")),
        checks=_mapping(data.get("checks")),
        chunk=str(data.get("chunk", "never")),
        limits=Limits(**_limits(data)),
        continues=continues if isinstance(continues, dict) else None,
    )


def _limits(data: Mapping[str, Any]) -> dict[str, Any]:
    limits = _mapping(data.get("limits"))
    return {key: value for key, value in limits.items() if key in Limits._fields and _usable_limit(key, value)}


def _usable_limit(key: str, value: object) -> bool:
    if key == "on_limit":
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if key in {"timeout_s", "budget_usd"}:
        return value is None or (isinstance(value, int | float) and value >= 0)
    return isinstance(value, int) and value >= 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _with_loop(state: TaskState, entry: Entry, loop: LoopState, **changes: Any) -> TaskState:
    if entry.subtask_id is None:
        return state._replace(main=loop, facts=state.facts + 1, **changes)
    return state._replace(subtasks={**state.subtasks, entry.subtask_id: loop}, facts=state.facts + 1, **changes)


def _user_request(state: TaskState, entry: Entry) -> TaskState:
    data = entry.data
    if state.request is None:
        return state._replace(
            task_id=entry.task_id, session_id=entry.session_id, request=request_of(data), facts=state.facts + 1
        )
    action = data.get("action")
    if action not in ("continue", "hint", "accept", "stop"):
        return state._replace(facts=state.facts + 1)
    granted, request = state.granted, state.request
    if action in ("continue", "hint"):
        limits, more = _limits(data), data.get("max_iterations")
        request = request._replace(limits=request.limits._replace(**limits))
        if isinstance(more, int) and not isinstance(more, bool) and more > 0:
            granted += more
        elif "max_iterations" in limits:
            granted = 0  # a new limit is the whole limit
        elif not limits:
            granted += max(1, request.limits.max_iterations)
        else:
            action = state.action  # other limits only: whatever it waited for, it waits for still
    return state._replace(
        action=action, hint=str(data.get("prompt", "")), granted=granted, request=request, facts=state.facts + 1
    )


def _system_rules(state: TaskState, entry: Entry) -> TaskState:
    return state._replace(rules=str(entry.data.get("rules", "")), facts=state.facts + 1)


def _chunking_plan(state: TaskState, entry: Entry) -> TaskState:
    listed = entry.data.get("subtasks")
    subtasks = tuple(item for item in listed if isinstance(item, dict)) if isinstance(listed, list) else ()
    return state._replace(plan=Plan(subtasks, str(entry.data.get("reason", ""))), facts=state.facts + 1)


def _llm_request(state: TaskState, entry: Entry) -> TaskState:
    loop = state.loop(entry.subtask_id)
    index = entry.iteration_index or 0
    same = loop.phase == "requested" and loop.iteration_index == index
    base = entry.data.get("base")
    base = base if isinstance(base, str) else None
    loop = loop._replace(
        phase="requested",
        iteration_index=index,
        attempts=loop.attempts + 1 if same else 1,
        base=base,
        first_base=loop.first_base or base,
    )
    return _with_loop(state, entry, loop, action="", hint="")


def _llm_response(state: TaskState, entry: Entry) -> TaskState:
    data = entry.data
    session_ref = data.get("session_ref")
    if not isinstance(session_ref, str):
        session_ref = None
    loop = state.loop(entry.subtask_id)
    loop = loop._replace(phase="answered", answer=data, attempts=0, session_ref=session_ref or loop.session_ref)
    history = state.history if session_ref is None else state.history.then(session_ref)
    return _with_loop(state, entry, loop, totals=_added(state.totals, data), history=history)


def _added(totals: Totals, data: Mapping[str, Any]) -> Totals:
    cost = data.get("cost_usd")
    usage = data.get("usage")
    known = isinstance(cost, int | float) and not isinstance(cost, bool)
    duration = data.get("duration_ms")
    sums = totals.usage
    if isinstance(usage, dict):
        counts = {key: value for key, value in usage.items() if isinstance(value, int) and not isinstance(value, bool)}
        sums = {key: sums.get(key, 0) + counts.get(key, 0) for key in sums.keys() | counts.keys()}
    return Totals(
        cost_usd=totals.cost_usd + (cost if known and cost is not None else 0.0),
        cost_known=totals.cost_known and known,
        answers=totals.answers + 1,
        spent_ms=totals.spent_ms + (duration if isinstance(duration, int) else 0),
        usage=sums,
    )


def _quality_judgment(state: TaskState, entry: Entry) -> TaskState:
    duration = entry.data.get("duration_ms")
    loop = state.loop(entry.subtask_id)._replace(phase="judged", judgment=entry.data)
    if not isinstance(duration, int):
        return _with_loop(state, entry, loop)
    totals = state.totals._replace(spent_ms=state.totals.spent_ms + duration)
    return _with_loop(state, entry, loop, totals=totals)


def _rejection_details(state: TaskState, entry: Entry) -> TaskState:
    loop = state.loop(entry.subtask_id)
    summary = str(loop.judgment.get("summary", ""))
    loop = loop._replace(
        phase="rejected",
        modification=str(entry.data.get("modification_prompt", "")),
        tried=loop.tried.then(summary) if summary else loop.tried,
    )
    return _with_loop(state, entry, loop)


def _iteration_end(state: TaskState, entry: Entry) -> TaskState:
    loop = state.loop(entry.subtask_id)
    judgment = str(entry.data.get("judgment", ""))
    loop = loop._replace(
        phase="ended",
        iteration_index=(entry.iteration_index if entry.iteration_index is not None else loop.iteration_index) + 1,
        attempts=0,
        base=None,
        counted=loop.counted + (judgment != "RETRY"),
        retries=loop.retries + 1 if judgment == "RETRY" else 0,
        passed=judgment == "PASS",
    )
    return _with_loop(state, entry, loop, judgments=state.judgments.then(judgment))


def _final_summary(state: TaskState, entry: Entry) -> TaskState:
    return state._replace(final=entry.data, facts=state.facts + 1)


_HANDLERS: Mapping[str, Callable[[TaskState, Entry], TaskState]] = {
    "USER_REQUEST": _user_request,
    "SYSTEM_RULES": _system_rules,
    "CHUNKING_PLAN": _chunking_plan,
    "LLM_REQUEST": _llm_request,
    "LLM_RESPONSE": _llm_response,
    "QUALITY_JUDGMENT": _quality_judgment,
    "REJECTION_DETAILS": _rejection_details,
    "ITERATION_END": _iteration_end,
    "FINAL_SUMMARY": _final_summary,
}
