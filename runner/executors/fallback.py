"""A list of executors, of which the first that is there answers.

Only "unavailable" passes a question on: not installed, too old, no such model. A refused key, a rate limit or a bad
answer never does, since another agent would hide it. Which one answered, and why the others did not, is in the
answer's `extra` and so in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from runner.executors.port import Answer, AnswerError, Ask, ErrorKind, Executor, Live, LiveSink, ignore_live
from tracer.errors import CredentialsError, UnavailableError

__all__ = ["FallbackExecutor"]


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
        """See `Executor.ask`: the first answer whose trouble is not "unavailable", else the last one."""
        passed: list[dict[str, Any]] = []
        answer = Answer(output="", status="ERROR")
        for number, name in enumerate(self._names):
            asked = request if number == 0 else replace(request, model=None)  # a model name belongs to one provider
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
            told = AnswerError(kind=kind, message=message, next_step=error.next_step)
            return Answer(output="", status="ERROR", error=told)
        return await self._made[name].ask(request, live=live)

    def _with_record(self, answer: Answer, name: str, passed: list[dict[str, Any]]) -> Answer:
        if not passed:
            return answer
        return replace(answer, extra={**answer.extra, "executor": name, "fallback_from": passed})

    async def close(self) -> None:
        """Close those that were used."""
        made, self._made = self._made, {}
        for executor in made.values():
            await executor.close()
