"""A plan waits and a person is at the terminal of `pm run`: run it, edit it, plan again, stop, or leave it waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.task import PersonAction
from tracer.errors import PmError
from tracer.reading import read_entries

if TYPE_CHECKING:
    from repl.commands.context import Context
    from repl.commands.person import Person
    from runner.task import TaskOutcome

__all__ = ["PlanAnswer", "ask_about_plan"]

_QUESTION = "y run it, e edit it, h TEXT plan again, s stop, Enter later? "


class PlanAnswer(NamedTuple):
    """What the person wants of a waiting task; `plan` is theirs instead of the proposed one."""

    action: PersonAction
    text: str = ""
    plan: Mapping[str, Any] | None = None


async def ask_about_plan(context: Context, outcome: TaskOutcome, person: Person) -> PlanAnswer | None:
    """Ask until there is an answer; None leaves the plan waiting (`pm plan`)."""
    from repl.commands.editing import edit_text
    from repl.commands.plan import edited_plan, preview_lines
    from runner.chunking.plan import plan_text
    from runner.evolve import fold

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
