"""What tells that a test command did not get as far as running a test, and why."""

from __future__ import annotations

import pytest

from runner.checks.not_begun import Trouble, has_not_begun, telling_line, troubles
from runner.checks.reports import CaseResult, CommandRun, TestReport


def _run(output: str, *, runner: bool = True, tests: tuple[CaseResult, ...] = (), code: int = 1) -> CommandRun:
    return CommandRun(
        command="t",
        exit_code=code,
        reading="read" if tests else "no_report",
        report=TestReport(tests),
        output_tail=output,
        runners=("pytest",) if runner else (),
    )


@pytest.mark.parametrize("row", troubles(), ids=lambda row: row.of)
def test_every_row_is_shown_by_its_examples(row: Trouble) -> None:
    for said, told in row.examples:
        assert row.says.search(said), said
        assert has_not_begun(_run(said, runner=row.runner)), said
        assert telling_line(_run(said, runner=row.runner)) == told
        assert has_not_begun(_run(said, runner=False)) is not row.runner, said
    for said in row.counter:
        assert not has_not_begun(_run(said)), said


def test_a_run_that_told_of_tests_or_ended_well_had_begun() -> None:
    said = "npm error code ENOENT\n"
    assert has_not_begun(_run(said))
    assert not has_not_begun(_run(said, code=0))
    assert not has_not_begun(_run(said, tests=(CaseResult("a", "failed"),)))
    assert not has_not_begun(_run(f"ok first\nFAIL: second\n{said}"))


def test_a_name_that_unittest_cannot_import_is_no_test() -> None:
    said = "ImportError: Failed to import test module: no\nModuleNotFoundError: No module named 'no'\n\nRan 1"
    unloaded = CaseResult("unittest.loader._FailedTest::no", "error")
    assert has_not_begun(_run(said, tests=(unloaded,)))
    assert telling_line(_run(said, tests=(unloaded,))) == "ModuleNotFoundError: No module named 'no'"
    assert not has_not_begun(_run(said, tests=(unloaded, CaseResult("test_a::b", "passed"))))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("bash: jest: command not found\nmake: *** [Makefile:2: test] Error 127\n", "bash: jest: command not found"),
        ("starting\n\x1b[31merror\x1b[0m: it broke\nsee the log\n", "error: it broke"),
        ("one\ntwo\n", "two"),
        ("Traceback:\n    fail('cannot be')\nValueError: 3\n", "ValueError: 3"),
        ("", ""),
    ],
)
def test_the_first_line_about_an_error_says_more_than_the_last(said: str, told: str) -> None:
    assert telling_line(_run(said, runner=False)) == told
