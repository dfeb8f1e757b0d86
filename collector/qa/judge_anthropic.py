"""The judge's questions put to the Messages API, with structured output.

No sampling parameter is sent (the API refuses them); the request blob holds the whole body as sent. The stream is read
to its end, since a reply cut by the peer looks like a short one. Retries are the caller's: every error says whether
another try makes sense.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any, Final

from collector.qa.judge_port import Exchange, JudgeBusyError, ModelAnswer, Question
from collector.qa.rubric import SYSTEM_PROMPT, Reply
from runner.executors.anthropic.classify import classify_error
from runner.executors.anthropic.wire import thinking_option
from runner.executors.credentials import ApiKey
from runner.executors.port import AnswerError
from tracer.errors import ConfigError, CredentialsError, PmError, UnavailableError

__all__ = ["AnthropicJudgeModel"]

_MAX_TOKENS: Final = 16_000
_AGAIN: Final = frozenset({"rate_limit", "overloaded", "network", "timeout"})
_NO_KEY: Final = "set PM_API_KEY or ANTHROPIC_API_KEY, or put the key into a key file with mode 0600"


class AnthropicJudgeModel:
    """Asks `model` through the Messages API. Without a key every question is a `CredentialsError`."""

    def __init__(
        self, *, model: str, key: ApiKey | None, base_url: str | None = None, timeout_s: float = 600.0
    ) -> None:
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ConfigError(
                f"the base URL {base_url!r} is not an http address", next_step="set it as http://… or https://…"
            )
        self._model = model
        self._key = key
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._client: Any = None
        self._schema: dict[str, Any] = {}

    @property
    def identity(self) -> str:
        """See `JudgeModel.identity`."""
        return self._model

    async def ask(self, question: Question) -> ModelAnswer:
        """See `JudgeModel.ask`."""
        if self._key is None or not self._key.value.isascii() or not self._key.value.isprintable():
            what = "the judge has no API key" if self._key is None else f"the key from {self._key.source} is malformed"
            raise CredentialsError(what, next_step=_NO_KEY)
        sdk = await self._connect(self._key)
        body = self._body(question)
        transport_error = importlib.import_module("httpx2").TransportError
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._client.messages.stream(**body) as stream:
                    message = await stream.get_final_message()
        except TimeoutError as error:
            raise JudgeBusyError(f"the judge gave no answer within {self._timeout_s:g} s") from error
        except (sdk.APIError, transport_error) as error:
            raise self._trouble(error) from error
        return self._answer(body, message)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connect(self, key: ApiKey) -> Any:
        # The SDK costs about 2 s to import: it waits for the first question, and leaves the loop free.
        sdk = await asyncio.to_thread(importlib.import_module, "anthropic")
        if self._client is None:
            self._client = sdk.AsyncAnthropic(
                api_key=key.value, base_url=self._base_url, max_retries=0, timeout=self._timeout_s
            )
            self._schema = sdk.transform_schema(Reply)
        return sdk

    def _body(self, question: Question) -> dict[str, Any]:
        messages = [{"role": "user", "content": question.packet.text}]
        if question.repair:
            messages += [
                {"role": "assistant", "content": question.earlier or "(nothing)"},
                {"role": "user", "content": question.repair},
            ]
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": _MAX_TOKENS,
            "system": [{"type": "text", "text": SYSTEM_PROMPT, "cache_control": {"type": "ephemeral"}}],
            "messages": messages,
            "output_config": {"format": {"type": "json_schema", "schema": self._schema}},
        }
        thinking = thinking_option(self._model, wanted=False, max_tokens=_MAX_TOKENS)
        return {**body, "thinking": thinking} if thinking is not None else body

    def _answer(self, body: dict[str, Any], message: Any) -> ModelAnswer:
        if message.stop_reason is None:
            raise JudgeBusyError("the judge's answer was cut off before its end")
        text = "".join(block.text for block in message.content if block.type == "text")
        outcomes = {"refusal": "refused", "max_tokens": "length", "model_context_window_exceeded": "length"}
        return ModelAnswer(
            text=text,
            outcome=outcomes.get(message.stop_reason, "answered"),  # type: ignore[arg-type]  # the values are outcomes
            exchange=Exchange(_json(body), _json(message.to_dict())),
            model=message.model,
        )

    def _trouble(self, error: Any) -> PmError:
        told = classify_error(
            status=getattr(error, "status_code", None),
            body=getattr(error, "body", None),
            headers=getattr(getattr(error, "response", None), "headers", {}),
            text=str(error) or type(error).__name__,
        )
        return _as_error(told, self._key.hide_in(told.message) if self._key is not None else told.message)


def _as_error(told: AnswerError, message: str) -> PmError:
    if told.kind == "auth":
        return CredentialsError("the judge's key was refused", why=message, next_step=told.next_step)
    if told.kind in _AGAIN:
        return JudgeBusyError(
            "the judge cannot answer now", why=message, next_step=told.next_step, retry_after_s=told.retry_after_s
        )
    return UnavailableError("the judge cannot answer this", why=message, next_step="check judge.model and the base URL")


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
