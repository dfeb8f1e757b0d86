"""`pm undo TASK`: put back what a task changed; a second time puts its work in again."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import TYPE_CHECKING

from repl.commands.captures.consent import ask_yes, can_ask
from repl.present.progress import short_id
from repl.present.text import count_text, one_line
from runner.undo.undo import UndoResult, undo_task
from tracer.errors import UsageError

if TYPE_CHECKING:
    from repl.context import Context

NOT_WHOLE = 6
_VERBS = {"restored": "put back", "removed": "removed", "changed": "changed back"}


async def undo(context: Context, arguments: Namespace) -> int:
    task_id = context.task(arguments.task).task_id
    if not arguments.yes and not await _agreed(context, task_id, arguments.iteration):
        context.output.line("nothing was changed")
        context.output.result("undo", {"task_id": task_id, "changed": False})
        return 0
    done = await asyncio.to_thread(undo_task, context.state_dir, task_id, iteration=arguments.iteration)
    context.output.lines(undo_lines(done))
    context.output.line(_closing(done, "pm " if context.session is None else "/"))
    fields = {
        "task_id": task_id,
        "kind": done.kind,
        "files": [one._asdict() for one in done.files],
        "conflicts": [one._asdict() for one in done.conflicts],
        "repository": list(done.repository),
        "lost": list(done.lost),
    }
    context.output.result("undo", fields)
    return 0 if done.whole else NOT_WHOLE


async def _agreed(context: Context, task_id: str, iteration: int | None) -> bool:
    if context.session is not None and context.session.view.name != "pipe":
        return True  # typed at a prompt, it is wanted; the same line takes it back
    if context.session is not None or not can_ask(context):
        why, following = "nobody can be asked here", f"pm undo {task_id} --yes"
        raise UsageError("undo changes your files", why=why, next_step=following)
    shown = await asyncio.to_thread(undo_task, context.state_dir, task_id, iteration=iteration, dry_run=True)
    for line in undo_lines(shown):
        context.output.note(line)
    return await asyncio.to_thread(ask_yes, context, f"{shown.kind} {task_id}?", default=False)


def undo_lines(done: UndoResult) -> list[str]:
    lines = [f"  {_VERBS[one.status]:<13} {one_line(one.path)}" for one in done.files]
    lines += [f"  {'repository':<13} {one_line(one)}" for one in done.repository]
    for one in done.conflicts:
        kept = f"; the other version is {one.kept_as}" if one.kept_as else ""
        lines.append(f"  {'conflict':<13} {one_line(one.path)}: yours stays{one_line(kept)}")
    return [*lines, *(f"  {'not put back':<13} {one_line(one)}" for one in done.lost)]


def _closing(done: UndoResult, prefix: str) -> str:
    if done == UndoResult(done.task_id, done.kind):
        return f"{done.task_id} left nothing to undo"
    what = "undone" if done.kind == "undo" else "its work is in again"
    parts = [f"{done.task_id} {what}", count_text(len(done.files), "file")]
    parts += [count_text(len(done.conflicts), "conflict")] if done.conflicts else []
    parts += [f"{len(done.lost)} not put back"] if done.lost else []
    other = "puts the work in again" if done.kind == "undo" else "takes it back"
    return f"{' · '.join(parts)}      {prefix}undo {short_id(done.task_id)} {other}"
