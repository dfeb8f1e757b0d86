"""The shell around `decide` and `evolve`: perform the next step, append its fact, fold it, until there is none.

Promises: a request is durable before the call leaves, an answer before it is judged (invariant 1); a judgment is taken
from the record, never made twice (2); a failure to record ends the loop before the next call (9). Cancelling the
loop ends what it started and leaves a file that `resume` goes on with.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, assert_never

from runner.criteria.model import Verdict
from runner.decide import Append, AskAgent, AwaitPerson, Finish, Judge, RecordRules, decide
from runner.evolve import evolve
from runner.executors.port import Answer, AnswerError, Ask, Live, LiveSink
from runner.state import Request, TaskState
from tracer.clock import monotonic
from tracer.events import Draft, Entry

__all__ = ["Changed", "Effects", "TaskLoop", "backoff_s"]

_BACKOFF_S: Final = 1.0
_BACKOFF_MAX_S: Final = 60.0


class Changed(NamedTuple):
    """What differs from a baseline: workspace paths, and the blob that holds the unified diff (None: no change)."""

    paths: tuple[str, ...]
    diff_blob: str | None = None


class Effects(Protocol):
    """What the loop asks of the world. Every method may raise PmError; nothing else."""

    async def rules(self) -> str:
        """The mandatory rules' text."""
        ...

    async def baseline(self, label: str) -> str:
        """A durable baseline of the workspace; returns its id."""
        ...

    async def changed(self, base: str) -> Changed:
        """What differs from `base` now."""
        ...

    async def ask(self, request: Ask, live: LiveSink) -> Answer:
        """One question to the agent."""
        ...

    async def judge(self, state: TaskState, step: Judge) -> Verdict:
        """Evidence gathered and judged."""
        ...

    async def distilled(self, answer: Answer, *, task_id: str, iteration_index: int) -> str | None:
        """The path of the agentic trace of the session behind `answer`, None where there is none."""
        ...


def backoff_s(step: AskAgent, *, spread: float) -> float:
    """Seconds to wait before the same request is sent again; `spread` in 0..1 is the jitter."""
    if step.retry == 0:
        return 0.0
    if step.retry_after_s is not None:
        return max(0.0, step.retry_after_s)
    longest: float = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** (step.retry - 1))
    return longest * (0.5 + spread / 2)


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
        while (step := decide(state)) is not None:
            match step:
                case AwaitPerson():
                    return state
                case Append(draft):
                    state = await self._record(state, draft)
                case RecordRules():
                    rules = await self._effects.rules()
                    digest = hashlib.sha256(rules.encode()).hexdigest()
                    state = await self._record(state, Draft("SYSTEM_RULES", {"rules": rules, "sha256": digest}))
                case AskAgent():
                    state = await self._ask(state, step)
                case Judge():
                    state = await self._judge(state, step)
                case Finish():
                    state = await self._finish(state, step)
                case _:
                    assert_never(step)
        return state

    async def _record(self, state: TaskState, draft: Draft) -> TaskState:
        return evolve(state, await self._append(draft))

    async def _ask(self, state: TaskState, step: AskAgent) -> TaskState:
        request = _request(state)
        await self._wait(state, step)
        label = f"{state.task_id}/{step.subtask_id or 'main'}/{step.iteration_index}"
        base = step.base or await self._effects.baseline(label)
        asked: dict[str, Any] = {
            "prompt": step.prompt,
            "attempt": step.attempt,
            "executor": request.executor.get("name"),
            "model": request.executor.get("model"),
            "base": base,
        }
        if step.subtask_id is not None:
            asked["subtask_id"] = step.subtask_id
        written = await self._append(Draft("LLM_REQUEST", asked, step.iteration_index, step.subtask_id))
        state = evolve(state, written)
        started = monotonic()
        # The agent is asked what the trace holds: a secret in the prompt was replaced before the line was written.
        answer = await self._answer(state, step, prompt=str(written.data["prompt"]))
        # Rounded up: a call that ran into the task's time limit must count as having used it up.
        duration_ms = math.ceil((monotonic() - started) * 1000)
        changed = await self._effects.changed(base)
        trace = await self._effects.distilled(answer, task_id=state.task_id, iteration_index=step.iteration_index)
        data = _answer_data(answer, changed=changed, duration_ms=duration_ms, agentic_trace=trace)
        return await self._record(state, Draft("LLM_RESPONSE", data, step.iteration_index, step.subtask_id))

    async def _wait(self, state: TaskState, step: AskAgent) -> None:
        left = backoff_s(step, spread=random.random())  # noqa: S311 - jitter is no secret
        while left > 0:
            self._live(
                Live(
                    kind="waiting", text=step.retry_kind, wait_s=left, task_id=state.task_id, subtask_id=step.subtask_id
                )
            )
            pause = min(1.0, left)
            await self._sleep(pause)
            left -= pause

    async def _answer(self, state: TaskState, step: AskAgent, *, prompt: str) -> Answer:
        request = _request(state)
        left_s = _time_left_s(state, request)
        ask = Ask(
            task_id=state.task_id,
            subtask_id=step.subtask_id,
            iteration_index=step.iteration_index,
            attempt=step.attempt,
            prompt=prompt,
            workspace=request.workspace,
            model=request.executor.get("model"),
            rules=state.rules or "",
            permissions=request.executor.get("permissions", "edit"),
            session_ref=step.session_ref,
            history=(*_earlier(request), *state.history.items()),
            timeout_s=left_s,
            budget_usd=_budget_left(state, request),
            thinking=bool(request.executor.get("thinking", True)),
            options=_options(request),
        )
        try:
            async with asyncio.timeout(left_s):
                return await self._effects.ask(ask, self._live)
        except TimeoutError:
            message = f"the task's time limit of {request.limits.timeout_s:g} s was reached"
            return Answer(output="", status="TIMEOUT", error=AnswerError(kind="timeout", message=message))

    async def _judge(self, state: TaskState, step: Judge) -> TaskState:
        started = monotonic()
        verdict = await self._effects.judge(state, step)
        data: dict[str, Any] = {
            "judgment": verdict.judgment,
            "criteria_results": list(verdict.criteria_results),
            "summary": verdict.summary,
            "issues": list(verdict.issues),
            "duration_ms": round((monotonic() - started) * 1000),
        }
        if verdict.notes:
            data["notes"] = list(verdict.notes)
        if verdict.ask_person:
            data["ask_person"] = True
        return await self._record(state, Draft("QUALITY_JUDGMENT", data, step.iteration_index, step.subtask_id))

    async def _finish(self, state: TaskState, step: Finish) -> TaskState:
        base = state.main.first_base
        changed = await self._effects.changed(base) if base is not None else Changed(())
        totals = state.totals
        data: dict[str, Any] = {
            "status": step.status,
            "total_iterations": state.iterations,
            "files_modified": list(changed.paths),
            "usage": dict(totals.usage) or None,
            "cost_usd": round(totals.cost_usd, 6) if totals.answers and totals.cost_known else None,
            "duration_ms": totals.spent_ms,
            "reason": step.reason,
            "diff_blob": changed.diff_blob,
        }
        if step.detail:
            data["detail"] = step.detail
        return await self._record(state, Draft("FINAL_SUMMARY", data))


def _request(state: TaskState) -> Request:
    return state.request or Request()


def _options(request: Request) -> Mapping[str, Any]:
    options = request.executor.get("options")
    return options if isinstance(options, dict) else {}


def _earlier(request: Request) -> Sequence[str]:
    """The session references of the files that this one continues: their script replies are used up too."""
    history = (request.continues or {}).get("history", ())
    return tuple(str(ref) for ref in history) if isinstance(history, list) else ()


def _time_left_s(state: TaskState, request: Request) -> float | None:
    limit = request.limits.timeout_s
    return None if limit is None else max(0.001, limit - state.totals.spent_ms / 1000)


def _budget_left(state: TaskState, request: Request) -> float | None:
    limit = request.limits.budget_usd
    return None if limit is None else max(0.0, limit - state.totals.cost_usd)


def _answer_data(answer: Answer, *, changed: Changed, duration_ms: int, agentic_trace: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        **answer.extra,
        "output": answer.output,
        "status": answer.status,
        "files_modified": list(changed.paths),
        "usage": answer.usage.to_dict() if answer.usage else None,
        "cost_usd": answer.cost_usd,
        "duration_ms": duration_ms,
        "session_ref": answer.session_ref,
        "agentic_trace": agentic_trace,
        "diff_blob": changed.diff_blob,
        "error": None,
    }
    if answer.model is not None:
        data["model"] = answer.model
    if answer.stop_reason is not None:
        data["stop_reason"] = answer.stop_reason
    if answer.error is not None:
        error = answer.error
        data["error"] = {
            "kind": error.kind,
            "message": error.message,
            "retry_after_s": error.retry_after_s,
            "next_step": error.next_step,
        }
    return data
