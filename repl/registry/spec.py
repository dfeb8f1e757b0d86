"""What a command is, as data: the one description that parser, help, completion, palette and docs read.

Nothing here acts, and only `typing` is imported: reading the registry must cost next to nothing at start.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Group = Literal["work", "look", "gate", "setup", "sessions", "record", "capture", "admin", "session"]
Surface = Literal["cli", "slash"]
# What completes a value: the words themselves (`choices`) or a kind that repl.registry.complete knows.
Values = Literal[
    "", "task", "event", "file", "folder", "executor", "config-key", "criterion", "status", "command", "theme", "key"
]


_FREE = ("TEXT", "MSG", "CMD", "CONDITION", "OP:MODULE", "WHEN", "D")  # placeholders of flags whose value is no name


class Argument(NamedTuple):
    """A positional argument. `many` takes all remaining words; `rest` takes the rest of the line as typed.

    `text` is one that may be empty, or says itself what is wrong with that.
    """

    name: str
    help: str
    required: bool = True
    many: bool = False
    values: Values = ""
    choices: tuple[str, ...] = ()
    rest: bool = False
    text: bool = False

    @property
    def names(self) -> bool:
        """Whether its words name something, so that an empty one (an unset variable of a shell) is a mistake."""
        return not self.text and not self.rest and (bool(self.values) or not self.many)


class Flag(NamedTuple):
    """An option. Without `value` (its placeholder) it is a switch; `repeat` collects every occurrence.

    `setting` names the declared setting that this flag is the first layer of; type, choices and default live there.
    `bare` is what the option means without its value; empty where a value must follow. `many` takes several values.
    `least` is the smallest value of an integer.
    """

    name: str
    help: str
    value: str = ""
    short: str = ""
    repeat: bool = False
    values: Values = ""
    choices: tuple[str, ...] = ()
    kind: Literal["text", "integer", "number", "duration"] = "text"
    setting: str = ""
    negatable: bool = False
    bare: str = ""
    many: bool = False
    least: int | None = None

    @property
    def names(self) -> bool:
        """As of an argument; what a setting may be is told by the setting."""
        return bool(self.value) and not self.setting and self.value not in _FREE

    @property
    def destination(self) -> str:
        """The attribute of the parsed arguments: `--max-iterations` → `max_iterations`."""
        return self.name.lstrip("-").replace("-", "_")


class Command(NamedTuple):
    """One command: the same name in `pm NAME`, `/NAME`, the palette and the documentation.

    `handler` is `module:function`, imported only when the command runs: `(Context, Namespace) -> int | None`, plain or
    async; None is exit code 0. `exits` lists the exit codes beside 0, 2, 10, 130 and 143, which every command can end
    with. `person_only` commands are refused to an agent inside its own run.
    """

    name: str
    group: Group
    summary: str
    handler: str
    example: str
    arguments: tuple[Argument, ...] = ()
    flags: tuple[Flag, ...] = ()
    exits: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()
    surfaces: tuple[Surface, ...] = ("cli", "slash")
    description: str = ""
    palette: str = ""
    hidden: bool = False
    person_only: bool = False

    @property
    def slash(self) -> str:
        return f"/{self.name}"

    @property
    def palette_text(self) -> str:
        return self.palette or self.summary

    @property
    def brief(self) -> str:
        """`run PROMPT [flags]`: the usage on one line."""
        return self._replace(flags=()).usage + (" [flags]" if self.flags else "")

    @property
    def usage(self) -> str:
        """`run PROMPT [--executor NAME] …`, without the program's name."""
        parts = [self.name]
        for argument in self.arguments:
            shown = argument.name.upper().replace("_", "-") + ("…" if argument.many or argument.rest else "")
            parts.append(shown if argument.required else f"[{shown}]")
        parts.extend(f"[{flag.name}{' ' + flag.value if flag.value else ''}]" for flag in self.flags)
        return " ".join(parts)
