"""Reading reports of strangers: JUnit XML and `go test -json`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.qa.junit import counts, go_results, junit_results

_REPORT = b"""<?xml version="1.0"?><testsuites><testsuite name="s">
<testcase classname="tests.test_a" name="test_ok" file="tests/test_a.py" time="0.25"/>
<testcase classname="tests.test_a" name="test_bad" file="tests/test_a.py"><failure message="wrong"/></testcase>
<testcase classname="tests.test_b" name="test_broken"><error message="import"/></testcase>
<testcase classname="tests.test_b" name="test_left"><skipped/></testcase>
</testsuite></testsuites>"""


def test_every_outcome_is_read() -> None:
    results = junit_results({"r.xml": _REPORT})
    assert results is not None
    assert {result.id: result.outcome for result in results} == {
        "tests.test_a::test_ok": "passed",
        "tests.test_a::test_bad": "failed",
        "tests.test_b::test_broken": "error",
        "tests.test_b::test_left": "skipped",
    }
    assert results[0].duration_ms == 250
    assert results[0].file == "tests/test_a.py"
    assert counts(results) == {"skipped": 1, "passed": 1, "failed": 1, "error": 1}


def test_a_test_that_stands_twice_keeps_its_worst_outcome() -> None:
    twice = b"<s><testcase name='a'/><testcase name='a'><failure/></testcase><testcase name='a'/></s>"
    results = junit_results({"r.xml": twice})
    assert results is not None
    assert [(result.id, result.outcome) for result in results] == [("a", "failed")]


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
        _REPORT[:200],
    ],
    ids=["entities", "external entity", "empty", "bytes", "cut", "encoding", "half"],
)
def test_a_report_that_cannot_be_trusted_is_a_report_that_is_not_there(data: bytes) -> None:
    assert junit_results({"r.xml": data}) is None


def test_one_bad_report_does_not_hide_a_good_one() -> None:
    results = junit_results({"a.xml": _BOMB, "b.xml": b"<s><testcase name='t'/></s>"})
    assert results is not None
    assert [result.id for result in results] == ["t"]


def test_a_report_without_tests_is_a_report() -> None:
    assert junit_results({"r.xml": b"<testsuites/>"}) == ()


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    junit_results({"r.xml": b"<s>" + data + b"</s>"})
    go_results(data)


def test_go_events_give_one_result_a_test() -> None:
    events = [
        {"Action": "run", "Package": "m/calc", "Test": "TestHalf"},
        {"Action": "output", "Package": "m/calc", "Test": "TestHalf", "Output": "x"},
        {"Action": "fail", "Package": "m/calc", "Test": "TestHalf", "Elapsed": 0.5},
        {"Action": "pass", "Package": "m/calc", "Test": "TestZero"},
        {"Action": "fail", "Package": "m/calc"},
    ]
    output = b"go: downloading\n" + b"\n".join(json.dumps(event).encode() for event in events)
    results = go_results(output)
    assert results is not None
    assert [(result.id, result.outcome, result.duration_ms) for result in results] == [
        ("m/calc::TestHalf", "failed", 500),
        ("m/calc::TestZero", "passed", 0),
    ]
    assert go_results(b"no events at all") is None
