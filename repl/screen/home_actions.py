"""What the home screen's keys do to the selected task. Stopping asks; a key that cannot act says why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual import work
from textual.screen import Screen
from textual.widgets import Input

from repl.present.progress import short_id
from repl.screen.outside import edit_outside, run_outside
from repl.screen.own_app import own_app
from repl.screen.pickers import Choice, Question
from tracer.catalog import TaskRow

if TYPE_CHECKING:
    from repl.screen.app import PmApp
    from repl.screen.prompt import Prompt
    from repl.screen.task_list import TaskList
    from repl.screen.transcript import Transcript

__all__ = ["HomeActions"]


class HomeActions(Screen[None]):
    """Actions over the task list, the transcript and the prompt."""

    tasks: TaskList
    transcript: Transcript
    prompt: Prompt

    @property
    def pm(self) -> PmApp:
        """The app, by its own type."""
        return own_app(self)

    # -- why not ----------------------------------------------------------------------------------------------------

    def reason_against(self, action: str) -> str:
        """Why the key of `action` does nothing to the selected task now; empty where it acts."""
        name = action.partition("'")[2].partition("'")[0] if action.startswith("do(") else ""
        return self.reason_for(name, self.tasks.selected if self.is_mounted else None) if name else ""

    def reason_for(self, name: str, row: TaskRow | None) -> str:
        """Why `name` cannot be done to the task of `row`; empty where it can."""
        if row is None:
            return "no task is selected"
        identity, status = short_id(row.task_id), row.status
        runs_here = row.task_id in self.pm.session.running
        if name == "stop" and status not in {"RUNNING", "QUEUED"} and not runs_here:
            return f"{identity} is not running"
        if name == "resume" and (runs_here or status in {"COMPLETE", "RUNNING", "QUEUED"}):
            return f"{identity} is {'RUNNING' if runs_here else status}: nothing to resume"
        if name == "answer" and status != "AWAITING_RESPONSE":
            return f"{identity} does not wait for an answer"
        return ""

    # -- the selected task ------------------------------------------------------------------------------------------

    def action_do(self, name: str) -> None:
        """Do `name` to the selected task."""
        self.act_on(name, self.tasks.selected)

    def act_on(self, name: str, row: TaskRow | None) -> None:
        """Do `name` to the task of `row`, or say why not."""
        reason = self.reason_for(name, row)
        if reason or row is None:
            self.app.notify(reason, severity="information", markup=False)
            return
        match name:
            case "open":
                from repl.screen.task_screen import TaskScreen

                self.app.push_screen(TaskScreen(row))
            case "trace":
                self.pm.show_trace(Path(row.trace_file), follow=row.status == "RUNNING")
            case "diff":
                self.pm.show_diff(row.task_id)
            case "stop":
                self.stop_asking(row.task_id)
            case "resume":
                self.pm.run_line(f"/resume {row.task_id}")
            case "answer":
                self.answer(row)
            case "copy":
                self._copy(row.task_id)
            case "copy_path":
                self._copy(row.trace_file)
            case _:
                run_outside(self.app, row.trace_file, program=name)

    def _copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)
        self.app.notify(f"copied {text}", markup=False)

    @work
    async def stop_asking(self, task_id: str) -> None:
        """Ask, and stop on `y`."""
        await self.ask_to_stop(task_id)

    async def ask_to_stop(self, task_id: str) -> None:
        """Ask, and stop on `y`."""
        text = f"Stop {task_id} at the next safe point?\nNothing is lost: /resume goes on.\n\n y stop   Esc go on"
        if await self.app.push_screen_wait(Question(text, "y")) == "y":
            self.pm.run_line(f"/stop {task_id}", typed=False)

    @work
    async def answer(self, row: TaskRow) -> None:
        """Answer a task that waits for its person."""
        if row.last_event == "CHUNKING_PLAN":
            await self._answer_plan(row)
            return
        options = ["continue: more iterations", "hint: write what to mind", "accept: take it as it is", "stop: end it"]
        chosen = await self.app.push_screen_wait(Choice(f"{row.task_id} waits for your answer", options))
        if chosen is None:
            return
        action = ("continue", "hint", "accept", "stop")[chosen]
        if action == "hint":
            self.prompt.put(f"/respond {short_id(row.task_id)} hint ")
            self.prompt.focus()
        else:
            self.pm.run_line(f"/respond {row.task_id} {action}")

    async def _answer_plan(self, row: TaskRow) -> None:
        """Answer a task whose plan waits."""
        options = ["approve: run it", "edit: change it in the editor", "again: plan with other words", "stop: end it"]
        chosen = await self.app.push_screen_wait(Choice(f"{row.task_id}: its plan waits for your word", options))
        short = short_id(row.task_id)
        if chosen == 2:
            self.prompt.put(f"/plan {short} --again ")
            self.prompt.focus()
        elif chosen is not None:
            self.pm.run_line(
                (f"/plan {short} --approve", f"/plan {short} --edit", "", f"/respond {short} stop")[chosen]
            )

    @work
    async def action_interrupt(self) -> None:
        """Ctrl+C: stop what runs, which asks; else say how to leave."""
        running = self.pm.session.running
        if not running:
            self.notify("Ctrl+D or /exit leaves", severity="information")
        else:
            await self.ask_to_stop(running[-1])

    # -- moving -----------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """One task."""
        self.tasks.cursor += step

    def action_page(self, step: int) -> None:
        """A page of tasks."""
        self.tasks.cursor += step * max(self.tasks.size.height - 1, 1)

    def action_edge(self, end: int) -> None:
        """The newest (0) or the oldest (1) task."""
        self.tasks.cursor = len(self.tasks.rows) - 1 if end else 0

    def action_row(self, number: int) -> None:
        """Row `number` of the list, as `#3` in commands."""
        self.tasks.cursor = number - 1

    # -- prompt -----------------------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Filter the list."""
        line = self.query_one("#home-filter", Input)
        line.display = True
        line.focus()

    def action_command(self) -> None:
        """Type a command."""
        self.prompt.put("/")
        self.prompt.focus()

    def action_prompt(self) -> None:
        """To the prompt."""
        self.prompt.focus()

    def action_back(self) -> None:
        """Esc: out of the filter, then to the prompt."""
        line = self.query_one("#home-filter", Input)
        if line.display:
            line.value = ""
            line.display = False
            self.tasks.focus()
        else:
            self.prompt.focus()

    def edit_prompt(self) -> None:
        """Write the input in the person's own editor; it is submitted by Enter, not by leaving the editor."""
        text = edit_outside(self.app, self.prompt.whole)
        if text is not None:
            self.prompt.put(text.rstrip("\n"))

    @work
    async def search_history(self) -> None:
        """Choose an earlier input; it comes to the line, and Enter then runs it."""
        from repl.screen.history_screen import HistoryScreen

        found = await self.app.push_screen_wait(HistoryScreen(self.pm.history))
        if found is not None:
            self.prompt.put(found)
        self.prompt.focus()
