"""The home screen: tasks, transcript, status of running tasks, prompt, and what its keys do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import DescendantFocus, Resize
from textual.widgets import Input, Static
from typing_extensions import override

from repl.permissions import choices_text, question_text
from repl.present.cells import shown
from repl.present.live import stream_lines
from repl.present.progress import Progress, numbered, running_parts, short_id
from repl.present.text import cost_text, count_text
from repl.screen.desk import Desk
from repl.screen.hints import Hints
from repl.screen.keymap import KEYS
from repl.screen.outside import edit_outside
from repl.screen.prompt import Completions, HistoryScreen, Prompt
from repl.screen.tasks import TaskKeys, TaskList, read_task
from repl.screen.transcript import Transcript
from tracer.catalog.tasks import TaskRow
from tracer.clock import monotonic, now_iso


def status_text(progress: Progress, *, now: float, budget: float | None = None, columns: int = 0) -> str:
    """`task-015 · it 1/3 · 2/6 subtasks · 14.2k tok · $0.12 · claude · asking claude · 12 s`; `!` near the budget.

    In `columns` (0: any number) what it does just now is cut to fit: a line more or less would move all above it.
    """
    parts = running_parts(progress, others=0, queued=0, budget=budget)
    before = "".join(f"{part} · " for part in parts if part)
    room = max(columns - cell_len(before), _LEAST) if columns else 0
    return before + progress.status(now, columns=room).replace("Esc stops", "Ctrl+C stops")


def head_text(left: str, parts: Iterable[str], width: int) -> str:
    kept = [part for part in parts if part]
    while kept and cell_len(left) + cell_len(" · ".join(kept)) + 3 > width:
        kept.pop()
    right = " · ".join(kept) + " " if kept else ""
    return left + " " * max(width - cell_len(left) - cell_len(right), 1) + right


def session_cost(rows: Sequence[TaskRow], started: Iterable[str]) -> str:
    mine = set(started)
    costs = [row.cost_usd for row in rows if row.task_id in mine and (row.judgments or row.status != "RUNNING")]
    known = [cost for cost in costs if cost is not None]
    return cost_text(sum(known) if known else None) if costs else ""


def today_text(rows: Sequence[TaskRow]) -> str:
    """`today 5 tasks, $0.31, 40 % rejected`: of all verdicts of the day's tasks; empty before the first."""
    today = [row for row in rows if row.created_at[:10] == now_iso()[:10]]
    verdicts = [one for row in today for one in row.judgments if one != "RETRY"]
    rejected = f", {100 * verdicts.count('REJECT') // len(verdicts)} % rejected" if verdicts else ""
    known = [row.cost_usd for row in today if row.cost_usd is not None]
    money = f", {cost_text(sum(known))}" if known else ""
    return f"today {count_text(len(today), 'task')}{money}{rejected}" if today else ""


_NARROW, _LEAST = 100, 24
_LOOK_S = 1.0
_STATUS_S = 0.25


class HomeScreen(TaskKeys):
    """What `pm` opens."""

    HELP = (
        "Type a task at pm> and press Enter; / starts a command. Esc leaves the prompt for the task list, where the\n"
        "letters below act on the selected task, and : or i comes back. Nothing here is lost: all of it is on disk."
    )
    BINDINGS = KEYS["home"]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.tasks = TaskList(id="home-tasks")
        self.tasks.border_title = "Tasks"
        self.transcript = Transcript(id="home-transcript")
        self.transcript.border_title = "Session"
        self.completions = Completions(id="home-completions")
        self.prompt = Prompt(self.completions, id="home-prompt")
        # Held, not looked up: workers and timers may still write to them while the screen is being taken down.
        self.task_pane = Static(id="home-task", markup=False)
        self.status_lines = Static(id="home-status", markup=False)
        self.all_rows: list[TaskRow] = []
        self.filter_text = ""
        self._shown_task: TaskRow | None = None

    @override
    def compose(self) -> ComposeResult:
        yield Static(id="home-top", markup=False)
        with Horizontal(id="home-panes"):
            yield self.tasks
            with Vertical(id="home-right"):
                yield self.task_pane
                yield self.transcript
        yield self.status_lines
        yield Input(
            id="home-filter", placeholder="filter: part of an id, title or status; Enter keeps it, Esc clears it"
        )
        yield self.completions
        with Horizontal(id="home-prompt-row"):
            yield Static("pm> ", id="home-mark", markup=False)
            yield self.prompt
        yield Hints()

    def on_mount(self) -> None:
        self.prompt.look_up = self.desk.completions
        self.prompt.past = self.desk.past
        self.prompt.pull_back = lambda: self.desk.session.queue.pop() if self.desk.session.queue else ""
        self.prompt.enter_breaks = self.desk.enter_breaks
        self.prompt.focus()
        self.show_top()
        self.look_at_tasks()
        self.set_interval(_LOOK_S, self.look_at_tasks)
        self.set_interval(_STATUS_S, self.show_status)

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width < _NARROW, "-narrow")
        self.show_top()

    @on(DescendantFocus)
    def focus_moved(self, event: DescendantFocus) -> None:
        if isinstance(event.widget, TaskList):
            self.add_class("-listing")
            self.show_task()
        elif isinstance(event.widget, Prompt):
            self.remove_class("-listing")

    @override
    def subject(self) -> TaskRow | None:
        return self.tasks.selected if self.is_mounted else None

    # -- what is shown ----------------------------------------------------------------------------------------------

    @work(exclusive=True, group="tasks")
    async def look_at_tasks(self) -> None:
        """Read the list of tasks in a thread and show it; nothing is painted where nothing changed."""
        rows = await asyncio.to_thread(self.desk.read_tasks)
        if rows != self.all_rows and self.is_attached:
            self.all_rows = rows
            self.show_rows()
            self.show_top()
            self.show_task()

    def show_rows(self) -> None:
        wanted = self.filter_text.lower()
        going_on = {*self.desk.session.running, *self.desk.session.asking}  # no filter hides these
        rows = [
            row
            for row in self.all_rows
            if row.task_id in going_on
            or row.status == "RUNNING"
            or wanted in f"{row.task_id} {row.title} {row.status}".lower()
        ]
        self.tasks.show(rows)
        count = f"{len(rows)} of {len(self.all_rows)}: {shown(wanted)}" if wanted else str(len(rows))
        self.tasks.border_title = f"Tasks ({count})"

    def show_top(self) -> None:
        running = len(self.desk.session.running)
        unfinished = sum(row.status in {"UNFINISHED", "AWAITING_RESPONSE"} for row in self.all_rows)
        parts = [
            self.desk.session.executor_text(),
            session_cost(self.all_rows, self.desk.session.started),
            f"{running} running" if running else "",
            f"{len(self.desk.session.queue)} queued" if self.desk.session.queue else "",
            f"{unfinished} unfinished" if unfinished and not running else "",
            today_text(self.all_rows),
        ]
        self._write("#home-top", head_text(f" pm · {shown(self.desk.session.folder.name)}", parts, self.size.width))

    def show_status(self) -> None:
        known = self.desk.feed.progress
        running = [known[task_id] for task_id in self.desk.session.running if task_id in known]
        now, budget = monotonic(), self.desk.session.chosen("budget_usd")[0]
        lines = [
            " " + shown(status_text(progress, now=now, budget=budget, columns=self.size.width - 2))
            for progress in running[-4:]
        ]
        if (waiting := self.desk.session.permissions.open_question()) is not None:
            asked = f" {question_text(waiting.question)}", f"   {choices_text(waiting.question)}, then Enter at pm>"
            lines = [shown(line) for line in asked] + lines[-2:]
        self.status_lines.display = bool(lines)
        self._write("#home-status", "\n".join(lines))
        self._write("#home-mark", self.desk.session.mark)
        most = max(self.transcript.size.height // 2, 4)
        moving = [
            line
            for one in running
            for line in [*one.table(now, most=most), f"  {one.board.bar(now=now)}"]
            if line.strip()
        ]
        size, shown_as = self.transcript.size, {"live": self.desk.live_text, "detail": self.desk.feed.detail}
        for progress in reversed(running[-4:]):
            number = progress.task_id if len(running) > 1 else ""
            room = size.width - (len(short_id(number)) + 3 if number else 0)
            streamed = stream_lines(
                progress.stream, now=now, columns=room, rows=size.height // len(running), **shown_as
            )
            moving = numbered(streamed, number) + moving
        self.transcript.show_live(moving)

    def _write(self, selector: str, text: str) -> None:
        for line in self.query(selector).results(Static):  # none once the screen is being taken down
            if line.content != text:
                line.update(text)

    @on(TaskList.Moved)
    def moved(self) -> None:
        self.show_task()
        self.refresh_bindings()

    @work(exclusive=True, group="task")
    async def show_task(self) -> None:
        row = self.tasks.selected
        if row is None or not self.has_class("-listing"):
            return
        if row == self._shown_task:
            return
        lines = await asyncio.to_thread(read_task, row)
        self._shown_task = row
        self.task_pane.border_title = shown(row.task_id)
        self.task_pane.update("\n".join(shown(line) for line in lines))

    # -- the prompt's messages --------------------------------------------------------------------------------------

    @on(Prompt.Submitted)
    def submitted(self, event: Prompt.Submitted) -> None:
        self.desk.run_line(event.text)

    @on(Prompt.Asked)
    def asked(self, event: Prompt.Asked) -> None:
        match event.what:
            case "help":
                self.desk.action_help()
            case "editor":
                self.edit_prompt()
            case "detail":
                self.desk.action_detail()
            case "history":
                self.search_history()
            case "leave":
                self.tasks.focus()
            case "interrupt":
                self.action_interrupt()
            case _:
                self.desk.action_quit_asking()

    @on(Input.Changed, "#home-filter")
    def filter_changed(self, event: Input.Changed) -> None:
        self.filter_text = event.value.strip()
        self.show_rows()

    @on(Input.Submitted, "#home-filter")
    def filter_kept(self) -> None:
        self.query_one("#home-filter", Input).display = False
        self.tasks.focus()

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_interrupt(self) -> None:
        running = self.desk.session.running
        if not running:
            self.notify("Ctrl+D or /exit leaves", severity="information")
        else:
            self.ask_to_stop(running[-1])

    # -- moving -----------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        self.tasks.cursor += step

    def action_page(self, step: int) -> None:
        self.tasks.cursor += step * max(self.tasks.size.height - 1, 1)

    def action_edge(self, end: int) -> None:
        self.tasks.cursor = len(self.tasks.rows) - 1 if end else 0

    def action_row(self, number: int) -> None:
        self.tasks.cursor = number - 1

    # -- prompt -----------------------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        line = self.query_one("#home-filter", Input)
        line.display = True
        line.focus()

    def action_command(self) -> None:
        self.prompt.put("/")
        self.prompt.focus()

    def action_prompt(self) -> None:
        self.prompt.focus()

    def action_back(self) -> None:
        line = self.query_one("#home-filter", Input)
        if line.display:
            line.value = ""
            line.display = False
            self.tasks.focus()
        else:
            self.prompt.focus()

    @work
    async def edit_prompt(self) -> None:
        """Write the input in the user's own editor; it is submitted by Enter, not by leaving the editor."""
        text = await edit_outside(self.app, self.prompt.whole)
        if text is not None:
            self.prompt.put(text.rstrip("\n"))

    @work
    async def search_history(self) -> None:
        """Choose an earlier input; it comes to the line, and Enter then runs it."""
        found = await self.app.push_screen_wait(HistoryScreen(self.desk.history))
        if found is not None:
            self.prompt.put(found)
        self.prompt.focus()
