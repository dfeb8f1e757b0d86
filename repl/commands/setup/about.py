"""`version`, `help` and `completion`: what the program says about itself, read from the registry."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from repl.context import Context
from repl.exit_codes import ExitCode
from repl.present.text import one_line
from repl.registry.commands import COMMANDS, FRONT, GLOBAL_FLAGS, GROUPS, commands_for, find_command
from repl.registry.complete import candidates, sources_for
from repl.registry.parse import leading_globals, nearest
from repl.registry.spec import Argument, Command, Flag, Group
from repl.version import VERSION
from tracer.errors import NotFoundError

_EVERY = (ExitCode.OK, ExitCode.USAGE, ExitCode.INTERNAL, ExitCode.INTERRUPTED, ExitCode.TERMINATED)


def version(context: Context, _arguments: Namespace) -> None:
    context.output.line(f"pm {VERSION}")
    context.output.result("version", {"version": VERSION})


def help_command(context: Context, arguments: Namespace) -> None:
    topic = " ".join(arguments.topic).removeprefix("/")
    surface, shown = context.surface, commands_for(context.surface)
    if not topic:
        _say(context, overview_lines(surface), {"commands": [_row(command) for command in shown]})
    elif topic in {"exit-codes", "exit codes"}:
        rows = [{"code": int(c), "name": c.name.lower(), "meaning": c.meaning, "retry": c.retry} for c in ExitCode]
        _say(context, _exit_code_lines(), {"exit_codes": rows})
    elif topic in {"flags", "global flags"}:
        lines = ["Global flags, before or after the command", *map(_flag_line, GLOBAL_FLAGS)]
        _say(context, lines, {"flags": [{"name": flag.name, "help": flag.help} for flag in GLOBAL_FLAGS]})
    elif (group := next((name for name in GROUPS if name == topic), None)) is not None:
        commands = [_row(command) for command in shown if command.group == group]
        _say(context, group_lines(group, surface), {"commands": commands})
    elif (command := find_command(topic)) is not None:
        show_help(context, command)
    else:
        like = nearest(topic, [known.name for known in COMMANDS])
        why = f"did you mean {like}?" if like else ""
        raise NotFoundError(f"no command or topic {topic!r}", why=why, next_step="pm help")


def show_help(context: Context, command: Command) -> None:
    told = "\n".join(help_lines(command, context.surface)).split("\n")
    lines = [one for line in told for one in _wrapped(line, context.output.columns)]
    _say(context, lines, {"help": _row(command)})


def _wrapped(line: str, columns: int) -> list[str]:
    """A line of help in lines of `columns` (0: no terminal, as it is), below its last column where it has several."""
    from textwrap import wrap  # 2 ms, for help alone

    if not columns or len(line) < columns:
        return [line]
    gap = line.rfind("  ", 2, 30)
    return wrap(line, columns - 1, subsequent_indent=" " * (gap + 2 if gap > 0 else 2), break_on_hyphens=False)


def _say(context: Context, lines: list[str], fields: dict[str, object]) -> None:
    context.output.lines(lines)
    context.output.result("help", fields)


def _row(command: Command) -> dict[str, object]:
    return {
        "name": command.name,
        "group": command.group,
        "summary": command.summary,
        "usage": command.usage,
        "example": command.example,
        "aliases": list(command.aliases),
        "exit_codes": sorted({*map(int, _EVERY), *command.exits}),
    }


def overview_lines(surface: str) -> list[str]:
    """One screen of 24 lines: what most people need, and the groups that the rest is in."""
    mark = "" if surface == "cli" else "/"
    lines = ["usage: pm COMMAND … [flags]        pm alone opens the pm> prompt", ""] if surface == "cli" else []
    for group, names in FRONT.items():
        shown = [command for name in names if (command := find_command(name)) and surface in command.surfaces]
        for index, command in enumerate(shown):
            title = GROUPS[group].partition(":")[0] if index == 0 else ""
            name = command.aliases[0] if command.name not in names else command.name
            lines.append(f"{title:<9}{mark + name:<10}{command.summary}")
    lines.append("")
    rest = [group for group in GROUPS if group not in FRONT and (group != "session" or surface == "slash")]
    lines.extend(f"{mark}help {group:<13}{GROUPS[group].partition(': ')[2] or GROUPS[group]}" for group in rest)
    if surface == "cli":
        lines.append("help COMMAND explains one; also: help work, look, gate, setup, flags, exit-codes")
    else:
        lines.append("/help COMMAND explains one; also: /help work, look, gate, setup")
        lines.append("Plain text is a task; ? on an empty line lists the keys.")
    return lines


def group_lines(group: Group, surface: str) -> list[str]:
    """Every command of a group in a line."""
    mark = "pm " if surface == "cli" else "/"
    shown = [command for command in commands_for(surface) if command.group == group]
    width = max((len(command.name) for command in shown), default=0) + 2
    lines = [GROUPS[group], *(f"  {command.name:<{width}}{command.summary}" for command in shown)]
    example = shown[0].name if shown else "COMMAND"
    return [*lines, f"{mark}help COMMAND explains one, such as {mark}help {example}"]


def help_lines(command: Command, surface: str) -> list[str]:
    mark = "pm " if surface == "cli" else "/"
    lines = [f"usage: {mark}{command.usage}", "", f"  {command.summary}"]
    if command.description:
        lines.extend(["", *(f"  {line}" for line in command.description.split("\n"))])
    if more := [one.name for one in commands_for(surface) if one.name.startswith(f"{command.name} ")]:
        lines.extend(["", f"  more: {', '.join(more)}"])
    if command.aliases:
        lines.extend(["", f"  also: {', '.join(command.aliases)}"])
    if command.arguments:
        lines.extend(["", "Arguments", *(_argument_line(argument) for argument in command.arguments)])
    if command.flags:
        lines.extend(["", "Flags", *(_flag_line(flag) for flag in command.flags)])
    lines.extend(["", "Example", f"  {command.example}", "", "Exit codes"])
    lines.extend(f"  {int(code):<4}{code.meaning}" for code in ExitCode if code in {*_EVERY, *command.exits})
    return lines


def _argument_line(argument: Argument) -> str:
    choices = (
        f" ({', '.join(argument.choices)})" if argument.choices and argument.choices[0] not in argument.help else ""
    )
    return f"  {argument.name.upper().replace('_', '-'):<26}{argument.help}{choices}"


def _flag_line(flag: Flag) -> str:
    name = f"{flag.short}, {flag.name}" if flag.short else flag.name
    if flag.value:
        name += f" {'|'.join(flag.choices) if flag.choices else flag.value}"
    if flag.negatable:
        name = name.replace("--", "--[no-]", 1)
    return f"  {name:<26}{flag.help}" if len(name) < 25 else f"  {name}\n  {'':<26}{flag.help}"


def _exit_code_lines() -> list[str]:
    lines = [f"{'code':<6}{'name':<14}{'retry?':<21}meaning"]
    lines.extend(f"{int(c):<6}{c.name.lower():<14}{c.retry:<21}{c.meaning}" for c in ExitCode)
    return lines


def completion(context: Context, arguments: Namespace) -> None:
    """The script is thin, because `pm __complete` knows everything; nothing that prints is evaluated by the shell."""
    script = Path(__file__).with_name(f"completion.{arguments.shell}").read_text(encoding="utf-8")
    context.output.line(script.rstrip("\n"))
    context.output.result("completion", {"shell": arguments.shell, "script": script})


def complete(context: Context, arguments: Namespace) -> None:
    """`pm __complete WORD…`: one candidate a line, `text<TAB>help`; the last word is the one at the cursor."""
    words = list(arguments.words)
    words = words[leading_globals(words[:-1]) :]
    for candidate in candidates(words, surface="cli", sources=sources_for(context, "cli")):
        context.output.line(f"{candidate.text}\t{one_line(candidate.help)}")
