"""Tasks in the full screen: the list, one task as lines, and one task as a screen of its own."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from rich.segment import Segment
from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.events import Click
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static
from typing_extensions import override

from repl.commands.look.tasks import next_steps
from repl.present.answer import answer_lines
from repl.present.blocks import block_lines
from repl.present.cells import fit, shown
from repl.present.live import stream_lines
from repl.present.progress import Progress, short_id
from repl.present.task_blocks import question_block
from repl.present.text import ascii_only, cost_text, one_line, spark_text, strip_text
from repl.screen.desk import Desk
from repl.screen.hints import Hints
from repl.screen.keymap import KEYS
from repl.screen.line_view import CursorView
from repl.screen.outside import open_file
from repl.screen.pickers import Choice, Question
from runner.core.evolve import fold
from tracer.catalog.tasks import TaskRow
from tracer.clock import monotonic, seconds_text
from tracer.errors import PmError
from tracer.facts import Question as Asked
from tracer.facts import fact_in
from tracer.journal.reading import iter_lines, read_entries

_MAX_FACTS: Final = 5_000
_CHECKED, _SPARKS, _AGENT = 62, 74, 90  # columns of a list that tells what was verified, tokens and time, the agent
_PANE: Final = 60  # columns of the pane beside the list


def read_task(row: TaskRow) -> list[str]:
    """The task's lines, read from its newest file. Reads the disk: call it in a thread."""
    progress = Progress(row.task_id, prefix="/", table=True)
    progress.narrow = True  # a pane beside the list holds 60 columns
    printed: list[str] = []
    try:
        for number, (_seq, line) in enumerate(iter_lines(Path(row.trace_file))):
            if number >= _MAX_FACTS:
                printed.append(f"  … more than {_MAX_FACTS:,} events: t shows all")
                break
            fact = fact_in(line)
            printed += progress.fact(fact, now=0.0) if fact else ["  ? a line that cannot be read"]
    except (OSError, PmError) as error:
        printed.append(f"  the trace cannot be read: {error}")
    return task_lines(row, printed, progress)


def read_question(row: TaskRow) -> Asked | None:
    """What a waiting task asks; None where it waits at its limit."""
    try:
        return fold(read_entries(row.trace_file)).question
    except (OSError, PmError):
        return None


def task_lines(row: TaskRow, printed: Iterable[str], progress: Progress) -> list[str]:
    agent = one_line(" ".join(part for part in (row.executor, row.model) if part)) or "executor n/a"
    standing = [row.status + (f" ({one_line(row.reason)})" if row.reason else ""), agent, cost_text(row.cost_usd)]
    lines = [one_line(row.title), " · ".join(standing)]
    if bar := progress.board.bar():
        lines += ["", *progress.table(most=40), f"  {bar}"]
    lines += ["", *printed]
    if progress.answer:
        lines += ["", *answer_lines(progress.answer, columns=_PANE, whole_by=progress.whole_by)]
    if (question := progress.question) is not None:
        lines += ["", *block_lines(question_block(question, row.task_id), columns=_PANE, colour=False)]
    if row.damaged:
        lines += ["", f"  {row.damaged} damaged lines: /trace verify {short_id(row.task_id)}"]
    if row.status == "UNFINISHED":
        lines += ["", f"  unfinished after {one_line(row.last_event)}"]
    return [*lines, "", f"  next:  {next_steps(row, '/', changed=progress.changed, allow=progress.allowable)}"]


_WORDS = {
    "RUNNING": "run", "QUEUED": "wait", "AWAITING_RESPONSE": "asks", "UNFINISHED": "stop", "COMPLETE": "done",
    "INCOMPLETE": "limit", "ERROR": "error", "CANCELLED": "ended",
}  # fmt: skip
_MARKS = {"COMPLETE": "good", "ERROR": "bad", "INCOMPLETE": "bad", "AWAITING_RESPONSE": "strong", "RUNNING": "strong"}


class TaskList(CursorView, inherit_bindings=False):
    """The list; `rows` are shown as they are given. Posts `Moved` when another task is selected."""

    STYLE_PREFIX = "task-list"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "task-list--cursor", "task-list--good", "task-list--bad", "task-list--strong", "task-list--dim",
    }  # fmt: skip
    HELP = "The tasks of this project, newest first. Letters act on the selected one; : runs any command."

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.rows: Sequence[TaskRow] = ()
        self._priced = self._counted = False
        self._judged = 0

    def show(self, rows: Sequence[TaskRow]) -> None:
        selected = self.selected
        if rows == self.rows:
            return
        if rows and not self.has_focus and rows[0].task_id not in {row.task_id for row in self.rows}:
            selected = rows[0]  # the task that has just begun; a user who is choosing here keeps theirs
        self.rows = rows
        self._priced = any(row.cost_usd is not None for row in rows)  # else titles get the room
        self._counted = any(row.tokens for row in rows)
        self._judged = max((len(row.judgments[-5:]) for row in rows), default=0)
        at = next((n for n, row in enumerate(rows) if selected is not None and row.task_id == selected.task_id), None)
        self.set_reactive(TaskList.cursor, min(self.cursor if at is None else at, max(len(rows) - 1, 0)))
        self.lines_changed()
        self.show_cursor()
        self.post_message(self.Moved(self.cursor))

    @property
    def selected(self) -> TaskRow | None:
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    @override
    def line_count(self) -> int:
        return len(self.rows)

    def on_click(self, event: Click) -> None:
        if (number := self.clicked(event)) is not None:
            self.cursor = number

    @override
    def render_line(self, y: int) -> Strip:
        if self.rows or y >= 2:
            return super().render_line(y)
        text = ("no tasks in this project", "type a request, or /demo")[y]
        text = fit(f" {text}", self.scrollable_content_region.width)
        return Strip([Segment(text, self.tone("dim"))]).apply_style(self.rich_style)

    @override
    def line(self, number: int, width: int) -> Strip:
        row = self.rows[number]
        identity = short_id(row.task_id)
        here = ">" if number == self.cursor else " "
        left = f"{here} {identity.rjust(3, '0') if identity.isdigit() else shown(identity)} "
        word = f"{_WORDS.get(row.status, shown(row.status).lower()):<5} "
        cost = "" if row.cost_usd is None else cost_text(row.cost_usd)
        sparks = self._counted and width >= _SPARKS
        parts = [
            f"{strip_text(row.judgments[-5:]):<{self._judged}}",
            f"{ {'verified': 'ok', 'failed': 'no'}.get(row.verification, ''):<2}" if width >= _CHECKED else "",
            f"{spark_text(row.tokens[-5:]):<5} {seconds_text(row.worked_ms or None):>10}" if sparks else "",
            f"{fit(shown(row.executor), 8)}" if width >= _AGENT else "",
            f"{cost:>7}" if width >= 34 and self._priced else "",
        ]
        right = " ".join(part for part in parts if part)
        right = ascii_only(right) if self.app.has_class("-ascii") else right
        title = fit(shown(row.title), max(width - len(left) - len(word) - len(right) - 2, 0))
        tone = _MARKS.get(row.status, "dim")
        return Strip([Segment(left), Segment(word, self.tone(tone)), Segment(title), Segment(f" {right}")])


class TaskKeys(Screen[None]):
    """A screen whose keys act on one task, its `subject`."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk

    def subject(self) -> TaskRow | None:
        raise NotImplementedError

    # -- why not ----------------------------------------------------------------------------------------------------

    def reason_against(self, action: str) -> str:
        """Why the key of `action` does nothing to the selected task now; empty where it acts."""
        name = action.partition("'")[2].partition("'")[0] if action.startswith("do(") else ""
        return self.reason_for(name, self.subject()) if name else ""

    def reason_for(self, name: str, row: TaskRow | None) -> str:
        """Why `name` cannot be done to the task of `row`; empty where it can."""
        if row is None:
            return "no task is selected"
        identity, status = short_id(row.task_id), row.status
        runs_here = row.task_id in self.desk.session.running
        if name == "stop" and status not in {"RUNNING", "QUEUED"} and not runs_here:
            return f"{identity} is not running"
        if name == "review" and (runs_here or status in {"RUNNING", "QUEUED"}):
            return f"{identity} is running: review it when it rests"
        if name == "resume" and (runs_here or status in {"COMPLETE", "RUNNING", "QUEUED"}):
            return f"{identity} is {'RUNNING' if runs_here else status}: nothing to resume"
        if name == "answer" and status not in {"AWAITING_RESPONSE", "RUNNING"}:
            return f"{identity} neither waits for an answer nor runs"
        return ""

    # -- the selected task ------------------------------------------------------------------------------------------

    def action_do(self, name: str) -> None:
        row = self.subject()
        reason = self.reason_for(name, row)
        if reason or row is None:
            self.app.notify(reason, severity="information", markup=False)
            return
        match name:
            case "open":
                self.app.push_screen(TaskScreen(self.desk, row))
            case "trace":
                self.desk.show_trace(Path(row.trace_file), follow=row.status == "RUNNING")
            case "diff":
                self.desk.show_diff(row.task_id)
            case "review":
                self.desk.show_review(row.task_id)
            case "stop":
                self.ask_to_stop(row.task_id)
            case "resume":
                self.desk.run_line(f"/resume {row.task_id}")
            case "answer":
                self._answer(row)
            case "copy":
                self._copy(row.task_id)
            case "copy_path":
                self._copy(row.trace_file)
            case _:
                open_file(self.app, row.trace_file, program=name)

    def _copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)
        self.app.notify(f"copied {text}", markup=False)

    @work
    async def ask_to_stop(self, task_id: str) -> None:
        if task_id in self.desk.session.running and self.desk.session.unasked(task_id):
            self.notify(f"{task_id} is taken back: the agent was not asked")
            await self.desk.session.take_back(task_id)
            return
        text = f"Stop {task_id} at the next safe point?\nNothing is lost: /resume goes on.\n\n y stop   Esc go on"
        if await self.app.push_screen_wait(Question(text, "y")) == "y":
            self.desk.run_line(f"/stop {task_id}", typed=False)

    @work
    async def _answer(self, row: TaskRow) -> None:
        if row.status == "RUNNING":
            self.desk.put(f"/respond {short_id(row.task_id)} hint ")
            return
        if row.last_event == "CHUNKING_PLAN":
            await self._answer_plan(row)
            return
        question = await asyncio.to_thread(read_question, row)
        if question is not None:
            await self._answer_question(row, question)
            return
        again, other = "more iterations", "accept: take it as it is"
        if row.last_event == "QUALITY_JUDGMENT":  # it is accepted; it could not be handed over
            again, other = "hand it over again", "review: keep or discard its parts"
        options = [f"continue: {again}", "hint: write what to mind", other, "stop: end it"]
        chosen = await self.app.push_screen_wait(Choice(f"{row.task_id} waits for your answer", options))
        if chosen is None:
            return
        action = options[chosen].partition(":")[0]
        if action == "review":
            self.desk.show_review(row.task_id)
        elif action == "hint":
            self.desk.put(f"/respond {short_id(row.task_id)} hint ")
        else:
            self.desk.run_line(f"/respond {row.task_id} {action}")

    async def _answer_question(self, row: TaskRow, question: Asked) -> None:
        """The question box: its choices, an answer in own words, or a decision."""
        actions = [("answer it in your own words", ""), ("accept: take it as it is", "accept"),
                   ("continue: go on without an answer", "continue"), ("stop: end it", "stop")]  # fmt: skip
        options = [*question.choices, *(text for text, _ in actions)]
        title = f"{row.task_id} asks"
        chosen = await self.app.push_screen_wait(Choice(title, options, text=question.text))
        if chosen is None:
            return
        if chosen < len(question.choices):
            self.desk.run_line(f"/respond {row.task_id} hint {shlex.quote(question.choices[chosen])}")
        elif action := actions[chosen - len(question.choices)][1]:
            self.desk.run_line(f"/respond {row.task_id} {action}")
        else:
            self.desk.put(f"/respond {short_id(row.task_id)} hint ")

    async def _answer_plan(self, row: TaskRow) -> None:
        options = ["approve: run it", "edit: change it in the editor", "again: plan with other words", "stop: end it"]
        chosen = await self.app.push_screen_wait(Choice(f"{row.task_id}: its plan waits for your word", options))
        short = short_id(row.task_id)
        if chosen == 2:
            self.desk.put(f"/plan {short} --again ")
        elif chosen is not None:
            self.desk.run_line(
                (f"/plan {short} --approve", f"/plan {short} --edit", "", f"/respond {short} stop")[chosen]
            )


_LOOK_S = 0.5


class TaskScreen(TaskKeys):
    """The task of `row`."""

    HELP = (
        "Everything about one task. t opens its trace, d what it changed, s stops it (asks), r goes on with it.\n"
        "Enter answers it, or gives it a hint while it works."
    )
    BINDINGS = KEYS["task"]

    def __init__(self, desk: Desk, row: TaskRow) -> None:
        super().__init__(desk)
        self._row = row
        self._shown: list[str] = []
        self._task_lines = Static(id="task-lines", markup=False)  # held: a late worker must not look it up

    @override
    def subject(self) -> TaskRow:
        return self._row

    @override
    def compose(self) -> ComposeResult:
        yield Static(f" {shown(self._row.task_id)}", id="task-title", markup=False)
        with VerticalScroll():
            yield self._task_lines
        yield Hints()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.look()
        self.set_interval(_LOOK_S, self.look)

    @work(exclusive=True)
    async def look(self) -> None:
        fresh = next((row for row in self.desk.rows if row.task_id == self._row.task_id), self._row)
        works = self.desk.feed.progress.get(fresh.task_id) if fresh.task_id in self.desk.session.running else None
        if fresh == self._row and self._shown and works is None:
            return
        if fresh != self._row or not self._shown:
            self._row = fresh
            self._shown = await asyncio.to_thread(read_task, fresh)
            self.refresh_bindings()
        now, columns = monotonic(), self.size.width - 4
        moving = [] if works is None else [
            *stream_lines(works.stream, now=now, columns=columns, rows=self.size.height),
            f"  {works.status(now, spent=True, columns=columns)}", "",
        ]  # fmt: skip
        path = [f"trace  {Path(fresh.trace_file)}   {fresh.facts} events"]
        self._task_lines.update("\n".join(shown(line) for line in [*self._shown, *moving, *path]))

    def action_command(self) -> None:
        self.dismiss()
        self.desk.put("/")
