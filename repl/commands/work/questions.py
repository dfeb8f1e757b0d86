"""Questions to the user while `pm run` shows a task: one input line at a time, and what to do with a waiting plan."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.core.task import PersonAction
from tracer.errors import PmError
from tracer.journal.reading import read_entries

if TYPE_CHECKING:
    from repl.context import Context
    from runner.core.task import TaskOutcome

_CHUNK = 65536


class Person:
    """What is typed on standard input, which is a terminal."""

    def __init__(self) -> None:
        self._typed = b""

    async def line(self) -> str | None:
        """The next line, None for Ctrl+D or a terminal that is gone. Safe to cancel."""
        while b"\n" not in self._typed:
            data = await self._read()
            if not data:
                return None
            self._typed += data
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "backslashreplace").rstrip("\r")

    async def forget_typed(self) -> None:
        """Drop what was typed before now: it cannot have been meant for the question that comes."""
        self._typed = b""
        with suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            descriptor = sys.stdin.fileno()
            loop.add_reader(descriptor, readable.set)
        except (OSError, ValueError):  # not a terminal, or none at all
            return b""
        try:
            await readable.wait()
            return os.read(descriptor, _CHUNK)
        except OSError:
            return b""
        finally:
            loop.remove_reader(descriptor)


_QUESTION = "y run it, e edit it, h TEXT plan again, s stop, Enter later? "


class PlanAnswer(NamedTuple):
    """What the person wants of a waiting task; `plan` is theirs instead of the proposed one."""

    action: PersonAction
    text: str = ""
    plan: Mapping[str, Any] | None = None


async def ask_about_plan(context: Context, outcome: TaskOutcome, person: Person) -> PlanAnswer | None:
    """Ask until there is an answer; None leaves the plan waiting (`pm plan`)."""
    from repl.commands.work.plan import edited_plan, preview_lines
    from repl.editing import edit_text
    from runner.core.chunk_plan import plan_text
    from runner.core.evolve import fold

    output = context.output
    state = await asyncio.to_thread(lambda: fold(read_entries(outcome.trace_file)))
    before = text = plan_text(state.plan.subtasks if state.plan else ())
    mine: Mapping[str, Any] | None = None
    while True:
        output.stderr.write(_QUESTION)
        output.stderr.flush()
        letter, _, words = (await person.line() or "").strip().partition(" ")
        match letter[:1].lower():
            case "":
                return None
            case "y":
                return PlanAnswer("continue", plan=mine)
            case "s":
                return PlanAnswer("stop")
            case "h" if words.strip():
                return PlanAnswer("hint", words.strip())
            case "e":
                try:
                    text = await asyncio.to_thread(edit_text, text, context.environ, suffix=".json")
                    mine = edited_plan(before, text, task_id=outcome.task_id)
                except PmError as error:
                    output.error(error)
                    continue
                lines = preview_lines(mine, task_id=outcome.task_id) if mine is not None else ["  as it was"]
                for line in lines:
                    output.note(line)
            case _:
                pass
