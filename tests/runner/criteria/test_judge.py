"""The verdict rules of contracts 2, each by one small answer."""

from __future__ import annotations

from runner.core.decide_loop import modification_prompt
from runner.gate.criterion import (
    ChangedFile,
    Evidence,
)
from runner.gate.verdict import criteria_in_force, judge
from tracer.facts import CriterionResult, Issue


def evidence(answer: str, *, request: str = "Implement login feature", **more: object) -> Evidence:
    return Evidence(request=request, answer=answer, **more)  # type: ignore[arg-type]


def written(path: str, text: str) -> ChangedFile:
    return ChangedFile(path=path, before=None, after=text.encode())


LOGIN = (written("src/login.ts", "export const attempts = 3;\n"),)


def test_the_seeds_first_answer_is_rejected_with_the_seeds_reason() -> None:
    verdict = judge(evidence("TODO: implement this", files=LOGIN), criteria_in_force())
    failed = [(result["id"], result["reason"]) for result in verdict.criteria_results if not result["passed"]]
    assert verdict.judgment == "REJECT"
    assert failed == [("Q2", "TODO found")]


def test_the_seeds_second_answer_passes_with_every_criterion_listed_in_order() -> None:
    verdict = judge(evidence("Fully implemented", files=LOGIN), criteria_in_force())
    assert verdict.judgment == "PASS"
    assert [result["id"] for result in verdict.criteria_results] == ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q10"]


def test_a_todo_in_a_file_is_named_with_path_and_line() -> None:
    files = (written("src/login.py", "def login():\n    # TODO: check the password\n    return None\n"),)
    verdict = judge(evidence("Added the login.", files=files), criteria_in_force())
    reasons = {result["id"]: result.get("reason") for result in verdict.criteria_results}
    assert reasons["Q2"] == "TODO found at src/login.py:2"
    assert verdict.issues[0]["path"] == "src/login.py"
    assert verdict.issues[0]["line"] == 2


def test_an_earlier_failure_stops_no_later_check() -> None:
    verdict = judge(evidence(""), criteria_in_force(commands=["test"]))
    assert len(verdict.criteria_results) == 8


def test_an_empty_answer_is_a_reject() -> None:
    assert judge(evidence("", request="What is this?"), criteria_in_force()).judgment == "REJECT"


def test_trouble_that_passes_is_a_retry_without_results() -> None:
    verdict = judge(evidence("", status="ERROR", error_kind="network"), criteria_in_force())
    assert (verdict.judgment, verdict.criteria_results) == ("RETRY", ())


def test_trouble_that_stays_is_a_reject() -> None:
    assert judge(evidence("", status="ERROR", error_kind="crash"), criteria_in_force()).judgment == "REJECT"


def test_no_criteria_at_all_is_a_reject() -> None:
    assert judge(evidence("fine"), ()).judgment == "REJECT"


def test_the_modification_prompt_names_place_requirement_history_and_request_as_data() -> None:
    request = "Implement login {feature} %s $HOME"
    files = (written("src/login.py", "# TODO: check\n"),)
    verdict = judge(evidence("Added it.", request=request, files=files), criteria_in_force())
    prompt = modification_prompt(
        request=request,
        criteria_results=tuple(map(CriterionResult, verdict.criteria_results)),
        issues=tuple(map(Issue, verdict.issues)),
        tried=("Q2: FIXME found",),
    )
    assert prompt.startswith("Fix: Remove TODO markers")
    assert "src/login.py:1" in prompt
    assert "Q2: FIXME found" in prompt
    assert prompt.endswith(request)
