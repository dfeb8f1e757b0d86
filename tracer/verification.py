"""What recorded judgments say was verified, and in words what was not: the one reading for every view. Pure.

A criterion's `outcome` is `pass`, `fail` or `not_verified`, the last with `why` and `next`; traces older than that have
`passed` alone. A task is `verified` where its tests ran and passed and nothing else was left unchecked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

Verification = Literal["verified", "not_verified", "failed"]
_TESTS = "Q7"
_NAMES = {_TESTS: "tests", "Q8": "lint", "Q9": "type check"}


class Unverified(NamedTuple):
    """One criterion that could not be checked: why, and the next step that lets it be checked."""

    criterion: str
    why: str
    next: str


def unverified_in(judgments: Iterable[Mapping[str, Any]]) -> tuple[Unverified, ...]:
    """What the QUALITY_JUDGMENTs with these `data` could not verify, each thing once, by criterion."""
    found = {
        Unverified(str(result.get("id", "?")), str(result.get("why", "")), str(result.get("next", "")))
        for judgment in judgments
        for result in _results(judgment)
        if result.get("outcome") == "not_verified"
    }
    return tuple(sorted(found))


def verification_of(judgments: Iterable[Mapping[str, Any]]) -> Verification:
    """How the newest QUALITY_JUDGMENT of a task (of each subtask, before the whole is judged) leaves it."""
    judged = list(judgments)
    results = [result for judgment in judged for result in _results(judgment)]
    if any(result.get("passed") is False for result in results):
        return "failed"
    tested = all(any(result.get("id") == _TESTS for result in _results(judgment)) for judgment in judged)
    return "verified" if judged and tested and not unverified_in(judged) else "not_verified"


def unverified_text(unverified: Iterable[Unverified], *, prefix: str = "pm ") -> str:
    """`tests not run: folder not trusted (pm config trust); lint likewise`, an empty text where all was verified.

    `prefix` is what a command begins with where this shows. Recorded text in it is as it was recorded.
    """
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in unverified:
        grouped.setdefault((one.why, one.next), []).append(_NAMES.get(one.criterion, one.criterion))
    return "; ".join(_clause(names, why, following, prefix) for (why, following), names in grouped.items())


def _clause(names: list[str], why: str, following: str, prefix: str) -> str:
    first, *others = names
    said = "not run" if first in _NAMES.values() else "not verified"
    if following.startswith("pm "):
        following = prefix + following.removeprefix("pm ")
    text = f"{first} {said}{f': {why}' if why else ''}{f' ({following})' if following else ''}"
    return f"{text}; {' and '.join(others)} likewise" if others else text


def _results(judgment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = judgment.get("criteria_results")
    return [result for result in listed if isinstance(result, dict)] if isinstance(listed, list) else []
