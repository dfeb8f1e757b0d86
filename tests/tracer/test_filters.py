"""The filter language: what each term keeps, what is refused and how, and completion."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.errors import UsageError
from tracer.rows.filters import NO_FILTER, Filter, complete, from_query, parse


def accepts(text: str, **fact: object) -> bool:
    facts: dict[str, object] = {"event": "LLM_RESPONSE", "iteration": 1, "subtask": None, "failed": False, "value": {}}
    return parse(text).accepts(**{**facts, **fact})  # type: ignore[arg-type]


def test_an_empty_filter_keeps_everything() -> None:
    assert parse("  ") == NO_FILTER
    assert not parse("")
    assert accepts("")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("event:LLM_RESPONSE", True),
        ("event:llm_response", True),
        ("event:LLM_*", True),
        ("event:LLM", False),
        ("event:QUALITY_JUDGMENT,LLM_RESPONSE", True),
        ("it:1", True),
        ("it:0-3", True),
        ("it:0,2", False),
        ("failed", False),
        ("event:LLM_RESPONSE it:2", False),
    ],
)
def test_each_term_asks_and_all_terms_must_hold(text: str, kept: bool) -> None:
    assert accepts(text) is kept


def test_a_subtask_is_named_in_full_or_by_its_number() -> None:
    assert accepts("sub:task-015-sub-2", subtask="task-015-sub-2")
    assert accepts("sub:2", subtask="task-015-sub-2")
    assert not accepts("sub:2", subtask="task-015-sub-12")
    assert not accepts("sub:2", subtask=None)


def test_text_looks_into_values_at_any_depth_but_not_into_keys() -> None:
    assert accepts("text:Deep", value={"data": {"a": [{"b": "so DEEP down"}]}})
    assert not accepts("text:data", value={"data": 1})


def test_a_bare_word_and_a_quoted_phrase_are_text() -> None:
    assert parse('word "two words" text:"with \\" quote"').texts == ("word", "two words", 'with " quote')


def test_failed_keeps_only_failed_facts() -> None:
    assert accepts("failed", failed=True)
    assert not accepts("failed", failed=False)


@pytest.mark.parametrize(
    ("text", "hint"), [("evnt:X", "event"), ("iter:1", "it"), ("it:one", "number"), ("event:", "missing")]
)
def test_a_mistake_is_named_with_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert hint in caught.value.why


def test_query_parameters_build_the_same_filter_as_the_language() -> None:
    query = {
        "event": ["llm_request,llm_response"],
        "iteration": ["0"],
        "subtask": ["2"],
        "text": ["A b"],
        "failed": ["true"],
    }
    assert from_query(query) == parse('event:LLM_REQUEST,LLM_RESPONSE it:0 sub:2 text:"a b" failed')


def test_a_query_with_a_strange_failed_is_refused() -> None:
    with pytest.raises(UsageError):
        from_query({"failed": ["maybe"]})


def test_completion_offers_terms_then_values_not_yet_taken() -> None:
    events = ["LLM_REQUEST", "LLM_RESPONSE"]
    assert complete("e", events=events) == ["event:"]
    assert complete("failed event:l", events=events) == ["failed event:LLM_REQUEST", "failed event:LLM_RESPONSE"]
    assert complete("event:LLM_REQUEST,", events=events) == ["event:LLM_REQUEST,LLM_RESPONSE"]
    assert complete("it:", events=events, iterations=2) == ["it:0", "it:1"]
    assert complete("sub:", events=events, subtasks=["t-sub-1"]) == ["sub:t-sub-1"]


@given(st.text(max_size=60))
def test_any_typed_text_is_a_filter_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(parse(text), Filter)
