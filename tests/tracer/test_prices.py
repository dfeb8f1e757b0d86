"""Prices: known models cost what the table says, unknown ones cost null."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.prices import Tokens, cost_usd, find_price, price_source


def test_each_kind_of_token_has_its_own_price() -> None:
    tokens = Tokens(
        fresh=1_000_000, cached=1_000_000, cache_write=1_000_000, cache_write_1h=1_000_000, output=1_000_000
    )
    assert cost_usd("claude-opus-4-8", tokens) == pytest.approx(5 + 0.5 + 6.25 + 10 + 25)


@pytest.mark.parametrize("name", ["claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5", "claude-sonnet-4-5[1m]"])
def test_a_dated_or_prefixed_name_means_its_model(name: str) -> None:
    assert find_price(name) == find_price("claude-sonnet-4-5")
    assert find_price(name) is not None


@pytest.mark.parametrize("name", [None, "", "gpt-99", "claude-sonnet-99", "claude-sonnet-4-5-turbo"])
def test_an_unknown_model_costs_null(name: str | None) -> None:
    assert cost_usd(name, Tokens(output=5)) is None
    assert price_source(name) is None


def test_a_long_prompt_is_priced_by_its_own_tier() -> None:
    assert cost_usd("gemini-2.5-pro", Tokens(fresh=300_000)) == pytest.approx(0.75)
    assert cost_usd("gemini-2.5-pro", Tokens(fresh=300_000), one_request=False) == pytest.approx(0.375)


def test_the_source_names_its_page_and_day() -> None:
    assert price_source("claude-haiku-5-5") == "platform.claude.com/docs/en/about-claude/pricing, 2026-10-24"


@given(first=st.integers(0, 10**6), more=st.integers(0, 10**6))
def test_more_tokens_never_cost_less(first: int, more: int) -> None:
    less, greater = Tokens(fresh=first, output=first), Tokens(fresh=first + more, output=first + more)
    assert (cost_usd("claude-haiku-5-5", less) or 0) <= (cost_usd("claude-haiku-5-5", greater) or 0)
