"""One Messages API request: body, stream with live updates, running token and cost totals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from runner.executors.executor_port import Ask, BudgetSpentError, Live, LiveSink, Usage, over_budget
from tracer.prices import Tokens, cost_usd, find_price

_CHARACTERS_PER_TOKEN = 4


def _tokens(usage: Any) -> Tokens:
    return Tokens.of_anthropic(usage.to_dict())


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
        return [*self._finished, replace(self._current, output=guess)]

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
        return Usage.of(counted, thinking=self._thinking if self._thinking_told else None)

    def affordable_output(self, budget_usd: float | None) -> int | None:
        """How many output tokens the rest of the budget pays for; None where nothing limits them."""
        price = find_price(self.model)
        spent = self.cost()
        if budget_usd is None or price is None or spent is None:
            return None
        return max(int((budget_usd - spent) * 1_000_000 / price.output), 0)


_THINKING_TOKENS: Final = 8_000
_LEAST_OUTPUT: Final = 256
# Models before 4.6 know thinking with a token budget only; later ones refuse that and think adaptively.
_BUDGETED = re.compile(r"^claude-(?:3|\w+-4-(?:[0-5](?:-|$)|\d{8}))")
# Of those, the ones that can be held to an answer's schema.
_SCHEMA_BUDGETED = re.compile(r"^claude-(?:opus-4-[15]|sonnet-4-5|haiku-4-5)")
_EPHEMERAL: Final = {"type": "ephemeral"}
_SYSTEM: Final = (
    "You work on a software project through the tools given; all paths are relative to its root. "
    "Carry out the whole request: write complete files, leave no placeholder and no part out. "
    "Check what you did by reading it back or running it. End with a short account of what you changed."
)


def thinking_option(model: str, *, wanted: bool, max_tokens: int) -> Mapping[str, Any] | None:
    """The `thinking` parameter that `model` understands, or None to send none."""
    if not model.startswith("claude-"):
        return None
    if _BUDGETED.match(model):
        budget = min(_THINKING_TOKENS, max_tokens // 2)
        old = model.startswith("claude-3") and not model.startswith("claude-3-7")
        return {"type": "enabled", "budget_tokens": budget} if wanted and budget >= 1024 and not old else None
    return {"type": "adaptive", "display": "summarized" if wanted else "omitted"}


def _holds_to_schema(model: str) -> bool:
    """Whether the API can hold `model` to a schema; others read it in the prompt."""
    return model.startswith("claude-") and (not _BUDGETED.match(model) or bool(_SCHEMA_BUDGETED.match(model)))


def build_body(
    request: Ask,
    *,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    tally: Tally,
    max_tokens: int,
) -> dict[str, Any]:
    """The keyword arguments of `messages.stream`.

    Raises:
        BudgetSpentError: what is left of the budget does not pay for a useful answer.

    """
    affordable = tally.affordable_output(request.budget_usd)
    if affordable is not None:
        if affordable < _LEAST_OUTPUT:
            raise BudgetSpentError
        max_tokens = min(max_tokens, affordable)
    system = f"{_SYSTEM}\n\n{request.rules}" if request.rules else _SYSTEM
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "system": [{"type": "text", "text": system, "cache_control": _EPHEMERAL}],
        "messages": list(messages),
        "tools": list(tools),
        "cache_control": _EPHEMERAL,
    }
    thinking = thinking_option(model, wanted=request.thinking, max_tokens=max_tokens)
    if thinking is not None:
        body["thinking"] = thinking
    if request.answer_schema is not None and _holds_to_schema(model):
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.answer_schema)}}
    return body


async def read_stream(stream: Any, *, request: Ask, tally: Tally, live: LiveSink) -> Any:
    """The final message of one stream; its `stop_reason` is None where the peer cut it.

    Raises:
        BudgetSpentError: the answer grew past the budget while it was streaming.

    """
    async for event in stream:
        match event.type:
            case "message_start":
                tally.begin(event.message.usage)
            case "content_block_delta":
                _on_delta(event.delta, tally, live)
                if over_budget(request, tally.cost()):
                    raise BudgetSpentError
            case _:
                pass
    message = await stream.get_final_message()
    tally.finish(message.usage)
    live(Live(kind="usage", usage=tally.usage(), cost_usd=tally.cost()))
    return message


def _on_delta(delta: Any, tally: Tally, live: LiveSink) -> None:
    match delta.type:
        case "text_delta":
            tally.streamed(len(delta.text))
            live(Live(kind="text", text=delta.text))
        case "thinking_delta":
            tally.streamed(len(delta.thinking))
            live(Live(kind="thinking", text=delta.thinking))
        case "input_json_delta":
            tally.streamed(len(delta.partial_json))
        case _:
            pass
