"""The status of each subtask and the next step of a chunked task. Pure.

A subtask starts when all its dependencies have passed and are merged; a failed one stops only its dependents. The
merged result is judged as a whole and repaired once; COMPLETE only if all passed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from runner.agent_report import prose_of
from runner.core.decide_loop import decide_loop, over_limit
from runner.core.state import NO_ANSWER, LoopState, TaskState
from runner.core.steps import Append, AwaitPerson, Finish, Judge, RunSubtasks, Step
from tracer.drafts import Draft, chunking_plan
from tracer.facts import Subtask
from tracer.redaction.cuts import beginning

_REPAIRS: Final = 1
_ANSWER: Final = 200_000


SubtaskStatus = Literal["wait", "run", "done", "failed", "skipped", "ask"]


class Fate(NamedTuple):
    """What comes of a subtask. `step` is what it rests with; `unstarted`: why it was not started."""

    kind: SubtaskStatus
    step: Finish | AwaitPerson | None = None
    unstarted: str = ""

    @property
    def reason(self) -> str:
        """Why it rests, in one word."""
        if self.step is not None:
            return self.step.reason
        return "dependency" if self.kind == "skipped" else ""

    @property
    def detail(self) -> str:
        """Why it rests, for a reader."""
        return self.unstarted or (self.step.detail if isinstance(self.step, Finish) else "")


def chunk_step(state: TaskState) -> Step | None:
    """The next step; None where the task runs in one piece."""
    plan = state.plan
    if plan is None or not plan.subtasks:
        return None
    if state.main.phase in {"judged", "rejected"}:
        return decide_loop(state)
    if state.main.phase == "ended" and state.main.passed:
        return Finish("COMPLETE", "passed")
    found = fates(state)
    kinds = {fate.kind for fate in found.values()}
    if "run" in kinds:
        return RunSubtasks()
    if "ask" in kinds:
        return next(fate.step for fate in found.values() if fate.kind == "ask")
    if kinds - {"done"}:
        return _failed(state, found)
    return _judge_whole(state, repairs=plan.repairs)


def _judge_whole(state: TaskState, *, repairs: int) -> Step:
    main = state.main
    if main.counted <= repairs:
        answer = NO_ANSWER._replace(data={"output": answer_of_all(state), "status": "COMPLETE"})
        return Judge(main.iteration_index, answer, main.first_base, whole=True)
    allowed = _REPAIRS + math.ceil(state.granted / max(1, state.request.limits.max_iterations))
    if repairs < allowed:
        return Append(_repair(state))
    if state.request.limits.on_limit == "ask" and not state.action:
        return AwaitPerson("max_iterations")
    return Finish("INCOMPLETE", "max_iterations", f"the merged result was rejected: {main.judgment.summary}")


def _repair(state: TaskState) -> Draft:
    subtasks = state.planned
    hint = f"\n\n## Hint from the user\n{state.hint}" if state.action == "hint" and state.hint else ""
    subtask = {
        "id": f"{state.task_id}-sub-{len(subtasks) + 1}",
        "title": "Repair the merged result",
        "description": state.main.modification + hint,
        "dependencies": [item.id for item in subtasks],
    }
    reason = f"the merged result was rejected: {state.main.judgment.summary}"
    return chunking_plan(subtasks=[subtask], reason=reason, mode="repair")


def answer_of_all(state: TaskState) -> str:
    """What the subtasks answered, one after another: the answer that the whole is judged by."""
    outputs = (prose_of(state.loop(item.id).answer.output) for item in state.planned)
    return beginning("\n\n".join(output.strip() for output in outputs if output.strip()), _ANSWER)


def fates(state: TaskState) -> dict[str, Fate]:
    """How every subtask stands, in the plan's order."""
    listed = state.planned
    subtasks = {item.id: item for item in listed}
    unstarted = _unstarted(state)
    found: dict[str, Fate] = {}
    for subtask_id in in_dependency_order(listed):
        loop = state.loop(subtask_id)
        if loop.passed:
            found[subtask_id] = Fate("done")
        else:
            held = _held_back(subtasks[subtask_id], found, subtasks)
            found[subtask_id] = held or (unstarted if loop.phase == "new" else _begun(state, subtask_id))
    return {one: found.get(one) or Fate("skipped", unstarted="it waits for itself") for one in subtasks}


def _unstarted(state: TaskState) -> Fate:
    """The fate of every subtask that was never asked and that nothing holds back."""
    if any(refused(state.loop(item.id)) for item in state.planned):
        return Fate("skipped", Finish("ERROR", "auth"), "the agent's credentials were refused")
    over = over_limit(state)
    return Fate("skipped", over, "the limit of the whole task is reached") if over else Fate("run")


def in_dependency_order(subtasks: Sequence[Subtask]) -> list[str]:
    """The ids, each after all it depends on, else in the plan's order; those of a cycle are left out."""
    needs = {item.id: set(item.dependencies) for item in subtasks}
    followers: dict[str, list[str]] = {}
    for one, required in needs.items():
        for need in required:
            followers.setdefault(need, []).append(one)
    missing = {one: len(required & needs.keys()) for one, required in needs.items()}
    order = [one for one, count in missing.items() if count == 0]
    for one in order:  # grows while it is walked
        for follower in followers.get(one, ()):
            missing[follower] -= 1
            if missing[follower] == 0:
                order.append(follower)
    return order


def _held_back(subtask: Subtask, found: Mapping[str, Fate], subtasks: Mapping[str, Subtask]) -> Fate | None:
    """What keeps it from starting: a dependency that failed, or one that is not done."""
    waits = False
    for need in subtask.dependencies:
        if need not in subtasks:
            return Fate("skipped", unstarted=f"it needs {need}, which is not in the plan")
        kind, step = found[need].kind, found[need].step
        if kind in {"failed", "skipped"}:
            how = f"ended {step.status} ({step.reason})" if isinstance(step, Finish) else "was not started"
            return Fate("skipped", unstarted=f"it needs {label(subtasks, need)}, which {how}")
        waits = waits or kind != "done"
    return Fate("wait") if waits else None


def label(subtasks: Mapping[str, Subtask], subtask_id: str) -> str:
    """`2 API`: a subtask's number and title."""
    number = list(subtasks).index(subtask_id) + 1
    return f"{number} {subtasks[subtask_id].title}".strip()


def _begun(state: TaskState, subtask_id: str) -> Fate:
    step = None if state.loop(subtask_id).phase in {"judged", "rejected"} else decide_loop(state, subtask_id=subtask_id)
    if isinstance(step, Finish | AwaitPerson):
        return Fate("ask" if isinstance(step, AwaitPerson) else "failed", step)
    return Fate("run")


def refused(loop: LoopState) -> bool:
    """Whether the agent's credentials were refused."""
    error = loop.answer.error
    return loop.phase == "answered" and error is not None and error.kind == "auth"


def _failed(state: TaskState, found: Mapping[str, Fate]) -> Finish:
    """The end of a task some of whose subtasks did not make it: the first that failed says why."""
    subtasks = state.plan.names if state.plan else {}
    failed = [(one, fate.step) for one, fate in found.items() if isinstance(fate.step, Finish)]
    if not failed:
        return Finish("ERROR", "dependency", "the plan's dependencies cannot be met")
    first, step = next((pair for pair in failed if pair[1].status == "ERROR"), failed[0])
    detail = f"subtask {label(subtasks, first)}: {step.detail or step.reason}"
    skipped = sum(fate.kind == "skipped" for fate in found.values())
    return Finish(step.status, step.reason, f"{detail}; {skipped} not started" if skipped else detail)


_PHASES = {"requested": "asking", "answered": "judging", "rejected": "asking again"}


class Standing(NamedTuple):
    """One subtask. `number` and `dependencies` count from 1; `iterations` have ended; times are milliseconds.

    `status`: wait, run, done, failed, skipped (never started; `detail` says why) or ask (a person is asked). `phase` is
    what a running one does now; `verdict` the last rejection (`REJECT Q3`); `cost_usd` None where a price is unknown.
    """

    subtask_id: str
    number: int
    title: str
    status: SubtaskStatus
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
    if state.plan is None or not state.requested or not state.plan.subtasks:
        return ()
    found = fates(state)
    numbers = {one: number for number, one in enumerate(state.plan.names, 1)}
    return tuple(_standing(state, one, fate, numbers) for one, fate in found.items())


def _standing(state: TaskState, subtask_id: str, fate: Fate, numbers: dict[str, int]) -> Standing:
    subtask = state.subtask(subtask_id)
    loop = state.loop(subtask_id)
    status = fate.kind if fate.kind != "run" or loop.phase != "new" or loop.iteration_index else "wait"
    return Standing(
        subtask_id=subtask_id,
        number=numbers[subtask_id],
        title=subtask.title,
        status=status,
        iterations=loop.iteration_index,
        phase=_phase(loop) if status == "run" else "",
        verdict=_verdict(loop) if status != "done" else "",
        reason=fate.reason,
        detail=fate.detail,
        dependencies=tuple(numbers[need] for need in subtask.dependencies if need in numbers),
        cost_usd=loop.totals.cost_usd if loop.totals.answers and loop.totals.cost_known else None,
        spent_ms=loop.totals.spent_ms,
        started=loop.phase != "new",
    )


def _phase(loop: LoopState) -> str:
    if loop.phase == "judged":
        return "merging" if loop.judgment.judgment == "PASS" else "asking again"
    return _PHASES.get(loop.phase, "asking again")


def _verdict(loop: LoopState) -> str:
    judgment = loop.judgment.judgment
    if judgment in {"", "PASS"}:
        return ""
    return " ".join([judgment, *(result.id for result in loop.judgment.failures)])


def summary_of(state: TaskState, *, status: str) -> list[dict[str, Any]]:
    """FINAL_SUMMARY's `subtasks`; `status` is that of the whole task. `detail` is there where it says something."""
    if not state.requested:
        return []
    return [_summary(state, one, fate, status) for one, fate in fates(state).items()]


def _summary(state: TaskState, subtask_id: str, fate: Fate, whole: str) -> dict[str, Any]:
    loop = state.loop(subtask_id)
    status, reason = "COMPLETE", "passed"
    if fate.kind == "failed" and isinstance(fate.step, Finish):
        status, reason = fate.step.status, fate.reason
    elif fate.kind == "skipped":
        status, reason = "NOT_STARTED", fate.reason
    elif fate.kind != "done":  # a person ended the task over it
        reason = "accepted" if whole == "COMPLETE" else "cancelled"
        status = whole if loop.phase != "new" else "NOT_STARTED"
    summary = {"id": subtask_id, "status": status, "reason": reason, "iterations": loop.iteration_index}
    return {**summary, "detail": fate.detail} if fate.detail else summary
