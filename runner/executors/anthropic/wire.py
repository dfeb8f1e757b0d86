"""The body of one Messages API request, and its stream read to the end with live updates on the way.

The SDK's own tool runner is not used: it keeps the conversation on the server, and a stop for time or money has to
come between any two requests. Every delta arrives twice in the SDK's stream; only the raw events are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runner.executors.anthropic.tally import Tally
from runner.executors.port import Ask, Live, LiveSink

__all__ = ["BudgetSpentError", "build_body", "read_stream", "thinking_option"]

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


class BudgetSpentError(Exception):
    """The money for this answer is used up."""


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
                _on_delta(event.delta, request, tally, live)
                spent = tally.cost()
                if request.budget_usd is not None and spent is not None and spent > request.budget_usd:
                    raise BudgetSpentError
            case _:
                pass
    message = await stream.get_final_message()
    tally.finish(message.usage)
    live(_live(request, kind="usage", usage=tally.usage(), cost_usd=tally.cost()))
    return message


def _on_delta(delta: Any, request: Ask, tally: Tally, live: LiveSink) -> None:
    match delta.type:
        case "text_delta":
            tally.streamed(len(delta.text))
            live(_live(request, kind="text", text=delta.text))
        case "thinking_delta":
            tally.streamed(len(delta.thinking))
            live(_live(request, kind="thinking", text=delta.thinking))
        case "input_json_delta":
            tally.streamed(len(delta.partial_json))
        case _:
            pass


def _live(request: Ask, **fields: Any) -> Live:
    return Live(task_id=request.task_id, subtask_id=request.subtask_id, **fields)
