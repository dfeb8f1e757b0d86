"""The `anthropic` executor: the Messages API through the SDK, with tools confined to the workspace.

One `ask` is a conversation of as many requests as the model's tool calls need. Retries are the loop's (`max_retries`
is 0). Time and money stop it before the next request and between streamed updates. Sessions live in this process:
a reference from another one starts afresh, and says so in `extra.session_resumed`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runner.agent_report import REPORT_SCHEMA
from runner.executors.anthropic.tools import EDITING, Toolbox
from runner.executors.anthropic.wire import Tally, build_body, read_stream
from runner.executors.credentials import ApiKey
from runner.executors.executor_port import (
    Answer,
    AnswerError,
    Ask,
    BudgetSpentError,
    Live,
    LiveSink,
    budget_error,
    ignore_live,
    live_of,
)
from runner.executors.provider_errors import classify_error
from tracer.clock import new_id
from tracer.errors import ConfigError
from tracer.names import AnswerStatus
from tracer.prices import price_source

DEFAULT_MODEL: Final = "claude-sonnet-5-5"
_KEPT_SESSIONS = 32
_MAX_TOKENS = 32_000
_MOST_REQUESTS = 200
_KEPT_CALLS = 200
_READ_TIMEOUT_S = 600.0
_NO_KEY = "set PM_API_KEY or ANTHROPIC_API_KEY, or put the key into a key file with mode 0600"

_REPORT: Final[Mapping[str, Any]] = {
    "name": "report",
    "description": "Report on your work, once, beside your last answer in words; it stands for the block pm-report.",
    "input_schema": {key: REPORT_SCHEMA[key] for key in ("type", "required", "properties")},
}

ToolboxFactory = Callable[[Ask], Toolbox]


@dataclass(slots=True)
class _Exchange:
    """Everything one `ask` gathers; it survives a time-out, so that what was spent is told."""

    request: Ask
    live: LiveSink
    toolbox: Toolbox
    tally: Tally
    messages: list[dict[str, Any]]
    output: str = ""
    stop_reason: str | None = None
    refusal: str = ""
    refused: bool = False  # an error in the place of an answer: nobody is charged for it
    report: object = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    edits: int = 0
    failed_edits: int = 0


class AnthropicExecutor:
    """Asks a model through the Messages API and lets it work on the workspace."""

    name = "anthropic"
    continues_sessions = True
    plans = True  # has a model that can be asked for a plan

    def __init__(
        self,
        *,
        key: ApiKey | None,
        toolbox: ToolboxFactory,
        base_url: str | None = None,
        model: str = DEFAULT_MODEL,
    ) -> None:
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ConfigError(
                f"the base URL {base_url!r} is not an http address", next_step="set it as http://… or https://…"
            )
        self._key = key
        self._toolbox = toolbox
        self._base_url = base_url
        self._model = model
        self._client: Any = None
        self._sessions: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        if self._key is None or not self._key.value.isascii() or not self._key.value.isprintable():
            what = (
                "no model credentials found" if self._key is None else f"the key from {self._key.source} is malformed"
            )
            return Answer.failed("auth", what, _NO_KEY)
        model = request.model or self._model
        known = self._sessions.get(request.session_ref or "")
        exchange = _Exchange(
            request=request,
            live=live_of(request, live),
            toolbox=self._toolbox(request),
            tally=Tally(model),
            messages=[*(known or []), {"role": "user", "content": request.prompt}],
        )
        status, error = await self._run(exchange, model)
        return self._answer(exchange, model, status, error, resumed=known is not None)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _run(self, exchange: _Exchange, model: str) -> tuple[AnswerStatus, AnswerError | None]:
        sdk = await self._connect()
        transport_error = importlib.import_module("httpx2").TransportError
        try:
            async with asyncio.timeout(exchange.request.timeout_s):
                return await self._converse(exchange, model)
        except TimeoutError:
            limit = exchange.request.timeout_s
            message = f"no finished answer within {limit:g} s" if limit is not None else "the answer timed out"
            return "TIMEOUT", AnswerError(kind="timeout", message=message, next_step="raise --timeout")
        except BudgetSpentError:
            return "INCOMPLETE", budget_error(exchange.request)
        except (sdk.APIError, transport_error, json.JSONDecodeError, UnicodeDecodeError) as error:
            return self._trouble(exchange, error, sdk)  # the last two: an event of the stream came mangled

    async def _connect(self) -> Any:
        # Importing the SDK costs about 2 s: it waits until the first question, and then leaves the loop free.
        sdk = await asyncio.to_thread(importlib.import_module, "anthropic")
        if self._client is None and self._key is not None:
            self._client = sdk.AsyncAnthropic(
                api_key=self._key.value, base_url=self._base_url, max_retries=0, timeout=_READ_TIMEOUT_S
            )
        return sdk

    async def _converse(self, exchange: _Exchange, model: str) -> tuple[AnswerStatus, AnswerError | None]:
        for _ in range(_MOST_REQUESTS):
            body = build_body(
                exchange.request,
                model=model,
                messages=exchange.messages,
                tools=[*exchange.toolbox.definitions(), *([] if exchange.request.answer_schema else [_REPORT])],
                tally=exchange.tally,
                max_tokens=_MAX_TOKENS,
            )
            async with self._open(exchange, body) as stream:
                message = await read_stream(stream, request=exchange.request, tally=exchange.tally, live=exchange.live)
            exchange.stop_reason = message.stop_reason
            blocks = [_as_parameter(block) for block in message.content if getattr(block, "text", "…")]
            exchange.output = "".join(block["text"] for block in blocks if block["type"] == "text")
            if blocks and message.stop_reason is not None:
                exchange.messages.append({"role": "assistant", "content": blocks})
            calls = [block for block in blocks if block["type"] == "tool_use"]
            for call in calls:
                exchange.report = call["input"] if call["name"] == _REPORT["name"] else exchange.report
            if calls and exchange.output.strip() and all(call["name"] == _REPORT["name"] for call in calls):
                # Told in words and reported: a further request would only get it said again, in fewer words.
                exchange.messages[-1]["content"] = [block for block in blocks if block["type"] != "tool_use"]
                exchange.stop_reason = "end_turn"
                return "COMPLETE", None
            if message.stop_reason == "tool_use":
                exchange.messages.append({"role": "user", "content": await self._use_tools(exchange, blocks)})
            elif message.stop_reason != "pause_turn":
                return _ending(message)
        exchange.stop_reason = "max_requests"
        return "INCOMPLETE", None

    def _open(self, exchange: _Exchange, body: dict[str, Any]) -> Any:
        """The stream, not yet connected; the SDK's word on a model that is going away becomes a notice."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            stream = self._client.messages.stream(**body)
        for warning in caught:
            exchange.live(Live(kind="notice", text=str(warning.message).split("\n", maxsplit=1)[0]))
        return stream

    async def _use_tools(self, exchange: _Exchange, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        results = []
        for block in blocks:
            if block["type"] != "tool_use":
                continue
            name = block["name"]
            if name == _REPORT["name"]:
                noted = "Noted. Now answer the user in words."
                results.append({"type": "tool_result", "tool_use_id": block["id"], "content": noted})
                continue
            exchange.live(Live(kind="tool_started", tool=name))
            outcome = await exchange.toolbox.perform(name, block["input"])
            exchange.live(Live(kind="tool_finished", tool=name, text=outcome.summary, ok=outcome.ok))
            exchange.calls.append({"name": name, "summary": outcome.summary, "ok": outcome.ok})
            if name in EDITING:
                exchange.edits += 1
                exchange.failed_edits += not outcome.ok
            results.append(
                {
                    "type": "tool_result",
                    "tool_use_id": block["id"],
                    "content": outcome.text or "(nothing)",
                    "is_error": not outcome.ok,
                }
            )
        return results

    def _trouble(self, exchange: _Exchange, error: Any, sdk: Any) -> tuple[AnswerStatus, AnswerError | None]:
        if isinstance(error, sdk.APITimeoutError):
            return "ERROR", AnswerError(kind="timeout", message="the connection timed out", next_step="try again")
        response = getattr(error, "response", None)
        status = getattr(error, "status_code", None)
        text = str(error) or type(error).__name__
        told = classify_error(
            status=status, body=getattr(error, "body", None), headers=getattr(response, "headers", {}), text=text
        )
        exchange.refused = (status or 0) >= 400
        if told.kind == "context":
            exchange.stop_reason = "model_context_window_exceeded"
            return "INCOMPLETE", told
        if self._key is None:
            return "ERROR", told
        message = self._key.hide_in(told.message)
        if told.kind == "auth":
            message = f"{message} (key from {self._key.source}, ending in {self._key.ending})"
        return "ERROR", told._replace(message=message)

    def _answer(
        self, exchange: _Exchange, model: str, status: AnswerStatus, error: AnswerError | None, *, resumed: bool
    ) -> Answer:
        edits = {"attempted": exchange.edits, "failed": exchange.failed_edits}
        if status == "COMPLETE" and exchange.edits and exchange.failed_edits == exchange.edits:
            status = "INCOMPLETE"
        return Answer(
            output=exchange.output,
            status=status,
            model=model,
            usage=exchange.tally.usage(),
            cost_usd=exchange.tally.cost() if exchange.refused or exchange.tally.usage() is not None else None,
            session_ref=self._keep(exchange),
            stop_reason=exchange.stop_reason,
            error=error,
            report=exchange.report if isinstance(exchange.report, dict) else None,
            extra={
                "requests": exchange.tally.requests,
                "tool_calls": exchange.calls[-_KEPT_CALLS:],
                "tool_call_count": len(exchange.calls),
                "edits": edits,
                "session_resumed": resumed,
                "price_source": price_source(model),
            },
        )

    def _keep(self, exchange: _Exchange) -> str | None:
        """Remember the conversation up to its last whole exchange, under a new reference."""
        messages = list(exchange.messages)
        while messages and not _is_whole(messages[-1]):
            messages.pop()
        if not messages:
            return None
        reference = f"anthropic:{new_id()}"
        self._sessions[reference] = messages
        while len(self._sessions) > _KEPT_SESSIONS:
            self._sessions.popitem(last=False)
        return reference


def _is_whole(message: dict[str, Any]) -> bool:
    return message["role"] == "assistant" and all(block["type"] != "tool_use" for block in message["content"])


def _as_parameter(block: Any) -> dict[str, Any]:
    """A received content block as it is sent back; what the SDK itself added is left out."""
    data: dict[str, Any] = block.to_dict()
    return {name: value for name, value in data.items() if name != "parsed_output" and value is not None}


def _ending(message: Any) -> tuple[AnswerStatus, AnswerError | None]:
    match message.stop_reason:
        case "end_turn" | "stop_sequence":
            return "COMPLETE", None
        case "refusal":
            told = getattr(getattr(message, "stop_details", None), "explanation", None)
            reason = told or "the model refused the request"
            return "BLOCKED", AnswerError(kind="refusal", message=reason, next_step="put the request differently")
        case None:
            return "ERROR", AnswerError(
                kind="network", message="the answer was cut off before its end", next_step="try again"
            )
        case _:
            return "INCOMPLETE", None
