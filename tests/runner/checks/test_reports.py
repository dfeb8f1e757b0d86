"""Reading reports of strangers, and what runs show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.checks.report_formats import read_reports, said_by_lines
from runner.checks.reports import CaseResult, CommandRun, Reading, TestOutcome, TestReport, compare


def _read(data: bytes) -> TestReport:
    return read_reports({"r": data})[1]


def _said(text: str) -> dict[str, str]:
    reading, report = read_reports({}, output=text.encode())
    assert reading == "read"
    return dict(report.outcomes)


_REPORT = b"""<?xml version="1.0"?><testsuites><testsuite name="s">
<testcase classname="tests.test_a" name="test_ok" file="tests/test_a.py" time="0.25"/>
<testcase classname="tests.test_a" name="test_bad" file="tests/test_a.py"><failure message="wrong"/></testcase>
<testcase classname="tests.test_b" name="test_broken"><error message="import"/></testcase>
<testcase classname="tests.test_b" name="test_left"><skipped/></testcase>
</testsuite></testsuites>"""


def test_every_outcome_is_read() -> None:
    report = _read(_REPORT)
    assert report.outcomes == {
        "tests.test_a::test_ok": "passed",
        "tests.test_a::test_bad": "failed",
        "tests.test_b::test_broken": "error",
        "tests.test_b::test_left": "skipped",
    }
    assert report.tests[0].duration_s == 0.25
    assert report.tests[0].file == "tests/test_a.py"
    assert report.counts == {"skipped": 1, "passed": 1, "failed": 1, "error": 1}
    assert report.failing == ("tests.test_a::test_bad", "tests.test_b::test_broken")


def test_a_test_that_stands_twice_keeps_its_worst_outcome() -> None:
    twice = b"<s><testcase name='a'/><testcase name='a'><failure/></testcase><testcase name='a'/></s>"
    assert _read(twice).outcomes == {"a": "failed"}


_BOMB = (
    b'<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">]>'
    b"<s><testcase name='&lol2;'/></s>"
)
_OUTSIDE = b'<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><s><testcase name="&x;"/></s>'


@pytest.mark.parametrize(
    "data",
    [
        _BOMB,
        _OUTSIDE,
        b"",
        b"\x00\xff",
        b"<s><testcase",
        b'<?xml version="1.0" encoding="utf-97"?><s/>',
    ],
    ids=["entities", "external entity", "empty", "bytes", "cut", "encoding"],
)
def test_a_report_that_cannot_be_trusted_tells_nothing(data: bytes) -> None:
    assert read_reports({"r.xml": data}) == ("unreadable", TestReport())


def test_a_report_that_breaks_off_is_partial() -> None:
    reading, report = read_reports({"r.xml": _REPORT[:230]})
    assert (reading, report.outcomes) == ("partial", {"tests.test_a::test_ok": "passed"})


def test_one_bad_report_does_not_hide_a_good_one() -> None:
    reading, report = read_reports({"a.xml": _BOMB, "b.xml": b"<s><testcase name='t'/></s>"})
    assert (reading, report.outcomes) == ("partial", {"t": "passed"})


def test_a_report_without_tests_is_a_report() -> None:
    assert read_reports({"r.xml": b"<testsuites/>"})[0] == "no_tests"
    assert read_reports({})[0] == "no_report"


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    read_reports({"r.xml": b"<s>" + data + b"</s>", "r.json": b"{" + data + b"}", "r": data}, output=data)


def _go(*events: tuple[str, str]) -> str:
    written = ({"Action": action, "Package": "m/calc", **({"Test": test} if test else {})} for action, test in events)
    return "go: downloading\n" + "\n".join(json.dumps(event) for event in written)


def test_go_events_give_one_result_a_test() -> None:
    told = _said(
        _go(("run", "TestHalf"), ("output", "TestHalf"), ("fail", "TestHalf"), ("pass", "TestZero"), ("fail", ""))
    )
    assert told == {"m/calc::TestHalf": "failed", "m/calc::TestZero": "passed"}
    assert read_reports({}, output=b"no events at all")[0] == "no_report"


def test_a_go_package_that_fails_without_a_failing_test_is_an_error() -> None:
    assert _said(_go(("pass", "TestZero"), ("fail", ""))) == {"m/calc::TestZero": "passed", "m/calc": "error"}


def test_a_go_test_that_began_and_never_ended_makes_the_report_partial() -> None:
    reading, _ = read_reports({}, output=_go(("run", "TestZero"), ("pass", "TestZero"), ("run", "TestHalf")).encode())
    assert reading == "partial"


_GO_TEXT = """=== RUN   TestA
=== RUN   TestA/one
--- FAIL: TestA (0.10s)
    --- FAIL: TestA/one (0.00s)
        a_test.go:5: no
=== RUN   TestB
--- SKIP: TestB (0.00s)
FAIL
FAIL\tm/a\t0.003s
?   \tm/none\t[no test files]
FAIL\tm/b [build failed]
"""
_TAPE = """TAP version 13
# nums
not ok 1 should be equal
  ---
    operator: equal
  ...
ok 2 should be equal
# already a number
ok 3 should be equal

1..3
# tests 3
# pass  2
# fail  1
"""
_TAP = """TAP version 13
# Subtest: sums
    # Subtest: adds
    ok 1 - adds
      ---
      duration_ms: 0.5
      ...
    # Subtest: carries
    not ok 2 - carries
    1..2
not ok 1 - sums
ok 2 - alone # SKIP not here
1..2
# tests 3
"""
_LIBTEST = """running 3 tests
test tests::adds ... ok
test tests::carries ... FAILED
test tests::slow ... ignored, slow
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
_NEXTEST = """    Starting 2 tests across 1 binary
        PASS [   0.004s] calc tests::adds
        FAIL [   0.005s] (2/2) calc tests::carries
------------
     Summary [   0.006s] 2 tests run: 1 passed, 1 failed, 0 skipped
"""
_CTEST = """    Start 1: adds
1/2 Test #1: adds .............................   Passed    0.01 sec
2/2 Test #2: carries ..........................***Failed    0.02 sec

50% tests passed, 1 tests failed out of 2
"""
_MINITEST = """SumTest#test_adds = 0.00 s = .
SumTest#test_carries = 0.01 s = F
2 runs, 2 assertions, 1 failures, 0 errors, 0 skips
"""
_UNITTEST = """test_adds (test_sum.SumTest.test_adds) ... ok
test_carries (test_sum.SumTest.test_carries)
Carries over. ... FAIL

Ran 2 tests in 0.001s
"""


@pytest.mark.parametrize(
    ("text", "outcomes"),
    [
        (_GO_TEXT, {"m/a::TestA": "failed", "m/a::TestA/one": "failed", "m/a::TestB": "skipped", "m/b": "error"}),
        (_TAPE, {"nums": "failed", "already a number": "passed"}),
        (_TAP, {"sums > adds": "passed", "sums > carries": "failed", "alone": "skipped"}),
        (_LIBTEST, {"tests::adds": "passed", "tests::carries": "failed", "tests::slow": "skipped"}),
        (_NEXTEST, {"calc tests::adds": "passed", "calc tests::carries": "failed"}),
        (_CTEST, {"adds": "passed", "carries": "failed"}),
        (_MINITEST, {"SumTest#test_adds": "passed", "SumTest#test_carries": "failed"}),
        (_UNITTEST, {"test_adds (test_sum.SumTest.test_adds)": "passed",
                     "test_carries (test_sum.SumTest.test_carries)": "failed"}),
    ],
    ids=["go", "tape", "tap", "libtest", "nextest", "ctest", "minitest", "unittest"],
)  # fmt: skip
def test_the_output_of_runners_is_read(text: str, outcomes: dict[str, str]) -> None:
    assert _said(text) == outcomes
    assert _said(text.replace("\n", "\r\n")) == outcomes


def test_what_a_tap_test_tells_of_itself_is_no_test() -> None:
    """An expected object with the key `ok` was taken for a test, which was gone once its test passed: refused."""
    told = "  ---\n  error: |-\n    ok 1 - shown\n  expected:\n    ok: '1'\n  ...\n"
    text = f"TAP version 13\n# Subtest: a\nok 1 - a\n# Subtest: b\nnot ok 2 - b\n{told}1..2\n# tests 2\n"
    assert _said(text) == {"a": "passed", "b": "failed"}
    bare = "ok 1 - a\nok: '1'\nnot okay\n---\nnot ok 2 - b\n1..2\n"
    assert _said(bare) == {"a": "passed", "b": "failed"}, "no test tells this"


@pytest.mark.timeout(20)  # patterns that go back and forth took minutes on this
def test_a_test_that_prints_an_endless_line_holds_nobody_up() -> None:
    for line in ("a#" * 1_000_000, ("a#" * 900 + "\n") * 500):
        assert _said(f"{line}\n{_MINITEST}") == {"SumTest#test_adds": "passed", "SumTest#test_carries": "failed"}


@pytest.mark.parametrize(
    "text",
    [
        _TAP.replace("1..2\n#", "1..4\n#"),
        _TAP + "Bail out! database is gone\n",
        _LIBTEST.replace("test tests::adds ... ok\n", ""),
        _NEXTEST.replace("2 tests run", "5 tests run"),
        _CTEST.replace("out of 2", "out of 3"),
        _UNITTEST.replace("Ran 2", "Ran 7"),
    ],
    ids=["plan", "bail out", "libtest", "nextest", "ctest", "unittest"],
)
def test_fewer_tests_than_announced_make_a_report_partial(text: str) -> None:
    assert read_reports({}, output=text.encode())[0] == "partial"


_JEST: dict[str, Any] = {
    "numTotalTests": 2,
    "testResults": [
        {
            "name": "/w/sum.test.js",
            "status": "failed",
            "assertionResults": [
                {"fullName": "sum adds", "status": "passed", "duration": 3},
                {"fullName": "sum carries", "status": "failed", "failureMessages": ["no"]},
            ],
        },
        {"name": "/w/broken.test.js", "status": "failed", "message": "cannot parse", "assertionResults": []},
    ],
}
_CTRF: dict[str, Any] = {
    "results": {
        "summary": {"tests": 2},
        "tests": [
            {"name": "adds", "suite": ["sum"], "status": "passed", "duration": 12},
            {"name": "carries", "suite": ["sum"], "status": "other", "duration": 1},
        ],
    }
}
_RSPEC: dict[str, Any] = {
    "examples": [{"full_description": "Sum adds", "status": "pending", "file_path": "./sum_spec.rb", "run_time": 0.1}],
    "summary": {"errors_outside_of_examples_count": 1},
}


@pytest.mark.parametrize(
    ("report", "outcomes"),
    [
        (_JEST, {"sum.test.js::sum adds": "passed", "sum.test.js::sum carries": "failed", "broken.test.js": "error"}),
        (_CTRF, {"sum > adds": "passed", "sum > carries": "error"}),
        (_RSPEC, {"./sum_spec.rb::Sum adds": "skipped", "errors outside of examples": "error"}),
    ],
    ids=["jest", "ctrf", "rspec"],
)
def test_reports_in_json_are_read_and_tell_paths_relative_to_the_folder(
    report: dict[str, Any], outcomes: dict[str, str]
) -> None:
    reading, found = read_reports({"r.json": json.dumps(report).encode()}, root="/w")
    assert (reading, found.outcomes) == ("read", outcomes)


def test_a_json_report_that_announces_more_tests_is_partial() -> None:
    assert read_reports({"r": json.dumps({**_JEST, "numTotalTests": 9}).encode()})[0] == "partial"
    assert read_reports({"r": json.dumps(_JEST)[:-9].encode()})[0] == "unreadable"


def _report(**outcomes: TestOutcome) -> TestReport:
    return _read("".join(["<s>", *(_case(name, outcome) for name, outcome in outcomes.items()), "</s>"]).encode())


def _case(name: str, outcome: TestOutcome) -> str:
    inside = {"passed": "", "failed": "<failure/>", "error": "<error/>", "skipped": "<skipped/>"}[outcome]
    return f'<testcase name="{name}">{inside}</testcase>'


@pytest.mark.parametrize(
    ("exit_code", "reading", "outcome"),
    [
        (0, "read", "passed"),
        (0, "no_tests", "not_verified"),
        (0, "no_report", "not_verified"),
        (0, "partial", "not_verified"),
        (0, "unreadable", "not_verified"),
        (1, "read", "failed"),
        (1, "no_report", "failed"),
        (5, "no_tests", "not_verified"),
        (None, "no_report", "failed"),
    ],
)
def test_only_a_whole_report_with_tests_passes(exit_code: int | None, reading: Reading, outcome: str) -> None:
    assert CommandRun(command="x", exit_code=exit_code, reading=reading).outcome == outcome


def test_a_failing_test_in_the_report_outweighs_exit_code_and_doubt() -> None:
    run = CommandRun(command="x || true", exit_code=0, reading="partial", report=_report(a="passed", b="failed"))
    assert run.outcome == "failed"


def test_two_runs_are_compared_test_by_test() -> None:
    before = _report(
        kept="passed", broke="passed", mended="failed", bad="error", quiet="passed", lost="failed", off="skipped"
    )
    after = _report(
        kept="passed", broke="error", mended="passed", bad="failed", quiet="skipped", fresh="passed", wrong="failed"
    )
    found = compare(before, after)
    assert (found.broken, found.fixed, found.still_failing) == (("broke",), ("mended",), ("bad",))
    assert (found.muted, found.gone, found.fewer) == (("quiet",), ("lost",), True)
    assert (found.new, found.new_failing) == (("fresh", "wrong"), ("wrong",))
    assert not compare(before, before).fewer


@pytest.mark.parametrize(
    ("told", "after", "gone"),
    [
        # Go, jest and pytest put the file or the package before the names of its tests.
        (CaseResult("a/b", "error", file="a/b", whole=True), {"a/b::TestX": "passed"}, ()),
        (CaseResult("a/b", "error", file="a/b", whole=True), {"a/c::TestX": "passed"}, ("a/b",)),
        (CaseResult("a/b", "error", file="a/b", whole=True), {"a/b::TestX": "failed"}, ("a/b",)),
        (CaseResult("tests.a", "error", file="tests/a.py", whole=True), {"tests.a.Case::test_x": "passed"}, ()),
        (CaseResult("test/a.test.js", "failed", whole=True), {"adds": "passed"}, ()),
        (CaseResult("test/a.test.js", "failed", whole=True), {}, ("test/a.test.js",)),
        (CaseResult("adds", "failed"), {"subtracts": "passed"}, ("adds",)),
    ],
)
def test_what_could_not_be_loaded_is_not_gone_once_its_tests_run(
    told: CaseResult, after: dict[str, TestOutcome], gone: tuple[str, ...]
) -> None:
    """Honest work on a package that was not built was refused: its name alone stood in the report before."""
    assert compare(TestReport((told,)), _report(**after)).gone == gone


@pytest.mark.parametrize(
    ("output", "whole"),
    [
        (b'{"Action":"fail","Package":"a/b"}\n', ["a/b"]),
        (b"FAIL\ta/b [build failed]\nFAIL\n", ["a/b"]),
        (b"not ok 1 - /w/test/a b.test.js\n1..1\n", ["test/a b.test.js"]),
        (b"not ok 1 - reads /w/a.js\n1..1\n", []),
        (b'{"testResults":[{"name":"/w/a.test.js","status":"failed","assertionResults":[]}]}', ["a.test.js"]),
        (b'{"examples":[],"summary":{"errors_outside_of_examples_count":1}}', ["errors outside of examples"]),
        (b'<testsuite><testcase classname="" name="a"><error/></testcase></testsuite>', ["a"]),
        (b'<testsuite><testcase classname="a" name="b"><error/></testcase></testsuite>', []),
    ],
)
def test_files_and_packages_that_could_not_be_loaded_are_told_from_tests(output: bytes, whole: list[str]) -> None:
    files = {"report": output} if output.startswith((b"<", b'{"e', b'{"t')) else {}
    _, report = read_reports(files, output=b"" if files else output, root="/w")
    assert [case.id for case in report.tests if case.whole] == whole


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ok   adds\nFAIL divides\n     3 !== 2\n", {"adds": "passed", "divides": "failed"}),
        ("a.c:3: failed: x == 1\npush: FAILED\npeek: ok\n", {"push": "failed", "peek": "passed"}),
        ("push ... ok (3 ms)\n  \u2717 peek\nmean [PASS]\n", {"push": "passed", "peek": "failed", "mean": "passed"}),
        ("4 passed, 3 failed\nokay then\nmake: *** [Makefile:9: test] Error 1\nall is fine\n", {}),
        ("", {}),
    ],
)
def test_what_single_lines_say_is_no_report(text: str, told: dict[str, str]) -> None:
    report = said_by_lines(text)
    assert (dict(report.outcomes), report.complete) == (told, False)
    assert read_reports({}, output=text.encode())[0] == "no_report"


def test_a_failure_told_by_a_line_has_the_text_around_it() -> None:
    assert said_by_lines("a.c:3: failed: x == 1\npush: FAILED\npeek: ok\n").tests[0].message == (
        "a.c:3: failed: x == 1\npush: FAILED"
    )
