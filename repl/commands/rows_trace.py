"""Registry rows: read, check and follow what was recorded."""

from __future__ import annotations

from repl.commands.spec import Command

__all__ = ["TRACE_COMMANDS"]

TRACE_COMMANDS: tuple[Command, ...] = ()
