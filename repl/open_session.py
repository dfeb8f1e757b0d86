"""`pm` without a command: one session shown in full screen, in line mode or over a pipe, and the switch between them.

All views share one `Session` in one event loop. Also the first lines of a session and the reader of piped lines.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator
from threading import Thread

from repl.context import Context
from repl.executor_choice import choose_executor
from repl.present.progress import short_id
from repl.present.text import count_text, one_line
from repl.session import Session
from repl.version import VERSION
from tracer.catalog.tasks import TaskRow, list_tasks
from tracer.errors import LockedError, PmError, UsageError
from tracer.statedir import STATE_DIR_NAME

_CHUNK = 65536


async def stdin_lines() -> AsyncGenerator[str]:
    """Each line without its end; the last one also where it has none. Bytes that are not UTF-8 are shown as escapes."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        while line := await asyncio.to_thread(sys.stdin.readline):
            yield line.rstrip("\n")
        return
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except OSError:
                data = b""
            if loop.is_closed():
                return
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, data)
            except RuntimeError:  # the loop ended in between
                return
            if not data:
                return

    Thread(target=read, name="stdin", daemon=True).start()
    rest = b""
    while data := await chunks.get():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "backslashreplace").rstrip("\r")
    if rest:
        yield rest.decode("utf-8", "backslashreplace")


_OPEN = ("UNFINISHED", "AWAITING_RESPONSE")


def greeting_lines(session: Session) -> list[str]:
    """Where we are, and the most useful next step."""
    try:
        rows = list_tasks(session.state_dir)
        count = count_text(len(rows), "task")
    except PmError as error:
        rows, count = [], f"tasks cannot be read: {error.what} (/doctor)"
    open_rows = [row for row in rows if row.status in _OPEN]
    unfinished = f", {len(open_rows)} unfinished" if open_rows else ""
    try:
        chosen = choose_executor(session.settings, session.environ)
        agent = f"executor {chosen}"
    except PmError:
        agent, chosen = "no executor", ""
    place = one_line(os.path.relpath(session.state_dir, session.folder))
    first = f"pm {VERSION} · {one_line(session.folder.name)} · {agent} · {count}{unfinished}"
    first += f" · state {place}" if place != STATE_DIR_NAME else ""
    parts = ["/help commands", "? keys"]
    if open_rows:
        parts.append(_resumable(open_rows[0]))
    elif not chosen:
        parts.append("/demo needs no key · /doctor says what is missing")
    elif not rows:
        parts.append(f"{chosen} does the work: /executor NAME changes that")
    ignored = session.settings.ignored_line()
    return [first, " · ".join(parts), *([ignored] if ignored else [])]


def _resumable(row: TaskRow) -> str:
    title, short = one_line(row.title, 40), short_id(row.task_id)
    if row.status == "AWAITING_RESPONSE":
        return f'/respond {short} answers "{title}" (iteration {row.iterations}, last verdict {_last(row)})'
    after = f"stopped after {_last(row)}, iteration {row.iterations}" if row.judgments else "stopped before an answer"
    return f'/resume {short} continues "{title}" ({after})'


def _last(row: TaskRow) -> str:
    return row.judgments[-1] if row.judgments else "none"


def resume_hints(unfinished: list[str]) -> list[str]:
    if not unfinished:
        return []
    return [f"{len(unfinished)} unfinished: {', '.join(unfinished)}   pm resume {short_id(unfinished[-1])}"]


async def repl(context: Context, arguments: Namespace) -> int | None:
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
                from repl.line.pipe import PipeView

                return await PipeView(session, context.output).run(stdin_lines())
            from repl.commands.work.questions import Person, ask_trust

            await ask_trust(context, session, Person())
            await _skins(session, context, _mode(context, arguments))
            return None
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
    return "screen"


async def _skins(session: Session, context: Context, mode: str) -> None:
    greeting = await asyncio.to_thread(greeting_lines, session)
    while mode:
        if mode == "screen":
            from repl.screen.app import run_screen  # textual, 150 ms: only where it is shown

            mode = await run_screen(session, greeting=greeting)
        else:
            from repl.line.view import LineView  # prompt_toolkit, 60 ms

            mode = await LineView(session, model=context.output).run(greeting=greeting)
        greeting = []
