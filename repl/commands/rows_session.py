"""Registry rows that only make sense inside a running `pm>`: its queue, its skin, its way out."""

from __future__ import annotations

from repl.commands.spec import Command

__all__ = ["SESSION_COMMANDS"]

SESSION_COMMANDS: tuple[Command, ...] = ()
