"""Runs one command and turns its end into an exit code: the outermost boundary of the command line.

Promises: exactly one result or error record in the JSON forms; three lines for an error; a report file and exit 10 for
a defect; 130 and 143 for SIGINT and SIGTERM with a resume hint; a closed pipe ends quietly with 0.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from itertools import takewhile
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from repl.context import Context
from repl.exit_codes import ExitCode, code_of
from repl.present.output import Output, make_output
from tracer.errors import InternalError, PmError, UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from repl.registry.spec import Command

_PATIENCE_S = 1.5
INSIDE_RUN = "PM_ORCHESTRATOR_PROCESS"  # runner.processes.process_table.MARK: importing it costs 30 ms


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; like KeyboardInterrupt it is no Exception, so that nothing swallows it."""


def run_words(words: list[str], *, explain: Callable[[], tuple[str, str, str] | None]) -> int:
    """Parse and run `words`; every way it can end is an exit code. `explain` is as in `repl.cli.main`."""
    if os.name == "nt":
        sys.stderr.write("pm: Windows is not supported; run pm inside WSL 2\n")
        return ExitCode.UNAVAILABLE
    before = _install_signals()
    output = make_output(_guessed_flags(words), os.environ)
    try:
        code = _run(words, output, explain)
        _flush(output)
    except BrokenPipeError:
        _abandon(1)
        return ExitCode.OK
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(code)


def _run(words: list[str], output: Output, explain: Callable[[], tuple[str, str, str] | None]) -> int:
    context = Context(output=output, environ=os.environ, arguments=Namespace(), command=_typed_name(words))
    try:
        command, arguments = _parsed(words)
        context.command, context.arguments = command.name, arguments
        if arguments.json and arguments.jsonl:
            raise UsageError("--json and --jsonl exclude each other", next_step="give one of them")
        return run_command(command, context)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt, Terminated) as ending:  # noqa: BLE001 - the outermost boundary
        told = isinstance(ending, PmError | KeyboardInterrupt | Terminated) and not isinstance(ending, InternalError)
        if not told and (broken := explain()):
            what, why, next_step = broken
            return report_end(context, UnavailableError(what, why=why, next_step=next_step))
        return report_end(context, ending)


def _typed_name(words: list[str]) -> str:
    """What stands in the command's place, for the record of a line that names none; flags alone open the session."""
    from repl.registry.parse import leading_globals

    rest = words[leading_globals(words) :]
    return rest[0] if rest and not rest[0].startswith("-") else "repl"


def _parsed(words: list[str]) -> tuple[Command, Namespace]:
    from repl.registry.commands import GROUPS, find_command
    from repl.registry.parse import leading_globals, parse_command_line

    lead = leading_globals(words)
    first, rest = next(iter(words[lead:]), ""), words[lead + 1 :]
    if first in {"--help", "-h"}:
        named = ["help", *rest]
    elif first in {"--version", "-V"}:
        named = ["version", *rest]
    elif not words[lead:] or first.startswith("-"):
        named = ["repl", *words[lead:]]
    elif first in GROUPS and find_command(first) is None and rest in ([], ["--help"], ["-h"]):
        named = ["help", first]
    else:
        named = words[lead:]
    return parse_command_line([*words[:lead], *named])


def run_command(command: Command, context: Context) -> int:
    if getattr(context.arguments, "help", False):
        from repl.commands.setup.about import show_help

        show_help(context, command)
        return 0
    refuse_to_agents(command, context.environ)
    returned = load_handler(command)(context, context.arguments)
    code = (returned if isinstance(returned, int | None) else _run_async(returned)) or 0
    if code == ExitCode.OK:
        context.output.result(command.name, {})
    elif not context.output.ended:
        error = InternalError(f"{command.name} ended with exit code {code}")
        context.output.failure(command.name, error, code)
    return code


def refuse_to_agents(command: Command, environ: Mapping[str, str]) -> None:
    """What only a user may do is not for an agent to do to its own run.

    Raises UsageError: this process was started by an agent that pm runs.
    """
    if command.person_only and environ.get(INSIDE_RUN):
        raise UsageError(
            f"{command.name} is for the user, and this runs inside an agent's work",
            why=f"{INSIDE_RUN} is set by the pm that started the agent",
            next_step="run it in a terminal of your own",
        )


def load_handler(command: Command) -> Callable[[Context, Namespace], Any]:
    from importlib import import_module  # already loaded by the interpreter

    module, _, function = command.handler.partition(":")
    handler: Callable[[Context, Namespace], Any] = getattr(import_module(module), function)
    return handler


def _run_async(work: Coroutine[Any, Any, int | None]) -> int | None:
    import asyncio  # 50 ms, only for commands that wait for several things

    ended_by: list[BaseException] = []

    async def supervised() -> int | None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def end(reason: BaseException) -> None:
            ended_by.append(reason)
            if task is not None:
                task.cancel()

        for number, reason in (
            (signal.SIGINT, KeyboardInterrupt()),
            (signal.SIGTERM, Terminated()),
            (signal.SIGHUP, Terminated()),
        ):
            loop.add_signal_handler(number, end, reason)
        try:
            return await work
        finally:
            if any(isinstance(reason, Terminated) for reason in ended_by):
                _leave_within(_PATIENCE_S)

    try:
        return asyncio.run(supervised())
    except asyncio.CancelledError:
        raise (ended_by[0] if ended_by else KeyboardInterrupt()) from None


def _leave_within(seconds: float) -> None:
    """End the process whatever still runs in its threads: agents have ended, and what is recorded is durable."""
    from threading import Timer

    timer = Timer(seconds, os._exit, [int(ExitCode.TERMINATED)])
    timer.daemon = True
    timer.start()


def report_end(context: Context, ending: BaseException) -> int:
    output = context.output
    if isinstance(ending, PmError):
        error, code = ending, int(code_of(ending.code))
    elif isinstance(ending, KeyboardInterrupt):
        error, code = _stopped(context, "interrupted"), int(ExitCode.INTERRUPTED)
    elif isinstance(ending, Terminated):
        error, code = _stopped(context, "terminated"), int(ExitCode.TERMINATED)
    else:
        from repl.present.report import report_defect

        error, code = report_defect(ending, context), int(ExitCode.INTERNAL)
    extra = getattr(ending, "record_fields", None)
    output.failure(context.command, error, code, extra)
    output.error(error)
    return code


def _stopped(context: Context, word: str) -> PmError:
    task_id = context.running_task
    next_step = f"pm resume {task_id}" if task_id else ""
    error = UnavailableError(word, why="what was recorded is safe" if task_id else "", next_step=next_step)
    error.code = word  # type: ignore[misc]  # the closing record names the signal's own code
    return error


def _install_signals() -> dict[int, Any]:
    """Take the signals over; what was there before, for callers that live on."""

    def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    # SIGINT too: a child of nohup or of a shell's background job may have inherited "ignore".
    wanted = {signal.SIGTERM: terminate, signal.SIGHUP: terminate, signal.SIGINT: signal.default_int_handler}
    return {number: signal.signal(number, handler) for number, handler in wanted.items()}


def _guessed_flags(words: list[str]) -> dict[str, bool]:
    """The output flags as they stand in `words`, before parsing: a usage error too must keep to the form asked for."""
    given = {{"-q": "--quiet", "-v": "--verbose"}.get(word, word) for word in takewhile(lambda one: one != "--", words)}
    names = ("--json", "--jsonl", "--quiet", "--verbose", "--no-color", "--plain")
    return {name.lstrip("-").replace("-", "_"): name in given for name in names}


def _flush(output: Output) -> None:
    """Hand on what is left; a stream on a full disk was spoken of already, or narration was lost."""
    for number, stream in ((1, output.stdout), (2, output.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError:
            _abandon(number)


def _abandon(number: int) -> None:
    """Point a stream at nothing, so that the interpreter's last flush cannot fail."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, number)
    os.close(nothing)
