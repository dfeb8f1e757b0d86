"""The rubric judge (ask, check, repair once, vote, combine) and which one the settings ask for."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from collector.judge.models import (
    AnthropicJudgeModel,
    Pace,
    PacedModel,
    RecordedJudgeModel,
    RecordingModel,
    read_recording,
)
from collector.judge.packet import Packet
from collector.judge.port import Exchange, JudgeModel, JudgeResult, Question
from collector.judge.verdict import RUBRIC_VERSION, Opinion, combine, no_verdict, read_reply, repair_prompt
from runner.executors.credentials import find_api_key
from tracer.redaction.cuts import beginning
from tracer.settings.layers import Settings

_ATTEMPTS = 2
_EARLIER_SHOWN = 20_000
_TOO_LONG = "it was cut off at the length limit; shorter reasons fit"


@dataclass(slots=True)
class _Vote:
    """What one vote came to; `trouble` is why it has no opinion."""

    opinion: Opinion | None = None
    trouble: str = ""
    refused: bool = False
    model: str = ""
    exchanges: list[Exchange] = field(default_factory=list)


class RubricJudge:
    """Scores packets by rubric v1 with `votes` independent answers of `model`, asked for together."""

    def __init__(self, model: JudgeModel, *, votes: int = 1) -> None:
        self._model = model
        self._votes = votes

    @property
    def identity(self) -> str:
        return f"{self._model.identity} rubric={RUBRIC_VERSION} votes={self._votes}"

    async def judge(self, packet: Packet) -> JudgeResult:
        if not packet.event_ids:
            return no_verdict(
                model=self._model.identity,
                flags=("judge_skipped",),
                reason="the trace holds no event that a score could rest on",
            )
        votes = await self._gather(packet)
        opinions = [vote.opinion for vote in votes if vote.opinion is not None]
        exchanges = tuple(exchange for vote in votes for exchange in vote.exchanges)
        model = votes[0].model
        if len(opinions) * 2 > len(votes):
            return combine(opinions, votes=len(votes), model=model, exchanges=exchanges)
        refused = any(vote.refused for vote in votes)
        trouble = "; ".join(dict.fromkeys(vote.trouble for vote in votes if vote.trouble))
        flags = ("judge_refused",) if refused else ("judge_unparsed",)
        return no_verdict(model=model, flags=flags, reason=trouble, votes=len(votes), exchanges=exchanges)

    async def close(self) -> None:
        await self._model.close()

    async def _gather(self, packet: Packet) -> list[_Vote]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._vote(packet, number)) for number in range(self._votes)]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return [task.result() for task in tasks]

    async def _vote(self, packet: Packet, number: int) -> _Vote:
        vote, question = _Vote(), Question(packet=packet, vote=number)
        for attempt in range(_ATTEMPTS):
            answer = await self._model.ask(question)
            vote.exchanges.append(answer.exchange)
            vote.model = answer.model
            if answer.outcome == "refused":
                vote.refused, vote.trouble = True, "the model declined to grade this record"
                return vote
            if answer.outcome == "length":
                problems: tuple[str, ...] = (_TOO_LONG,)
            else:
                read = read_reply(answer.text, packet)
                vote.opinion, problems = read.opinion or vote.opinion, read.problems
                if not problems or read.tripped:
                    vote.trouble = problems[0] if problems else ""
                    vote.opinion = None if read.tripped else vote.opinion
                    return vote
            vote.trouble = "; ".join(problems)
            question = Question(
                packet=packet,
                vote=number,
                attempt=attempt + 1,
                earlier=beginning(answer.text, _EARLIER_SHOWN),
                repair=repair_prompt(problems),
            )
        return vote


_OFF = "the judge is switched off (judge.mode)"
_NO_KEY = "no judge is set up: no API key (PM_API_KEY, ANTHROPIC_API_KEY or a key file) and no judge.recording"


class ChosenJudge(NamedTuple):
    """The judge, or None and why there is none."""

    judge: RubricJudge | None
    why: str = ""


def choose_model(settings: Settings, environ: Mapping[str, str]) -> tuple[JudgeModel | None, str]:
    """The model the settings name, or None and why."""
    if settings.get("judge.mode") == "off":
        return None, _OFF
    recording = settings.get("judge.recording")
    if recording:
        replies = read_recording(Path(str(recording)).expanduser())
        told = "\n".join(reply.model_dump_json() for reply in replies)
        return RecordedJudgeModel(replies, name=f"recorded:{hashlib.sha256(told.encode()).hexdigest()[:16]}"), ""
    key_file = settings.get("anthropic.key_file")
    key = find_api_key(environ, key_file=Path(key_file).expanduser() if key_file else None)
    if key is None and settings.get("judge.mode") != "on":
        return None, _NO_KEY
    return AnthropicJudgeModel(
        model=str(settings.get("judge.model")),
        key=key,
        base_url=settings.get("judge.base_url") or settings.get("anthropic.base_url"),
        timeout_s=float(settings.get("judge.timeout")),
    ), ""


def choose_judge(
    settings: Settings, environ: Mapping[str, str], *, pace: Pace | None = None, record: Path | None = None
) -> ChosenJudge:
    """The judge the settings ask for (raises as `choose_model`); `record` is a file that its answers are written to."""
    model, why = choose_model(settings, environ)
    if model is None:
        return ChosenJudge(None, why)
    if record is not None:
        model = RecordingModel(model, record)
    return ChosenJudge(RubricJudge(PacedModel(model, pace) if pace else model, votes=int(settings.get("judge.votes"))))
