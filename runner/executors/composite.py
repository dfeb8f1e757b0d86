"""Executors made of others: `FallbackExecutor` (first available answers), `Roster` (one per subtask)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runner.core.request import Request
from runner.executors.executor_port import Answer, Ask, Executor, Live, LiveSink, ignore_live
from tracer.errors import CredentialsError, PmError, UnavailableError
from tracer.names import ErrorKind


class FallbackExecutor:
    """Tries executors in order; each is made when it is first needed."""

    continues_sessions = True
    plans = True  # has a model that can be asked for a plan

    def __init__(self, names: Sequence[str], make: Callable[[str], Executor]) -> None:
        self.name = names[0]
        self._names = tuple(names)
        self._make = make
        self._made: dict[str, Executor] = {}

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """The first answer whose trouble is not "unavailable", else the last one."""
        passed: list[dict[str, Any]] = []
        answer = Answer(output="", status="ERROR")
        for number, name in enumerate(self._names):
            asked = request if number == 0 else request._replace(model=None)  # a model name belongs to one provider
            answer = await self._ask_one(name, asked, live)
            if answer.error is None or answer.error.kind != "unavailable":
                return self._with_record(answer, name, passed)
            passed.append({"executor": name, "why": answer.error.message})
            if number + 1 < len(self._names):
                text = f"{name} is unavailable ({answer.error.message}); asking {self._names[number + 1]}"
                live(Live(kind="notice", text=text, task_id=request.task_id, subtask_id=request.subtask_id))
        return self._with_record(answer, self._names[-1], passed[:-1])

    async def _ask_one(self, name: str, request: Ask, live: LiveSink) -> Answer:
        try:
            if name not in self._made:
                self._made[name] = self._make(name)
        except (UnavailableError, CredentialsError) as error:
            message = f"{error.what} ({error.why})" if error.why else error.what
            kind: ErrorKind = "auth" if isinstance(error, CredentialsError) else "unavailable"
            return Answer.failed(kind, message, error.next_step)
        return await self._made[name].ask(request, live=live)

    def _with_record(self, answer: Answer, name: str, passed: list[dict[str, Any]]) -> Answer:
        if not passed:
            return answer
        return answer._replace(extra={**answer.extra, "executor": name, "fallback_from": passed})

    async def close(self) -> None:
        """Close those that were used."""
        made, self._made = self._made, {}
        for executor in made.values():
            await executor.close()


class Roster:
    """The task's executor, and the others it needs, each made when it is first asked."""

    def __init__(self, first: Executor, *, request: Request, make: Callable[[Request], Executor]) -> None:
        self.name = first.name
        self._own = request.executor.name
        self._executors = {self._own: first}
        self._request = request
        self._make = make

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """An executor that cannot be made is an answer that says so."""
        name = request.executor or self._own
        if name not in self._executors:
            meant = self._request.executor.changed(name=name, model=request.model)
            try:
                self._executors[name] = self._make(self._request._replace(executor=meant))
            except PmError as error:
                message = f"{error.what} ({error.why})" if error.why else error.what
                return Answer.failed("unavailable", message, error.next_step)
        answer = await self._executors[name].ask(request, live=live)
        return answer if name == self._own else answer._replace(extra={"executor": name, **answer.extra})

    async def close(self) -> None:
        """Close those that were made."""
        for executor in self._executors.values():
            await executor.close()
