"""Registry rows: give work, follow it, look at what came of it."""

from __future__ import annotations

from repl.commands.spec import Argument, Command

__all__ = ["TASK_COMMANDS"]

TASK = Argument("task", "task-015, a unique start of it, 15, or #3 (a row of the last list)", values="task")

TASK_COMMANDS: tuple[Command, ...] = ()
