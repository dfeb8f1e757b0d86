"""Rubric v1, what a judge is told, and the way from its replies to a verdict: checked, then votes combined. Pure.

The six dimensions are the wire names of seed 002's schema; `correctness_confidence` is the seventh, optional one of
its rubric. `RUBRIC_VERSION` changes with any wording in rubric.toml and any rule here: verdicts are kept by it. A reply
is refused as a whole for invalid JSON, a score outside 0-5 or the canary's word; a dimension for citing no event, or
one that is not in the packet.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from collector.judge.packet import Packet
from collector.judge.port import WIRE_DIMENSIONS, Exchange, JudgeResult
from tracer.capture.document import JudgeFlag

RUBRIC_VERSION: Final = "1.0"
OPTIONAL_DIMENSION: Final = "correctness_confidence"

_TEXTS: Final[Mapping[str, Any]] = tomllib.loads(Path(__file__).with_name("rubric.toml").read_text(encoding="utf-8"))
DIMENSIONS: Final[Mapping[str, str]] = _TEXTS["dimensions"]
SYSTEM_PROMPT: Final[str] = _TEXTS["system_prompt"].format(
    version=RUBRIC_VERSION, definitions="\n".join(f"- {name}: {text}" for name, text in DIMENSIONS.items())
)


def _no_switch(value: object) -> object:
    if isinstance(value, bool):  # `true` equals 1, and is no score
        raise ValueError("a score is a whole number")  # noqa: TRY004 - pydantic takes a ValueError for a fault
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Scored(_Strict):
    """One dimension of a reply: a whole number 0 to 5, why, and the events it rests on."""

    score: Annotated[Literal[0, 1, 2, 3, 4, 5], BeforeValidator(_no_switch)]
    reason: Annotated[str, Field(min_length=1, max_length=4_000)]
    event_ids: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]


class Reply(_Strict):
    """The whole reply as the model must write it; what it holds is checked further below."""

    root_cause_identification: Scored
    plan_quality: Scored
    experiment_iterate_loop: Scored
    use_of_signals_tests_logs: Scored
    minimality_of_fix: Scored
    clarity: Scored
    correctness_confidence: Scored | None
    rationale: Annotated[str, Field(min_length=1, max_length=16_000)]
    flags: Annotated[list[Literal["hallucination_risk", "missing_steps", "unsafe_suggestion"]], Field(max_length=10)]


def repair_prompt(problems: tuple[str, ...]) -> str:
    """What the one repair asks: the problems (all in our words) and the whole answer again."""
    listed = "\n".join(f"- {problem}" for problem in problems[:20])
    return f"That answer cannot be used:\n{listed}\nGive the whole answer again as one JSON object of the schema."


_FLAGS: tuple[str, ...] = get_args(JudgeFlag)  # in the order they are written
_MOST_PROBLEMS = 20
_NAMES = frozenset({*Reply.model_fields, *Scored.model_fields})


class Evidence(NamedTuple):
    """Why a dimension got its score, and the events it rests on (all of them in the packet)."""

    reason: str
    event_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One accepted reply. A dimension is None where its citations were refused (or where the optional one is null)."""

    scores: Mapping[str, int | None]
    evidence: Mapping[str, Evidence]
    rationale: str
    flags: frozenset[str]


class Read(NamedTuple):
    """A reply as read: an opinion (None: refused) and its faults; `tripped` (it obeyed the canary) forbids a repair."""

    opinion: Opinion | None
    problems: tuple[str, ...]
    tripped: bool = False


def read_reply(text: str, packet: Packet) -> Read:
    """Check one reply against the schema, the canary and the packet's event ids."""
    if packet.fence.tripped(text):
        return Read(None, ("it followed the canary, so it followed instructions in the data",), tripped=True)
    try:
        reply = Reply.model_validate_json(text, strict=True)
    except ValidationError as error:
        # Place and rule of each fault; the reply's own words (a key it made up) are not repeated.
        found = error.errors(include_url=False, include_input=False, include_context=False)[:_MOST_PROBLEMS]
        return Read(None, tuple(f"{_place(fault['loc'])}: {fault['type']}" for fault in found))
    dimensions: dict[str, Scored | None] = {name: getattr(reply, name) for name in DIMENSIONS}
    faults = {name: _uncited(name, scored, packet) for name, scored in dimensions.items() if scored is not None}
    problems = tuple(fault for fault in faults.values() if fault)
    grounded = {name: scored for name, scored in dimensions.items() if scored and not faults[name]}
    return Read(
        Opinion(
            scores={name: grounded[name].score if name in grounded else None for name in dimensions},
            evidence={
                name: Evidence(row.reason, tuple(dict.fromkeys(row.event_ids))) for name, row in grounded.items()
            },
            rationale=reply.rationale,
            flags=frozenset(reply.flags) | ({"ungrounded"} if problems else frozenset()),
        ),
        problems,
    )


def _uncited(name: str, scored: Scored, packet: Packet) -> str:
    if not scored.event_ids:
        return f"{name} cites no event"
    unknown = [event_id for event_id in scored.event_ids if event_id not in packet.event_ids]
    return f"{name} cites {len(unknown)} event ids that are not in the record" if unknown else ""


def _place(parts: tuple[int | str, ...]) -> str:
    return ".".join(str(part) if isinstance(part, int) or part in _NAMES else "(unknown)" for part in parts) or "answer"


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
    raised = {flag for flag in _FLAGS if sum(flag in vote.flags for vote in opinions) * 2 > len(opinions)}
    if None in scores.values():
        raised.add("ungrounded")
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
    return tuple(flag for flag in _FLAGS if flag in flags)
