"""The condition of a set: what it means, and that it is never run as code."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.handover.export_filter import FIELDS, parse_where
from tracer.errors import UsageError

TRACE: dict[str, Any] = {
    **dict.fromkeys(FIELDS),
    "trace_id": "t-1",
    "events": 12,
    "qa.final_passed": True,
    "overall": 4.2,
    "repo": "acme/shop",
    "labels": ["bug", "auth"],
    "flags": [],
    "consent.allow_llm_judge": True,
    "clarity": 3,
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("qa.final_passed and overall>=4", True),
        ("qa.final_passed and overall > 4.2", False),
        ("not qa.final_passed or 'auth' in labels", True),
        ("repo in ['acme/shop', 'acme/web']", True),
        ("'shop' in repo and 'x' not in labels", True),
        ("3 <= overall < 5", True),
        ("qa.not_testable == null", True),
        ("clarity == 3.0", True),
        ("consent.allow_llm_judge == true", True),
        ("labels == ['bug', 'auth']", True),
    ],
)
def test_a_condition_means_what_it_says(text: str, holds: bool) -> None:
    assert parse_where(text)(TRACE) is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("overall == '4.2'", "overall is a number, '4.2' is a text"),
        ("overall != '4.2'", "overall is a number, '4.2' is a text"),
        ("qa.final_passed == 1", "qa.final_passed is a switch, 1 is a number"),
        ("qa.final_passed == 'yes'", "qa.final_passed is a switch, 'yes' is a text"),
        ("qa.schema_valid > 0", "qa.schema_valid is a switch, 0 is a number"),
        ("consent.allow_llm_judge > false", "consent.allow_llm_judge is a switch, false is a switch"),
        ("labels == 'bug'", "labels is a list, 'bug' is a text"),
        ("overall in 4", "overall is a number, 4 is a number"),
        ("1 < 2 < 'x'", "2 is a number, 'x' is a text"),
        ("status = 'complete'", "equal is written =="),
        ("overall >", "invalid syntax"),
    ],
)
def test_what_could_never_hold_is_told_and_not_taken_for_no_trace(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_where(text)
    assert refused.value.why == why


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "overall.real",
        "(lambda: 1)()",
        "[x for x in labels]",
        "labels[0]",
        "f'{overall}'",
        "overall + 1 > 2",
        "2 ** 99999999",
        "exec",
        "x := 3",
        "b'1' == repo",
        "...",
        "overall >=",
        "a" * 5000,
        "(" * 3000,
        "not " * 900 + "events",
        "events\0",
        "1 if events else 0",
        "*labels",
        "-qa.final_passed",
    ],
)
def test_what_is_not_the_language_is_refused(text: str) -> None:
    try:
        held = parse_where(text)(TRACE)
    except UsageError:
        return
    assert text.startswith("not ")
    assert held in {True, False}


def test_an_unknown_field_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UsageError) as refused:
        parse_where("overal > 3")
    assert "'overall'" in refused.value.why


@given(
    text=st.text(max_size=60) | st.text(alphabet="overallqa.final_passed<>=!()[]'\"0123456789 andornotin,", max_size=60)
)
def test_any_text_is_understood_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert parse_where(text)(TRACE) in {True, False}
