"""Questions to the user on a plain terminal: a line at a time, trust in the folder, what a waiting plan is for."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from repl.commands.setup.config import planned_commands, vouch
from repl.dispatch import INSIDE_RUN
from repl.present.progress import short_id
from repl.present.subtasks import standing_text, subtask_line
from repl.present.text import escape, one_line
from tracer.errors import PmError, UsageError
from tracer.facts import Subtask
from tracer.journal.reading import read_entries
from tracer.names import Action
from tracer.settings.layers import trust_store
from tracer.settings.trust import refuse, refused

if TYPE_CHECKING:
    from repl.context import Context
    from repl.session import Session
    from runner.core.subtasks import Standing
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
    """What the user wants of a waiting task; `plan` is theirs instead of the proposed one."""

    action: Action
    text: str = ""
    plan: Mapping[str, Any] | None = None


def edited_plan(before: str, after: str, *, task_id: str) -> Mapping[str, Any] | None:
    """The plan in the edited text, None where nothing was changed.

    Raises UsageError: it cannot be carried out; the text is kept, and the error says where.
    """
    from repl.editing import kept_aside
    from runner.core.chunk_plan import read_plan

    if after.strip() == before.strip():
        return None
    try:
        return read_plan(after)
    except UsageError as error:
        path = kept_aside(after, suffix=".json")
        error.next_step = f"correct {path}, then pm plan {short_id(task_id)} --file {path}"
        raise


def plan_lines(subtasks: Sequence[Subtask], standing: Sequence[Standing]) -> list[str]:
    lines: list[str] = []
    for item, one in zip(subtasks, standing, strict=True):
        lines.append(subtask_line(one, standing_text(one)))
        description = one_line(item.description, 160)
        if description and description != one_line(one.title, 160):
            lines.append(f"          {description}")
        if item.acceptance:
            lines.append(f"          done when: {one_line(item.acceptance, 140)}")
        if item.files_expected:
            lines.append(f"          files: {one_line(', '.join(item.files_expected[:8]), 150)}")
    return lines


def preview_lines(plan: Mapping[str, Any], *, task_id: str) -> list[str]:
    """A plan that has not run, as lines; used where an edited one is shown before it runs."""
    from runner.core.chunk_plan import check_plan
    from runner.core.subtasks import Standing

    subtasks = [Subtask(item) for item in check_plan(plan, task_id=task_id).subtasks]
    numbers = {item.id: number for number, item in enumerate(subtasks, 1)}
    rows = [
        Standing(one.id, numbers[one.id], one.title, "wait", dependencies=tuple(numbers[it] for it in one.dependencies))
        for one in subtasks
    ]
    return plan_lines(subtasks, rows) if rows else ["  no subtasks: it runs in one piece"]


async def ask_line(context: Context, person: Person, question: str) -> str:
    """What the user answers `question` with; empty for none."""
    context.output.stderr.write(question)
    context.output.stderr.flush()
    return (await person.line() or "").strip()


async def ask_trust(context: Context, session: Session, person: Person) -> None:
    """Ask, once for a folder, whether the commands found in it may run; without a person nothing is asked.

    Ctrl+D leaves it open until the next time.
    """
    settings, project, store = session.settings, context.state_root, trust_store(context.environ)
    # What an agent starts in its own run is no person, even where it has a terminal.
    if not (session.interactive and context.output.human) or INSIDE_RUN in context.environ:
        return
    if settings.trusted or refused(store, project):
        return
    held_back = [one for one in await asyncio.to_thread(planned_commands, context) if one.held_back is not None]
    if not held_back:
        return
    ignored = settings.ignored_line()
    lines = [
        "found in this folder, which is not trusted; they would check each change:",
        *(f"  {one.kind:<10} {escape(one.command)}" for one in held_back),
        *([f"  {ignored}"] if ignored else ()),
    ]
    await person.forget_typed()
    stderr, letter = context.output.stderr, ""
    stderr.write("".join(f"{line}\n" for line in lines))  # also with --quiet: nobody agrees to what was not shown
    while letter not in {"y", "n"}:
        stderr.write("y trust the folder and run them, n go on without (then Enter)? ")
        stderr.flush()
        typed = await person.line()
        if typed is None:
            stderr.write("\n")
            return
        letter = typed.strip()[:1].lower()
    if letter == "n":
        refuse(store, project)
        context.output.note("they do not run; not asked again   pm config trust lets them")
        return
    vouch(context)
    session.reload()
    context.output.note("trusted   pm config trust --revoke takes it back")


async def ask_about_plan(context: Context, outcome: TaskOutcome, person: Person) -> PlanAnswer | None:
    """Ask until there is an answer; None leaves the plan waiting (`pm plan`)."""
    from repl.editing import edit_text
    from runner.core.chunk_plan import plan_text
    from runner.core.evolve import fold

    output = context.output
    state = await asyncio.to_thread(lambda: fold(read_entries(outcome.trace_file)))
    before = text = plan_text(state.plan.subtasks if state.plan else ())
    mine: Mapping[str, Any] | None = None
    while True:
        letter, _, words = (await ask_line(context, person, _QUESTION)).partition(" ")
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
                    text = await edit_text(text, context.environ, suffix=".json")
                    mine = edited_plan(before, text, task_id=outcome.task_id)
                except PmError as error:
                    output.error(error)
                    continue
                lines = preview_lines(mine, task_id=outcome.task_id) if mine is not None else ["  as it was"]
                for line in lines:
                    output.note(line)
            case _:
                pass
