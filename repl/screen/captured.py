"""Runs one command line for its values instead of its words: the JSON record that the command line would print."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

from repl.commands.context import Context
from repl.commands.parse import parse_arguments
from repl.present.output import Output
from repl.session import Session
from repl.shell import interpret, run_handler
from tracer.errors import PmError

__all__ = ["Captured", "captured"]


@dataclass(frozen=True, slots=True)
class Captured:
    """What a command answered: its closing record, or why there is none."""

    record: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


async def captured(session: Session, line: str) -> Captured:
    """Run `line` (`/diff 15 --json`) with its output caught; errors come back as a text."""
    out = io.StringIO()
    output = Output(stdout=out, stderr=io.StringIO(), form="json", quiet=True)
    try:
        typed = interpret(line)
        if typed.command is None:
            return Captured(problem=f"{line} is no command")
        context = Context(
            output=output,
            environ=session.environ,
            arguments=parse_arguments(typed.command, list(typed.words)),
            command=typed.command.name,
            session=session,
        )
        await run_handler(typed.command, context)
    except PmError as error:
        return Captured(problem=" · ".join(part for part in (error.what, error.why, error.next_step) if part))
    try:
        record = json.loads(out.getvalue().strip().split("\n")[-1])
    except ValueError:
        return Captured(problem="the command gave no answer")
    return Captured(record=record if isinstance(record, dict) else {})
