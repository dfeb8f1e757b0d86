"""What recorded judgments say was verified: of today's traces and of those from before there was an outcome."""

from __future__ import annotations

from typing import Any

import pytest

from tracer import verification
from tracer.facts import CheckChoice, QualityJudgment, TestRun, Unverified
from tracer.verification import (
    strength_in,
    strength_text,
    survivor_text,
    untested,
    unverified_in,
    unverified_text,
    verification_of,
)

UNTRUSTED = ("folder not trusted", "pm config trust")


def result(criterion: str, outcome: str | None = "pass", why: str = "", following: str = "") -> dict[str, Any]:
    told: dict[str, Any] = {"id": criterion, "name": criterion, "passed": outcome != "fail"}
    if outcome is not None:
        told["outcome"] = outcome
    return {**told, "why": why, "next": following} if why else told


def judged(results: object, judgment: str = "PASS") -> QualityJudgment:
    data = {"judgment": judgment, "criteria_results": results}
    return QualityJudgment("", "QUALITY_JUDGMENT", "", "", data)


def judgment(*results: dict[str, Any]) -> QualityJudgment:
    return judged(list(results))


@pytest.mark.parametrize(
    ("judgments", "verification"),
    [
        ([judgment(result("Q1"), result("Q7"))], "verified"),
        ([judgment(result("Q1", None), result("Q7", None))], "verified"),  # an old trace
        ([judgment(result("Q7"), result("Q11", "not_verified", "no time") | {"advisory": True})], "verified"),
        ([judgment(result("Q1"))], "not_verified"),
        ([judgment(result("Q7", "not_verified", *UNTRUSTED))], "not_verified"),
        ([judgment(result("Q7"), result("Q8", "not_verified", *UNTRUSTED))], "not_verified"),
        ([judgment(result("Q2", "fail"), result("Q7"))], "failed"),
        ([judgment(result("Q7")), judgment(result("Q1"))], "not_verified"),  # one of two subtasks had no tests
        ([judged([], "RETRY")], "not_verified"),
        ([judged("damaged")], "not_verified"),
        ([], "not_verified"),
    ],
)
def test_only_tests_that_passed_with_nothing_left_unchecked_verify(
    judgments: list[QualityJudgment], verification: str
) -> None:
    assert verification_of(judgments) == verification


def test_what_was_not_verified_is_told_once_in_words_and_by_the_command_of_the_place() -> None:
    told = judgment(result("Q8", "not_verified", *UNTRUSTED), result("Q7", "not_verified", *UNTRUSTED))
    found = unverified_in([told, told])
    assert found == (Unverified("Q7", *UNTRUSTED), Unverified("Q8", *UNTRUSTED))
    assert unverified_text(found[:1]) == "tests not run: folder not trusted (pm config trust)"
    assert unverified_text(found, prefix="/") == "tests not run: folder not trusted (/config trust); lint likewise"
    assert unverified_text([Unverified("Q9", "mypy not found", "install it")]).startswith("type check not run: mypy")
    assert unverified_text([Unverified("ACME1", "no key", "")]) == "ACME1 not verified: no key"
    assert unverified_text([]) == ""


@pytest.mark.parametrize(
    ("kind", "checks", "judged", "text"),
    [
        ("change", {}, judgment(result("Q1")), "tests not run: no test command was found (pm config set run.test CMD)"),
        (
            "change",
            {"criteria": ["Q1"]},
            judgment(result("Q1")),
            "tests not run: --criteria leaves Q7 out (--criteria with Q7)",
        ),
        ("change", {}, judgment(result("Q7")), ""),
        ("change", {}, judged([result("Q5", "fail")], "REJECT"), ""),
        ("question", {}, judgment(result("Q1")), ""),
    ],
)
def test_a_change_that_passed_without_tests_is_never_silent(
    kind: str, checks: dict[str, Any], judged: QualityJudgment, text: str
) -> None:
    assert unverified_text(unverified_in([judged], untested(kind, CheckChoice(checks)))) == text


def test_the_newest_judgment_that_tried_faults_says_what_the_tests_noticed() -> None:
    survivor = {"path": "a.py", "line": 9, "function": "f", "kind": "comparison", "old": "<", "new": "<=", "more": 1}
    strength = {"total": 4, "killed": 3, "untried": 2, "survivors": [survivor]}
    tried = judgment(result("Q7"), result("Q11") | {"strength": strength})
    found = strength_in([judgment(result("Q11") | {"strength": {"total": 1}}), tried, judgment(result("Q7"))])
    assert found is not None
    assert strength_text(found) == "3 of 4 faults noticed, 2 not tried"
    nothing = judgment(result("Q11") | {"strength": {"total": 0, "killed": 0, "untried": 3}})
    assert (none := strength_in([nothing])) is not None
    assert strength_text(none) == "no fault could be tried, 3 left when the time was over"
    assert [survivor_text(one) for one in found.survivors] == ["a.py:9 f: < → <="]
    assert strength_in([judgment(result("Q11") | {"strength": "damaged"})]) is None


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"passed": 42, "new": 3}, "tests passed (42, 3 new)"),  # of before it was recorded
        ({"passed": 42, "new": 3, "fixed": 0}, "tests passed (42, 3 new: only these show the change)"),
        ({"passed": 42, "fixed": 0}, "tests passed (42, none shows the change)"),
        ({"passed": 42, "new": 3, "fixed": 1}, "tests passed (42, 1 fixed, 3 new)"),
        ({"passed": 42, "fixed": 0, "restated": 2}, "tests passed (42, 2 changed: only these show the change)"),
        ({"passed": 42, "fixed": 1, "restated": 2}, "tests passed (42, 1 fixed, 2 changed)"),
        ({"passed": 60, "failed": 1}, "tests passed (60, 1 fails as before)"),
        (
            {"passed": 60, "failed": 2, "not_isolated": "no git"},
            "tests passed (60, 2 fail as before), not isolated: no git",
        ),
        ({}, "tests passed"),
    ],
)
def test_what_still_fails_is_said_beside_what_passed(told: dict[str, object], text: str) -> None:
    assert verification.tests_text(TestRun({"outcome": "pass", **told})) == text
