"""What agents ask permission for and a user has to answer: questions wait here, whichever skin shows them.

An executor asks through `PermissionDesk.ask` and gets an answer in any case: the user's, or `no` once `wait_s` has
passed. A question whose task is stopped disappears. Nothing a user typed before a question stood can answer it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from repl.present.text import one_line
from runner.executors.executor_port import PermissionAnswer, PermissionQuestion

_WORDS: dict[str, PermissionAnswer] = {
    "y": "yes", "yes": "yes", "a": "always", "always": "always", "n": "no", "no": "no",
}  # fmt: skip
_TOLD: dict[PermissionAnswer, str] = {"yes": "allowed once", "always": "allowed for this task", "no": "refused"}


class Waiting(NamedTuple):
    """A question and the answer to come; a cancelled answer means that nobody wants it any more."""

    question: PermissionQuestion
    answer: asyncio.Future[PermissionAnswer]


class PermissionDesk:
    """The questions of one session, oldest first. `changed` is called when one comes or goes."""

    def __init__(self, *, wait_s: float, changed: Callable[[], None]) -> None:
        self.wait_s = wait_s
        self.waiting: list[Waiting] = []
        self._changed = changed
        self._came = asyncio.Event()

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """The user's answer; `no` where none comes in time. The executors' `ask_person`."""
        waiting = Waiting(question, asyncio.get_running_loop().create_future())
        self.waiting.append(waiting)
        self._came.set()
        self._changed()
        try:
            async with asyncio.timeout(self.wait_s):
                return await waiting.answer
        except TimeoutError:
            return "no"
        finally:
            waiting.answer.cancel()  # nothing where it is done
            self.waiting.remove(waiting)
            if not self.waiting:
                self._came.clear()
            self._changed()

    async def first(self) -> Waiting:
        """The oldest question, once there is one that has no answer yet."""
        while True:
            await self._came.wait()
            unanswered = self.open_question()
            if unanswered is not None:
                return unanswered
            await asyncio.sleep(0)  # the one that was just answered has not left yet

    def open_question(self) -> Waiting | None:
        return next((waiting for waiting in self.waiting if not waiting.answer.done()), None)

    def answer(self, answer: PermissionAnswer) -> PermissionQuestion | None:
        """Answer the oldest question; returns it, None where there is none."""
        waiting = self.open_question()
        if waiting is None:
            return None
        waiting.answer.set_result(answer)
        return waiting.question


def answer_of(text: str) -> PermissionAnswer | None:
    return _WORDS.get(text.strip().lower())


def question_text(question: PermissionQuestion) -> str:
    """`task-015: goose asks for permission: Run make deploy`, on one line and harmless to a terminal."""
    subtask = f" {one_line(question.subtask_id, 40)}" if question.subtask_id else ""
    asks = f"{one_line(question.agent, 40)} asks for permission: {one_line(question.title, 200)}"
    return f"{question.task_id}{subtask}: {asks}"


def choices_text(question: PermissionQuestion) -> str:
    """`y allow once · a always · n refuse`; the agent's own words where it says what it will not ask for again."""
    always = f"a {one_line(question.always, 60)}" if question.always else "a always this"
    return f"y allow once · {always} · n refuse"


def answered_text(waiting: Waiting) -> str:
    if waiting.answer.cancelled() or not waiting.answer.done():
        return "not answered: refused"
    return _TOLD[waiting.answer.result()]
