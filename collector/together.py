"""Small batches that come at the same time, prepared in one pass: most of a search's cost is paid once for all.

A batch that is alone is prepared at once. While others are under way it waits for the event loop to have run what is
ready, and is prepared with whatever came in the meantime. Made and used on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from collector.intake import Asked, PreparedBatch, prepare_one, prepare_together
from collector.redacting import CaptureRedactors
from tracer.errors import PmError

__all__ = ["Together"]

_AT_ONCE: Final = 256 * 1024  # bytes prepared in one pass: the loop does nothing else in the meantime


class _Waiting(NamedTuple):
    asked: Asked
    size: int
    done: asyncio.Future[PreparedBatch]


class Together:
    """See the module."""

    def __init__(self, redactors: CaptureRedactors) -> None:
        self._redactors = redactors
        self._waiting: list[_Waiting] = []

    async def prepare(self, asked: Asked, *, size: int, alone: bool) -> PreparedBatch:
        """The batch as it is stored; `size` is that of what was sent, `alone` that no other is under way.

        Raises:
            IntakeError: a rule is broken.

        """
        if alone and not self._waiting:
            return prepare_one(asked, redactors=self._redactors)
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._prepare_waiting)
        done: asyncio.Future[PreparedBatch] = loop.create_future()
        self._waiting.append(_Waiting(asked, size, done))
        return await done

    def _prepare_waiting(self) -> None:
        taken: list[_Waiting] = []
        size = 0
        for each in self._waiting:
            if taken and size + each.size > _AT_ONCE:
                break
            taken.append(each)
            size += each.size
        del self._waiting[: len(taken)]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._prepare_waiting)
        self._settle([each for each in taken if not each.done.done()])

    def _settle(self, taken: Sequence[_Waiting]) -> None:
        try:
            outcomes = prepare_together([each.asked for each in taken], redactors=self._redactors)
        except Exception as error:  # noqa: BLE001 # a boundary of the loop: every error goes to its caller
            if len(taken) > 1:
                for each in taken:  # so that only the one at fault fails
                    self._settle([each])
            else:
                taken[0].done.set_exception(error)
            return
        for each, outcome in zip(taken, outcomes, strict=True):
            if isinstance(outcome, PmError):
                each.done.set_exception(outcome)
            else:
                each.done.set_result(outcome)
