"""Error answers of the Messages API in the port's vocabulary."""

from __future__ import annotations

import tomllib
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.executors import provider_errors
from runner.executors.provider_errors import classify_error, classify_message, parse_retry_after
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


@pytest.mark.parametrize(
    ("message", "status", "kind"),
    [
        ("Prompt is too long · the request is ~1200000 tokens (limit 200000)", None, "context"),
        ('[API Error: {"error":{"code":400,"message":"prompt is too long: 3 tokens > 2 maximum"}}]', None, "context"),
        ("Codex ran out of room in the model's context window. Start a new thread.", None, "context"),
        ("prompt is too long", 500, "network"),
        ("We’re currently experiencing high demand, which may cause temporary errors.", None, "overloaded"),
    ],
)
def test_what_command_lines_say_of_refused_requests(message: str, status: int | None, kind: str) -> None:
    """Before, a prompt that was too long was a crash of the agent, and was sent again until the iterations ran out."""
    assert classify_message(message, status=status).kind == kind


def test_each_row_of_the_table_tells_its_examples() -> None:
    rows = tomllib.loads(Path(provider_errors.__file__).with_suffix(".toml").read_text())["message"]
    for row in rows:
        assert {classify_message(example, default="context").kind for example in row["examples"]} == {row["kind"]}
