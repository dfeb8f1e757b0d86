"""`evolve(state, entry) -> state`: the fold. Total and pure: it ignores what it does not know and raises nothing.

Readers have validated the lines (`tracer.events.parse_line`); here a missing optional key simply has its default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from runner.core.state import (
    EMPTY,
    PLAN_SUFFIX,
    Limits,
    LoopState,
    Plan,
    Request,
    TaskState,
    Totals,
    answer_in,
)
from tracer.events import Entry
from tracer.facts import is_unbilled

_OUT_OF_ORDER_MS: Final = 10_000  # facts of subtasks are recorded at most so much later than they are dated


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
        plan=_mapping(data.get("plan")) or None,
        approve_plan=data.get("approve_plan") is True,
        into=str(data.get("into") or ""),
        partial=data.get("partial") is True,
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
    return isinstance(value, int) and value >= (1 if key == "parallel" else 0)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _with_loop(state: TaskState, entry: Entry, loop: LoopState, **changes: Any) -> TaskState:
    if entry.subtask_id is None:
        return state._replace(main=loop, facts=state.facts + 1, **changes)
    return state._replace(subtasks=state.subtasks.having(entry.subtask_id, loop), facts=state.facts + 1, **changes)


def _user_request(state: TaskState, entry: Entry) -> TaskState:
    data = entry.data
    if state.request is None:
        return state._replace(
            task_id=entry.task_id,
            session_id=entry.session_id,
            request=request_of(data),
            facts=state.facts + 1,
            begun_ms=_epoch_ms(entry.timestamp),
        )
    action = data.get("action")
    if action not in ("continue", "hint", "accept", "stop"):
        return state._replace(facts=state.facts + 1)
    granted, request = state.granted, state.request
    if isinstance(data.get("into"), str):
        request = request._replace(into=data["into"])
    if state.plan is not None and state.plan.proposed:
        request = request._replace(limits=request.limits._replace(**_limits(data)))
        return _about_plan(state._replace(request=request), state.plan, str(action), data)
    if action in ("continue", "hint"):
        limits, more = _limits(data), data.get("max_iterations")
        request = request._replace(limits=request.limits._replace(**limits))
        if isinstance(more, int) and not isinstance(more, bool) and more > 0:
            granted += more
        elif "max_iterations" in limits:
            granted = 0  # a new limit is the whole limit
        elif not limits and "into" not in data:
            granted += max(1, request.limits.max_iterations)
        else:
            action = state.action  # other limits only: whatever it waited for, it waits for still
    return state._replace(
        action=action, hint=str(data.get("prompt", "")), granted=granted, request=request, facts=state.facts + 1
    )


def _about_plan(state: TaskState, plan: Plan, action: str, data: Mapping[str, Any]) -> TaskState:
    """A person's answer to a proposed plan: run it, run what they made of it, plan again, or stop."""
    if "limits" in data or "into" in data:
        return state._replace(facts=state.facts + 1)  # other limits are no word about the plan
    if action == "hint" and not _plans(state):
        return state._replace(facts=state.facts + 1)
    if action == "hint":
        plan = plan._replace(replan=True, hint=str(data.get("prompt", "")))
        planning = state.task_id + PLAN_SUFFIX
        loop = state.loop(planning)
        if loop.phase != "new":
            loop = LoopState(iteration_index=loop.iteration_index + 1, totals=loop.totals)
            state = state._replace(subtasks=state.subtasks.having(planning, loop))
        action = ""
    elif isinstance(data.get("plan"), dict):
        plan = plan._replace(edited=data["plan"])
    return state._replace(plan=plan, action=action, facts=state.facts + 1)


def _plans(state: TaskState) -> bool:
    return state.request is not None and state.request.executor.get("plans") is True


def _system_rules(state: TaskState, entry: Entry) -> TaskState:
    return state._replace(rules=str(entry.data.get("rules", "")), facts=state.facts + 1)


def _chunking_plan(state: TaskState, entry: Entry) -> TaskState:
    data = entry.data
    listed = data.get("subtasks")
    found = listed if isinstance(listed, list) else []
    subtasks: tuple[Mapping[str, Any], ...] = tuple(item for item in found if isinstance(item, dict))
    mode, base = str(data.get("mode", "")), data.get("base")
    if mode == "repair" and state.plan is not None:
        subtasks = (*state.plan.subtasks, *subtasks)
        plan = state.plan._replace(subtasks=subtasks, repairs=state.plan.repairs + 1, names=_by_id(subtasks))
        return state._replace(plan=plan, action="", hint="", facts=state.facts + 1)
    plan = Plan(
        subtasks=subtasks,
        reason=str(data.get("reason", "")),
        mode=mode,
        isolation=str(data.get("isolation", "")),
        proposed=data.get("proposed") is True,
        names=_by_id(subtasks),
    )
    main = state.main._replace(first_base=base) if isinstance(base, str) else state.main
    done = data.get("done")
    loops = state.subtasks
    for name in done if isinstance(done, list) else ():
        if isinstance(name, str) and name in plan.names:
            loops = loops.having(name, _FINISHED)
    return state._replace(plan=plan, main=main, subtasks=loops, action="", hint="", facts=state.facts + 1)


def _by_id(subtasks: tuple[Mapping[str, Any], ...]) -> dict[str, Mapping[str, Any]]:
    return {str(item.get("id")): item for item in subtasks}


_FINISHED = LoopState(phase="ended", passed=True)


def _llm_request(state: TaskState, entry: Entry) -> TaskState:
    loop = state.loop(entry.subtask_id)
    index = entry.iteration_index or 0
    same = loop.phase == "requested" and loop.iteration_index == index
    base = entry.data.get("base")
    base = base if isinstance(base, str) else None
    spent, until = _stretch(state, entry, entry.data.get("waited_ms"))
    loop = loop._replace(
        phase="requested",
        iteration_index=index,
        attempts=loop.attempts + 1 if same else 1,
        base=base,
        first_base=loop.first_base or base,
        fresh=False,
        counted=loop.counted + (entry.data.get("purpose") == "repair"),
    )
    totals = state.totals._replace(spent_ms=state.totals.spent_ms + spent) if spent else state.totals
    return _with_loop(state, entry, loop, totals=totals, worked_until_ms=until, action="", hint="")


def _llm_response(state: TaskState, entry: Entry) -> TaskState:
    data = entry.data
    session_ref = data.get("session_ref")
    if not isinstance(session_ref, str):
        session_ref = None
    loop = state.loop(entry.subtask_id)
    duration = data.get("duration_ms")
    loop = loop._replace(
        phase="answered",
        answer=data,
        attempts=0,
        session_ref=session_ref or loop.session_ref,
        totals=_added(loop.totals, data, duration if isinstance(duration, int) else 0),
    )
    history = state.history if session_ref is None else state.history.then(session_ref)
    spent, until = _stretch(state, entry, duration)
    limit_s = state.request.limits.timeout_s if state.request else None
    if data.get("time_limit") is True and limit_s is not None:  # what runs side by side also waits: the limit is over
        spent = max(spent, math.ceil(limit_s * 1000) - state.totals.spent_ms)
    totals = _added(state.totals, data, spent)
    answer = answer_in(data, entry.subtask_id) or state.answer
    return _with_loop(state, entry, loop, totals=totals, history=history, worked_until_ms=until, answer=answer)


def _stretch(state: TaskState, entry: Entry, duration: object) -> tuple[int, int]:
    """How much a call adds to the task's time, and until when that counts: what ran side by side counts once."""
    if not isinstance(duration, int) or isinstance(duration, bool):
        return 0, state.worked_until_ms
    if entry.subtask_id is None:
        return duration, state.worked_until_ms
    end = _epoch_ms(entry.timestamp)
    if end < state.worked_until_ms - _OUT_OF_ORDER_MS:  # the clock was set back: what was counted before tells nothing
        return duration, end
    return max(0, end - max(end - duration, state.worked_until_ms)), max(end, state.worked_until_ms)


def _epoch_ms(timestamp: str) -> int:
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:  # a trace may come from anywhere
        return 0


def _added(totals: Totals, data: Mapping[str, Any], spent_ms: int) -> Totals:
    cost = data.get("cost_usd")
    usage = data.get("usage")
    known = isinstance(cost, int | float) and not isinstance(cost, bool)
    sums = totals.usage
    if isinstance(usage, dict):
        counts = {key: value for key, value in usage.items() if isinstance(value, int) and not isinstance(value, bool)}
        sums = {key: sums.get(key, 0) + counts.get(key, 0) for key in sums.keys() | counts.keys()}
    return Totals(
        cost_usd=totals.cost_usd + (cost if known and cost is not None else 0.0),
        cost_known=totals.cost_known and (known or is_unbilled(data)),
        priced=totals.priced + known,
        answers=totals.answers + 1,
        spent_ms=totals.spent_ms + spent_ms,
        usage=sums,
    )


def _quality_judgment(state: TaskState, entry: Entry) -> TaskState:
    duration = entry.data.get("duration_ms")
    loop = state.loop(entry.subtask_id)._replace(phase="judged", judgment=entry.data)
    if not isinstance(duration, int):
        return _with_loop(state, entry, loop)
    loop = loop._replace(totals=loop.totals._replace(spent_ms=loop.totals.spent_ms + duration))
    spent, until = _stretch(state, entry, duration)
    totals = state.totals._replace(spent_ms=state.totals.spent_ms + spent)
    return _with_loop(state, entry, loop, totals=totals, worked_until_ms=until)


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
    conflict = judgment == "REJECT" and bool(loop.judgment.get("conflict"))
    loop = loop._replace(
        phase="ended",
        iteration_index=(entry.iteration_index if entry.iteration_index is not None else loop.iteration_index) + 1,
        attempts=0,
        base=None,
        first_base=None if conflict else loop.first_base,
        fresh=conflict,
        # A conflict is nobody's fault: it costs the subtask none of its iterations.
        counted=loop.counted + (judgment != "RETRY" and not conflict),
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
