"""Shows one task of a session while it runs: facts as finished lines, at most one moving line, JSON lines as stored.

Used by `pm run`, `resume` and `respond`. On a terminal the moving lines are repainted at most ten times a second, and
only when they changed; elsewhere nothing moves and each fact is one line.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Protocol

from repl.context import Context
from repl.exit_codes import code_of
from repl.permissions import Waiting, answer_of, answered_text, choices_text, question_text
from repl.present.blocks import Block
from repl.present.live import stream_lines
from repl.present.outcome import outcome_error, outcome_fields
from repl.present.output import Output
from repl.present.progress import Progress
from repl.present.task_blocks import fact_blocks, tell_result
from repl.present.text import width_cut
from repl.session import Session
from runner.core.task import TaskOutcome
from runner.executors.executor_port import Live
from tracer.clock import monotonic
from tracer.facts import fact_in

_REPAINT_S = 0.1


class Answers(Protocol):
    """Where a user's lines come from (`repl.commands.work.questions.Person`)."""

    async def line(self) -> str | None: ...  # None at the end of the input; safe to cancel
    async def forget_typed(self) -> None: ...


class _MovingLines:
    """The last lines of a terminal; finished lines push them down. A `question` stands in their place."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown: list[str] = []
        self.question = ""

    def show(self, lines: list[str]) -> None:
        cut = [width_cut(line, max(self._output.columns - 1, 10)) for line in lines]
        if cut != self._shown:
            self._write(self._up() + "\n".join(cut))
            self._shown = cut

    def forget(self) -> None:
        """What stands there stays: the user's Enter has ended the line."""
        self._shown = []

    def clear(self) -> None:
        if self._shown:
            self._write(self._up())
            self._shown = []

    def _up(self) -> str:
        """To the first of the lines, with nothing left below."""
        up = len(self._shown) - 1
        return "\r" + (f"\x1b[{up}A" if up > 0 else "") + "\x1b[J"

    def _write(self, text: str) -> None:
        self._output.stderr.write(text)
        self._output.stderr.flush()


async def watch_task(
    session: Session,
    output: Output,
    task_id: str,
    *,
    after: int = -1,
    progress: Progress | None = None,
    person: Answers | None = None,
) -> TaskOutcome:
    """Show the task until it rests, and return how it stands; `person` answers what agents ask permission for."""
    progress = progress or Progress(task_id)
    progress.in_place = output.interactive and not output.quiet
    moving = _MovingLines(output) if output.interactive and not output.quiet else None

    def take(update: Live | None) -> None:
        if update is not None and update.task_id == task_id:
            progress.live(update, now=monotonic())

    unlisten = session.listen(take)
    helpers = [asyncio.create_task(_paint(moving, progress, columns=output.columns))] if moving else []
    if moving and person is not None:
        helpers.append(asyncio.create_task(_answer_questions(session, output, moving, person)))
    try:
        async for seq, line in session.facts(task_id):
            if output.form == "jsonl" and seq > after:
                output.data(line)
            fact = fact_in(line)
            lines = progress.fact(fact, now=monotonic())
            if seq > after and output.human:
                if moving and lines:
                    moving.clear()
                for block in fact_blocks(fact, lines):
                    output.note("\n".join(output.rendered(block)))
        return await session.wait(task_id)
    finally:
        unlisten()
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        if moving:
            moving.clear()
            for text in progress.table(most=40):
                output.note(text)


async def close_task(context: Context, outcome: TaskOutcome, progress: Progress) -> int:
    output, command = context.output, context.command
    error = outcome_error(outcome, max_iterations=progress.max_iterations, prefix=progress.prefix)
    await tell_result(output, outcome, progress, asked=False)
    output.block(Block("task", progress.closing(outcome)))
    fields = outcome_fields(outcome)
    if outcome.chain_head:  # the records of --json and --jsonl hold it already
        output.detail(f"  chain head {outcome.chain_head}")
    if error is None:
        output.note(f"  {progress.hints(outcome)}")
        output.result(command, fields)
        return 0
    code = code_of(error.code)
    output.failure(command, error, code, fields)
    output.error(error)
    return int(code)


async def _paint(moving: _MovingLines, progress: Progress, *, columns: int) -> None:
    while True:
        now = monotonic()
        if moving.question:
            moving.show([f"  {moving.question}"])
        else:
            streamed = stream_lines(progress.stream, now=now, columns=columns, rows=0)
            lines = [*streamed, *progress.table(now), progress.board.bar(now=now)]
            moving.show([*filter(None, lines), "  " + progress.status(now, spent=True)])
        await asyncio.sleep(_REPAINT_S)


async def _answer_questions(session: Session, output: Output, moving: _MovingLines, person: Answers) -> None:
    """Put each question to the user, one at a time; at the end of the input everything is refused."""
    while True:
        waiting = await session.permissions.first()
        await person.forget_typed()
        moving.clear()
        output.note(f"  {question_text(waiting.question)}")
        while not waiting.answer.done():
            moving.question = f"{choices_text(waiting.question)}? "
            await _one_answer(session, waiting, moving, person)
        moving.question = ""
        moving.clear()
        output.note(f"  {answered_text(waiting)}")


async def _one_answer(session: Session, waiting: Waiting, moving: _MovingLines, person: Answers) -> None:
    """Wait for a line, or until nobody wants an answer any more."""
    typing = asyncio.ensure_future(person.line())
    either: set[asyncio.Future[Any]] = {typing, waiting.answer}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if typing.done() and not waiting.answer.done():
            moving.forget()
            text = typing.result()
            answer = "no" if text is None else answer_of(text)
            if answer is not None:
                session.permissions.answer(answer)
    finally:
        typing.cancel()
        with suppress(asyncio.CancelledError):
            await typing
