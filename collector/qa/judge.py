"""The judge itself, whatever model answers: ask, check, repair once, vote, combine.

A reply is never believed: schema, canary and citations are checked here, and the overall is computed here. What stays
unusable after one repair gives null scores and a flag, since an invented number would be trained on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from collector.qa.citations import Opinion, read_reply
from collector.qa.judge_port import Exchange, JudgeModel, JudgeResult, Question
from collector.qa.packet import Packet
from collector.qa.rubric import RUBRIC_VERSION, repair_prompt
from collector.qa.verdict import combine, no_verdict

__all__ = ["RubricJudge"]

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
    """Scores packets by rubric v1 with `votes` independent answers of `model`, asked for one at a time or together."""

    def __init__(self, model: JudgeModel, *, votes: int = 1, together: bool = True) -> None:
        self._model = model
        self._votes = votes
        self._together = together

    @property
    def identity(self) -> str:
        """See `Judge.identity`."""
        return f"{self._model.identity} rubric={RUBRIC_VERSION} votes={self._votes}"

    async def judge(self, packet: Packet) -> JudgeResult:
        """See `Judge.judge`."""
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
        """Close the model's connections."""
        await self._model.close()

    async def _gather(self, packet: Packet) -> list[_Vote]:
        if not self._together:
            return [await self._vote(packet, number) for number in range(self._votes)]
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
                earlier=answer.text[:_EARLIER_SHOWN],
                repair=repair_prompt(problems),
            )
        return vote
