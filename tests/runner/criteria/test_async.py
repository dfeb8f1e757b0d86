"""Criteria that wait, hang, crash or answer rubbish: what could not be checked is `not_verified`, never passed."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from runner.core.evolve import fold
from runner.gate.criterion import Criterion, Evidence, Finding, ModelReply, Models, NotVerified, Place, Verdict
from runner.judging import judge_by
from tests.runner.memory import request
from tracer.clock import monotonic
from tracer.drafts import quality_judgment
from tracer.facts import QualityJudgment, entry_of
from tracer.verification import verification_of

EVIDENCE = Evidence(request="Say hi", answer="hi")


class Echo:
    """Answers what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, prompt: str, **_options: Any) -> ModelReply:
        self.asked.append(prompt)
        return ModelReply(text=prompt.upper())


def team(check: Any, *, name: str = "T1", timeout_s: float = 5.0) -> Criterion:
    return Criterion(id=name, name="Team rule", check=check, timeout_s=timeout_s)


def judged(*criteria: Criterion, models: Models | None = None, until: float | None = None) -> Verdict:
    return asyncio.run(judge_by(EVIDENCE, criteria, models=models or Echo(), until=until))


def only(verdict: Verdict) -> dict[str, Any]:
    (result,) = verdict.criteria_results
    return result


async def asks(evidence: Evidence, models: Models) -> Finding:
    reply = await models.ask(evidence.answer)
    return Finding(passed=reply.text == "HI", reason=reply.text, usage={"input_tokens": 3}, cost_usd=0.25)


def test_an_async_criterion_asks_a_model_and_tells_what_it_spent() -> None:
    models = Echo()
    result = only(judged(team(asks), models=models))
    assert (result["outcome"], result["cost_usd"], result["usage"]) == ("pass", 0.25, {"input_tokens": 3})
    assert models.asked == ["hi"]


def test_async_criteria_run_side_by_side_and_only_where_no_other_failed() -> None:
    meeting = threading.Barrier(2)

    async def meets(_evidence: Evidence, _models: Models) -> Finding:
        await asyncio.to_thread(meeting.wait, 5)
        return Finding(passed=True)

    assert judged(team(meets), team(meets, name="T2")).judgment == "PASS"
    models = Echo()
    verdict = judged(team(lambda _: Finding(passed=False, reason="no"), name="T0"), team(asks), models=models)
    assert verdict.judgment == "REJECT"
    assert verdict.criteria_results[1]["why"] == "not asked: T0 failed"
    assert models.asked == []


def _raises(_evidence: Evidence) -> Finding:
    raise LookupError("no such table")


async def _raises_later(_evidence: Evidence, _models: Models) -> Finding:
    raise LookupError("no such table")


async def _cancels_itself(_evidence: Evidence, _models: Models) -> Finding:
    raise asyncio.CancelledError


async def _sleeps(_evidence: Evidence, _models: Models) -> Finding:
    await asyncio.sleep(60)
    return Finding(passed=True)


RUBBISH: tuple[Any, ...] = (
    None,
    True,
    Finding(passed=1),  # type: ignore[arg-type]
    Finding(passed=True, reason=None),  # type: ignore[arg-type]
    Finding(passed=False, places=("src/a.py",)),  # type: ignore[arg-type]
    Finding(passed=False, places=(Place(type="x", message="m", line="3"),)),  # type: ignore[arg-type]
    Finding(passed=True, not_verified="why"),  # type: ignore[arg-type]
    Finding(passed=True, cost_usd=float("nan")),
    Finding(passed=True, cost_usd=-1.0),
    Finding(passed=True, usage={"input_tokens": -1}),
)


@pytest.mark.parametrize(
    "check",
    [
        _raises,
        _raises_later,
        _cancels_itself,
        _sleeps,
        lambda _: sys.exit(0),
        lambda _: threading.Event().wait(60),
        *[lambda _, value=value: value for value in RUBBISH],
    ],
)
def test_invariant_13_trouble_of_a_criterion_rejects_nothing_and_is_never_a_pass(check: Callable[..., Any]) -> None:
    verdict = judged(team(lambda _: Finding(passed=True), name="T0"), team(check, timeout_s=0.1))
    result = verdict.criteria_results[1]
    assert (verdict.judgment, result["outcome"], result["passed"]) == ("PASS", "not_verified", True)
    assert result["why"]
    assert result["next"]
    assert "T1 not verified" in verdict.summary
    recorded = QualityJudgment("", "QUALITY_JUDGMENT", "", "", {"criteria_results": list(verdict.criteria_results)})
    assert verification_of([recorded]) == "not_verified"


def test_each_criterion_has_its_own_time_whatever_the_one_before_it_had() -> None:
    began = time.monotonic()
    hangs = team(lambda _: threading.Event().wait(60), timeout_s=0.1)
    slow = team(lambda _: Finding(passed=not threading.Event().wait(0.3)), name="T0", timeout_s=50.0)
    verdict = judged(slow, hangs, team(asks, name="T2"))
    assert time.monotonic() - began < 40
    assert [one["outcome"] for one in verdict.criteria_results] == ["pass", "not_verified", "pass"]


def test_the_tasks_time_limit_holds_for_criteria_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.judging._TO_END_S", 0.0)
    hangs = team(lambda _: threading.Event().wait(60))
    assert "within 0.0" in only(judged(hangs, until=monotonic() + 0.05))["why"]


async def test_cancelling_the_judging_cancels_its_criteria() -> None:
    ended = asyncio.Event()

    async def works(_evidence: Evidence, _models: Models) -> Finding:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return Finding(passed=True)

    judging = asyncio.create_task(judge_by(EVIDENCE, [team(works)], models=Echo()))
    await asyncio.sleep(0.02)
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging
    assert ended.is_set()


def test_what_criteria_spent_counts_for_the_task_and_a_cost_untold_is_unknown() -> None:
    spent = Finding(passed=True, usage={"input_tokens": 5}, cost_usd=0.5)
    untold = Finding(passed=True, usage={"input_tokens": 7})
    verified = Finding(passed=True, not_verified=NotVerified(why="w", next="n"), cost_usd=0.25)

    def totals(*findings: Finding) -> Any:
        verdict = judged(*(team(lambda _, value=value: value, name=f"T{n}") for n, value in enumerate(findings)))
        draft = quality_judgment("PASS", verdict.criteria_results, "", iteration_index=0, subtask_id=None)
        entry = entry_of("2025-01-23T10:30:01.000Z", draft.event, "sess-1", "task-001", draft.data, None, 0)
        return fold([request(), entry]).totals

    assert totals(spent, verified).cost == 0.75
    assert totals(spent, verified).usage == {"input_tokens": 5}
    assert totals(spent, untold).cost is None
