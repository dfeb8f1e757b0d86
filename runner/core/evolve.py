"""`evolve(state, entry) -> state`: the fold. Total and pure: it ignores what it does not know and raises nothing.

Readers have validated the lines (`tracer.events.parse_line`); here a missing optional key simply has its default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from runner.core.request import Request
from runner.core.state import EMPTY, NO_JUDGMENT, LoopState, Plan, TaskState, Totals, answer_in
from tracer import facts
from tracer.clock import epoch_ms
from tracer.names import ACTIONS, PLAN_SUFFIX, REVIEW

_ACCEPTING: Final = frozenset({"accept", "allow"})
_OUT_OF_ORDER_MS: Final = 10_000  # facts of subtasks are recorded at most so much later than they are dated


def fold(entries: Iterable[facts.Entry], state: TaskState = EMPTY) -> TaskState:
    """The state after all `entries`, in file order."""
    for entry in entries:
        state = evolve(state, entry)
    return state


def evolve(state: TaskState, entry: facts.Entry) -> TaskState:
    """The state after one more fact."""
    handler = _HANDLERS.get(type(entry))
    if handler is None:
        return state._replace(facts=state.facts + 1)
    return handler(state, entry)


def _with_loop(state: TaskState, entry: facts.Entry, loop: LoopState, **changes: Any) -> TaskState:
    if entry.subtask_id is None:
        return state._replace(main=loop, facts=state.facts + 1, **changes)
    return state._replace(subtasks=state.subtasks.having(entry.subtask_id, loop), facts=state.facts + 1, **changes)


def _user_request(state: TaskState, entry: facts.UserRequest) -> TaskState:
    if not state.requested:
        accepted = entry.continues.ended if entry.continues is not None and entry.action in _ACCEPTING else None
        return state._replace(
            task_id=entry.task_id,
            session_id=entry.session_id,
            request=Request.of(entry),
            main=_taken_up(entry.continues),
            action="" if entry.continues is None else "accept" if accepted else "hint" if entry.continues.hint else "",
            hint="" if entry.continues is None else entry.continues.hint,
            answer=accepted.answer if accepted else "",
            facts=state.facts + 1,
            begun_ms=epoch_ms(entry.timestamp) or 0,
        )
    action, limits, more = entry.action, entry.limits_given, entry.max_iterations
    if action not in ACTIONS:
        return state._replace(facts=state.facts + 1)
    granted, request = state.granted, state.request
    if entry.into is not None:
        request = request._replace(into=entry.into)
    if state.plan is not None and state.plan.proposed:
        request = request._replace(limits=request.limits._replace(**limits))
        return _about_plan(state._replace(request=request), state.plan, entry)
    if action == "allow" and state.main.judgment.unsettled:  # it is judged once more, with the changed tests allowed
        return state._replace(main=state.main._replace(phase="answered"), allowed=True, facts=state.facts + 1)
    if action in ("continue", "hint", "allow"):
        request = request._replace(limits=request.limits._replace(**limits))
        if more is not None and more > 0:
            granted += more
        elif "max_iterations" in limits:
            granted = 0  # a new limit is the whole limit
        elif not limits and entry.into is None:
            granted += max(1, request.limits.max_iterations)
        elif state.conflict is None:
            action = state.action  # other limits only: whatever it waited for, it waits for still
    hint = entry.prompt
    if action == state.action == "hint":  # none of them has been in a request yet
        hint = f"{state.hint}\n{hint}"
    state = state._replace(action=action, hint=hint, granted=granted, request=request, facts=state.facts + 1)
    return _reply(state, entry) if action in ("continue", "hint") else state


def _taken_up(continues: facts.Continues | None) -> LoopState:
    """The task's own loop as an earlier file left it: what the user answered there, and the session that asked."""
    if continues is None:
        return LoopState()
    loop = LoopState(session_ref=continues.session_ref, replied=continues.session_ref is not None)
    for reply in continues.replies:
        loop = loop._replace(replies=loop.replies.then(reply))
    if continues.ended is not None and continues.ended.judgment:
        loop = loop._replace(judgment=NO_JUDGMENT._replace(data=dict(continues.ended.judgment)))
    return loop


def reply_text(question: str, answer: str) -> str:
    """A question of the agent's with the user's answer, as the next request holds them."""
    told = answer or "(The user gave no answer: decide it yourself, in the simplest way that meets the request.)"
    return f"You asked: {question}\nThe user answers: {told}"


def _reply(state: TaskState, entry: facts.UserRequest) -> TaskState:
    """Give the user's answer to the loop whose agent asked."""
    question, subtask_id = state.question, state.asking
    if question is None or question.by != "agent" or state.action != entry.action:
        return state
    loop = state.loop(subtask_id)
    reply = reply_text(question.text, entry.prompt)
    loop = loop._replace(replies=loop.replies.then(reply), replied=True)
    if subtask_id is None:
        return state._replace(main=loop)
    return state._replace(subtasks=state.subtasks.having(subtask_id, loop))


def _about_plan(state: TaskState, plan: Plan, entry: facts.UserRequest) -> TaskState:
    """A user's answer to a proposed plan: run it, run what they made of it, plan again, or stop."""
    action = entry.action or ""
    if entry.changes_only_terms or (action == "hint" and not state.request.executor.plans):
        return state._replace(facts=state.facts + 1)
    if action == "hint":
        plan = plan._replace(replan=True, hint=entry.prompt)
        planning = state.task_id + PLAN_SUFFIX
        loop = state.loop(planning)
        if loop.phase != "new":
            loop = LoopState(iteration_index=loop.iteration_index + 1, totals=loop.totals)
            state = state._replace(subtasks=state.subtasks.having(planning, loop))
        action = ""
    elif entry.plan is not None:
        plan = plan._replace(edited=entry.plan)
    return state._replace(plan=plan, action=action, facts=state.facts + 1)


def _chunking_plan(state: TaskState, entry: facts.ChunkingPlan) -> TaskState:
    subtasks = entry.subtasks
    if entry.mode == "repair" and state.plan is not None:
        subtasks = (*state.plan.subtasks, *subtasks)
        names = {subtask.id: subtask for subtask in subtasks}
        plan = state.plan._replace(subtasks=subtasks, repairs=state.plan.repairs + 1, names=names)
        return state._replace(plan=plan, action="", hint="", facts=state.facts + 1)
    names = {subtask.id: subtask for subtask in subtasks}
    plan = Plan(
        subtasks=subtasks,
        reason=entry.reason,
        mode=entry.mode,
        isolation=entry.isolation,
        proposed=entry.proposed,
        names=names,
    )
    main = state.main if entry.base is None else state.main._replace(first_base=entry.base)
    loops = state.subtasks
    for name in entry.done:
        if name in plan.names:
            loops = loops.having(name, _FINISHED)
    return state._replace(plan=plan, main=main, subtasks=loops, action="", hint="", facts=state.facts + 1)


_FINISHED = LoopState(phase="ended", passed=True)


def _llm_request(state: TaskState, entry: facts.LlmRequest) -> TaskState:
    loop = state.loop(entry.subtask_id)
    index, base = entry.iteration_index or 0, entry.base
    same = loop.phase == "requested" and loop.iteration_index == index
    spent, until = _stretch(state, entry, entry.waited_ms)
    loop = loop._replace(
        phase="requested",
        iteration_index=index,
        attempts=loop.attempts + 1 if same else 1,
        base=base,
        first_base=loop.first_base or base,
        fresh=False,
        replied=False,
        counted=loop.counted + (entry.purpose == "repair"),
        request=entry,
        open_ref=None,
        interrupted=False,
    )
    totals = state.totals._replace(spent_ms=state.totals.spent_ms + spent) if spent else state.totals
    # A review answers no user, and a hint may have come while the request was being made.
    open_ = entry.purpose == REVIEW or (state.action == "hint" and state.hint not in entry.prompt)
    answered = {} if open_ else {"action": "", "hint": ""}
    return _with_loop(state, entry, loop, totals=totals, worked_until_ms=until, **answered)


def _session_started(state: TaskState, entry: facts.SessionStarted) -> TaskState:
    loop = state.loop(entry.subtask_id)
    if loop.phase == "requested" and entry.session_ref:
        loop = loop._replace(open_ref=entry.session_ref, session_ref=entry.session_ref)
    return _with_loop(state, entry, loop)


def _session_interrupted(state: TaskState, entry: facts.SessionInterrupted) -> TaskState:
    loop = state.loop(entry.subtask_id)
    totals, own = (_billed(sums, entry.usage, entry.cost_usd, free=False) for sums in (state.totals, loop.totals))
    loop = _with_session(loop, entry, free=False)
    loop = loop._replace(open_ref=None, interrupted=True, session_ref=entry.session_ref or loop.session_ref, totals=own)
    return _with_loop(state, entry, loop, totals=totals)


def _llm_response(state: TaskState, entry: facts.LlmResponse) -> TaskState:
    session_ref, duration = entry.session_ref, entry.duration_ms
    full = entry.error is not None and entry.error.kind == "context"  # nothing goes on in that session
    loop = _with_session(state.loop(entry.subtask_id), entry, free=entry.unbilled)
    loop = loop._replace(
        phase="answered",
        answer=entry,
        attempts=0,
        session_ref=None if full else session_ref or loop.session_ref,
        open_ref=None,
        harmed=loop.harmed.union(one.what for one in entry.collateral),
        totals=_added(loop.totals, entry, duration or 0),
    )
    history = state.history if session_ref is None else state.history.then(session_ref)
    spent, until = _stretch(state, entry, duration)
    limit_s = state.request.limits.timeout_s
    if entry.time_limit and limit_s is not None:  # what runs side by side also waits: the limit is over
        spent = max(spent, math.ceil(limit_s * 1000) - state.totals.spent_ms)
    totals = _added(state.totals, entry, spent)
    answer, files = answer_in(entry) or state.answer, tuple(dict.fromkeys((*state.files, *entry.files_modified)))
    changed = {"totals": totals, "history": history, "worked_until_ms": until, "answer": answer, "files": files}
    return _with_loop(state, entry, loop, **changed)


def _with_session(loop: LoopState, entry: facts.LlmResponse | facts.SessionInterrupted, *, free: bool) -> LoopState:
    """The loop with what an answer, or a request without one, took in its session."""
    if (ref := entry.session_ref) is None:
        return loop
    sums = _billed(loop.sessions.get(ref, Totals()), entry.usage, entry.cost_usd, free=free)
    traces = loop.traces | ({entry.agentic_trace} if entry.agentic_trace else set())
    return loop._replace(sessions={**loop.sessions, ref: sums}, traces=traces)


def _stretch(state: TaskState, entry: facts.Entry, duration: int | None) -> tuple[int, int]:
    """How much a call adds to the task's time, and until when that counts: what ran side by side counts once."""
    if duration is None:
        return 0, state.worked_until_ms
    if entry.subtask_id is None:
        return duration, state.worked_until_ms
    end = epoch_ms(entry.timestamp) or 0
    if end < state.worked_until_ms - _OUT_OF_ORDER_MS:  # the clock was set back: what was counted before tells nothing
        return duration, end
    return max(0, end - max(end - duration, state.worked_until_ms)), max(end, state.worked_until_ms)


def _added(totals: Totals, answer: facts.LlmResponse, spent_ms: int) -> Totals:
    totals = totals._replace(answers=totals.answers + 1, spent_ms=totals.spent_ms + spent_ms)
    return _billed(totals, answer.usage, answer.cost_usd, free=answer.unbilled)


def _billed(totals: Totals, usage: facts.Usage | None, cost: float | None, *, free: bool) -> Totals:
    sums = totals.usage
    if usage is not None:
        counts = usage.counts
        sums = {key: sums.get(key, 0) + counts.get(key, 0) for key in sums.keys() | counts.keys()}
    return totals._replace(
        cost_usd=totals.cost_usd + (cost or 0.0),
        cost_known=totals.cost_known and (cost is not None or free),
        priced=totals.priced + (cost is not None),
        usage=sums,
    )


def _judged(totals: Totals, judgment: facts.QualityJudgment, spent_ms: int) -> Totals:
    totals = totals._replace(spent_ms=totals.spent_ms + spent_ms)
    for result in judgment.spenders:
        totals = _billed(totals, result.usage, result.cost_usd, free=False)
    return totals


def _quality_judgment(state: TaskState, entry: facts.QualityJudgment) -> TaskState:
    if entry.conflict and entry.subtask_id is None:  # the work is as good as it was judged to be
        return state._replace(conflict=entry, action="", hint="", facts=state.facts + 1)
    duration = entry.duration_ms
    loop = state.loop(entry.subtask_id)
    loop = loop._replace(phase="judged", judgment=entry, totals=_judged(loop.totals, entry, duration or 0))
    spent, until = _stretch(state, entry, duration)
    return _with_loop(state, entry, loop, totals=_judged(state.totals, entry, spent), worked_until_ms=until)


def _rejection_details(state: TaskState, entry: facts.RejectionDetails) -> TaskState:
    loop = state.loop(entry.subtask_id)
    conflict = state.conflict if entry.subtask_id is None else None
    summary = (conflict or loop.judgment).summary
    loop = loop._replace(
        phase="rejected",
        modification=entry.modification_prompt,
        tried=loop.tried.then(summary) if summary and loop.judgment.question is None else loop.tried,
    )
    return _with_loop(state, entry, loop)


def _iteration_end(state: TaskState, entry: facts.IterationEnd) -> TaskState:
    loop = state.loop(entry.subtask_id)
    judgment = entry.judgment
    unmerged = state.conflict if entry.subtask_id is None else loop.judgment if loop.judgment.conflict else None
    conflict = judgment == "REJECT" and unmerged is not None
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
    kept = state.conflict if entry.subtask_id is not None else None
    return _with_loop(state, entry, loop, judgments=state.judgments.then(judgment), conflict=kept)


_HANDLERS: Mapping[type[facts.Entry], Callable[[TaskState, Any], TaskState]] = {
    facts.UserRequest: _user_request,
    facts.SystemRules: lambda state, entry: state._replace(rules=entry.rules, facts=state.facts + 1),
    facts.ChunkingPlan: _chunking_plan,
    facts.LlmRequest: _llm_request,
    facts.SessionStarted: _session_started,
    facts.SessionInterrupted: _session_interrupted,
    facts.LlmResponse: _llm_response,
    facts.QualityJudgment: _quality_judgment,
    facts.RejectionDetails: _rejection_details,
    facts.IterationEnd: _iteration_end,
    facts.FinalSummary: lambda state, entry: state._replace(final=entry, facts=state.facts + 1),
}
