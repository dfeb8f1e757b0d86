"""Follows the tasks of a session and prints each fact once, above the prompt; used by line mode and piped lines.

One follower for each task, started when the task starts here. The views read `progress` for what moves. A follower that
fails says so in one line and ends; the task and its record go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from repl.exit_codes import ExitCode, code_of
from repl.permissions import Waiting, answered_text, choices_text, question_text
from repl.present.blocks import Block
from repl.present.outcome import outcome_error
from repl.present.output import Output
from repl.present.progress import Progress, numbered
from repl.present.task_blocks import NARROW, fact_blocks, tell_result
from repl.present.text import one_line, width_of
from repl.session import Session
from repl.shell import for_session
from runner.core.task import TaskOutcome
from runner.executors.executor_port import Live
from tracer.clock import monotonic
from tracer.errors import PmError
from tracer.facts import fact_in

_TO_TELL_S = 2.0
_REPAINT_S = 0.1


class Feed:
    """What the running tasks say. Calls `ended(outcome, seconds)` when one rests, `asked(task id)` for a question."""

    def __init__(
        self,
        session: Session,
        output: Output,
        *,
        changed: Callable[[], None],
        ended: Callable[[TaskOutcome, float], None],
        table: bool = False,
        asked: Callable[[str], None] = lambda _task_id: None,
    ) -> None:
        self.session = session
        self.output = output
        self.progress: dict[str, Progress] = {}
        self.worst = 0
        self.detail = False
        self._changed = changed
        self._ended = ended
        self._asked = asked
        self._questions: list[Waiting] = []
        self._table = table
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._among: set[str] = set()  # tasks that were at work beside others: their lines are told apart to the end
        self._seen: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._changed_at = 0.0
        self._may_print = asyncio.Event()
        self._may_print.set()
        self._unlisten = session.listen(self._listen)

    @property
    def shown(self) -> Progress | None:
        """The progress of the task in the foreground: the current one while it runs, else the newest that runs."""
        running = self.session.running
        if not running:
            return None
        current = self.session.current if self.session.current in running else running[-1]
        return self.progress.get(current or "")

    async def drain(self) -> None:
        while followers := [task for task in self._followers.values() if not task.done()]:
            await asyncio.gather(*followers, return_exceptions=True)

    async def close(self) -> None:
        """Stop showing; what ended is still told to its end: the user may have waited for just that."""
        self._unlisten()
        going_on = {*self.session.running, *self.session.followed}
        ended = [follower for task_id, follower in self._followers.items() if task_id not in going_on]
        if ended:
            await asyncio.wait(ended, timeout=_TO_TELL_S)
        for follower in self._followers.values():
            follower.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)

    def adopt(self) -> None:
        """Follow what runs and tell what is asked; what was shown before a change of skin is not shown again."""
        for task_id in (*self.session.running, *self.session.followed):
            self._start(task_id)
        self._tell_questions()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Print nothing meanwhile; the facts wait in their file."""
        self._may_print.clear()
        try:
            yield
        finally:
            self._may_print.set()

    def _listen(self, update: Live | None) -> None:
        if update is None:
            self.adopt()
        elif (progress := self.progress.get(update.task_id)) is not None:
            progress.live(update, now=monotonic())
            if monotonic() - self._changed_at < _REPAINT_S:
                return  # the view's own tick shows it
        self._changed_at = monotonic()
        self._changed()

    def _tell_questions(self) -> None:
        waiting = self.session.permissions.waiting
        for one in [told for told in self._questions if told not in waiting]:
            self._questions.remove(one)
            self.output.note(f"  {answered_text(one)}")
        for one in waiting:
            if one not in self._questions:
                self._questions.append(one)
                self.output.note(f"  {question_text(one.question)}")
                if not self._table:  # else it stands where the moving lines are
                    self.output.note(f"      {choices_text(one.question)}, then Enter")
                self._asked(one.question.task_id)

    def _start(self, task_id: str) -> None:
        follower = self._followers.get(task_id)
        if follower is None or follower.done():
            self._followers[task_id] = asyncio.get_running_loop().create_task(self._follow(task_id))

    async def _follow(self, task_id: str) -> None:
        started = monotonic()
        progress = self.progress.setdefault(task_id, Progress(task_id, prefix="/", table=self._table))
        try:
            outcome = await self._print(task_id, progress)
        except PmError as error:
            self.worst = max(self.worst, int(code_of(error.code)))
            self.output.error(for_session(error))
            return
        except OSError as error:
            self.worst = max(self.worst, int(ExitCode.TRACE))
            self.output.note(f"{task_id}: {error}")
            return
        await self._close(outcome, progress)
        self._ended(outcome, monotonic() - started)
        self._changed()

    async def _print(self, task_id: str, progress: Progress) -> TaskOutcome:
        path = str(self.session.resolve(task_id).path)
        after = self._seen.get(path, self.session.seen.get(path, -1))
        async for seq, line in self.session.facts(task_id):
            await self._may_print.wait()
            known = self._told.get(path, -1)
            progress.narrow = 0 < self.output.columns < NARROW
            fact = fact_in(line)
            lines = progress.fact(fact, now=monotonic()) if seq > known else []
            self._told[path] = max(known, seq)
            if seq <= after:
                continue  # shown before, perhaps by another skin: counted, not printed again
            self._seen[path] = self.session.seen[path] = seq
            if self.output.form == "jsonl":
                self.output.data(line)
            at_work = {*self.session.running, *self.session.followed}
            self._among |= at_work if len(at_work) > 1 else set()
            for block in fact_blocks(fact, numbered(lines, task_id if task_id in self._among else "")):
                self.output.block(block)
            self._changed()
        return await self.session.wait(task_id)

    async def _close(self, outcome: TaskOutcome, progress: Progress) -> None:
        error = outcome_error(outcome, max_iterations=progress.max_iterations, prefix="/")
        self.output.lines(progress.table())
        await tell_result(self.output, outcome, progress)
        closing, hints = progress.closing(outcome), "" if error else f"      {progress.hints(outcome)}"
        beside = not 0 < self.output.columns < width_of(closing) + width_of(hints)
        self.output.block(Block("task", closing + (hints if beside else "")))
        if hints and not beside:
            self.output.line(f"  {hints.strip()}")
        if error is not None:
            self.worst = max(self.worst, int(code_of(error.code)))
            what = f"{error.what}   " if outcome.status in {"INCOMPLETE", "ERROR", "AWAITING_RESPONSE"} else ""
            self.output.note(f"  {what}{for_session(error).next_step}".rstrip())
            if outcome.status in {"ERROR", "CANCELLED"} and error.why:
                self.output.note(f"  {one_line(error.why, 200)}")
