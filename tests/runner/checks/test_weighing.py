"""What two runs of the tests come to: taken out by leave, widened, or broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.checks.commands import PlannedCommand
from runner.checks.harness import Sorted
from runner.checks.report_formats import tap_report
from runner.checks.reports import CaseResult, CommandRun, Reading, TestReport, named_as
from runner.checks.weighing import (
    BaseRun,
    as_they_were,
    as_told,
    evidence_of,
    held_against,
    muted_new,
    restated,
    still_told,
    unmet_by,
    unrun,
)
from runner.gate.criterion import ChangedFile
from runner.judging import told_of_base


def test_why_nothing_ran_is_told_before_the_task_also_where_it_may_bring_the_first_tests() -> None:
    planned = PlannedCommand(kind="test", command="pytest nodir", origin="given")
    nothing = BaseRun(CommandRun(command="pytest nodir", exit_code=4, reading="no_tests"))
    assert nothing.not_verified is None
    told = told_of_base(planned, nothing)
    assert told["outcome"] == "not_verified"
    assert told["why"] == "the test command ran no tests"
    assert "--test" in told["next"]


TESTS = ChangedFile(path="tests/test_a.py", before=b"old", after=b"new")


def run(**outcomes: str) -> CommandRun:
    cases = tuple(
        CaseResult(f"tests.test_a::{name.replace('__', '[')}", outcome, file="tests/test_a.py")  # type: ignore[arg-type]
        for name, outcome in outcomes.items()
    )
    return CommandRun(command="pytest", exit_code=0, reading="read", report=TestReport(cases))


@pytest.mark.parametrize(
    ("policy", "run_a", "run_b", "broken"),
    [
        # Taken out with what it tested, as the user allowed: no run has it.
        ("change", {"keep": "passed"}, {"keep": "passed"}, []),
        # With the harness of the task alone a test is there: what runs the tests was changed.
        ("change", {"keep": "passed"}, {"keep": "passed", "gone": "passed"}, ["gone"]),
        # A test that got parameters still passes as it was.
        ("add", {"keep": "passed", "gone": "passed"}, {"keep": "passed", "gone__1]": "passed"}, []),
    ],
)
def test_a_test_that_is_not_there_any_more(
    policy: str, run_a: dict[str, str], run_b: dict[str, str], broken: list[str]
) -> None:
    before = BaseRun(run(keep="passed", gone="passed"))
    found = Sorted(tests=(TESTS,))
    left = run(**run_b)
    evidence = evidence_of("pytest", before, (left, False), found, policy)
    evidence = held_against(evidence, before, (run(**run_a), False), left.report, found, policy)
    assert [name.rpartition("::")[2] for name in evidence.broken] == broken
    assert (evidence.removed, evidence.asks) == ((), ())


@pytest.mark.parametrize(
    ("policy", "now", "removed", "asked"),
    [
        ("change", {"keep": "passed", "red": "skipped"}, ["red"], False),
        ("change", {"keep": "passed"}, [], True),  # the request may have told it to go
        ("change", {"red": "passed"}, [], False),  # what passed may go
        ("change", {"keep": "skipped", "red": "passed"}, [], True),  # silenced: is what it demands no longer wanted?
        ("change", {"keep": "passed", "red__1]": "passed"}, [], False),
        ("allowed", {"keep": "passed"}, [], False),
    ],
)
def test_where_tests_may_change_they_are_not_to_be_silenced(
    policy: str, now: dict[str, str], removed: list[str], *, asked: bool
) -> None:
    before, left = BaseRun(run(keep="passed", red="failed")), run(**now)
    found = Sorted(tests=(TESTS,))
    evidence = evidence_of("pytest", before, (left, False), found, policy)
    evidence = held_against(evidence, before, (left, False), left.report, found, policy)
    assert [name.rpartition("::")[2] for name in evidence.removed] == removed
    assert bool(evidence.asks) is asked


@pytest.mark.parametrize(("now", "asked"), [(b"test.skip('red', f)", False), (b"test('red', g)", True)])
def test_a_skip_is_no_other_expectation_where_the_runner_does_not_name_it(now: bytes, *, asked: bool) -> None:
    """Tape tells nothing of tests that it skips: they were taken for changed, and put to the user."""
    before, old = BaseRun(run(keep="passed", red="failed")), run(keep="passed", red="failed")
    left = run(keep="passed")
    found = Sorted(tests=(ChangedFile(path="test/a.test.js", before=b"test('red', f)", after=now),))
    evidence = evidence_of("tape", before, (left, False), found, "add")
    evidence = held_against(evidence, before, (old, False), left.report, found, "add")
    assert (bool(evidence.expectations), bool(evidence.broken)) == (asked, not asked)


def test_a_test_whose_demands_were_changed_is_told_from_another_of_its_name() -> None:
    """Tests that a wrapper made to pass ended COMPLETE: they pass without the change as well, which is looked at."""
    old = b"class A:\n  def test_a():\n    assert f(1) == 1\n\n  def test_b():\n    x = 1\n    assert f(x)\n"
    new = old.replace(b"x = 1", b"x = 2").replace(b"f(1) == 1", b"g(f(1)) == 2")
    cases = [CaseResult(name, "passed") for name in ("t.A::test_a", "t.A::test_b", "t.B::test_a")]
    assert restated(Sorted(tests=(TESTS._replace(before=old, after=new),)), cases) == {"t.A::test_a"}


@pytest.mark.parametrize(("paths", "fault"), [([".cargo/config.toml"], True), ([], False)])
def test_what_keeps_the_tests_from_running_is_the_tasks_fault(paths: list[str], *, fault: bool) -> None:
    """A runner that runs nothing, brought by the task, ended COMPLETE with "the test command ran no tests"."""
    steering = tuple(ChangedFile(path, None, b"[target]") for path in paths)
    before, found = BaseRun(run(keep="passed")), Sorted(steering=steering)
    none = CommandRun(command="cargo test", exit_code=0, reading="read", report=TestReport(()))
    evidence = evidence_of("cargo test", before, (none, False), found, "add")
    evidence = held_against(evidence, before, (run(keep="passed"), False), none.report, found, "add")
    assert (bool(evidence.fault), evidence.not_verified is None) == (fault, fault)


@pytest.mark.parametrize(("took_s", "gone"), [(6.0, False), (12.0, True)])
def test_a_run_that_we_gave_too_little_time_took_no_test_away(took_s: float, *, gone: bool) -> None:
    """It was sent back with "tests that ran before do not run any more"; what hangs since the change still is."""
    before = BaseRun(replace(run(keep="passed"), duration_s=5.0))
    cut = CommandRun(command="pytest", exit_code=None, reading="no_report", duration_s=took_s, timed_out=True)
    evidence = evidence_of("pytest", before, (cut, False), Sorted(), "add")
    held = held_against(evidence, before, (cut, False), cut.report, Sorted(), "add")
    assert (bool(evidence.removed), bool(held.broken), held.not_verified is None) == (gone, gone, False)


@pytest.mark.parametrize(
    ("left", "after", "asks"),
    [
        ({"keep": "passed"}, b"assert keep\n", ["tests were taken out: tests.test_a::gone"]),
        ({"keep": "passed", "moved": "passed"}, b"def moved():\n  assert gone\nassert keep\n", []),
        ({"keep": "passed", "gone": "skipped"}, b"assert keep\nassert gone\n",
         ["tests were taken out: tests.test_a::gone"]),
        ({"keep": "passed", "gone": "passed"}, b"assert keep\n", ["tests were taken out: assert gone"]),
    ],
)  # fmt: skip
def test_tests_that_pass_as_they_were_and_were_taken_out_are_put_to_the_user(
    left: dict[str, str], after: bytes, asks: list[str]
) -> None:
    """They were refused, as renamed and moved ones were: nothing can be bought with what would pass as well."""
    before = BaseRun(run(keep="passed", gone="passed"))
    found = Sorted(tests=(ChangedFile(path="tests/test_a.py", before=b"assert keep\nassert gone\n", after=after),))
    evidence = evidence_of("pytest", before, (run(**left), False), found, "add")
    evidence = held_against(
        evidence, before, (run(keep="passed", gone="passed"), False), run(**left).report, found, "add"
    )
    assert (evidence.held, evidence.broken, [place.message for place in evidence.asks]) == (True, (), asks)


@pytest.mark.parametrize(
    ("run_a", "run_b", "counted"),
    [
        ({"red": "passed"}, {"red": "passed", "own": "passed"}, (1, 1)),
        ({"red": "failed"}, {"red": "passed"}, (0, 0)),  # in the form that the task gave it
        ({}, {"own": "passed"}, (0, 1)),
    ],
)
def test_what_shows_the_change_is_counted_with_the_tests_as_they_were(
    run_a: dict[str, str], run_b: dict[str, str], counted: tuple[int, int]
) -> None:
    before = BaseRun(run(red="failed") if "red" in run_a else run())
    evidence = evidence_of("pytest", before, (run(**run_b), False), Sorted(), "add")
    evidence = held_against(evidence, before, (run(**run_a), False), run(**run_b).report, Sorted(), "add")
    assert (evidence.fixed, evidence.new) == counted


@pytest.mark.parametrize(
    ("old", "left", "idle", "asks"),
    [
        # What failed before is met as it was; what passed demands something else now.
        ({"keep": "failed", "red": "passed"}, {"keep": "passed", "red": "passed"}, (), []),
        # A helper of the tests, or what runs them, made it pass.
        ({"keep": "passed", "red": "failed"}, {"keep": "passed", "red": "passed"}, (),
         ["tests that failed before pass only as the task changed them: tests.test_a::red"]),
        # It holds still, and what came in its place shows nothing; then a test of its own in its place.
        ({"keep": "passed", "red": "passed"}, {"red": "passed", "moved": "passed"}, ("tests.test_a::moved",),
         ["tests were taken out: tests.test_a::keep"]),
        ({"keep": "passed", "red": "passed"}, {"red": "passed", "moved": "passed"}, (), []),
        # They do not fit the code any more, and nothing tells what they would say of it.
        ({}, {"keep": "passed", "red": "passed"}, (), []),
    ],
)  # fmt: skip
def test_tests_that_may_change_may_not_demand_less(
    old: dict[str, str], left: dict[str, str], idle: tuple[str, ...], asks: list[str]
) -> None:
    """With --tests change a lenient helper, a swapped result class and a test moved to other values ended COMPLETE."""
    was, found = run(keep="passed", red="failed").report, Sorted(tests=(replace_text(b"assert keep\n", b"assert x\n"),))
    unmet = unmet_by(was, run(**old), run(**left).report, found)
    places = as_they_were(was, unmet, run(**left).report, found, idle)
    assert [place.message for place in places] == asks


def replace_text(before: bytes, after: bytes) -> ChangedFile:
    return TESTS._replace(before=before, after=after)


@pytest.mark.parametrize(
    ("path", "text", "now", "told"),
    [
        ("tests/test_b.py", b"def test_b():\n  pass\n", {"keep": "passed", "b": "passed"}, None),
        ("tests/test_b.py", b"def test_b():\n  pass\n", {"keep": "passed", "b": "skipped"}, "is skipped: test_b"),
        ("tests/test_b.py", b"def test_b():\n  pass\n", {"keep": "passed"}, "was not run: test_b"),
        ("tests/test_b.c", b"int main(void) {}\n", {"keep": "passed"}, "was not run: tests/test_b.c"),
        ("b_test.go", b"func ExampleB() {\n", {"keep": "passed"}, "was not run: ExampleB"),
        ("b_test.go", b"func BenchmarkB(b *testing.B) {\n", {"keep": "passed"}, None),
        ("tests/data.py", b"VALUES = [1]\n", {"keep": "passed"}, None),
        (
            "tests/b.py",
            b"def check_b(self):\n  self.assertEqual(f(1), 2)\n",
            {"keep": "passed"},
            "was not run: check_b",
        ),
        ("tests/b.py", b"def check_b(x):\n  assert x\n\n\nALL = [check_b]\n", {"keep": "passed"}, None),
        # What failed before and passes now shows the work without them.
        ("tests/test_b.py", b"def test_b():\n  pass\n", {"keep": "passed", "red": "passed"}, None),
    ],
)
def test_new_tests_that_nobody_runs_are_told(path: str, text: bytes, now: dict[str, str], told: str | None) -> None:
    """Tests that skip themselves, or that no build and no runner takes, ended well beside work that was not done."""
    before = BaseRun(run(keep="passed", red="failed"))
    found = Sorted(new_tests=(ChangedFile(path=path, before=None, after=text),))
    places = [place.message for place in unrun(before, run(**now), found)]
    assert places == ([f"each of its own tests {told}"] if told else [])


def test_a_new_test_that_is_called_as_another_one_is_missed_too() -> None:
    """`load_tests` left out the new class, whose test has the name of one in another class."""
    one, other = b"class A:\n  def test_even(self):\n    pass\n", b"class B:\n  def test_even(self):\n    pass\n"
    found = Sorted(tests=(ChangedFile(path="tests/test_a.py", before=one, after=one + other),))
    places = [place.message for place in unrun(BaseRun(run(keep="passed")), run(keep="passed"), found)]
    assert places == ["each of its own tests was not run: test_even"]


@pytest.mark.parametrize(
    ("policy", "reading", "now", "told"),
    [
        ("add", "no_report", {"red": "passed"}, False),
        ("add", "no_report", {"red": "failed"}, True),
        ("add", "no_report", {}, True),
        ("change", "no_report", {}, False),  # it may have been told to go
        ("add", "read", {}, False),  # told by what became of its tests
    ],
)
def test_an_end_with_0_beside_an_output_that_says_otherwise(
    policy: str, reading: Reading, now: dict[str, str], *, told: bool
) -> None:
    """A library that ends its process with 0 turned the exit code, and nothing else, of a runner without a report."""
    was = replace(run(red="failed"), exit_code=1, reading="no_report")
    assert bool([*still_told(was, replace(run(**now), reading=reading), policy)]) is told


def test_what_stands_behind_the_name_of_a_test_that_fails_is_no_part_of_it() -> None:
    """`FAIL class (line 14)` and `ok class` are one test: honest work was put to the user."""
    printed = "ok other\nFAIL class (line 14)\nFAIL class of two: got 3\nFAIL class range\n"
    was = CommandRun(command="make test", exit_code=1, reading="no_report", output_tail=printed)
    told = as_told(was, ["other", "class", "class of two"])
    assert told.report.outcomes == {
        "other": "passed", "class": "failed", "class of two": "failed", "class range": "failed",
    }  # fmt: skip
    assert [case.message.split("\n")[0] for case in told.report.tests][1:3] == [" (line 14)", ": got 3"]


@pytest.mark.parametrize("source", ["tap", "junit"])
def test_a_point_of_tap_that_failed_has_the_name_that_it_passes_by(source: str) -> None:
    """`not ok 3 - f(x) is 2, not 4` and `ok 3 - f(x)` are one test: a right fix was rejected for tests it took away."""
    was = TestReport(
        (CaseResult("f(x) is 2, not 4", "failed"), CaseResult("g", "failed"), CaseResult("g of two", "failed")),
        source=source,
    )
    run = CommandRun(command="make test", exit_code=1, reading="read", report=was)
    told = named_as(run, ["f(x)", "g"]).report
    named = {"f(x)": "failed", "g": "failed", "g of two": "failed"}
    assert told.outcomes == (named if source == "tap" else was.outcomes)


@pytest.mark.parametrize(
    ("points", "names", "told"),
    [
        (["ok a", "not ok t.c:7 x == 1", "ok c"], "abc", {"a": "passed", "b": "failed", "c": "passed"}),
        (["not ok t.c:7 x == 1", "ok b"], "ab", {"a": "failed", "b": "passed"}),
        (["ok a", "not ok t.c:7 x == 1", "not ok t.c:9 y"], "abc", {"a": "passed", "b": "failed", "c": "failed"}),
        (["ok a", "not ok t.c:7 x == 1", "ok b"], "ab", {"a": "failed", "b": "passed"}),  # its second point
        (["ok a", "not ok some words", "ok c"], "abc", {"a": "passed", "some words": "failed", "c": "passed"}),
        (["not ok t.c:7 x == 1"], "", {"t.c:7 x == 1": "failed"}),
    ],
)
def test_a_point_of_tap_that_tells_its_place_when_it_fails_is_the_one_that_stands_there(
    points: list[str], names: str, told: dict[str, str]
) -> None:
    """`not ok 6 - test.c:67 x == 1` and `ok 6 - test_x` are one test: each right fix was rejected."""
    text = "\n".join((*points, f"1..{len(points)}"))
    report = tap_report(text)
    assert report is not None
    run = CommandRun(command="make test", exit_code=1, reading="read", report=report)
    assert named_as(run, [*names]).report.outcomes == told
    assert named_as(run, ()).report == report, "in its order"


def test_of_tests_that_were_not_loaded_those_are_unmet_that_were_edited() -> None:
    """A class got another name, as asked: that its tests are not imported any more says nothing of what they demand."""
    was = run(test_keep="passed", test_red="failed").report
    lost = CommandRun(
        command="pytest",
        exit_code=2,
        reading="read",
        report=TestReport((CaseResult("tests.test_a", "error", whole=True),)),
    )
    left = run(test_keep="passed", test_red="passed").report
    edited = replace_text(b"def test_red():\n    assert red\n", b"def test_red():\n    assert x\n")
    imports = replace_text(
        b"import a\n\n\ndef test_red():\n    assert red\n", b"import b\n\n\ndef test_red():\n    assert red\n"
    )
    assert unmet_by(was, lost, left, Sorted(tests=(edited,))) == {"tests.test_a::test_red"}
    assert unmet_by(was, lost, left, Sorted(tests=(imports,))) == set()


@pytest.mark.parametrize(("before", "asked"), [("read", True), ("partial", False)])
def test_a_report_that_is_cut_since_the_change_is_put_to_the_user(before: str, *, asked: bool) -> None:
    """A test of the task's own printed into the runner's lines, and ended COMPLETE with its failure rescued."""
    base = BaseRun(replace(run(keep="passed"), reading=before))  # type: ignore[arg-type]
    evidence = evidence_of("rake test", base, (replace(run(keep="passed"), reading="partial"), False), Sorted(), "add")
    assert any("cut" in place.message for place in evidence.asks) == asked


@pytest.mark.parametrize(
    ("line", "outcome", "asked"),
    [
        (b"@pytest.mark.skip", "skipped", True),
        (b"@pytest.mark.skipif(nt)", "skipped", False),
        (b"@pytest.mark.skip", "passed", False),
        (b"", "skipped", False),  # its runner knows why
    ],
)
def test_a_test_of_the_tasks_own_that_is_skipped_shows_nothing(line: bytes, outcome: str, *, asked: bool) -> None:
    """A method raised, its test was skipped, another test of it passed: COMPLETE."""
    new = ChangedFile(path="tests/test_b.py", before=None, after=line + b"\ndef test_own():\n    assert x\n")
    told = list(muted_new(BaseRun(run(keep="passed")), run(keep="passed", own=outcome), Sorted(new_tests=(new,))))
    assert [place.path for place in told] == (["tests/test_b.py"] if asked else [])


@pytest.mark.parametrize(("line", "removed"), [("assert_eq!(tie(7), 7);", 0), ("assert_eq!(tie(8), 8);", 1)])
def test_a_test_of_the_product_that_demands_the_same_in_a_file_of_its_own_is_not_gone(line: str, removed: int) -> None:
    """A module was split and its tests moved to `tests/`: honest work was rejected for tests that it took away."""
    old = "fn tie() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn units() {\n  assert_eq!(tie(7), 7);\n    }\n}"
    new = f"#[test]\nfn units() {{\n    {line}\n}}\n"
    found = Sorted(
        product=(ChangedFile("src/cord.rs", old.encode(), None),),
        new_tests=(ChangedFile("tests/cord.rs", None, new.encode()),),
    )
    before, after = (
        CommandRun(command="cargo test", exit_code=0, reading="read", report=TestReport((CaseResult(name, "passed"),)))
        for name in ("cord::tests::units", "units")
    )
    assert len(evidence_of("cargo test", BaseRun(before), (after, False), found, "add").removed) == removed
