"""What recorded judgments say was verified, and in words what was not: the one reading for every view. Pure.

A criterion's `outcome` is `pass`, `fail` or `not_verified`, the last with `why` and `next`; traces older than that have
`passed` alone. A task is `verified` where its tests ran and passed and nothing else was left unchecked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracer.facts import CheckChoice, QualityJudgment, Strength, Survivor, TestRun, Unverified
from tracer.names import Verification

_TESTS = "Q7"
_SHOWN = 8
_NAMES = {_TESTS: "tests", "Q8": "lint", "Q9": "type check"}
NO_TESTS = Unverified(_TESTS, "no test command was found", "pm config set run.test CMD")
_LEFT_OUT = Unverified(_TESTS, "--criteria leaves Q7 out", "--criteria with Q7")


def untested(kind: str, checks: CheckChoice) -> tuple[Unverified, ...]:
    """What is said where a task passed without tests: nothing where it only asks or looks."""
    return () if kind != "change" else (NO_TESTS if checks.criteria is None else _LEFT_OUT,)


def unverified_in(judgments: Iterable[QualityJudgment], untested: Iterable[Unverified] = ()) -> tuple[Unverified, ...]:
    """What the judgments could not verify, each thing once, by criterion; `untested` where one passed without tests."""
    judged = list(judgments)
    lacking = untested if any(one.judgment == "PASS" and not _tested(one) for one in judged) else ()
    return tuple(sorted({*lacking, *(one for judgment in judged for one in judgment.unverified)}))


def verification_of(judgments: Iterable[QualityJudgment]) -> Verification:
    """How the newest judgment of a task (of each subtask, before the whole is judged) leaves it."""
    judged = list(judgments)
    if any(judgment.failures for judgment in judged):
        return "failed"
    tested = all(map(_tested, judged))
    return "verified" if judged and tested and not unverified_in(judged) else "not_verified"


def _tested(judgment: QualityJudgment) -> bool:
    return any(result.id == _TESTS for result in judgment.criteria_results)


def strength_in(judgments: Iterable[QualityJudgment]) -> Strength | None:
    """What the newest judgment that tried faults says of the tests."""
    return next((judged.strength for judged in reversed(list(judgments)) if judged.strength is not None), None)


def unreached_in(judgments: Iterable[QualityJudgment]) -> tuple[str, ...]:
    """The changed lines that no test reaches, by the newest judgment that knows."""
    return next((judged.unreached for judged in reversed(list(judgments)) if judged.unreached), ())


def unreached_text(unreached: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(unreached) - _SHOWN} more" if len(unreached) > _SHOWN else ""
    return f"{', '.join(unreached[:_SHOWN])}{more}"


def strength_text(strength: Strength) -> str:
    """`6 of 9 faults noticed`; how many were not tried stands behind it."""
    if not strength.total:
        return "no fault could be tried" + (
            f", {strength.untried} left when the time was over" if strength.untried else ""
        )
    left = f", {strength.untried} not tried" if strength.untried else ""
    return f"{strength.killed} of {strength.total} faults noticed{left}"


def survivor_text(one: Survivor) -> str:
    """`shop.py:9 shown: > → >=`."""
    return f"{one.path}:{one.line or '?'} {one.function}: {one.old} → {one.new}"


def unverified_text(unverified: Iterable[Unverified], *, prefix: str = "pm ") -> str:
    """`tests not run: folder not trusted (pm config trust); lint likewise`, an empty text where all was verified.

    `prefix` is what a command begins with where this shows. Recorded text in it is as it was recorded.
    """
    grouped: dict[Unverified, list[str]] = {}
    for one in unverified:
        grouped.setdefault(one._replace(criterion=""), []).append(_NAMES.get(one.criterion, one.criterion))
    return "; ".join(_clause(names, one, prefix) for one, names in grouped.items())


def tests_text(tests: TestRun | None) -> str:
    """`tests passed (42, 1 fixed, 3 new, 1 fails as before)`, with why on no clean copy; empty where they did not pass.

    Where no test of before failed without the change and passes with it, that is said: the agent wrote what shows it.
    """
    if tests is None or tests.outcome != "pass":
        return ""
    still = f", {tests.failed} {'fails' if tests.failed == 1 else 'fail'} as before" if tests.failed else ""
    new = f", {tests.new} new" if tests.new else ""
    other = f", {tests.restated} changed" if tests.restated else ""
    shown = f", {tests.fixed} fixed{other}{new}" if tests.fixed else f"{other}{new}"
    if tests.fixed == 0:
        shown += ": only these show the change" if shown else ", none shows the change"
    count = f" ({tests.passed}{shown}{still})" if tests.passed else ""
    return f"tests passed{count}" + (f", not isolated: {tests.not_isolated}" if tests.not_isolated else "")


def tests_in(judgments: Iterable[QualityJudgment]) -> TestRun | None:
    """What the newest of these judgments tells of the tests."""
    return next((judgment.tests for judgment in reversed(list(judgments)) if judgment.tests is not None), None)


def _clause(names: list[str], one: Unverified, prefix: str) -> str:
    first, *others = names
    why, following = one.why, one.next
    said = "not run" if first in _NAMES.values() and not one.ran else "not verified"
    if following.startswith("pm "):
        following = prefix + following.removeprefix("pm ")
    text = f"{first} {said}{f': {why}' if why else ''}{f' ({following})' if following else ''}"
    return f"{text}; {' and '.join(others)} likewise" if others else text
