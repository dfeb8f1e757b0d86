"""A judge model that answers from a recording, so that demos, tests and calibration run without a key or a network.

A recording is JSON lines: `{"packet": "sha256:…"?, "vote": 0?, "attempt": 0?, "outcome": "answered"?, "text": "…"}` (or
`"reply": {…}` instead of `text`). The first line whose given fields match the question answers it, so the same
question always gets the same answer. Recorded replies pass the same checks as live ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collector.qa.judge_port import Exchange, JudgeModel, ModelAnswer, Outcome, Question
from tracer.errors import ConfigError, RecordError, UnavailableError

__all__ = ["RecordedJudgeModel", "RecordedReply", "RecordingModel", "read_recording", "recorded_line"]

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
        """See `JudgeModel.identity`."""
        return self._name

    async def ask(self, question: Question) -> ModelAnswer:
        """See `JudgeModel.ask`."""
        found = next((reply for reply in self._replies if reply.answers(question)), None)
        if found is None:
            raise UnavailableError(
                "the recording holds no answer to this packet",
                why=f"no line for {question.packet.content_hash}, vote {question.vote}, attempt {question.attempt}",
                next_step="add a line without a packet, or record one: pm judge TRACE --record FILE",
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


def read_recording(path: Path) -> list[RecordedReply]:
    """The lines of a recording.

    Raises:
        ConfigError: the file cannot be read, or a line is none of a recording.

    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the recording {path.name!r} cannot be read",
            why=error.strerror or str(error),
            next_step="check judge.recording",
        ) from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"the recording {path.name!r} is larger than {_MOST_BYTES >> 20} MB")
    replies = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                replies.append(RecordedReply.model_validate_json(line))
            except ValidationError as error:
                fault = error.errors(include_url=False, include_input=False)[0]
                raise ConfigError(
                    f"line {number} of the recording {path.name!r} cannot be used",
                    why=f"{'.'.join(map(str, fault['loc'])) or 'line'}: {fault['msg']}",
                    next_step="one JSON object a line: docs/judge.md",
                ) from error
    return replies


class RecordingModel:
    """A judge model whose answers are also written to `path`, as lines of a recording."""

    def __init__(self, model: JudgeModel, path: Path) -> None:
        self._model = model
        self._path = path

    @property
    def identity(self) -> str:
        """See `JudgeModel.identity`."""
        return self._model.identity

    async def ask(self, question: Question) -> ModelAnswer:
        """See `JudgeModel.ask`; a RecordError where the line cannot be written."""
        answer = await self._model.ask(question)
        try:
            with self._path.open("ab") as file:
                file.write(recorded_line(question, answer))
        except OSError as error:
            raise RecordError(
                f"the recording {self._path.name!r} cannot be written", why=error.strerror or str(error)
            ) from error
        return answer

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()


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


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
