"""Rubric v1: what a judge is told, the shape its reply must have, and what a good reply looks like. Pure.

The six dimensions are the wire names of seed 002's schema; `correctness_confidence` is the seventh, optional one of
its rubric. `RUBRIC_VERSION` changes with any wording in rubric.toml and any rule here: verdicts are kept by it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

RUBRIC_VERSION: Final = "1.0"
OPTIONAL_DIMENSION: Final = "correctness_confidence"

_TEXTS: Final[Mapping[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
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
    """The whole reply as the model must write it; what it holds is checked further by `collector.judge.verdict`."""

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
