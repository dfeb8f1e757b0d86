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
    def rows(self) -> list[TaskRow]: ...  # as read last, newest first
    @property
    def keymap_changes(self) -> dict[str, str]: ...
    def run_line(self, text: str, *, typed: bool = True) -> None: ...
    def put(self, text: str) -> None: ...
    def show_trace(self, path: Path, *, follow: bool = False) -> None: ...
    def show_diff(self, task_id: str) -> object: ...
    def show_review(self, task_id: str) -> object: ...
    def read_tasks(self) -> list[TaskRow]: ...  # blocks: for a thread
    def completions(self, before: str) -> list[Candidate]: ...
    def past(self) -> list[str]: ...  # inputs, oldest first
    def action_page(self, name: str) -> None: ...
    def action_detail(self) -> None: ...  # show or fold what the agent does
    def action_help(self) -> None: ...
    def action_quit_asking(self) -> object: ...  # while tasks run, asks first
