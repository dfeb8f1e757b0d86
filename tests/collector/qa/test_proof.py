"""What runs prove, as a function of their outcomes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.qa.proof import Proof, Run, are_several, prove, told_by_report
from runner.checks.reports import CaseResult, TestOutcome
from runner.gate.criterion import ChangedFile


def _run(phase: str, **outcomes: TestOutcome) -> Run:
    tests = tuple(
        CaseResult(f"tests.test_a::{name}", outcome, file="tests/test_a.py") for name, outcome in outcomes.items()
    )
    return Run(phase, not {"failed", "error"} & set(outcomes.values()), tests)  # type: ignore[arg-type]


def _prove(*runs: Run, changed: tuple[str, ...] = ("calc.py", "tests/test_a.py")) -> Proof:
    return prove(runs, changed=changed, repeats=2)


def _before_and_after(proof: Proof) -> dict[str, tuple[str, str]]:
    return {row.id.rpartition("::")[2]: (row.before, row.after) for row in proof.rows}


def test_failing_before_and_passing_after_is_a_proof() -> None:
    proof = _prove(
        _run("head", half="passed", zero="passed"),
        _run("head", half="passed", zero="passed"),
        _run("base", half="failed", zero="passed"),
        _run("base", half="failed", zero="passed"),
    )
    assert proof.verdict == "proven"
    assert _before_and_after(proof) == {"half": ("failed", "passed"), "zero": ("passed", "passed")}
    assert proof.tests_changed == ("tests/test_a.py",)
    assert all(row.touched for row in proof.rows)


def test_tests_that_could_not_start_before_count_as_failing() -> None:
    collapsed = Run("base", passed=False, tests=(CaseResult("tests.test_a::", "error"),))
    proof = _prove(_run("head", half="passed"), collapsed)
    assert proof.verdict == "proven"
    assert _before_and_after(proof)["half"] == ("absent", "passed")


def test_a_new_test_beside_a_passing_base_proves_nothing() -> None:
    proof = _prove(_run("head", half="passed", new="passed"), _run("base", half="passed"))
    assert proof.verdict == "passes_at_base"
    assert _before_and_after(proof)["new"] == ("new", "passed")


def test_passing_before_too_proves_nothing() -> None:
    assert _prove(_run("head", half="passed"), _run("base", half="passed")).verdict == "passes_at_base"


def test_failing_after_outweighs_everything() -> None:
    proof = _prove(
        _run("head", half="passed", zero="failed"),
        _run("head", half="passed", zero="failed"),
        _run("base", half="failed", zero="passed"),
    )
    assert proof.verdict == "fails_at_head"
    assert proof.as_json()["pass_to_fail"] == ["tests.test_a::zero"]


def test_a_test_that_changes_its_mind_is_flaky_and_proves_nothing() -> None:
    proof = _prove(_run("head", half="passed"), _run("head", half="failed"), _run("base", half="failed"))
    assert proof.verdict == "flaky"
    assert proof.as_json()["flaky"] == ["tests.test_a::half"]


def test_flaky_at_base_alone_is_no_failing_before() -> None:
    proof = _prove(_run("head", half="passed"), _run("base", half="failed"), _run("base", half="passed"))
    assert proof.verdict == "flaky"


def test_failed_and_error_are_both_failing_not_flaky() -> None:
    proof = _prove(_run("head", half="passed"), _run("base", half="failed"), _run("base", half="error"))
    assert proof.verdict == "proven"


def test_without_reports_exit_codes_speak_and_the_level_says_so() -> None:
    runs = (Run("head", passed=True), Run("base", passed=False))
    assert (_prove(*runs).verdict, _prove(*runs).level) == ("proven", "run")
    assert _prove(Run("head", passed=True), Run("base", passed=True)).verdict == "passes_at_base"
    assert _prove(Run("head", passed=True), Run("head", passed=False)).verdict == "flaky"
    assert _prove(Run("head", passed=False), Run("base", passed=False)).verdict == "fails_at_head"


def test_a_fix_that_ends_well_without_the_report_it_owes_proves_nothing() -> None:
    silent = Run("head", passed=True)
    assert _prove(silent, _run("base", half="failed")).verdict == "no_report"
    owed = prove((silent, Run("base", passed=False)), changed=(), repeats=1, reporting=True)
    assert owed.verdict == "no_report"
    assert _prove(Run("head", passed=False), _run("base", half="failed")).verdict == "fails_at_head"


def test_tests_that_were_not_asked_for_are_not_missing() -> None:
    own = [
        _run(phase, half=outcome)._replace(whole=False) for phase, outcome in (("head", "passed"), ("base", "failed"))
    ]  # type: ignore[arg-type]
    proof = _prove(*own, _run("head", half="passed", zero="passed"), _run("base", half="failed", zero="passed"))
    assert proof.verdict == "proven"
    assert _before_and_after(proof) == {"half": ("failed", "passed"), "zero": ("passed", "passed")}
    gone = _prove(_run("head", half="passed"), _run("head", half="passed", zero="passed"), _run("base", half="failed"))
    assert gone.verdict == "proven"
    assert _before_and_after(gone)["zero"][1] == "flaky"


def test_a_session_that_changed_nothing_has_no_base_to_compare() -> None:
    assert _prove(_run("head", half="passed")).verdict == "unchanged"


def test_the_rows_that_matter_come_first_and_the_rest_is_counted() -> None:
    many: dict[str, TestOutcome] = {f"calm{number}": "passed" for number in range(50)}
    proof = _prove(_run("head", **many, half="passed"), _run("base", **many, half="failed"), changed=("calc.py",))
    shown = proof.as_json(most_rows=3)
    assert isinstance(shown["tests"], list)
    assert next(row["id"] for row in shown["tests"] if isinstance(row, dict)) == "tests.test_a::half"
    assert (len(shown["tests"]), shown["tests_left_out"]) == (3, 48)


_OUTCOMES = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from(["passed", "failed", "error", "skipped"]), max_size=4
)


@given(st.lists(_OUTCOMES, min_size=1, max_size=3), st.lists(_OUTCOMES, max_size=3))
def test_proven_always_means_that_some_test_failed_before_and_passed_after_in_every_run(
    head: list[dict[str, TestOutcome]], base: list[dict[str, TestOutcome]]
) -> None:
    runs = [_run("head", **one) for one in head] + [_run("base", **one) for one in base]
    proof = prove(runs, changed=(), repeats=len(head))
    if proof.verdict != "proven":
        return
    assert all(run.passed for run in runs if run.phase == "head")
    if proof.level == "run":
        assert base
        assert not any(run.passed for run in runs if run.phase == "base")
        return
    assert any(
        all(one.get(name) == "passed" for one in head) and all(one.get(name) != "passed" for one in base)
        for name in "abcd"
    )


def test_a_report_that_holds_the_fix_gives_it_away() -> None:
    file = ChangedFile(path="a.py", before=b"x = 1\n", after=b"x = 1\nreturn sum(items) / len(items)\n}\n")
    assert told_by_report("Use `return sum(items) / len( items )` instead", [file]) == (
        "return sum(items) / len(items)",
    )
    assert told_by_report("The mean is wrong: }", [file]) == ()


def test_several_bugs_are_told_by_parts_that_mend_different_tests() -> None:
    assert are_several({"a": {"one"}, "b": {"two"}})
    assert not are_several({"a": {"one", "two"}, "b": {"two"}})
    assert not are_several({"a": {"one"}, "b": set()})
