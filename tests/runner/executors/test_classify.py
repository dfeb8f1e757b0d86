"""Error answers of the Messages API in the port's vocabulary."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.executors.provider_errors import classify_error, is_context_overflow, parse_retry_after
from tracer import clock


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
    ],
)
def test_the_wait_is_read_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers) == seconds


def test_a_wait_given_as_a_date_counts_from_now() -> None:
    told = parse_retry_after({"retry-after": formatdate(clock.now_epoch_ms() / 1000 + 30, usegmt=True)})
    assert told is not None
    assert 25 < told <= 30


def test_the_bodys_own_type_decides_inside_a_stream() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    error = classify_error(status=200, body=body, headers={}, text="")
    assert (error.kind, error.message) == ("overloaded", "busy")


@given(
    status=st.one_of(st.none(), st.integers(100, 599)), body=st.recursive(st.none() | st.text(), st.lists, max_leaves=3)
)
def test_any_answer_gets_a_kind(status: int | None, body: object) -> None:
    assert classify_error(status=status, body=body, headers={}, text="t").kind


def test_only_a_refused_request_is_an_overflow() -> None:
    assert is_context_overflow(400, "prompt is too long: 3 tokens > 2 maximum")
    assert not is_context_overflow(500, "prompt is too long")
