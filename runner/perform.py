"""Performs the steps of one loop (ask and record, judge and record), and the protocols it needs.

`Ledger` is the only place where events become state; `Gate` limits concurrent requests and shares money and time
between subtasks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final, cast

from runner.agent_report import clean_report, read_report
from runner.core.chunk_plan import PLAN_SCHEMA
from runner.core.evolve import evolve
from runner.core.state import TaskState
from runner.core.steps import AskAgent, Judge
from runner.effects_port import Changed, Effects
from runner.executors.executor_port import Answer, AnswerError, Ask, Live, LiveSink, Permissions
from runner.gate.criterion import ModelReply
from tracer.clock import monotonic
from tracer.drafts import (
    Draft,
    llm_request,
    llm_response,
    quality_judgment,
    session_interrupted,
    session_started,
)
from tracer.errors import PmError, RecordError
from tracer.facts import Entry, LlmRequest, LlmResponse
from tracer.names import REVIEW, REVIEW_SUFFIX

_BACKOFF_S: Final = 1.0
_BACKOFF_MAX_S: Final = 60.0
_REVIEWING_S: Final = 480.0  # less than Q12 may take: an executor that is ended at the limit tells what was spent
_PLANNING_S: Final = 600.0  # a plan that takes longer is not worth waiting for: the task runs in one piece
_SAME_TIME_S: Final = 0.05  # an executor's own clock may run out just before ours
# An executor ends its agent at the limit and tells what was spent and which session it was: it gets this much longer.
_TO_END_S: Final = 10.0
_WORTH_TELLING_MS: Final = 100


def backoff_s(step: AskAgent, *, spread: float) -> float:
    """Seconds to wait before the same request is sent again; `spread` in 0..1 is the jitter."""
    if step.retry == 0:
        return 0.0
    if step.retry_after_s is not None:
        return max(0.0, step.retry_after_s)
    longest: float = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** (step.retry - 1))
    return longest * (0.5 + spread / 2)


class Ledger:
    """A task's state and the only way to change it: a fact is durable, then folded.

    `behind`: an append was cancelled, and the file may hold a fact that the state does not.
    """

    def __init__(self, state: TaskState, append: Callable[[Draft], Awaitable[Entry]]) -> None:
        self.state = state
        self._append = append
        self.behind = False

    async def record(self, draft: Draft) -> Entry:
        """Record `draft` and fold it; a RecordError stops the loop before its next effect."""
        try:
            entry = await self._append(draft)
        except BaseException:
            self.behind = True
            raise
        self.state = evolve(self.state, entry)
        return entry


class Gate:
    """How many may ask at once (None: the one loop there is), and how they share what is left.

    `until` is when the task's time is over, on the monotonic clock; `wanting` says how many have something to ask or
    will soon. Whoever asks gets an equal part of the money that nobody else may still spend: together they stay within
    the budget.
    """

    def __init__(
        self,
        parallel: int | None = None,
        *,
        until: float | None = None,
        wanting: Callable[[], int] = lambda: 1,
    ) -> None:
        self._parallel = parallel or 1
        # One's turn to ask: first come, first served.
        self.slot = asyncio.Semaphore(parallel) if parallel else nullcontext()
        # A few requests are durable before their turn comes, so that where many ask no turn waits for the disk.
        self.line = asyncio.Semaphore(parallel + parallel // 4) if parallel else nullcontext()
        self._until = until
        self._wanting = wanting
        self._spending = 0
        self._reserved = 0.0

    def time_left(self, left_s: float | None) -> float | None:
        """Seconds an answer may take."""
        if self._until is None:
            return left_s
        until = max(0.001, self._until - monotonic())
        return until if left_s is None else min(left_s, until)

    @contextmanager
    def share(self, left: float | None) -> Generator[float | None]:
        """A part of the `left` dollars, reserved until the cost is recorded."""
        if left is None:
            yield None
            return
        others = max(0, min(self._parallel, self._wanting()) - self._spending - 1)
        share = max(0.0, left - self._reserved) / (others + 1)
        self._spending += 1
        self._reserved += share
        try:
            yield share
        finally:
            self._spending -= 1
            self._reserved -= share


class Performer:
    """Performs the asking and judging steps of one loop in one workspace."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        effects: Effects,
        live: LiveSink,
        sleep: Callable[[float], Awaitable[None]],
        gate: Gate | None = None,
    ) -> None:
        self._ledger = ledger
        self._effects = effects
        self._live = live
        self._sleep = sleep
        self._gate = gate or Gate()

    async def ask(self, step: AskAgent) -> None:
        """Record the request, ask, record the answer."""
        waited_ms = await self._wait(step)
        label = f"{self._ledger.state.task_id}/{step.subtask_id or 'main'}/{step.iteration_index}"
        base = None if step.purpose else step.base or await self._effects.baseline(label)
        tests = await self._base_tests(step, base)
        name, model = _agent_of(self._ledger.state, step.subtask_id)
        left_s = _time_left_s(self._ledger.state)
        told = waited_ms >= _WORTH_TELLING_MS or (left_s is not None and waited_ms >= left_s * 1000)
        draft = llm_request(
            step.prompt,
            attempt=step.attempt,
            executor=name,
            model=model,
            base=base,
            purpose=step.purpose,
            waited_ms=waited_ms if told else 0,
            base_tests=tests,
            iteration_index=step.iteration_index,
            subtask_id=step.subtask_id,
        )
        if _budget_left(self._ledger.state) is not None:
            await self._ask_within(step, draft, base=base)
            return
        async with self._gate.line:
            # An agent that pm did not start was asked in an earlier process: its answer belongs to that request.
            was_sent = step.attempt > 0 and self._effects.answer_at_hand
            prompt = step.prompt if was_sent else await self._sent(draft)
            async with self._gate.slot:
                answer, duration_ms = await self._answer(step, prompt, budget_usd=None)
        await asyncio.sleep(0)  # whoever waits for the slot is asked before this answer is written down
        await self._write_down(step, answer, base=base, duration_ms=duration_ms)

    async def _base_tests(self, step: AskAgent, base: str | None) -> Mapping[str, Any] | None:
        """The tests before the first request of a loop: a suite that cannot run is told before money is spent."""
        loop = self._ledger.state.loop(step.subtask_id)
        if base is None or not (loop.phase == "new" or loop.fresh):
            return None
        self._live(
            Live(
                kind="notice",
                text="the tests run once before the agent is asked",
                task_id=self._ledger.state.task_id,
                subtask_id=step.subtask_id,
            )
        )
        return await self._effects.base_tests(base, limit_s=self._gate.time_left(_time_left_s(self._ledger.state)))

    async def _ask_within(self, step: AskAgent, draft: Draft, *, base: str | None) -> None:
        """Ask for a share of the money that is left; nothing is recorded where nothing is."""
        async with self._gate.slot:
            left = _budget_left(self._ledger.state)
            if left == 0.0 and self._may_end(step):
                return  # spent by others while this one waited for its turn: its loop ends
            with self._gate.share(left) as share:
                prompt = await self._sent(draft)
                answer, duration_ms = await self._answer(step, prompt, budget_usd=share)
                # What it cost is known before the next one is told what it may spend.
                await self._write_down(step, answer, base=base, duration_ms=duration_ms)

    def _may_end(self, step: AskAgent) -> bool:
        """Whether the limits end a loop at this step; a request without an answer is asked again whatever they say."""
        state = self._ledger.state
        return bool(state.totals.answers) and not step.purpose and state.loop(step.subtask_id).phase != "requested"

    async def _write_down(self, step: AskAgent, answer: Answer, *, base: str | None, duration_ms: int) -> None:
        changed = await self._effects.changed(base) if base is not None else Changed(())
        state = self._ledger.state
        spent_usd = state.loop(step.subtask_id).spent_in(answer.session_ref)
        trace = await self._effects.distilled(answer, since_ms=state.begun_ms or None, spent_usd=spent_usd)
        report = None if step.purpose else read_report(answer.output) or clean_report(answer.report)
        at: dict[str, Any] = {"iteration_index": step.iteration_index, "subtask_id": step.subtask_id}
        await self._ledger.record(
            _response(answer, changed, trace, duration_ms=duration_ms, report=report, purpose=step.purpose, **at)
        )

    async def _wait(self, step: AskAgent) -> int:
        """Wait before the same request is sent again, counting down; returns milliseconds."""
        began = monotonic()
        left = backoff_s(step, spread=random.random())  # noqa: S311 - jitter is no secret
        ends_s = self._gate.time_left(_time_left_s(self._ledger.state))
        least_ms = 0
        if ends_s is not None and ends_s <= left:  # the time is over before the wait is, and must count as used up
            left, least_ms = ends_s, math.ceil(ends_s * 1000)
        waiting = Live(
            kind="waiting",
            text=step.retry_kind,
            attempt=step.retry,
            attempts=self._ledger.state.request.limits.retries_after(step.retry_kind),
            task_id=self._ledger.state.task_id,
            subtask_id=step.subtask_id,
        )
        while left > 0:
            self._live(waiting._replace(wait_s=left))
            pause = min(1.0, left)
            await self._sleep(pause)
            left -= pause
        return max(least_ms, int((monotonic() - began) * 1000))

    async def _sent(self, draft: Draft) -> str:
        """The prompt as the record holds it, once it is durable."""
        return cast("LlmRequest", await self._ledger.record(draft)).prompt

    async def _answer(self, step: AskAgent, prompt: str, *, budget_usd: float | None) -> tuple[Answer, int]:
        """The answer to a request that is durable, and how many milliseconds it took."""
        left_s = self._gate.time_left(_time_left_s(self._ledger.state))
        limit_s = min(left_s or _PLANNING_S, _PLANNING_S) if step.purpose else left_s
        ask = self._ask_of(step, prompt, timeout_s=limit_s, budget_usd=budget_usd)
        started = monotonic()
        try:
            async with asyncio.timeout(None if limit_s is None else limit_s + _TO_END_S):
                answer = await self._effects.ask(ask, self._live)
        except TimeoutError:
            began = self._ledger.state.loop(step.subtask_id).open_ref
            answer = Answer(output="", status="TIMEOUT", session_ref=began)
        took = monotonic() - started
        if limit_s is not None and answer.status == "TIMEOUT" and took >= limit_s - _SAME_TIME_S:
            limit = (
                f"{self._ledger.state.request.limits.timeout_s:g} s"
                if limit_s == left_s
                else f"{limit_s:g} s for a plan"
            )
            error = AnswerError(kind="timeout", message=f"the time limit of {limit} was reached")
            over = {"time_limit": True} if limit_s == left_s else {}
            answer = answer._replace(error=error, extra={**answer.extra, **over})
        # Rounded up: a call that ran into the task's time limit must count as having used it up.
        return answer, math.ceil(took * 1000)

    def _ask_of(self, step: AskAgent, prompt: str, *, timeout_s: float | None, budget_usd: float | None) -> Ask:
        """What the executor is given. `prompt` is what the trace holds: secrets in it are replaced already."""
        state, request = self._ledger.state, self._ledger.state.request
        name, model = _agent_of(state, step.subtask_id)
        at: dict[str, Any] = {"iteration_index": step.iteration_index, "subtask_id": step.subtask_id}
        return Ask(
            task_id=state.task_id,
            subtask_id=step.subtask_id,
            iteration_index=step.iteration_index,
            attempt=step.attempt,
            prompt=prompt,
            workspace=self._effects.workspace,
            executor=name,
            model=model,
            rules="" if step.purpose else state.rules or "",
            permissions="read" if step.purpose else cast("Permissions", request.executor.permissions or "edit"),
            session_ref=step.session_ref,
            history=_history(state),
            timeout_s=timeout_s,
            budget_usd=budget_usd,
            whole_budget_usd=request.limits.budget_usd,
            thinking=request.executor.thinking,
            options=request.executor.options,
            answer_schema=PLAN_SCHEMA if step.purpose else None,
            session_began=partial(record_session, self._ledger, at),
        )

    async def judge(self, step: Judge) -> None:
        """Gather evidence, judge, record QUALITY_JUDGMENT."""
        started = monotonic()
        left_s = self._gate.time_left(_time_left_s(self._ledger.state))
        models = RecordedModels(self._ledger, effects=self._effects, live=self._live, gate=self._gate, step=step)
        verdict = await self._effects.judge(self._ledger.state, step._replace(left_s=left_s), models)
        if models.broken is not None:
            raise models.broken
        await self._ledger.record(
            quality_judgment(
                verdict.judgment,
                verdict.criteria_results,
                verdict.summary,
                issues=list(verdict.issues),
                # What models took stands with their answers.
                duration_ms=round((monotonic() - started - models.waited_s) * 1000),
                whole=step.whole,
                notes=list(verdict.notes),
                unreached=list(verdict.unreached),
                question=verdict.question._asdict() if verdict.question is not None else None,
                unsettled=list(verdict.unsettled),
                tests=verdict.tests,
                expectations=list(verdict.expectations),
                iteration_index=step.iteration_index,
                subtask_id=step.subtask_id,
            )
        )


class RecordedModels:
    """The models that the criteria of one judgment may ask (`Models`): one after another, each call on record.

    As in every loop the request is durable before the call and the answer before it is used: a review that a kill ended
    is asked again, one whose answer is recorded is not.
    """

    def __init__(self, ledger: Ledger, *, effects: Effects, live: LiveSink, gate: Gate, step: Judge) -> None:
        self._ledger = ledger
        self._effects = effects
        self._live = live
        self._gate = gate
        self._step = step
        self._turn = asyncio.Lock()
        self._spent_usd = 0.0
        self.waited_s = 0.0
        self.broken: RecordError | None = None  # a failure to record ends the task, whatever a criterion makes of it

    async def ask(
        self,
        prompt: str,
        *,
        executor: str = "",
        model: str | None = None,
        schema: Mapping[str, Any] | None = None,
        keep: Callable[[str], bool] | None = None,
    ) -> ModelReply:
        """One question; whatever keeps it from an answer is the reply's `trouble`."""
        state = self._ledger.state
        choice, own = state.request.checks.review, state.request.executor
        if not executor and choice is not None:
            executor, model = choice.executor, choice.model
            if not executor:
                return ModelReply(trouble=choice.why or "no reviewer was found")
        ask = Ask(
            task_id=state.task_id,
            subtask_id=(self._step.subtask_id or state.task_id) + REVIEW_SUFFIX,
            iteration_index=self._step.iteration_index,
            prompt=prompt,
            workspace="",
            executor=executor or own.name,
            model=model if executor else model or own.model,
            permissions="read",
            answer_schema=schema,
        )
        async with self._turn:
            began = monotonic()
            try:
                return await self._ask(ask, keep)
            except RecordError as error:
                self.broken = error
                raise
            except PmError as error:
                return ModelReply(trouble=error.line)
            finally:
                self.waited_s += monotonic() - began

    async def _ask(self, ask: Ask, keep: Callable[[str], bool] | None) -> ModelReply:
        state = self._ledger.state
        told = json.dumps([ask.prompt, ask.executor, ask.model, ask.answer_schema], sort_keys=True)
        question = hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()
        loop = state.loop(ask.subtask_id)
        same = loop.answer.question == question and loop.answer.iteration_index == ask.iteration_index
        if loop.phase == "answered" and same:  # a kill came between the answer and the judgment
            return _reply_of(loop.answer)
        unanswered = loop.attempts if loop.phase == "requested" else 0
        if unanswered >= state.request.limits.max_attempts:
            return ModelReply(trouble=f"{unanswered} requests for a review had no answer")
        left_usd = self._left_usd(state)
        if left_usd == 0.0:
            return ModelReply(trouble="there is no money left for a review")
        at: dict[str, Any] = {"iteration_index": ask.iteration_index, "subtask_id": ask.subtask_id}
        agent: dict[str, Any] = {"executor": ask.executor, "model": ask.model, "attempt": unanswered}
        # What appeared since the task began may be its agent's making.
        kept = await self._effects.kept(question, before_ms=state.begun_ms)
        async with self._gate.slot:
            with self._gate.share(left_usd) as share_usd:
                draft = llm_request(ask.prompt, base=None, purpose=REVIEW, waited_ms=0, **agent, **at)
                written = cast("LlmRequest", await self._ledger.record(draft))
                started = monotonic()
                if kept is None:
                    left_s = self._gate.time_left(_time_left_s(state)) or _REVIEWING_S
                    limits: dict[str, Any] = {"timeout_s": min(_REVIEWING_S, left_s), "budget_usd": share_usd}
                    began = partial(record_session, self._ledger, at)
                    sent = ask._replace(prompt=written.prompt, history=_history(state), session_began=began, **limits)
                    answer = await self._effects.consult(sent, self._live)
                else:
                    answer = Answer(output=kept, status="COMPLETE", cost_usd=0.0, extra={"cached": True})
                took_ms = math.ceil((monotonic() - started) * 1000)
                asked = answer._replace(extra={**answer.extra, "question": question})
                recorded = await self._ledger.record(
                    _response(asked, Changed(()), duration_ms=took_ms, purpose=REVIEW, **at)
                )
        self._spent_usd += answer.cost_usd or 0.0
        reply = _reply_of(cast("LlmResponse", recorded))
        if kept is None and keep is not None and not reply.trouble and keep(reply.text):
            await self._effects.keep(question, reply.text)
        return reply

    def _left_usd(self, state: TaskState) -> float | None:
        """What a question may cost: of the task's money, and of the review's own."""
        own = state.request.checks.review.budget_usd if state.request.checks.review is not None else None
        amounts = (_budget_left(state), None if own is None else own - self._spent_usd)
        return max(0.0, min(known)) if (known := [amount for amount in amounts if amount is not None]) else None


async def record_session(ledger: Ledger, at: dict[str, Any], session_ref: str) -> None:
    """Record an agent's session while its answer is awaited: a kill then loses neither its work nor its cost."""
    await ledger.record(session_started(session_ref, **at))


async def record_interrupted(ledger: Ledger, effects: Effects) -> None:
    """Record what the sessions of unanswered requests did and cost, before anything else is decided."""
    state = ledger.state
    for subtask_id, loop in ((None, state.main), *state.subtasks.items()):
        if loop.phase == "requested" and not loop.interrupted:
            told = await effects.interrupted(loop.request, loop, since_ms=state.begun_ms)
            if told is not None:
                index = loop.request.iteration_index
                await ledger.record(session_interrupted(told, iteration_index=index, subtask_id=subtask_id))


def _response(answer: Answer, changed: Changed, trace: str | None = None, *, duration_ms: int, **more: Any) -> Draft:
    """The LLM_RESPONSE that records `answer`; `more`: report, purpose, iteration_index, subtask_id."""
    return llm_response(
        extra=answer.extra,
        output=answer.output,
        status=answer.status,
        files_modified=list(changed.paths),
        usage=answer.usage.to_dict() if answer.usage else None,
        cost_usd=answer.cost_usd,
        duration_ms=duration_ms,
        session_ref=answer.session_ref,
        agentic_trace=trace,
        diff_blob=changed.diff_blob,
        error=answer.error._asdict() if answer.error else None,
        model=answer.model,
        stop_reason=answer.stop_reason,
        collateral=changed.collateral,
        left_blob=changed.left,
        **more,
    )


def _history(state: TaskState) -> tuple[str, ...]:
    """The references of all recorded answers, those of the files before this one too."""
    return (*(state.request.continues.history if state.request.continues else ()), *state.history.items())


def _reply_of(answer: LlmResponse) -> ModelReply:
    error = answer.error
    if error is None and answer.status == "COMPLETE":
        return ModelReply(text=answer.output, cost_usd=answer.cost_usd)
    told = f"{error.kind or answer.status}: {error.message}" if error is not None else answer.status
    return ModelReply(trouble=f"the reviewer ended {told}", cost_usd=answer.cost_usd)


def _agent_of(state: TaskState, subtask_id: str | None) -> tuple[str | None, str | None]:
    """Who is asked, and which model: the task's own unless the user's plan names another for the subtask."""
    subtask, chosen = state.subtask(subtask_id), state.request.executor
    if subtask.executor:
        return subtask.executor, subtask.model  # a model's name belongs to one provider
    return chosen.name or None, subtask.model or chosen.model


def _time_left_s(state: TaskState) -> float | None:
    limit = state.request.limits.timeout_s
    return None if limit is None else max(0.001, limit - state.totals.spent_ms / 1000)


def _budget_left(state: TaskState) -> float | None:
    limit = state.request.limits.budget_usd
    return None if limit is None else max(0.0, limit - state.totals.cost_usd)
