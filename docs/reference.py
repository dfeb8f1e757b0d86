"""The reference pages of the documentation, from the registry, the settings and the keys."""

from __future__ import annotations

from repl.actions import key_rows
from repl.exit_codes import ExitCode
from repl.registry.commands import COMMANDS, GLOBAL_FLAGS, GROUPS
from repl.registry.spec import Command, Flag
from tracer.settings.declared import SETTINGS, Setting

_GENERATED = "<!-- Written by `make docs`; change the declarations, not this page. -->\n"


def command_pages() -> dict[str, str]:
    """The pages below docs/commands/ by name: one for each group, and the index with what all commands share."""
    groups = {
        group: members
        for group in GROUPS
        if (members := [command for command in COMMANDS if command.group == group and command.name[0] != "_"])
    }
    pages = {
        group: "\n".join([f"# {GROUPS[group]}\n", _GENERATED, *map(_command, members)])
        for group, members in groups.items()
    }
    listed = [f"- [{GROUPS[group]}]({group}.md): {_names(members)}" for group, members in groups.items()]
    pages["index"] = "\n".join(
        [
            "# Commands\n",
            _GENERATED,
            (
                "The same names work as `pm NAME` on the command line and as `/NAME` at the `pm>` prompt, where a "
                "table does not say otherwise.\n"
            ),
            "\n".join(listed) + "\n",
            "## Global flags\n",
            "Before or after the command.\n",
            _flag_table(GLOBAL_FLAGS),
            "## Exit codes\n",
            _exit_codes(),
        ]
    )
    return pages


def _names(members: list[Command]) -> str:
    return ", ".join(f"`{command.name}`" for command in members)


def _command(command: Command) -> str:
    mark = "pm " if "cli" in command.surfaces else "/"
    lines = [f"## {command.name}\n", f"{_sentence(command.summary)}\n", f"```\n{mark}{command.usage}\n```\n"]
    if command.description:
        lines.append(f"{command.description}\n")
    if command.arguments:
        rows = [f"| `{each.name.upper()}` | {_cell(each.help)} |" for each in command.arguments]
        lines.append("\n".join(["| argument | meaning |", "|---|---|", *rows]) + "\n")
    if command.flags:
        lines.append(_flag_table(command.flags))
    notes = [f"Example: `{command.example}`"]
    if command.aliases:
        notes.append(f"also `{'`, `'.join(command.aliases)}`")
    if command.surfaces != ("cli", "slash"):
        notes.append("on the command line only" if command.surfaces == ("cli",) else "at the prompt only")
    if command.exits:
        notes.append(f"exit codes beside the common ones: {', '.join(str(int(code)) for code in command.exits)}")
    lines.append(" · ".join(notes) + "\n")
    return "\n".join(lines)


def _flag_table(flags: tuple[Flag, ...]) -> str:
    rows = []
    for flag in flags:
        names = f"`{flag.short}`, `{flag.name}`" if flag.short else f"`{flag.name}`"
        value = f" `{flag.value}`" if flag.value else ""
        rows.append(f"| {names}{value} | {_cell(flag.help)} |")
    return "\n".join(["| flag | meaning |", "|---|---|", *rows]) + "\n"


def _exit_codes() -> str:
    rows = [f"| {int(code)} | {code.name.lower()} | {_cell(code.meaning)} | {code.retry} |" for code in ExitCode]
    return "\n".join(["| code | name | meaning | try again? |", "|---|---|---|---|", *rows]) + "\n"


def configuration_page() -> str:
    """docs/configuration.md."""
    sections: dict[str, list[Setting]] = {}
    for setting in SETTINGS:
        sections.setdefault(setting.section, []).append(setting)
    parts = [
        "# Configuration\n",
        _GENERATED,
        (
            "Layers, highest first: flags, `PM_*` environment variables, `.pm-orchestrator/config.local.toml` (not "
            "committed), `.pm-orchestrator/config.toml` (committed), your user file, defaults. `pm config show` says "
            "which layer won and what it overrode; `pm config path` lists the files.\n"
        ),
        (
            "A project's files are used for guarded settings (marked *guarded*) only after `pm config trust` in that "
            "folder; trust is bound to the files' content. `pm config set` vouches for what it writes into a file that "
            "was trusted or is new. Secrets are never settings: they belong into the "
            "environment or into a key file with mode 0600. PostgreSQL's password can stand in ~/.pgpass or the file "
            "that PGPASSFILE names; of one in `collector.database` every command shows `***`. A service reads its "
            "settings at its start.\n"
        ),
    ]
    for section, members in sections.items():
        parts += [f"## {section}\n", _settings_table(members)]
    return "\n".join(parts)


def _settings_table(members: list[Setting]) -> str:
    rows = []
    for setting in members:
        values = ", ".join(f"`{choice}`" for choice in setting.choices) or setting.kind
        guarded = " *guarded*" if setting.guarded else ""
        names = " ".join(f"`{name}`" for name in (setting.flag, setting.env) if name)
        rows.append(f"| `{setting.key}` | {_cell(setting.help)}{guarded} | {values} | {_default(setting)} | {names} |")
    return "\n".join(["| key | meaning | value | default | flag, variable |", "|---|---|---|---|---|", *rows]) + "\n"


def _default(setting: Setting) -> str:
    if setting.default is None or setting.default == ():
        return ""
    if isinstance(setting.default, bool):
        return "`true`" if setting.default else "`false`"
    return f"`{setting.default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def keys_page() -> str:
    """docs/keys.md."""
    rows = key_rows({}, mode="screen")
    line = {row.id: row.keys for row in key_rows({}, mode="line")}
    parts = [
        "# Keys\n",
        _GENERATED,
        (
            "Every key can be changed by its id, in line mode and full screen alike: `pm config set repl.keys.ID KEY`, "
            "such as `pm config set repl.keys.home.diff x`. Alternatives are written with commas, sequences (line mode "
            "alone) with blanks: `ctrl+x ctrl+e`. `?` on an empty line and `/keys` print the keys that hold, `Ctrl+P` "
            "finds them by name.\n"
        ),
    ]
    for place in dict.fromkeys(row.place for row in rows):
        shown = [
            f"| {_cell(line.get(row.id, row.keys))} | {_cell(row.what)} | {'yes' if row.line else ''} | `{row.id}` |"
            for row in rows
            if row.place == place
        ]
        heading = f"## {place[:1].upper()}{place[1:]}\n"
        parts += [heading, "\n".join(["| key | does | line mode | id |", "|---|---|---|---|", *shown]) + "\n"]
    return "\n".join(parts)
