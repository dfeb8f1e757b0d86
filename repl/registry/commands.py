"""Every command, once. `pm`, `pm>`, full screen, palette, completion, help and docs all read `COMMANDS`.

Pure data over `repl.registry.spec`. A new command is a row in `repl.registry.rows` and a handler; `make docs` then
renews the pages.
"""

from __future__ import annotations

from repl.registry.rows.captures import (
    CAPTURE_COMMANDS,
    CAPTURE_EXPORT_COMMANDS,
    COLLECTOR_COMMANDS,
    JUDGE_COMMANDS,
    QA_COMMANDS,
)
from repl.registry.rows.look import INSIGHT_COMMANDS, SERVICE_COMMANDS, TRACE_COMMANDS
from repl.registry.rows.prompt import SESSION_COMMANDS
from repl.registry.rows.sessions import DISTILL_COMMANDS
from repl.registry.rows.setup import SETTINGS_COMMANDS
from repl.registry.rows.work import TASK_COMMANDS
from repl.registry.spec import Command, Flag, Group

GROUPS: dict[Group, str] = {
    "work": "Work: give it to an agent, and follow it",
    "look": "Look: what was done, and how",
    "gate": "Gate: judge files and answers",
    "setup": "Set-up: this machine, this project, the browser",
    "sessions": "Sessions: what agents did by themselves, distilled",
    "record": "Record: fix a bug in a recorded shell",
    "capture": "Captures: recorded bug fixes at a collector",
    "admin": "Administration: tokens, workers, deleting, secrets",
    "session": "This session",
}

# What `pm --help` shows of each group; `pm help GROUP` shows all of it.
FRONT: dict[Group, tuple[str, ...]] = {
    "work": ("run", "resume", "respond", "stop", "undo", "review"),
    "look": ("tasks", "show", "diff", "trace"),
    "gate": ("gate", "check"),
    "setup": ("doctor", "config", "serve", "demo"),
}

GLOBAL_FLAGS: tuple[Flag, ...] = (
    Flag("--directory", "work in this folder instead of the current one", "DIR", "-C", values="folder"),
    Flag("--state-dir", "keep state here instead of .pm-orchestrator", "DIR", values="folder"),
    Flag("--config", "read this configuration file too, above the project's", "FILE", values="file"),
    Flag("--json", "one JSON object on stdout"),
    Flag("--jsonl", "JSON lines on stdout, the result last"),
    Flag("--quiet", "results and errors only", short="-q"),
    Flag("--verbose", "more about what happens", short="-v"),
    Flag("--no-color", "no colour"),
    Flag("--plain", "no colour, no moving line, ASCII"),
    Flag("--no-input", "never ask; a needed answer is an error that names its flag"),
    Flag("--yes", "answer yes to questions", short="-y"),
)

_LAST = Flag("--last", "the newest task of this project")


def _with_last(command: Command) -> Command:
    """Whatever takes a task takes `--last` in its place."""
    takes_task = bool(command.arguments) and command.arguments[0].values == "task"
    known = any(flag.name == _LAST.name for flag in command.flags)
    return command._replace(flags=(_LAST, *command.flags)) if takes_task and not known else command


_ROWS: tuple[Command, ...] = (
    *TASK_COMMANDS,
    *TRACE_COMMANDS,
    *SERVICE_COMMANDS,
    *DISTILL_COMMANDS,
    *CAPTURE_COMMANDS,
    *INSIGHT_COMMANDS,
    *COLLECTOR_COMMANDS,
    *CAPTURE_EXPORT_COMMANDS,
    *QA_COMMANDS,
    *JUDGE_COMMANDS,
    *SETTINGS_COMMANDS,
    *SESSION_COMMANDS,
)

COMMANDS: tuple[Command, ...] = tuple(_with_last(command) for command in _ROWS)
_BY_NAME: dict[str, Command] = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def find_command(name: str) -> Command | None:
    return _BY_NAME.get(name)


def commands_for(surface: str) -> tuple[Command, ...]:
    """The commands a surface (`cli` or `slash`) shows, in registry order."""
    return tuple(command for command in COMMANDS if surface in command.surfaces and not command.hidden)


def split_words(words: list[str]) -> tuple[str, list[str]]:
    """The longest command name that `words` begin with, and the words after it; an empty name where none does."""
    for count in (3, 2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in _BY_NAME:
            return name, words[count:]
    return "", words
