"""`pm` without a command: the session, in full screen, line mode or over a pipe, and the change between them.

All skins share one `Session` in one event loop. Leaving prints what is unfinished and how to resume it.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from importlib import import_module
from importlib.util import find_spec

from repl.commands.context import Context
from repl.greeting import greeting_lines, resume_hints
from repl.session import Session
from repl.stdin_lines import stdin_lines
from tracer.errors import LockedError, UsageError

__all__ = ["repl"]


async def repl(context: Context, arguments: Namespace) -> int:
    """`pm [--line|--screen] [--resume TASK|--last]`."""
    if arguments.line and arguments.screen:
        raise UsageError("--line and --screen exclude each other")
    piped = not sys.stdin.isatty()
    if piped and (arguments.screen or not context.output.human):
        context.output.detail("reading lines from a pipe")
    session = Session(context, interactive=not piped and not arguments.no_input)
    async with session:
        try:
            if arguments.resume or arguments.last:
                task = session.resolve(arguments.resume)
                try:
                    await session.resume(task.task_id)
                except LockedError:
                    holder = session.follow_elsewhere(task.task_id)
                    who = holder.describe() if holder else "another process"
                    context.output.note(f"{task.task_id} is run by {who}: shown here, read only")
            if piped or not sys.stdout.isatty():
                return await _piped(session, context)
            return await _skins(session, context, _mode(context, arguments))
        finally:
            for task_id in session.running:
                context.running_task = task_id
            for line in resume_hints(session.unfinished()):
                context.output.note(line)


def _mode(context: Context, arguments: Namespace) -> str:
    """What opens: the flag, else the setting, else full screen on a terminal that can show it."""
    setting = str(context.settings().get("repl.mode"))
    if arguments.line or setting == "line":
        return "line"
    if context.output.plain:
        if arguments.screen:
            context.output.note("this terminal is plain: line mode")
        return "line"
    if find_spec("repl.screen.app") is None:
        return "line"
    return "screen"


async def _skins(session: Session, context: Context, mode: str) -> int:
    greeting = await asyncio.to_thread(greeting_lines, session)
    while mode:
        if mode == "screen":
            run_screen = import_module("repl.screen.app").run_screen  # textual, 150 ms: only where it is shown
            mode = await run_screen(session, greeting=greeting)
        else:
            from repl.line.view import LineView  # prompt_toolkit, 60 ms

            mode = await LineView(session, model=context.output).run(greeting=greeting)
        greeting = []
    return 0


async def _piped(session: Session, context: Context) -> int:
    from repl.line.pipe import PipeView

    view = PipeView(session, context.output)
    return await view.run(stdin_lines())
