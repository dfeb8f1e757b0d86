"""`plan`: the subtasks of a task, shown with how they stand; approved, edited or planned again while it waits."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from repl.commands.work.questions import edited_plan, plan_lines
from repl.commands.work.run import answer_task, with_session
from repl.context import Context
from repl.editing import edit_text
from repl.present.progress import short_id
from repl.present.text import count_text, one_line
from repl.session import Session
from repl.task_request import plan_file
from runner.core.chunk_plan import plan_text
from runner.core.evolve import fold
from runner.core.state import Plan, TaskState
from runner.core.subtasks import standings
from tracer.errors import UsageError
from tracer.journal.reading import read_entries
from tracer.lookup import TaskRef

_MODES = {
    "model": "made by the model",
    "list": "from the list in the request",
    "given": "given",
    "approved": "approved",
    "edited": "edited",
    "continued": "continued",
    "repair": "with a repair",
}


async def plan(context: Context, arguments: Namespace) -> int | None:
    wishes = [bool(arguments.approve), bool(arguments.edit), bool(arguments.file), bool(arguments.again)]
    if sum(wishes) > 1:
        raise UsageError("--approve, --edit, --file and --again exclude each other", next_step="pm help plan")
    async with with_session(context) as (session, _):
        task = session.resolve(arguments.task)
        state = await asyncio.to_thread(lambda: fold(read_entries(task.path)))
        if not any(wishes):
            _show(context, task, state)
            return None
        waiting = _waiting(task, state)
        if arguments.again:
            return await answer_task(context, session, task, "hint", text=arguments.again)
        chosen = None if arguments.approve else await _chosen(context, session, arguments, waiting, task)
        if chosen is None and not arguments.approve:
            context.output.note(f"the plan is as it was   {context.prefix}plan --approve runs it")
            context.output.result("plan", {"task_id": task.task_id, "changed": False})
            return None
        return await answer_task(context, session, task, "continue", plan=chosen)


async def _chosen(
    context: Context, session: Session, arguments: Namespace, waiting: Plan, task: TaskRef
) -> Mapping[str, Any] | None:
    if arguments.file:
        return await asyncio.to_thread(plan_file, context.folder, arguments.file)
    text = plan_text(waiting.subtasks)
    if context.session is not None:
        changed = await session.view.edit_text(text, suffix=".json")
    else:
        changed = await edit_text(text, context.environ, suffix=".json")
    return None if changed is None else edited_plan(text, changed, task_id=task.task_id)


def _waiting(task: TaskRef, state: TaskState) -> Plan:
    if state.final is not None or state.plan is None or not state.plan.proposed:
        raise UsageError(
            f"{task.task_id} has no plan that waits",
            why="only a plan that was proposed (--approve-plan) can be changed",
            next_step=f"pm show {short_id(task.task_id)}",
        )
    return state.plan


def _show(context: Context, task: TaskRef, state: TaskState) -> None:
    output = context.output
    standing = standings(state)
    found = state.plan
    waits = found is not None and found.proposed and state.final is None
    if found is None or not found.subtasks:
        why = f": {one_line(found.reason, 160)}" if found is not None and found.reason else ""
        output.line(f"{task.task_id} runs in one piece{why}")
    else:
        words = [count_text(len(found.subtasks), "subtask"), _MODES.get(found.mode, found.mode)]
        words += ["one after another"] if found.isolation == "direct" else []
        words += ["waits for your word"] if waits else []
        output.line(f"{task.task_id} plan · {' · '.join(word for word in words if word)}")
        output.lines(plan_lines(found.subtasks, standing))
        if waits:
            begin, short = context.prefix, short_id(task.task_id)
            stop = f"{begin}respond {short} stop"
            output.note(f"  next:  {begin}plan {short} --approve | --edit | --again TEXT   or   {stop}")
    record = {
        "task_id": task.task_id,
        "mode": found.mode if found else "single",
        "reason": found.reason if found else "",
        "waits": waits,
        "subtasks": [dict(item.data) for item in found.subtasks] if found else [],
        "standing": [one._asdict() for one in standing],
    }
    output.result("plan", record)
