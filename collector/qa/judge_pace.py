"""Holds the judge's requests to a rate: each takes the next free moment and waits for it.

This one counts within a process; over many machines the moment is kept in PostgreSQL (`collector.worker_pace`).
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from collector.qa.judge_port import JudgeModel, ModelAnswer, Question
from tracer import clock

__all__ = ["LocalPace", "Pace", "PacedModel"]


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


class PacedModel:
    """A judge model that waits for its turn before every request."""

    def __init__(self, model: JudgeModel, pace: Pace) -> None:
        self._model = model
        self._pace = pace

    @property
    def identity(self) -> str:
        """See `JudgeModel.identity`."""
        return self._model.identity

    async def ask(self, question: Question) -> ModelAnswer:
        """See `JudgeModel.ask`."""
        await self._pace.wait()
        return await self._model.ask(question)

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()
