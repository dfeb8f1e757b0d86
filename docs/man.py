"""The man page, from the registry: `make docs` writes docs/pm.1, the wheel puts it below share/man."""

from __future__ import annotations

from repl.exit_codes import ExitCode
from repl.registry.commands import COMMANDS, GLOBAL_FLAGS, GROUPS
from repl.registry.spec import Flag
from repl.version import VERSION


def man_page() -> str:
    """docs/pm.1, in the macros of man(7)."""
    lines = [
        '.\\" Written by `make docs`; change the declarations, not this page.',
        f'.TH PM 1 "" "pm {VERSION}" "User Commands"',
        ".SH NAME",
        "pm \\- put a coding agent to work, judge what it did, send it back until it is right",
        ".SH SYNOPSIS",
        ".B pm",
        "[\\fIflags\\fR] [\\fIcommand\\fR] [\\fIarguments\\fR]",
        ".SH DESCRIPTION",
        "Without a command the prompt is opened. Each command tells about itself with \\fB\\-\\-help\\fR.",
        ".SH GLOBAL FLAGS",
        *(line for flag in GLOBAL_FLAGS for line in _flag(flag)),
    ]
    for group, heading in GROUPS.items():
        members = [each for each in COMMANDS if each.group == group and not each.hidden and "cli" in each.surfaces]
        if members:
            lines.append(f".SH {_text(heading).upper()}")
        for command in members:
            lines += [".TP", f".B pm {_text(command.usage)}", _text(f"{command.summary}.")]
    lines.append(".SH EXIT STATUS")
    for code in ExitCode:
        lines += [".TP", f".B {int(code)}", _text(code.meaning)]
    return "\n".join(lines) + "\n"


def _flag(flag: Flag) -> list[str]:
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in (flag.short, flag.name) if name)
    return [".TP", names + (f" \\fI{_text(flag.value)}\\fR" if flag.value else ""), _text(flag.help)]


def _text(words: str) -> str:
    """`words` with what roff would take for its own: backslashes, dashes, a leading dot or quote."""
    plain = words.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
