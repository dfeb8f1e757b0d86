"""The shell around `decide` and `evolve`: perform the next step, append its fact, fold it, until there is none.

Promises: a request is durable before the call leaves, an answer before it is judged (invariant 1); a judgment is taken
from the record, never made twice (2); a failure to record ends the loop before the next call (9). Cancelling the
loop ends what it started and leaves a file that `resume` goes on with.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, assert_never

from runner.chunking.engine import hand_over, record_plan, run_subtasks
from runner.chunking.standing import summary_of
from runner.decide import decide
from runner.executors.port import LiveSink
from runner.perform import Changed, Effects, Ledger, Performer, backoff_s
from runner.state import TaskState
from runner.steps import Append, AskAgent, AwaitPerson, Finish, Judge, Merge, RecordPlan, RecordRules, RunSubtasks
from tracer.errors import PmError
from tracer.events import Draft, Entry
from tracer.verification import unverified_in, verification_of

__all__ = ["Changed", "Effects", "TaskLoop", "backoff_s"]


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

    async def run(self, state: TaskState) -> TaskState:
        """The state after the last possible step.

        Raises:
            RecordError: a fact could not be made durable.
            PmError: the workspace, an executor's set-up or the rules cannot be used.

        """
        ledger = Ledger(state, self._append)
        performer = Performer(ledger, effects=self._effects, live=self._live, sleep=self._sleep)
        while (step := decide(ledger.state)) is not None:
            match step:
                case AwaitPerson():
                    break
                case Append(draft):
                    await ledger.record(draft)
                case RecordRules():
                    rules = await self._effects.rules()
                    digest = hashlib.sha256(rules.encode()).hexdigest()
                    await ledger.record(Draft("SYSTEM_RULES", {"rules": rules, "sha256": digest}))
                case RecordPlan(data):
                    await record_plan(ledger, self._effects, data)
                case RunSubtasks():
                    await run_subtasks(ledger, effects=self._effects, live=self._live, sleep=self._sleep)
                case AskAgent():
                    await performer.ask(step)
                case Judge():
                    await self._judge(ledger, performer, step)
                case Finish():
                    await self._finish(ledger, step)
                case Merge():  # only a subtask's loop merges
                    raise AssertionError(step)
                case _:
                    assert_never(step)
        return ledger.state

    async def _judge(self, ledger: Ledger, performer: Performer, step: Judge) -> None:
        if step.whole:
            place = await self._effects.apart(ledger.state).whole()
            performer = Performer(ledger, effects=place.effects, live=self._live, sleep=self._sleep)
        await performer.judge(step)

    async def _finish(self, ledger: Ledger, step: Finish) -> None:
        state = ledger.state
        result = await self._result(state, step)
        totals = state.totals
        data: dict[str, Any] = {
            "status": step.status,
            "total_iterations": state.iterations,
            "files_modified": list(result.changed.paths),
            "usage": dict(totals.usage) or None,
            "cost_usd": round(totals.cost, 6) if totals.cost is not None else None,
            "duration_ms": totals.spent_ms,
            "reason": step.reason,
            "diff_blob": result.changed.diff_blob,
            "verification": verification_of(state.last_judgments),
        }
        if unverified := unverified_in(state.last_judgments):
            data["not_verified"] = [one._asdict() for one in unverified]
        if step.detail:
            data["detail"] = step.detail
        if _is_chunked(state):
            data["subtasks"] = summary_of(state, status=step.status)
        if result.branch:
            data["branch"] = result.branch
        await ledger.record(Draft("FINAL_SUMMARY", data))
        if _is_chunked(state):
            with suppress(PmError):  # the end is recorded; what is left lying is removed by the next start
                await self._effects.apart(state).close(keep_results=step.status in {"INCOMPLETE", "ERROR"})

    async def _result(self, state: TaskState, step: Finish) -> _Result:
        if _is_chunked(state):
            handed = await hand_over(state, self._effects, step)
            return _Result(handed.changed, handed.branch)
        base = state.main.first_base
        return _Result(await self._effects.changed(base) if base is not None else Changed(()))


class _Result(NamedTuple):
    changed: Changed
    branch: str = ""


def _is_chunked(state: TaskState) -> bool:
    return state.plan is not None and bool(state.plan.subtasks) and not state.plan.proposed
