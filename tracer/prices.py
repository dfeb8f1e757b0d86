"""What tokens cost: a table kept as data (`prices.json`) with the page and the day each row was taken from.

A model that is not in the table has no price: callers get None and record null, never 0. A dated or prefixed name
(`claude-sonnet-4-5-20250929`, `models/gemini-2.5-pro`) means the model it names; no other guess is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

_MILLION = 1_000_000
_DATED = re.compile(r"(?:-\d{8}|-\d{4}-\d{2}-\d{2}|@\d{8}|-preview(?:-\d{2}-\d{2,4})?|-latest|\[1m\])$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Counts that do not overlap: `fresh` input was neither read from nor written to a cache. Output holds thinking."""

    fresh: int = 0
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0

    @classmethod
    def of_prompt(cls, sent: int, *, cached: int, output: int) -> Tokens:
        """Where `sent` counts what came from the cache too, as OpenAI and Google tell it."""
        return cls(fresh=max(sent - cached, 0), cached=cached, output=output)

    @classmethod
    def of_anthropic(cls, usage: Mapping[str, Any]) -> Tokens:
        """From a `usage` of the Messages API; what is no count is 0."""
        tiers = usage.get("cache_creation")
        hour = _whole(tiers.get("ephemeral_1h_input_tokens")) if isinstance(tiers, Mapping) else 0
        written = _whole(usage.get("cache_creation_input_tokens"))
        return cls(
            fresh=_whole(usage.get("input_tokens")),
            cached=_whole(usage.get("cache_read_input_tokens")),
            cache_write=max(written - hour, 0),
            cache_write_1h=min(hour, written),
            output=_whole(usage.get("output_tokens")),
        )

    @property
    def prompt(self) -> int:
        """All that was sent, which decides the price tier."""
        return self.fresh + self.cached + self.cache_write + self.cache_write_1h


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens; `source` names a row of the table's sources."""

    model: str
    source: str
    input: float
    output: float
    cached: float
    cache_write: float
    cache_write_1h: float
    long_above: int | None = None
    long: Price | None = None

    def cost(self, tokens: Tokens) -> float:
        """US dollars for one request (the tier for long prompts is decided by this request alone)."""
        if self.long is not None and self.long_above is not None and tokens.prompt > self.long_above:
            return self.long.cost(tokens)
        return (
            tokens.fresh * self.input
            + tokens.cached * self.cached
            + tokens.cache_write * self.cache_write
            + tokens.cache_write_1h * self.cache_write_1h
            + tokens.output * self.output
        ) / _MILLION


@cache
def _table() -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))
    return data


def _read(model: str, source: str, row: Mapping[str, Any]) -> Price:
    tier = row.get("long")
    return Price(
        model=model,
        source=source,
        input=row["input"],
        output=row["output"],
        **{name: row.get(name, row["input"]) for name in ("cached", "cache_write", "cache_write_1h")},
        long_above=tier["above"] if tier else None,
        long=_read(model, source, tier) if tier else None,
    )


@cache
def find_price(model: str | None) -> Price | None:
    """The price of `model`, or None where the table does not know it."""
    if not model:
        return None
    name = model.rsplit("/", 1)[-1]
    rows = _table()["models"]
    while name not in rows:
        shorter = _DATED.sub("", name)
        if shorter == name:
            return None
        name = shorter
    return _read(name, rows[name]["source"], rows[name])


def cost_usd(model: str | None, tokens: Tokens, *, one_request: bool = True) -> float | None:
    """US dollars for `tokens` of `model`, or None where the price is unknown.

    `one_request=False` says that the counts are the sum of several requests: the tier of short prompts is taken.
    """
    price = find_price(model)
    if price is None:
        return None
    return round((price if one_request else replace(price, long=None)).cost(tokens), 9)


def price_source(model: str | None) -> str | None:
    """Where and when the price was read, e.g. `platform.claude.com/…, 2026-10-24`."""
    price = find_price(model)
    if price is None:
        return None
    source = _table()["sources"][price.source]
    return f"{source['page']}, {source['date']}"
