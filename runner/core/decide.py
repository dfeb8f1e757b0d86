"""`decide(state) -> Step | None`: the next step of a task, including whether it is split. Pure.

Same state, same step; None after the end. A given plan runs as it is; a model plans where the executor has one;
without a model an explicit list is split. Every failure to plan ends in one task, with the reason in CHUNKING_PLAN.
"""

from __future__ import annotations

import json
from typing import Final

from runner.core.chunk_plan import (
    PLAN_HEADLINE,
    PLAN_SCHEMA,
    Checked,
    check_plan,
    is_work_list,
    list_items,
    listed_plan,
    plan_of_text,
    preamble,
)
from runner.core.decide_loop import conflict_step, decide_loop, over_limit
from runner.core.request import Request
from runner.core.state import LoopState, Plan, TaskState
from runner.core.steps import AskAgent, AwaitPerson, Finish, RecordPlan, RecordRules, Step
from runner.core.subtasks import chunk_step
from tracer.names import PLAN_SUFFIX

_LONG_WORDS: Final = 150
_INSTRUCTIONS: Final = f"""\
Change nothing; you may read the files. Split the request into as few subtasks as make sense, each of which one
developer could finish and check alone in a copy of the project of their own; their results are merged afterwards. Two
subtasks that would change the same lines are one subtask, or depend on each other. List a dependency only where the
work of the other must be there first. Each description stands alone: whoever reads it sees nothing else of the
request. Together they cover the whole request and nothing more. A request that is one piece of work has one subtask.

Answer with one JSON object and nothing else, after this schema:
{json.dumps(PLAN_SCHEMA, separators=(",", ":"))}"""


def wants_plan(request: Request) -> bool:
    """Whether the request is to be split, or at least looked at with that in mind."""
    if request.plan is not None or (request.continues is not None and request.continues.plan is not None):
        return True
    if request.chunk == "always":
        return True
    if request.chunk != "auto" or request.kind in {"question", "investigation"}:
        return False
    return is_work_list(list_items(request.prompt)) or (
        request.executor.plans and len(request.prompt.split()) >= _LONG_WORDS
    )


def plan_step(state: TaskState) -> Step | None:
    """The next step towards a plan; None once there is one, or where none is wanted."""
    plan = state.plan
    if plan is not None and not plan.proposed:
        return None
    if plan is not None and not plan.replan:
        return _approved(state, plan)
    if plan is None and (state.main.phase != "new" or not (wants_plan(state.request) or state.request.into)):
        return None
    if plan is None and (given := _given(state)) is not None:
        return given
    if plan is None and not wants_plan(state.request):
        return _recorded(state, Checked(problem="the result goes to a branch"), "single")
    if state.request.executor.plans:
        return _planning(state)
    return _recorded(state, _by_list(state), "list")


def _given(state: TaskState) -> RecordPlan | None:
    """A plan that is there already: that of the file this one continues, or the person's."""
    if state.request.continues is not None and (earlier := state.request.continues.plan) is not None:
        checked = check_plan(earlier.data, task_id=state.task_id, by_person=True)
        return _plan(checked, "continued")._replace(done=earlier.done if earlier.base else (), base=earlier.base)
    if state.request.plan is not None:
        return _recorded(state, check_plan(state.request.plan, task_id=state.task_id, by_person=True), "given")
    return None


def _approved(state: TaskState, plan: Plan) -> Step:
    if state.action not in {"continue", "accept"}:
        return AwaitPerson("plan")
    if plan.edited is None:
        return RecordPlan([subtask.data for subtask in plan.subtasks], plan.reason, "approved")
    checked = check_plan(plan.edited, task_id=state.task_id, by_person=True)
    return _plan(checked, "edited", single="the user wants it so")


def _by_list(state: TaskState) -> Checked:
    items = list_items(state.request.prompt)
    if not items:
        return Checked(problem="the request holds no explicit list, and the executor has no model that could plan")
    if state.request.chunk != "always" and not is_work_list(items):
        return Checked(problem="the request's list does not name pieces of work")
    return check_plan(listed_plan(items, context=preamble(state.request.prompt)), task_id=state.task_id)


def _recorded(state: TaskState, checked: Checked, mode: str) -> RecordPlan:
    plan = _plan(checked, mode)
    if state.request.into and not plan.subtasks:  # a branch gets what was done apart from the person's files
        whole = {"id": f"{state.task_id}-sub-1", "description": state.request.prompt, "dependencies": []}
        return plan._replace(subtasks=[whole])
    return plan._replace(proposed=state.request.approve_plan and bool(plan.subtasks))


def _plan(checked: Checked, mode: str, *, single: str = "") -> RecordPlan:
    if len(checked.subtasks) > 1:
        return RecordPlan(checked.subtasks, "", mode)
    return RecordPlan((), checked.problem or single or "the plan has fewer than 2 subtasks", "single")


def _planning(state: TaskState) -> Step:
    loop = state.loop(state.task_id + PLAN_SUFFIX)
    match loop.phase:
        case "requested":
            if loop.attempts >= state.request.limits.max_attempts:
                why = f"{loop.attempts} requests for a plan had no answer"
                return _recorded(state, Checked(problem=why), "model")
            return _ask(state, loop, loop.answer.output if loop.answer.data else None)
        case "answered":
            return _answered(state, loop)
        case _:
            if over_limit(state) is not None:
                return _recorded(state, Checked(problem="there is nothing left for a plan"), "model")
            return _ask(state, loop, None)


def _answered(state: TaskState, loop: LoopState) -> Step:
    if error := loop.answer.error:
        why = f"planning failed: {error.kind or 'error'}: {error.message}"
        return _recorded(state, Checked(problem=why), "model")
    checked = _read(state, loop)
    if checked.problem and not loop.counted:
        return _ask(state, loop._replace(iteration_index=loop.iteration_index + 1), loop.answer.output)
    if checked.problem:
        checked = Checked(problem=f"the plan could not be used: {checked.problem}")
    return _recorded(state, checked, "model")


def _read(state: TaskState, loop: LoopState) -> Checked:
    found = plan_of_text(loop.answer.output)
    if found is None:
        return Checked(problem="the answer holds no plan in JSON")
    return check_plan(found, task_id=state.task_id)


def _ask(state: TaskState, loop: LoopState, earlier: str | None) -> AskAgent:
    parts = [PLAN_HEADLINE, _INSTRUCTIONS]
    if earlier is not None:
        parts += ["", f"The answer before was no good: {_read(state, loop).problem}. It was:", earlier[:20_000]]
    if state.plan is not None and state.plan.hint:
        parts += ["", f"The user says about the plan before: {state.plan.hint}"]
    parts += ["", "The request:", "", state.request.prompt]
    return AskAgent(
        prompt="\n".join(parts),
        iteration_index=loop.iteration_index,
        attempt=loop.attempts if loop.phase == "requested" else 0,
        subtask_id=state.task_id + PLAN_SUFFIX,
        purpose="plan" if earlier is None else "repair",
    )


def decide(state: TaskState) -> Step | None:
    """The next step; None when the task has ended or has no request yet."""
    if state.final is not None or not state.requested:
        return None
    waits_with_plan = state.plan is not None and state.plan.proposed
    if state.action == "accept" and not waits_with_plan:
        return Finish("COMPLETE", "accepted")
    if state.action == "stop":
        asked = state.main.phase != "new" or any(True for _ in state.subtasks.values())
        unasked = not asked and state.request.continues is None
        return Finish("CANCELLED", "cancelled", "the agent was not asked: it cost nothing" if unasked else "")
    if state.rules is None:
        return RecordRules()
    for next_step in (conflict_step, plan_step, chunk_step):
        step = next_step(state)
        if step is not None:  # a step without fields is an empty tuple, and false
            return step
    return decide_loop(state)
