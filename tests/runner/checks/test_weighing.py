"""What two runs of the tests come to: taken out by leave, widened, or broken."""

from __future__ import annotations

import pytest

from runner.checks.harness import Sorted
from runner.checks.reports import CaseResult, CommandRun, TestReport
from runner.checks.weighing import BaseRun, evidence_of, held_against
from runner.gate.criterion import ChangedFile

TESTS = ChangedFile(path="tests/test_a.py", before=b"old", after=b"new")


def run(**outcomes: str) -> CommandRun:
    cases = tuple(
        CaseResult(f"tests.test_a::{name.replace('__', '[')}", outcome, file="tests/test_a.py")  # type: ignore[arg-type]
        for name, outcome in outcomes.items()
    )
    return CommandRun(command="pytest", exit_code=0, reading="read", report=TestReport(cases))


@pytest.mark.parametrize(
    ("policy", "run_a", "run_b", "broken", "removed"),
    [
        # Taken out with what it tested, as the user allowed: no run has it.
        ("change", {"keep": "passed"}, {"keep": "passed"}, [], []),
        # With the harness of the task alone a test is there: what runs the tests was changed.
        ("change", {"keep": "passed"}, {"keep": "passed", "gone": "passed"}, ["gone"], []),
        # A test that got parameters still passes as it was.
        ("add", {"keep": "passed", "gone": "passed"}, {"keep": "passed", "gone__1]": "passed"}, [], []),
        ("add", {"keep": "passed", "gone": "passed"}, {"keep": "passed"}, [], ["gone"]),
    ],
)
def test_a_test_that_is_not_there_any_more(
    policy: str, run_a: dict[str, str], run_b: dict[str, str], broken: list[str], removed: list[str]
) -> None:
    before = BaseRun(run(keep="passed", gone="passed"))
    found = Sorted(tests=(TESTS,))
    left = run(**run_b)
    evidence = evidence_of("pytest", before, (left, False), found, policy)
    evidence = held_against(evidence, before, (run(**run_a), False), left.report, found, policy)
    assert [name.rpartition("::")[2] for name in evidence.broken] == broken
    assert [name.rpartition("::")[2] for name in evidence.removed] == removed
