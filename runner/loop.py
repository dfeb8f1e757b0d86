"""Performs the steps of a task and its subtasks until `decide` returns none.

A request is durable before the call, an answer before it is judged (invariant 1); a judgment is read from the
record, never repeated (2); a failure to record ends the loop before the next call (9). Subtasks run in loops of
their own, in dependency order, as many at once as allowed; every run starts from the recorded state. Cancelling
ends all agents.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, assert_never

from runner.core.decide import decide
from runner.core.decide_loop import decide_loop
from runner.core.state import TaskState
from runner.core.steps import (
    Append,
    AskAgent,
    AwaitPerson,
    Finish,
    Judge,
    Merge,
    RecordPlan,
    RecordRules,
    RunSubtasks,
    Step,
)
from runner.core.subtasks import fates, in_dependency_order, refused, summary_of
from runner.effects_port import Changed, Effects
from runner.executors.executor_port import LiveSink
from runner.isolation.isolation_port import Conflict, Isolation, Merged
from runner.perform import Gate, Ledger, Performer, record_interrupted
from runner.processes.process import uninterrupted
from tracer.clock import monotonic
from tracer.drafts import (
    Draft,
    chunking_plan,
    final_summary,
    iteration_end,
    quality_judgment,
    system_rules,
    user_answer,
)
from tracer.errors import ConflictError, PmError, UsageError
from tracer.facts import Entry, Subtask
from tracer.verification import unverified_in, verification_of

WORK: Final = "work"  # the place of a task in one piece


async def record_plan(ledger: Ledger, effects: Effects, step: RecordPlan) -> None:
    """Record CHUNKING_PLAN; for a plan that runs, the common start is durable before it."""
    request, done, base = ledger.state.request, step.done, step.base
    more: dict[str, Any] = {"proposed": True} if step.proposed else {}
    if step.subtasks and not step.proposed:
        apart = await effects.isolation(ledger.state)
        if not done:  # what lies there under this task's name is of a start that nothing followed, or of another record
            await apart.close()
        await apart.begin(branch=request.into)
        if not apart.parallel:
            _require_folder(request.isolation, apart.why)
            await effects.enter(wait=True)
        merged = await apart.merged()
        if done and (merged is None or merged):  # a task that is continued keeps what it has, and where it began
            more["done"] = [one for one in done if merged is None or one in merged]
        else:
            base = None
        base = base or await effects.baseline(f"{ledger.state.task_id}/main/0")
        more |= {"base": base, "isolation": "worktrees" if apart.parallel else "direct"}
        if apart.why:
            more["why"] = apart.why
    await ledger.record(chunking_plan(subtasks=step.subtasks, reason=step.reason, mode=step.mode, **more))


def _require_folder(isolation: str, why: str) -> None:
    if isolation == "worktree":
        raise UsageError("no worktree can be made for the task", why=why, next_step="--isolation auto")


async def begin_apart(ledger: Ledger, effects: Effects, why: str) -> None:
    """Have the task work in a worktree of its own; where there can be none, it waits for its turn in the folder."""
    request = ledger.state.request
    apart = await effects.isolation(ledger.state)
    base = request.continues.apart if request.continues is not None else None
    if base is not None:
        try:
            await apart.merged()
        except PmError:  # somebody removed it
            base = None
    if base is None:  # what lies there is of another record, or of a start that nothing followed
        await apart.close()
    await apart.begin()
    if not apart.parallel:
        _require_folder(request.isolation, apart.why)
        return
    await ledger.record(chunking_plan(subtasks=(), reason=why, mode="single", isolation="worktrees", base=base))


class Handed(NamedTuple):
    """What the person got: the paths that differ from the start, and the branch if it is not in their files."""

    changed: Changed
    branch: str = ""


async def hand_over(state: TaskState, effects: Effects, step: Finish, *, base: str | None) -> Handed | Conflict:
    """Give the user the result that a task's end calls for; nothing at all where it is not COMPLETE, unless asked."""
    request = state.request
    if base is None:
        return Handed(Changed(()))
    apart = await effects.isolation(state)
    if state.plan is not None and state.plan.isolation == "direct":
        return Handed(await effects.changed(base))
    wanted = step.status == "COMPLETE" or (request.partial and bool(state.planned) and step.status != "CANCELLED")
    if not wanted and state.works_apart:  # what there is stays where it is, for a resume
        folder = await (apart.whole() if await apart.merged() else apart.open(WORK))
        return Handed((await effects.within(folder).changed(base))._replace(left=None))
    if state.works_apart:
        await apart.merge(WORK)
    elif step.reason == "accepted":
        await _merge_started(state, apart)
    if not wanted or not await apart.merged():
        return Handed(Changed(()))
    changed = await effects.within(await apart.whole()).changed(base)
    if changed.paths and not request.into:
        await effects.enter(wait=True)
    result = await apart.apply(branch=request.into)
    return result if isinstance(result, Conflict) else Handed(changed, request.into)


def unmerged(conflict: Conflict, passed: Sequence[Mapping[str, Any]], *, by: str, at: Mapping[str, Any]) -> Draft:
    """QUALITY_JUDGMENT of work that is good by itself (`passed`) and does not merge."""
    paths = [place.path for place in conflict.places]
    reason = f"{by} changed the same lines of {', '.join(paths[:10])} meanwhile"
    return quality_judgment(
        "REJECT",
        [*passed, {"id": "MERGE", "name": "Merges Cleanly", "passed": False, "reason": reason}],
        f"MERGE: {reason}",
        issues=[{"criterion": "MERGE", "type": "conflict", "path": path} for path in paths],
        conflict=paths,
        conflict_text=conflict.reason(by.capitalize()),
        **at,
    )


async def _merge_started(state: TaskState, apart: Isolation) -> None:
    """A person accepts the work as it is: what merges is part of it."""
    for subtask_id in in_dependency_order(state.planned):
        loop = state.loop(subtask_id)
        if loop.phase not in {"new", "requested"} and not loop.passed and not loop.fresh:
            await apart.merge(subtask_id)


async def run_subtasks(
    ledger: Ledger, *, effects: Effects, live: LiveSink, sleep: Callable[[float], Awaitable[None]]
) -> None:
    """Run every subtask that may start, until none can go on; the first PmError ends them all."""
    crew = _Crew(ledger, effects, await effects.isolation(ledger.state), live=live, sleep=sleep)
    try:
        await crew.run()
    except BaseExceptionGroup as group:
        error: BaseException = group.subgroup(PmError) or group  # one that pm knows before one that it does not
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from group


class _Crew:
    """One run over the plan: what waits for what, what is ready, who works."""

    def __init__(
        self,
        ledger: Ledger,
        effects: Effects,
        apart: Isolation,
        *,
        live: LiveSink,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._ledger, self._effects, self._apart, self._live, self._sleep = ledger, effects, apart, live, sleep
        state = ledger.state
        limits = state.request.limits
        parallel = limits.parallel if apart.parallel else 1
        left_s = None if limits.timeout_s is None else limits.timeout_s - state.totals.spent_ms / 1000
        until = None if left_s is None else monotonic() + left_s
        self._gate = Gate(parallel, until=until, wanting=lambda: self._working + len(self._ready))
        # Twice as many as may ask are under way, so that judging and merging keep nobody from asking.
        self._most = 2 * parallel if apart.parallel else 1
        self._working = 0
        self._refused = False
        self._group = TaskGroup()
        subtasks = state.planned
        self._place = {item.id: number for number, item in enumerate(subtasks)}
        self._ready: list[tuple[bool, int, str]] = []
        self._missing: dict[str, int] = {}
        self._followers: dict[str, list[str]] = {}
        self._look(subtasks)

    def _look(self, subtasks: Iterable[Subtask]) -> None:
        found = fates(self._ledger.state)
        for item in subtasks:
            match found[item.id].kind:
                case "run":
                    self._make_ready(item.id)
                case "wait":
                    needs = {need for need in item.dependencies if found[need].kind != "done"}
                    self._missing[item.id] = len(needs)
                    for need in needs:
                        self._followers.setdefault(need, []).append(item.id)
                case _:
                    continue

    def _make_ready(self, subtask_id: str) -> None:
        is_new = self._ledger.state.loop(subtask_id).phase == "new"  # work that was begun goes on first
        heapq.heappush(self._ready, (is_new, self._place[subtask_id], subtask_id))

    async def run(self) -> None:
        async with self._group:
            self._start()

    def _start(self) -> None:
        while self._ready and self._working < self._most:
            is_new, _, subtask_id = heapq.heappop(self._ready)
            if is_new and self._refused:
                continue
            self._working += 1
            self._group.create_task(self._work(subtask_id))  # the group holds it

    async def _work(self, subtask_id: str) -> None:
        end = await self._through(subtask_id)
        self._working -= 1
        if isinstance(end, Finish) and end.status == "COMPLETE":
            for follower in self._followers.get(subtask_id, ()):
                self._missing[follower] -= 1
                if self._missing[follower] == 0:
                    self._make_ready(follower)
        elif isinstance(end, Finish) and end.reason == "auth" and refused(self._ledger.state.loop(subtask_id)):
            self._refused = True
        self._start()

    async def _through(self, subtask_id: str) -> Step:
        """Take one subtask to its rest."""
        effects: Effects | None = None
        while True:
            step = decide_loop(self._ledger.state, subtask_id=subtask_id)
            match step:
                case Finish() | AwaitPerson():
                    return step
                case Append(draft):
                    await self._ledger.record(draft)
                case Merge():
                    await self._merge(step)
                case AskAgent():
                    if effects is None or step.fresh:
                        effects = self._effects.within(await self._apart.open(subtask_id, fresh=step.fresh))
                    await self._performer(effects).ask(step)
                case Judge():
                    effects = effects or self._effects.within(await self._apart.open(subtask_id))
                    await self._performer(effects).judge(step)
                case RecordPlan() | RecordRules() | RunSubtasks():  # only a task's own loop asks for these
                    raise AssertionError(step)
                case _:
                    assert_never(step)

    def _performer(self, effects: Effects) -> Performer:
        return Performer(self._ledger, effects=effects, live=self._live, sleep=self._sleep, gate=self._gate)

    async def _merge(self, step: Merge) -> None:
        result = await self._apart.merge(step.subtask_id)
        at: dict[str, Any] = {"iteration_index": step.iteration_index, "subtask_id": step.subtask_id}
        if isinstance(result, Merged):
            merged = {"result": result.result, "paths": list(result.paths)} if self._apart.parallel else None
            await self._ledger.record(iteration_end("PASS", **at, merged=merged))
            return
        passed = [one.data for one in self._ledger.state.loop(step.subtask_id).judgment.criteria_results]
        await self._ledger.record(unmerged(result, passed, by="other subtasks", at=at))


class TaskLoop:
    """Runs one task to its end, to a question for the person, or to its cancellation."""

    def __init__(
        self,
        *,
        append: Callable[[Draft], Awaitable[Entry]],
        effects: Effects,
        live: LiveSink,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._append = append
        self._effects = effects
        self._live = live
        self._sleep = sleep
        self._apart: Effects | None = None
        self._ledger: Ledger | None = None
        self._bases: Mapping[str, str] | None = None

    async def steer(self, text: str) -> None:
        """Record a hint for the next turn of the task that runs.

        Raises ConflictError: it works in subtasks, or has not begun.
        """
        if self._ledger is None or _is_chunked(self._ledger.state):
            raise ConflictError("a hint finds no turn here", why="the task waits for its place, or works in subtasks")
        await self._ledger.record(user_answer("hint", text, max_iterations=1))

    async def run(self, state: TaskState) -> TaskState:
        """The state after the last possible step."""
        self._ledger = Ledger(state, self._append)
        try:
            await record_interrupted(self._ledger, self._effects)
            await self._run(self._ledger)
            await self._pause()
        except asyncio.CancelledError:
            if not self._ledger.behind:  # else the next process that takes the task up does it, as after a kill
                with suppress(PmError):
                    await uninterrupted(record_interrupted(self._ledger, self._effects))
                await uninterrupted(self._pause())
            raise
        finally:
            await uninterrupted(self._effects.leave(done=self._ledger.state.final is not None))
        return self._ledger.state

    async def _pause(self) -> None:
        """What the user does in the folder while the task waits for them, or is stopped, is theirs."""
        if self._bases is not None and self._ledger is not None and self._ledger.state.final is None:
            with suppress(PmError):  # it is not told apart then; the task itself is none the worse
                await self._effects.paused()

    async def _run(self, ledger: Ledger) -> TaskState:
        while (step := decide(ledger.state)) is not None:
            match step:
                case AwaitPerson():
                    break
                case Append(draft):
                    await ledger.record(draft)
                case RecordRules():
                    rules = await self._effects.rules()
                    digest = hashlib.sha256(rules.encode()).hexdigest()
                    await ledger.record(system_rules(rules=rules, sha256=digest))
                case RecordPlan():
                    await record_plan(ledger, self._effects, step)
                case RunSubtasks():
                    if ledger.state.plan is not None and ledger.state.plan.isolation == "direct":
                        await self._enter(ledger)
                    await run_subtasks(ledger, effects=self._effects, live=self._live, sleep=self._sleep)
                case AskAgent():
                    effects = self._effects if step.purpose else await self._where(ledger, fresh=step.fresh)
                    await self._performer(ledger, effects).ask(step._replace(base=self._now(step.base)))
                case Judge():
                    effects = await (self._whole(ledger) if step.whole else self._where(ledger))
                    performer = self._performer(ledger, effects)
                    await performer.judge(step._replace(first_base=self._now(step.first_base)))
                case Finish():
                    await self._finish(ledger, step)
                case Merge():  # only a subtask's loop merges
                    raise AssertionError(step)
                case _:
                    assert_never(step)
        return ledger.state

    def _performer(self, ledger: Ledger, effects: Effects) -> Performer:
        return Performer(ledger, effects=effects, live=self._live, sleep=self._sleep)

    async def _whole(self, ledger: Ledger) -> Effects:
        return self._effects.within(await (await self._effects.isolation(ledger.state)).whole())

    async def _where(self, ledger: Ledger, *, fresh: bool = False) -> Effects:
        """Where the task in one piece works: a worktree, or the folder, which is its own then."""
        request, begun = ledger.state.request, ledger.state.main.phase != "new"
        if not (begun or ledger.state.works_apart):
            busy = await self._effects.enter(wait=False) if request.isolation == "auto" else ""
            continued = request.continues is not None and bool(request.continues.apart)
            if busy or continued or request.isolation == "worktree":
                why = f"{busy} works in the folder" if busy else "as it was" if continued else "asked for"
                await begin_apart(ledger, self._effects, why)
        if not ledger.state.works_apart:
            await self._enter(ledger)
            return self._effects
        if self._apart is None or fresh:
            apart = await self._effects.isolation(ledger.state)
            if fresh:  # on the user's files as they are now
                await apart.close()
                await apart.begin()
            self._apart = self._effects.within(await apart.open(WORK, fresh=fresh))
        return self._apart

    async def _enter(self, ledger: Ledger, *, wait: bool = True) -> None:
        """Have the folder; what others changed there since the task left it is none of its changes."""
        await self._effects.enter(wait=wait)
        if self._bases is None:
            main = ledger.state.main
            self._bases = await self._effects.taken_up({one for one in (main.first_base, main.base) if one})

    def _now(self, base: str | None) -> str | None:
        return base if base is None else (self._bases or {}).get(base, base)

    async def _finish(self, ledger: Ledger, step: Finish) -> None:
        state = ledger.state
        totals = state.totals
        apart = _is_chunked(state) or state.works_apart
        if not apart:
            if state.main.first_base is not None:
                await self._enter(ledger, wait=step.status != "CANCELLED")
            base = self._now(state.main.first_base)
            changed = _accepted(state) if base is None else await self._effects.changed(base)
            result: Handed | Conflict = Handed(changed)
            if decide(ledger.state) != step:  # the user has given a hint meanwhile
                return
        else:
            result = await hand_over(state, self._effects, step, base=self._now(state.main.first_base))
        if isinstance(result, Conflict):
            at = {"iteration_index": state.main.iteration_index, "subtask_id": None}
            await ledger.record(unmerged(result, (), by="somebody", at=at))
            return
        await self._effects.ended(_judged_traces(state, step))  # before: a kill in between is resumed here
        await ledger.record(
            final_summary(
                status=step.status,
                total_iterations=state.iterations,
                files_modified=list(result.changed.paths),
                usage=dict(totals.usage) or None,
                cost_usd=round(totals.told_cost, 6) if totals.told_cost is not None else None,
                duration_ms=totals.spent_ms,
                reason=step.reason,
                diff_blob=result.changed.diff_blob,
                verification=verification_of(state.last_judgments),
                unverified=unverified_in(state.last_judgments, state.request.untested),
                detail=step.detail,
                subtasks=summary_of(state, status=step.status) if _is_chunked(state) else None,
                branch=result.branch,
                left_blob=result.changed.left if apart else None,
                files=result.changed.files,
            )
        )
        resumable = step.status in {"INCOMPLETE", "ERROR"}
        if apart and not (resumable and state.works_apart):
            with suppress(PmError):  # the end is recorded; what is left lying is removed by the next start
                await (await self._effects.isolation(state)).close(keep_results=resumable)


def _judged_traces(state: TaskState, step: Finish) -> dict[str, bool]:
    """Whether what each agentic trace tells of was accepted: by the task, or as a subtask of it."""
    passed = {trace: loop.passed for loop in state.subtasks.values() if loop.judgment.data for trace in loop.traces}
    return passed | dict.fromkeys(state.main.traces, step.status == "COMPLETE")


def _accepted(state: TaskState) -> Changed:
    """What the file before this one left, where the user accepts that without another request."""
    ended = state.request.continues.ended if state.request.continues is not None else None
    return Changed(()) if ended is None else Changed(ended.files_modified, ended.diff_blob, files=ended.files)


def _is_chunked(state: TaskState) -> bool:
    return state.plan is not None and bool(state.plan.subtasks) and not state.plan.proposed
