"""Several agents in one task: a plan may name another executor for a subtask than the task's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runner.executors.port import Answer, AnswerError, Ask, Executor, LiveSink, ignore_live
from runner.state import Request
from tracer.errors import PmError

__all__ = ["Roster"]


class Roster:
    """The task's executor, and the others it needs, each made when it is first asked."""

    def __init__(self, first: Executor, *, request: Request, make: Callable[[Request], Executor]) -> None:
        self.name = first.name
        self._own = str(request.executor.get("name"))
        self._executors = {self._own: first}
        self._request = request
        self._make = make

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """See `Executor.ask`; an executor that cannot be made is an answer that says so."""
        name = request.executor or self._own
        if name not in self._executors:
            meant = {**self._request.executor, "name": name, "model": request.model}
            try:
                self._executors[name] = self._make(self._request._replace(executor=meant))
            except PmError as error:
                message = f"{error.what} ({error.why})" if error.why else error.what
                trouble = AnswerError(kind="unavailable", message=message, next_step=error.next_step)
                return Answer(output="", status="ERROR", error=trouble)
        answer = await self._executors[name].ask(request, live=live)
        return answer if name == self._own else replace(answer, extra={"executor": name, **answer.extra})

    async def close(self) -> None:
        """Close those that were made."""
        for executor in self._executors.values():
            await executor.close()
