"""What the screens and the palette use of the app that shows them; the app imports the screens, never the reverse."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Protocol

from repl.history import History
from repl.present.feed import Feed
from repl.present.output import Output
from repl.registry.complete import Candidate
from repl.session import Session
from tracer.catalog.tasks import TaskRow


class Desk(Protocol):
    """The session at work: its state, and what can be done from any screen."""

    session: Session
    feed: Feed
    history: History
    output: Output
    log_lines: list[str]
    live_text: bool
    enter_breaks: bool
    nothing: Namespace  # the arguments of a command that was given none

    @property
    def rows(self) -> list[TaskRow]:
        """The tasks of the project as read last, newest first."""

    @property
    def keymap_changes(self) -> dict[str, str]:
        """The keys set by the user, by binding id."""

    def run_line(self, text: str, *, typed: bool = True) -> None:
        """Run a line as if typed at the prompt."""

    def put(self, text: str) -> None:
        """Put `text` on the prompt and focus it."""

    def show_trace(self, path: Path, *, follow: bool = False) -> None:
        """Open the trace viewer."""

    def show_diff(self, task_id: str) -> object:
        """Open what a task changed."""

    def read_tasks(self) -> list[TaskRow]:
        """Read the tasks from disk. Blocks: call it in a thread."""

    def executor_text(self) -> str:
        """The executor of the next task."""

    def completions(self, before: str) -> list[Candidate]:
        """What can stand at the cursor after `before`."""

    def past(self) -> list[str]:
        """Earlier inputs of this project, oldest first."""

    def action_page(self, name: str) -> None:
        """Open one of the list pages."""

    def action_detail(self) -> None:
        """Show or fold what the agent does."""

    def action_help(self) -> None:
        """Show the keys in force."""

    def action_quit_asking(self) -> object:
        """Leave; while tasks run, ask first."""
