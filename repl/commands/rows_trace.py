"""Registry rows: read, check and follow what was recorded."""

from __future__ import annotations

from repl.commands.rows_task import TASK
from repl.commands.spec import Command, Flag

__all__ = ["TRACE_COMMANDS"]

TRACE_COMMANDS: tuple[Command, ...] = (
    Command(
        "trace",
        "trace",
        "show what happened in a task, fact by fact",
        "repl.commands.trace:trace",
        "pm trace 15 --latest",
        arguments=(TASK._replace(required=False),),
        flags=(
            Flag("--latest", "only the last iteration (of each subtask) and the end"),
            Flag("--raw", "the stored bytes"),
            Flag("--follow", "go on as facts are recorded, until the task ends"),
            Flag("--subtask", "only this subtask", "S"),
            Flag("--iteration", "only this iteration, counted from 0", "N", kind="integer"),
            Flag("--event", "only this event (may be repeated)", "E", repeat=True, values="event"),
            Flag("--full", "everything each fact holds"),
            Flag("--screen", "in the full-screen viewer"),
        ),
        exits=(7, 8),
        description="Without a task: the current or newest one. Damaged or incomplete lines are named on stderr.",
    ),
    Command(
        "trace verify",
        "trace",
        "check a trace: framing, order, values and hash chain",
        "repl.commands.verify:verify",
        "pm trace verify 15",
        arguments=(TASK._replace(required=False),),
        flags=(
            Flag("--head", "a chain head that was kept elsewhere, 64 hex digits", "HEX"),
            Flag(
                "--session",
                "check a session's TracePack log instead: an id or its beginning; alone, the last one",
                "ID",
                bare="last",
            ),
        ),
        exits=(7, 8),
    ),
)
