"""What a line typed at `pm>` does: the one interpreter for line mode, piped lines and the full screen.

`captured` runs a line for its JSON record instead of its printed text.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from repl.actions import KeyRow, key_lines
from repl.context import Context
from repl.dispatch import load_handler, refuse_to_agents
from repl.exit_codes import ExitCode, code_of
from repl.permissions import answer_of
from repl.present.output import Output
from repl.present.progress import permissions_text, short_id
from repl.present.report import report_defect
from repl.registry.commands import commands_for, find_command, split_words
from repl.registry.complete import resolve_slash
from repl.registry.parse import parse_arguments
from repl.registry.spec import Command
from repl.session import Session
from tracer.errors import PmError, UsageError

# `pm` where a command is shown: at the start, after a wide gap or after a colon; the command's one or two words follow.
_SHELL_COMMAND = re.compile(r"(?:(?<=^)|(?<=  )|(?<=: ))pm (?=([a-z][a-z-]*(?: [a-z][a-z-]*)?))")


class View(Protocol):
    """What session commands ask of the skin that shows them."""

    name: Literal["line", "screen", "pipe"]

    def leave(self, to: str = "") -> None: ...  # `to`: `line`, `screen` or nothing (leave pm)
    def clear(self) -> None: ...
    def set_option(self, name: str, value: Any) -> None: ...  # `live`, `plain` (bool) or `theme`
    def key_rows(self) -> list[KeyRow]: ...
    async def open_trace(self, task_id: str) -> None: ...  # in full screen, and back
    async def edit_text(self, text: str, *, suffix: str) -> str | None: ...  # None: it failed, and that was said
    def take_back(self, text: str) -> None: ...  # to the input line: it was not sent


class Typed(NamedTuple):
    """A line as understood. `echo` is the full name where a prefix was typed; `bare`: a task without `/run`."""

    kind: Literal["nothing", "task", "command", "keys"]
    text: str = ""
    command: Command | None = None
    words: tuple[str, ...] = ()
    echo: str = ""
    bare: bool = False


def interpret(line: str) -> Typed:
    """What `line` means. Raises UsageError: an unknown or ambiguous command, or quotes that do not close."""
    text = line.strip()
    if not text:
        return Typed("nothing")
    if text == "?":
        return Typed("keys", text)
    if not text.startswith("/") or text.startswith("//"):
        return Typed("task", text[1:] if text.startswith("//") else text, bare=True)
    name, _, rest = text[1:].partition(" ")
    if "\n" in name:
        name, _, rest = text[1:].partition("\n")
    family = _of_family(name, rest)
    if family is not None:
        rest = rest.strip().partition(" ")[2]
        return _taken_whole(text, family, rest) or Typed("command", text, family, tuple(_split(rest, family)))
    command, echo = _command(name)
    whole = _taken_whole(text, command, rest, echo)
    if whole is not None:
        return whole
    if command.name == "run" and rest.strip() and not rest.lstrip().startswith("-"):
        return Typed("task", rest.strip())  # as typed: apostrophes and quotes are the user's own
    words = _split(rest, command)
    base = name if name in {command.name, *command.aliases} else _one_word(command)
    full, left = split_words([base, *words])
    deeper = find_command(full)
    if deeper is not None and "slash" in deeper.surfaces:
        command, words = deeper, left
    return Typed("command", text, command, tuple(words), echo)


def _taken_whole(text: str, command: Command, rest: str, echo: str = "") -> Typed | None:
    """The command with all of `rest` as one word, if that is how it takes its arguments."""
    if not (command.arguments and command.arguments[0].rest):
        return None
    return Typed("command", text, command, (rest.strip(),) if rest.strip() else (), echo)


def _of_family(name: str, rest: str) -> Command | None:
    """The command of two words, where no command has the first of them for its name (`/record status`)."""
    own = find_command(name)
    if own is not None and "slash" in own.surfaces:
        return None
    family = [one.name.removeprefix(f"{name} ") for one in commands_for("slash") if one.name.startswith(f"{name} ")]
    second = rest.strip().partition(" ")[0]
    if second in family:
        return find_command(f"{name} {second}")
    if not family or (not second and resolve_slash(name)[0] is not None):  # /capture alone lists them
        return None
    what = f"/{name} needs a second word" if not second else f"/{name} has no {second!r}"
    raise UsageError(what, why=", ".join(family), next_step=f"/help {name} {family[0]}")


def meant_by(text: str, session: Session) -> str:
    """The command line that a line for the agent was probably meant to be; "" where it reads like a task.

    Evidence is what follows the name, or nearly the name, of a command: it must be what that command takes, and a task
    that it names must be there. `:` and `&` begin commands elsewhere.
    """
    otherwise = "/help" if text[0] in ":&" else ""
    head, _, rest = text.lstrip(":&/ ").partition(" ")
    names = {name: one for one in commands_for("slash") for name in (one.name, *one.aliases) if " " not in name}
    name = head if head in names else next((name for name in names if len(name) > 3 and _one_edit(head, name)), "")
    if not name:
        return otherwise
    command, words = names[name], rest.split()
    first = command.arguments[0] if command.arguments else None
    if words and first is not None and (first.many or first.rest):
        return otherwise  # its words are free: `run the tests` says the same as a task
    try:
        given = parse_arguments(command, words)
        for argument in command.arguments:
            value = getattr(given, argument.name, None)
            if argument.values == "task" and isinstance(value, str):
                session.resolve(value)
    except PmError:
        return otherwise
    return f"/{name} {rest}".strip()


def _one_edit(one: str, other: str) -> bool:
    """Whether a letter more, less or changed, or two that changed places, make the same word of both."""
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    left, right = one[at:], other[at:]
    swapped = left[1::-1] + left[2:] if len(left) > 1 else left
    return one != other and (left[1:] == right[1:] or left[1:] == right or left == right[1:] or swapped == right)


def _one_word(command: Command) -> str:
    """The name that stands for the command at the prompt: `config` for `config show`."""
    return next((name for name in (command.name, *command.aliases) if " " not in name), command.name)


def _command(name: str) -> tuple[Command, str]:
    command, like = resolve_slash(name)
    if command is not None:
        exact = name in {command.name, *command.aliases}
        return command, "" if exact else f"/{_one_word(command)}"
    if len(like) > 1:
        names = ", ".join(f"/{one}" for one in like)
        raise UsageError(f"/{name} could be {names}", next_step="type more of it")
    hint = f" · did you mean /{like[0]}?" if like else ""
    raise UsageError(f"unknown command /{name}{hint}", next_step="/help")


def _split(text: str, command: Command) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        if command.arguments and command.arguments[-1].many:
            return text.split()  # free words: an apostrophe opens no quotation there
        raise UsageError(f"/{command.name}: {error}", next_step=f"/help {command.name}") from error


def slashed(hint: str) -> str:
    """A next step as it is typed at `pm>`: `/show 15` for `pm show 15`; what only a shell can do stays as it is."""
    known = {name for command in commands_for("slash") for name in (command.name, *command.aliases)}
    return _SHELL_COMMAND.sub(lambda found: "/" if {found[1], found[1].split(" ")[0]} & known else found[0], hint)


def for_session(error: PmError) -> PmError:
    """The same error with its next step as it is typed at `pm>`."""
    error.next_step = slashed(error.next_step)
    error.what = error.what.replace("did you mean pm ", "did you mean /")
    error.why = error.why.replace("usage: pm ", "usage: /").replace("did you mean pm ", "did you mean /")
    return error


class Shell:
    """Runs lines for one view. `worst` is the highest exit code so far: what a pipe of lines ends with."""

    def __init__(self, session: Session, *, output: Output, view: View) -> None:
        self.session = session
        self.output = output
        self.view = view
        self.worst = 0
        self._doubted = ""
        session.view = view
        output.rephrase = slashed

    async def run(self, line: str, *, prompt: bool = False) -> int:
        """Do what `line` says, or ask the agent where it is a `prompt`; the exit code of a command of its own."""
        code = await self._guarded(line, prompt=prompt)
        self.worst = max(self.worst, code)
        return code

    async def _guarded(self, line: str, *, prompt: bool) -> int:
        session = self.session
        none = Namespace(directory=None, state_dir=None, config=None, help=False, no_input=False, yes=False)
        context = Context(output=self.output, environ=session.environ, arguments=none, session=session)
        self.output.ended = False
        try:
            return await self._perform(Typed("task", line) if prompt else interpret(line), context)
        except PmError as error:
            self.output.failure(context.command, error, code_of(error.code))
            self.output.error(for_session(error))
            return int(code_of(error.code))
        except BrokenPipeError:
            raise
        except Exception as defect:  # noqa: BLE001 - top of the interactive program: a defect must not end the session
            report = report_defect(defect, context)
            self.output.failure(context.command, report, ExitCode.INTERNAL)
            self.output.error(report)
            return int(ExitCode.INTERNAL)

    async def _perform(self, typed: Typed, context: Context) -> int:
        match typed.kind:
            case "nothing":
                return 0
            case "keys":
                self.output.lines(key_lines(self.view.key_rows(), columns=self.output.columns))
                return 0
            case "task":
                answer = answer_of(typed.text) if self.session.permissions.open_question() else None
                if answer is not None:
                    self.session.permissions.answer(answer)
                    return 0
                self._ask_if_meant(typed)
                return await self.submit(typed.text)
        self._doubted = ""
        command = typed.command
        if command is None:
            return 0
        if typed.echo:
            self.output.note(typed.echo)
        context.command = command.name
        context.arguments = parse_arguments(command, list(typed.words))
        if context.arguments.help:
            from repl.commands.setup.about import show_help

            show_help(context, command)
            return 0
        refuse_to_agents(command, context.environ)
        return await run_handler(command, context)

    def _ask_if_meant(self, typed: Typed) -> None:
        """Raises UsageError, once for each line: it looks like a command, and a task costs money."""
        meant = meant_by(typed.text, self.session) if typed.bare and typed.text != self._doubted else ""
        self._doubted = typed.text if meant else ""
        if meant:
            again = "/run TEXT" if self.view.name == "pipe" else "the same line again"
            self.view.take_back(f"/{typed.text}" if typed.text.startswith("/") else typed.text)
            raise UsageError(
                f"not sent: it looks like the command {meant}",
                next_step=f"{meant}   or, if it is a task for the agent, {again}",
            )

    async def submit(self, prompt: str) -> int:
        if self.session.running and self.view.name != "pipe":
            self.session.queue.append(prompt)
            running = short_id(self.session.running[0])
            self.output.note(f"queued {len(self.session.queue)}: after {running}   /run --isolate TEXT runs it beside")
            return 0
        task_id = await self.session.submit(prompt)
        self.output.record({"type": "started", "task_id": task_id})
        return 0

    async def run_queued(self) -> bool:
        """Start the first waiting input, if nothing runs; whether there was one."""
        if self.session.running or not self.session.queue:
            return False
        line = self.session.queue.pop(0)
        await self.run(line, prompt=True)
        return True

    def status_line(self) -> str:
        executor = self.session.executor_text()
        limit = self.session.chosen("max_iterations")[0]
        criteria = self.session.chosen("criteria")[0]
        shown = ",".join(criteria or ())  # without a choice of the user's it is for each task to say
        current = f"last {short_id(self.session.current)}" if self.session.current else ""
        level = permissions_text(self.session.chosen("permissions")[0])
        return " · ".join(part for part in (executor, level, f"max {limit}", shown, current) if part)


async def run_handler(command: Command, context: Context) -> int:
    """Run a handler inside the running loop; plain ones work in a thread, so that the view stays alive."""
    handler = load_handler(command)
    # Those of the session touch the view and stay in its thread.
    if not asyncio.iscoroutinefunction(handler) and command.group != "session":
        returned = await asyncio.to_thread(handler, context, context.arguments)
    else:
        returned = handler(context, context.arguments)
    return (returned if isinstance(returned, int | None) else await returned) or 0


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
