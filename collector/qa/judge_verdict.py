"""The verdict on a prepared step: the one that is there for the same packet and judge, or a new one.

A verdict lives in the trace's own facts and blobs, so it goes when the trace is deleted. Checking a trace again asks
the judge again only where the packet or the judge changed, or where somebody asked for the judge's step by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from collector.qa.judge_step import JudgeStep
from collector.qa.pipeline_facts import StepFacts, key_of
from tracer import clock

__all__ = ["Verdict", "verdict_of"]


class Verdict(NamedTuple):
    """The `qa.judge` part and the key of its fact; trouble with the model stands under a key of its own."""

    key: str
    part: dict[str, Any]


async def verdict_of(
    step: JudgeStep, facts: StepFacts, *, progress: Callable[[str], None] = lambda _: None
) -> Verdict | None:
    """What is to be stored; None where the latest fact holds it already."""
    key = key_of("judge", step.input_hash, facts.marker("judge"))
    if facts.done("judge", key) is not None:
        return None
    if not facts.asked_alone("judge"):
        kept = _kept(step, facts)
        if kept is not None:
            progress("judge: the same packet was judged before")
            return Verdict(key, kept)
    progress(f"judge: skipped: {step.skip}" if step.skip else "judge: asked")
    outcome = await step.run()
    trouble = outcome.input_hash != step.input_hash
    return Verdict(f"{key}:trouble-{clock.now_epoch_ms()}" if trouble else key, outcome.result)


def _kept(step: JudgeStep, facts: StepFacts) -> dict[str, Any] | None:
    """The latest verdict on the same inputs that came of an answer."""
    for fact in reversed(facts.all_of("judge")):
        part: dict[str, Any] = fact.result.get("judge", {})
        if part.get("detail", {}).get("inputs") == step.input_hash and "judge_skipped" not in part["flags"]:
            return part
    return None
