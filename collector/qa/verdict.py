"""From opinions to a verdict: median and spread of votes, the overall mean, flags, the rationale's text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from statistics import median
from typing import Final

from collector.qa.citations import Opinion
from collector.qa.judge_port import WIRE_DIMENSIONS, Exchange, JudgeResult
from collector.qa.rubric import OPTIONAL_DIMENSION, RUBRIC_VERSION

__all__ = ["FLAGS", "combine", "no_verdict", "overall_of"]

# Contracts 9, in the order they are written.
FLAGS: Final = (
    "hallucination_risk",
    "missing_steps",
    "unsafe_suggestion",
    "ungrounded",
    "judge_unparsed",
    "judge_refused",
    "judge_skipped",
)


def overall_of(scores: Mapping[str, float | None]) -> float | None:
    """The mean of the six wire dimensions, one decimal, halves up; None where one is None or missing."""
    values = [scores.get(name) for name in WIRE_DIMENSIONS]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    mean = sum((Decimal(str(value)) for value in known), Decimal(0)) / len(known)
    return float(mean.quantize(Decimal("0.1"), rounding=ROUND_HALF_UP))


def no_verdict(
    *, model: str, flags: Sequence[str], reason: str, votes: int = 0, exchanges: tuple[Exchange, ...] = ()
) -> JudgeResult:
    """Null scores and the flags that say why."""
    return JudgeResult(
        model=model,
        rubric_version=RUBRIC_VERSION,
        scores=dict.fromkeys(WIRE_DIMENSIONS),
        overall=None,
        rationale=f"No verdict: {reason}\n",
        flags=_ordered(flags),
        votes=votes,
        exchanges=exchanges,
        reason=reason,
    )


def combine(opinions: Sequence[Opinion], *, votes: int, model: str, exchanges: tuple[Exchange, ...]) -> JudgeResult:
    """The verdict of accepted `opinions` out of `votes`; at least one, and callers make sure of a majority.

    A dimension is the median of its votes, None where half or more of the votes gave none. A flag holds where more
    than half of the opinions raise it; `ungrounded` where any dimension of the six ended None.
    """
    names = (*WIRE_DIMENSIONS, OPTIONAL_DIMENSION)
    given = {name: [score for opinion in opinions if (score := opinion.scores.get(name)) is not None] for name in names}
    medians = {name: float(median(row)) if len(row) * 2 > votes else None for name, row in given.items()}
    scores = {name: medians[name] for name in WIRE_DIMENSIONS}
    raised = {flag for flag in FLAGS if sum(flag in opinion.flags for opinion in opinions) * 2 > len(opinions)} | (
        {"ungrounded"} if None in scores.values() else set()
    )
    reason = "scores without valid citations were refused" if None in scores.values() else ""
    return JudgeResult(
        model=model,
        rubric_version=RUBRIC_VERSION,
        scores=scores,
        overall=overall_of(scores),
        rationale=_rationale(opinions, medians),
        flags=_ordered(raised),
        correctness_confidence=medians[OPTIONAL_DIMENSION],
        votes=votes,
        spread={name: float(max(row) - min(row)) for name, row in given.items() if row},
        citations=_citations(opinions),
        exchanges=exchanges,
        reason=reason,
    )


def _citations(opinions: Sequence[Opinion]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for opinion in opinions:
        for name, evidence in opinion.evidence.items():
            found.setdefault(name, {}).update(dict.fromkeys(evidence.event_ids))
    return {name: tuple(event_ids) for name, event_ids in found.items()}


def _rationale(opinions: Sequence[Opinion], medians: Mapping[str, float | None]) -> str:
    parts = []
    for number, opinion in enumerate(opinions, start=1):
        if len(opinions) > 1:
            parts.append(f"Vote {number} of {len(opinions)}")
        parts.append(opinion.rationale.strip())
        parts.extend(_line(name, opinion) for name in medians)
    if len(opinions) > 1:
        shown = ", ".join(f"{name} {'none' if value is None else f'{value:g}'}" for name, value in medians.items())
        parts.append(f"Median of the votes: {shown}")
    return "\n\n".join(parts) + "\n"


def _line(name: str, opinion: Opinion) -> str:
    evidence = opinion.evidence.get(name)
    if evidence is None:
        return f"{name}: no accepted score"
    return f"{name}: {opinion.scores[name]}. {evidence.reason.strip()} [{', '.join(evidence.event_ids)}]"


def _ordered(flags: Sequence[str] | set[str]) -> tuple[str, ...]:
    return tuple(flag for flag in FLAGS if flag in flags)
