"""What answers the judge: the Messages API, a recording, a recorder of answers, a rate limit.

No sampling parameter is sent; the request blob holds the whole body. Retries are the caller's. A recording is JSON
lines; the first line whose given fields match the question answers it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collector.judge.port import Exchange, JudgeBusyError, JudgeModel, ModelAnswer, Outcome, Question
from collector.judge.verdict import SYSTEM_PROMPT, Reply
from runner.executors.anthropic.wire import thinking_option
from runner.executors.credentials import ApiKey
from runner.executors.provider_errors import classify_error
from tracer import clock
from tracer.errors import ConfigError, CredentialsError, PmError, RecordError, UnavailableError, needs_extra

_MOST_BYTES = 64 << 20


class RecordedReply(BaseModel):
    """One line of a recording."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    packet: str | None = None
    vote: Annotated[int, Field(ge=0)] | None = None
    attempt: Annotated[int, Field(ge=0)] | None = None
    outcome: Outcome = "answered"
    text: str = ""
    reply: dict[str, Any] | None = None
    model: str = "recorded"

    def answers(self, question: Question) -> bool:
        """Whether this line is the answer to `question`."""
        return (
            self.packet in {None, question.packet.content_hash}
            and self.vote in {None, question.vote}
            and self.attempt in {None, question.attempt}
        )


class RecordedJudgeModel:
    """Plays `replies`; a question that none of them answers is an `UnavailableError`."""

    def __init__(self, replies: Sequence[RecordedReply], *, name: str) -> None:
        self._replies = tuple(replies)
        self._name = name

    @property
    def identity(self) -> str:
        return self._name

    async def ask(self, question: Question) -> ModelAnswer:
        found = next((reply for reply in self._replies if reply.answers(question)), None)
        if found is None:
            raise UnavailableError(
                "the recording holds no answer to this packet",
                why=f"no line for {question.packet.content_hash}, vote {question.vote}, attempt {question.attempt}",
                next_step="add a line without a packet, or record one: pm capture judge TRACE --record FILE",
            )
        text = found.text if found.reply is None else json.dumps(found.reply)
        sent = {"packet": question.packet.text, "vote": question.vote, "attempt": question.attempt}
        if question.repair:
            sent["repair"] = question.repair
        return ModelAnswer(
            text=text,
            outcome=found.outcome,
            exchange=Exchange(_json(sent), _json({"recorded": True, "outcome": found.outcome, "text": text})),
            model=found.model,
        )

    async def close(self) -> None:
        """Nothing is open."""


_Line = TypeVar("_Line", bound=BaseModel)


def read_lines(path: Path, model: type[_Line], *, what: str, form: str) -> list[_Line]:
    """The JSON lines of a file; a ConfigError names `what` it is, the line and the `form` that a line has."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(f"the {what} {path.name!r} cannot be read", why=why, next_step=form) from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"the {what} {path.name!r} is larger than {_MOST_BYTES >> 20} MB")
    found = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                found.append(model.model_validate_json(line))
            except ValidationError as error:
                fault = error.errors(include_url=False, include_input=False)[0]
                raise ConfigError(
                    f"line {number} of the {what} {path.name!r} cannot be used",
                    why=f"{'.'.join(map(str, fault['loc'])) or 'line'}: {fault['msg']}",
                    next_step=form,
                ) from error
    return found


def read_recording(path: Path) -> list[RecordedReply]:
    """The lines of a recording."""
    return read_lines(path, RecordedReply, what="recording", form="check judge.recording: docs/judge.md has its form")


class _Wrapped:
    """What a judge model around another one hands on."""

    def __init__(self, model: JudgeModel) -> None:
        self._model = model

    @property
    def identity(self) -> str:
        return self._model.identity

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()


class RecordingModel(_Wrapped):
    """A judge model whose answers are also written to `path`, as lines of a recording."""

    def __init__(self, model: JudgeModel, path: Path) -> None:
        super().__init__(model)
        self._path = path

    async def ask(self, question: Question) -> ModelAnswer:
        """See `JudgeModel.ask`; a RecordError where the line cannot be written."""
        answer = await self._model.ask(question)
        try:
            with self._path.open("ab") as file:
                file.write(recorded_line(question, answer))
        except OSError as error:
            raise RecordError(f"the recording {self._path.name!r} cannot be written", why=error) from error
        return answer


def recorded_line(question: Question, answer: ModelAnswer) -> bytes:
    """A live answer as a line of a recording."""
    line: Mapping[str, Any] = {
        "packet": question.packet.content_hash,
        "vote": question.vote,
        "attempt": question.attempt,
        "outcome": answer.outcome,
        "text": answer.text,
        "model": answer.model,
    }
    return _json(line) + b"\n"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


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
        return self._model

    async def ask(self, question: Question) -> ModelAnswer:
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
            raise _trouble(error, self._key) from error
        return self._answer(body, message)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connect(self, key: ApiKey) -> Any:
        # The SDK costs about 2 s to import: it waits for the first question, and leaves the loop free.
        with needs_extra("anthropic", wanted_by="the judge"):
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


def _trouble(error: Any, key: ApiKey) -> PmError:
    told = classify_error(
        status=getattr(error, "status_code", None),
        body=getattr(error, "body", None),
        headers=getattr(getattr(error, "response", None), "headers", {}),
        text=str(error) or type(error).__name__,
    )
    why = key.hide_in(told.message)
    if told.kind == "auth":
        return CredentialsError("the judge's key was refused", why=why, next_step=told.next_step)
    if told.kind in _AGAIN:
        return JudgeBusyError(
            "the judge cannot answer now", why=why, next_step=told.next_step, retry_after_s=told.retry_after_s
        )
    return UnavailableError("the judge cannot answer this", why=why, next_step="check judge.model and the base URL")


class Pace(Protocol):
    """A rate shared by everyone who waits for it."""

    async def wait(self) -> None:
        """Return when the next request may leave."""
        ...


class LocalPace:
    """At most `per_minute` requests a minute from this process, evenly spaced."""

    def __init__(self, per_minute: float) -> None:
        self._gap_s = 60.0 / per_minute
        self._next = 0.0

    async def wait(self) -> None:
        """Return when the next request may leave."""
        now = clock.monotonic()
        due = max(self._next, now)
        self._next = due + self._gap_s
        if due > now:
            await asyncio.sleep(due - now)


class PacedModel(_Wrapped):
    """A judge model that waits for its turn before every request."""

    def __init__(self, model: JudgeModel, pace: Pace) -> None:
        super().__init__(model)
        self._pace = pace

    async def ask(self, question: Question) -> ModelAnswer:
        await self._pace.wait()
        return await self._model.ask(question)
