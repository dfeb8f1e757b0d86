"""`version`, `help` and `completion`: what the program says about itself, read from the registry."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from repl.exit_codes import MEANINGS, RETRY, ExitCode
from repl.registry.commands import COMMANDS, GLOBAL_FLAGS, GROUPS, commands_for, find_command
from repl.registry.spec import Argument, Command, Flag
from repl.version import VERSION
from tracer.errors import NotFoundError

if TYPE_CHECKING:
    from repl.context import Context

_EVERY = (ExitCode.OK, ExitCode.USAGE, ExitCode.INTERNAL, ExitCode.INTERRUPTED, ExitCode.TERMINATED)


def version(context: Context, _arguments: Namespace) -> int:
    context.output.line(f"pm {VERSION}")
    context.output.result("version", {"version": VERSION})
    return 0


def help_command(context: Context, arguments: Namespace) -> int:
    topic = " ".join(arguments.topic).removeprefix("/")
    surface = "cli" if context.session is None else "slash"
    if not topic:
        return _say(
            context, overview_lines(surface), {"commands": [_row(command) for command in commands_for(surface)]}
        )
    if topic in {"exit-codes", "exit codes"}:
        rows = [{"code": int(c), "name": c.name.lower(), "meaning": MEANINGS[c], "retry": RETRY[c]} for c in ExitCode]
        return _say(context, _exit_code_lines(), {"exit_codes": rows})
    command = find_command(topic)
    if command is None:
        from repl.registry.parse import nearest

        like = nearest(topic, [known.name for known in COMMANDS])
        raise NotFoundError(
            f"no command or topic {topic!r}", why=f"did you mean {like}?" if like else "", next_step="pm help"
        )
    return show_help(context, command)


def show_help(context: Context, command: Command) -> int:
    surface = "cli" if context.session is None else "slash"
    return _say(context, help_lines(command, surface), {"help": _row(command)})


def _say(context: Context, lines: list[str], fields: dict[str, object]) -> int:
    context.output.lines(lines)
    context.output.result("help", fields)
    return 0


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
    mark = "" if surface == "cli" else "/"
    lines = ["usage: pm COMMAND … [flags]", ""] if surface == "cli" else []
    shown = commands_for(surface)
    width = max(len(command.name) for command in shown) + len(mark) + 2
    for group, title in GROUPS.items():
        rows = [command for command in shown if command.group == group]
        if rows:
            lines.append(title)
            lines.extend(f"  {mark + command.name:<{width}}{command.summary}" for command in rows)
            lines.append("")
    if surface == "cli":
        lines.append("Global flags")
        lines.extend(_flag_line(flag) for flag in GLOBAL_FLAGS)
        lines.append("")
        lines.append("pm help COMMAND explains one command; pm help exit-codes lists the exit codes.")
    else:
        lines.append("/help COMMAND explains one; plain text is a task; ? on an empty line lists the keys.")
    return lines


def help_lines(command: Command, surface: str) -> list[str]:
    mark = "pm " if surface == "cli" else "/"
    lines = [f"usage: {mark}{command.usage}", "", f"  {command.summary}"]
    if command.description:
        lines.extend(["", *(f"  {line}" for line in command.description.split("\n"))])
    if command.aliases:
        lines.extend(["", f"  also: {', '.join(command.aliases)}"])
    if command.arguments:
        lines.extend(["", "Arguments", *(_argument_line(argument) for argument in command.arguments)])
    if command.flags:
        lines.extend(["", "Flags", *(_flag_line(flag) for flag in command.flags)])
    lines.extend(["", "Example", f"  {command.example}", "", "Exit codes"])
    codes = sorted({*_EVERY, *map(ExitCode, command.exits)})
    lines.extend(f"  {int(code):<4}{MEANINGS[code]}" for code in codes)
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
    lines.extend(f"{int(c):<6}{c.name.lower():<14}{RETRY[c]:<21}{MEANINGS[c]}" for c in ExitCode)
    return lines


def completion(context: Context, arguments: Namespace) -> int:
    from repl.commands.setup.completion import script_for

    context.output.line(script_for(arguments.shell).rstrip("\n"))
    context.output.result("completion", {"shell": arguments.shell, "script": script_for(arguments.shell)})
    return 0
