"""`decide(state) -> Step | None`: what comes next. A pure function: same state, same step; None after the end.

`Append` steps are facts that follow from the state alone; the others touch the world and are performed by
`runner.loop`. The table in docs/architecture.md is this module in prose.
"""

from __future__ import annotations

from runner.chunking.course import chunk_step
from runner.chunking.planning import plan_step
from runner.decide_loop import decide_loop
from runner.state import TaskState
from runner.steps import AwaitPerson, Finish, RecordRules, Step

__all__ = ["AwaitPerson", "Finish", "decide"]


def decide(state: TaskState) -> Step | None:
    """The next step; None when the task has ended or has no request yet."""
    if state.final is not None or state.request is None:
        return None
    waits_with_plan = state.plan is not None and state.plan.proposed
    if state.action == "accept" and not waits_with_plan:
        return Finish("COMPLETE", "accepted")
    if state.action == "stop":
        return Finish("CANCELLED", "cancelled")
    if state.rules is None:
        return RecordRules()
    for next_step in (plan_step, chunk_step):
        step = next_step(state, state.request)
        if step is not None:  # a step without fields is an empty tuple, and false
            return step
    return decide_loop(state, state.request)
