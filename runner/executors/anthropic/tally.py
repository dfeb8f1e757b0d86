"""Tokens and money of one answer, added up over its requests. Pure.

Counts are the provider's: `input_tokens` leaves out what was read from or written to the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runner.executors.port import Usage
from tracer.prices import Tokens, cost_usd, find_price

__all__ = ["Tally"]

_CHARACTERS_PER_TOKEN = 4


def _count(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) else 0


@dataclass(slots=True)
class Tally:
    """The running totals of one answer; `model` is the one whose price counts."""

    model: str
    requests: int = 0
    _finished: list[Tokens] = field(default_factory=list)
    _current: Tokens | None = None
    _thinking: int = 0
    _thinking_told: bool = False
    _streamed: int = 0

    def begin(self, usage: Any) -> None:
        """A request's stream has begun; `usage` is that of message_start."""
        self.requests += 1
        self._streamed = 0
        self._current = _tokens(usage)

    def streamed(self, characters: int) -> None:
        """Text arrived whose tokens are not counted yet."""
        self._streamed += characters

    def finish(self, usage: Any) -> None:
        """The request's final count."""
        self._streamed = 0
        self._current = None
        self._finished.append(_tokens(usage))
        details = getattr(usage, "output_tokens_details", None)
        thinking = getattr(details, "thinking_tokens", None)
        if isinstance(thinking, int):
            self._thinking_told = True
            self._thinking += thinking

    def _all(self) -> list[Tokens]:
        if self._current is None:
            return self._finished
        guess = max(self._current.output, self._streamed // _CHARACTERS_PER_TOKEN)
        current = Tokens(
            fresh=self._current.fresh,
            cached=self._current.cached,
            cache_write=self._current.cache_write,
            cache_write_1h=self._current.cache_write_1h,
            output=guess,
        )
        return [*self._finished, current]

    @property
    def priced(self) -> bool:
        """Whether money can be counted at all."""
        return find_price(self.model) is not None

    def cost(self) -> float | None:
        """US dollars so far, text still streaming estimated; None where the model has no known price."""
        if not self.priced:
            return None
        return round(sum(cost_usd(self.model, tokens) or 0.0 for tokens in self._all()), 9)

    def usage(self) -> Usage | None:
        """The totals; None before the first count."""
        counted = self._all()
        if not counted:
            return None
        return Usage(
            input_tokens=sum(tokens.fresh for tokens in counted),
            output_tokens=sum(tokens.output for tokens in counted),
            cached_tokens=sum(tokens.cached for tokens in counted),
            cache_write_tokens=sum(tokens.cache_write + tokens.cache_write_1h for tokens in counted),
            thinking_tokens=self._thinking if self._thinking_told else None,
        )

    def affordable_output(self, budget_usd: float | None) -> int | None:
        """How many output tokens the rest of the budget pays for; None where nothing limits them."""
        price = find_price(self.model)
        spent = self.cost()
        if budget_usd is None or price is None or spent is None:
            return None
        return max(int((budget_usd - spent) * 1_000_000 / price.output), 0)


def _tokens(usage: Any) -> Tokens:
    written = _count(usage, "cache_creation_input_tokens")
    hour = _count(getattr(usage, "cache_creation", None), "ephemeral_1h_input_tokens")
    return Tokens(
        fresh=_count(usage, "input_tokens"),
        cached=_count(usage, "cache_read_input_tokens"),
        cache_write=max(written - hour, 0),
        cache_write_1h=min(hour, written),
        output=_count(usage, "output_tokens"),
    )
