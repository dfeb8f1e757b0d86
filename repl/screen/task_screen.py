"""One task, whole screen: what was asked, each verdict, subtasks, files, cost, next steps. Follows a running task."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static
from typing_extensions import override

from repl.screen.cells import shown
from repl.screen.hints import Hints
from repl.screen.own_app import own_app
from repl.screen.task_lines import read_task
from tracer.catalog import TaskRow

if TYPE_CHECKING:
    from repl.screen.app import PmApp

__all__ = ["TaskScreen"]

_LOOK_S = 0.5


class TaskScreen(Screen[None]):
    """The task of `row`."""

    HELP = "Everything about one task. t opens its trace, d what it changed, s stops it (asks), r goes on with it."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "back", id="task.back"),
        Binding("t", "do('trace')", "trace", id="task.trace"),
        Binding("d", "do('diff')", "diff", id="task.diff"),
        Binding("s", "do('stop')", "stop", id="task.stop"),
        Binding("r", "do('resume')", "resume", id="task.resume"),
        Binding("a", "do('answer')", "answer", id="task.answer"),
        Binding("y", "do('copy')", "copy the id", show=False, id="task.copy"),
        Binding("colon", "command", "command", id="task.command"),
    ]
    DEFAULT_CSS = """
    TaskScreen { & > #task-title { height: 1; text-style: bold; } & > VerticalScroll { height: 1fr; padding: 0 1; } }
    """

    def __init__(self, row: TaskRow) -> None:
        super().__init__()
        self._row = row
        self._shown: list[str] = []

    @property
    def pm(self) -> PmApp:
        """The app, by its own type."""
        return own_app(self)

    @override
    def compose(self) -> ComposeResult:
        """Title, lines, keys."""
        yield Static(f" {shown(self._row.task_id)}", id="task-title", markup=False)
        with VerticalScroll():
            yield Static(id="task-lines", markup=False)
        yield Hints()

    def on_mount(self) -> None:
        """Read it, and again while it changes."""
        self.query_one(VerticalScroll).focus()
        self.look()
        self.set_interval(_LOOK_S, self.look)

    @work(exclusive=True)
    async def look(self) -> None:
        """Read the task again where the list says it changed."""
        fresh = next((row for row in self.pm.home.all_rows if row.task_id == self._row.task_id), self._row)
        if fresh == self._row and self._shown:
            return
        self._row = fresh
        self._shown = await asyncio.to_thread(read_task, fresh)
        path = [f"trace  {Path(fresh.trace_file)}   {fresh.facts} facts"]
        self.query_one("#task-lines", Static).update("\n".join(shown(line) for line in [*self._shown, *path]))
        self.refresh_bindings()

    def reason_against(self, action: str) -> str:
        """As in the list."""
        name = action.partition("'")[2].partition("'")[0]
        return self.pm.home.reason_for(name, self._row) if name else ""

    def action_do(self, name: str) -> None:
        """The list's action on this task."""
        self.pm.home.act_on(name, self._row)

    def action_command(self) -> None:
        """Back to the prompt with a command begun."""
        self.dismiss()
        self.pm.home.action_command()

    def action_back(self) -> None:
        """Back to the list."""
        self.dismiss()
