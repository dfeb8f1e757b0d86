"""From words to arguments: one argparse parser, built for the one command that was named.

Global flags may stand before or after the command. Problems are `UsageError`s with the command's usage as next step;
nothing is printed here and nothing exits.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from repl.registry.commands import COMMANDS, GLOBAL_FLAGS, commands_for, find_command, split_words
from repl.registry.spec import Argument, Command, Flag
from tracer.clock import parse_duration
from tracer.errors import UsageError
from tracer.names import LAST

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method: Any) -> Any:
        """Stand in for typing.override, which Python 3.11 lacks; typing_extensions costs 10 ms."""
        return method


_LAST_WORD = "@last"


class _Formatter(argparse.HelpFormatter):
    """Of a fixed width: argparse makes one for each flag, and else asks for the terminal's each time."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of printing and leaving."""

    command: Command

    @override
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"{self.command.name}: {message}",
            why=f"usage: pm {self.command.brief}",
            next_step=f"pm help {self.command.name}",
        )


def duration_seconds(text: str) -> float:
    """`parse_duration` for argparse: anything else raises `ArgumentTypeError`."""
    seconds = parse_duration(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 15m, 2h or 30d")
    return seconds


def nearest(word: str, names: list[str]) -> str:
    from difflib import get_close_matches  # 10 ms, only after a typing mistake

    found = get_close_matches(word, names, n=1, cutoff=0.6)
    return found[0] if found else ""


def leading_globals(words: list[str]) -> int:
    """How many of the first `words` are global flags with their values."""
    by_name = {name: flag for flag in GLOBAL_FLAGS for name in (flag.name, flag.short) if name}
    index = 0
    while index < len(words):
        word = words[index]
        flag = by_name.get(word.split("=", 1)[0])
        if flag is None or not word.startswith("-"):
            break
        index += 2 if flag.value and "=" not in word else 1
    return min(index, len(words))


def parse_command_line(words: list[str]) -> tuple[Command, argparse.Namespace]:
    """The command that `words` name and its arguments, global flags included.

    Raises UsageError: no such command, or arguments that do not fit it.
    """
    lead = leading_globals(words)
    name, rest = split_words(words[lead:])
    command = find_command(name)
    if command is None:
        named = [*words[lead:], "", ""]
        raise unknown_command(named[0], second=named[1])
    if "cli" not in command.surfaces:
        raise UsageError(
            f"{command.name!r} belongs to a session", why=command.summary, next_step=f"pm   then   /{name}"
        )
    return command, parse_arguments(command, [*words[:lead], *rest])


def unknown_command(word: str, *, second: str = "") -> UsageError:
    listed = [command.name for command in COMMANDS if not command.hidden]
    if second and any(name.startswith(f"{word} {second} ") for name in listed):
        word, second = f"{word} {second}", ""
    family = [name for name in listed if name.startswith(f"{word} ")]
    if family:
        known = ", ".join(name.removeprefix(f"{word} ") for name in family)
        asked = second and not second.startswith("-")
        needed = f"{word!r} needs a {'third' if ' ' in word else 'second'} word"
        what = f"there is no pm {word} {second}" if asked else needed
        return UsageError(what, why=known, next_step=f"pm {family[0]} --help")
    like = nearest(word, [command.name for command in commands_for("cli")])
    hint = f"did you mean pm {like}?" if like else ""
    return UsageError(f"unknown command {word!r}", why=hint, next_step="pm help")


def parse_arguments(command: Command, words: list[str]) -> argparse.Namespace:
    """The arguments of `command` in `words`.

    Raises UsageError: an unknown flag, a missing or superfluous argument, a value that does not fit.
    """
    parser = _Parser(prog=f"pm {command.name}", add_help=False, allow_abbrev=False, formatter_class=_Formatter)
    parser.command = command
    parser.add_argument("--help", "-h", action="store_true", dest="help")
    for flag in (*GLOBAL_FLAGS, *command.flags):
        _add_flag(parser, flag)
    words = _with_negative_values(command, words)
    words, after = _split_at_dashes(command, words)
    words, last = _take_last(command, words)
    wants_help = "--help" in words or "-h" in words
    for argument in command.arguments:
        _add_argument(parser, argument, optional=wants_help or (argument.many and bool(after)))
    found, unknown = parser.parse_known_intermixed_args(words) if _mixes(command) else parser.parse_known_args(words)
    if unknown:
        if last and not unknown[0].startswith("-"):
            parser.error(f"--last and the task {unknown[0]!r} exclude each other")
        _refuse(parser, unknown[0])
    if last:
        setattr(found, command.arguments[0].name, LAST)
        found.last = True
    if after:
        name = command.arguments[-1].name
        setattr(found, name, [*getattr(found, name), *after])
    _refuse_empty(parser, found)
    for flag in command.flags:
        given = getattr(found, flag.destination)
        if flag.least is not None and given is not None and given < flag.least:
            parser.error(f"{flag.name}: {given} is below {flag.least}")
    return found


def _refuse_empty(parser: _Parser, found: argparse.Namespace) -> None:
    """Refuse an empty name: taken for one that was not given, it would mean the newest, or everything."""
    named = [(flag.name, flag.destination) for flag in (*parser.command.flags, *GLOBAL_FLAGS) if flag.names]
    arguments = [argument.name for argument in parser.command.arguments if argument.names]
    for shown, name in (*named, *((name.upper().replace("_", "-"), name) for name in arguments)):
        given = getattr(found, name)
        if given == "" or (isinstance(given, list) and "" in given):
            parser.error(f"{shown} is empty")


def _with_negative_values(command: Command, words: list[str]) -> list[str]:
    """A value such as `-1d` joined to its flag: argparse takes it for a flag, and misses the value."""
    end = words.index("--") if "--" in words else len(words)
    takes = {name for flag in (*GLOBAL_FLAGS, *command.flags) if flag.value for name in (flag.name, flag.short) if name}
    joined = list[str]()
    for at, word in enumerate(words):
        if joined and at < end and words[at - 1] in takes and word[:1] == "-" and word[1:2].isdecimal():
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _split_at_dashes(command: Command, words: list[str]) -> tuple[list[str], list[str]]:
    """The words before `--`, and those behind it for a command that takes many; argparse's mixing loses the mark."""
    if "--" not in words or not _mixes(command):
        return words, []
    mark = words.index("--")
    return words[:mark], words[mark + 1 :]


def _take_last(command: Command, words: list[str]) -> tuple[list[str], bool]:
    """`--last` stands for the task: put in the first argument's place, so that those behind it keep theirs."""
    if LAST not in words or not command.arguments or command.arguments[0].values != "task":
        return words, False
    return [_LAST_WORD, *(word for word in words if word != LAST)], True


def _mixes(command: Command) -> bool:
    return any(argument.many for argument in command.arguments)


def _refuse(parser: _Parser, word: str) -> NoReturn:
    command = parser.command
    if not word.startswith("-"):
        known = [one.name for one in COMMANDS if not one.hidden]
        like = nearest(f"{command.name} {word}", [name for name in known if name.startswith(f"{command.name} ")])
        parser.error(f"unexpected argument {word!r}" + (f"; did you mean pm {like}?" if like else ""))
    like = nearest(word.split("=", 1)[0], [flag.name for flag in (*command.flags, *GLOBAL_FLAGS)])
    parser.error(f"unknown flag {word!r}" + (f"; did you mean {like}?" if like else ""))


def _add_flag(parser: _Parser, flag: Flag) -> None:
    names = [name for name in (flag.short, flag.name) if name]
    options: dict[str, Any] = {"dest": flag.destination, "default": None}
    if not flag.value:
        if flag.negatable:
            parser.add_argument(flag.name, action=argparse.BooleanOptionalAction, **options)
        else:
            parser.add_argument(*names, action="store_true", dest=flag.destination, default=False)
        return
    kinds: dict[str, Any] = {"text": str, "integer": int, "number": float, "duration": duration_seconds}
    options |= {"metavar": flag.value, "type": kinds[flag.kind]}
    if flag.bare:
        options |= {"nargs": "?", "const": flag.bare}
    if flag.choices:
        options["choices"] = flag.choices
    if flag.repeat:
        options["action"] = "append"
    elif flag.many:
        options |= {"action": "extend", "nargs": "+"}
    parser.add_argument(*names, **options)


def _add_argument(parser: _Parser, argument: Argument, *, optional: bool) -> None:
    options: dict[str, Any] = {"metavar": argument.name.upper().replace("_", "-")}
    if argument.many or argument.rest:
        options["nargs"] = "+" if argument.required and not optional else "*"
    elif not argument.required or optional:
        options["nargs"] = "?"
    if argument.choices:
        options["choices"] = argument.choices
    if options.get("nargs") == "*":
        options["default"] = []
    parser.add_argument(argument.name, **options)
