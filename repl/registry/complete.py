"""Completion candidates at the cursor, for shells, `pm>`, full screen and palette, and the sources of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from repl.registry.commands import GLOBAL_FLAGS, commands_for, find_command, split_words
from repl.registry.spec import Command, Flag
from tracer.errors import PmError
from tracer.names import EVENT_NAMES, SESSION_EVENTS, TASK_STATUSES
from tracer.settings.declared import SETTINGS

if TYPE_CHECKING:
    from repl.context import Context

Sources = Callable[[str, str], "list[Candidate]"]


class Candidate(NamedTuple):
    """One thing to insert, and the words that explain it."""

    text: str
    help: str = ""
    hint: str = ""


def no_values(_kind: str, _prefix: str) -> list[Candidate]:
    """Sources for when nothing can be looked up."""
    return []


def rank(typed: str, text: str) -> int:
    """0 exact, 1 prefix, 2 substring, 3 subsequence, 4 no match (case does not matter)."""
    needle, straw = typed.lower(), text.lower()
    if needle == straw:
        return 0
    if straw.startswith(needle):
        return 1
    if needle in straw:
        return 2
    letters = iter(straw)
    return 3 if all(letter in letters for letter in needle) else 4


def resolve_slash(typed: str) -> tuple[Command | None, list[str]]:
    """The command that `typed` (without `/`) names exactly or by unique prefix, else None and the nearest names.

    A unique prefix of a name or alias is enough; a fuzzy match never executes.
    """
    exact = find_command(typed)
    if exact is not None and "slash" in exact.surfaces:
        return exact, []
    words = {
        name: command
        for command in commands_for("slash")
        for name in (command.name, *command.aliases)
        if " " not in name
    }
    starting = {command.name: command for name, command in words.items() if typed and name.startswith(typed)}
    if len(starting) == 1:
        return next(iter(starting.values())), []
    if starting:
        return None, sorted(name for name in words if name.startswith(typed))
    from repl.registry.parse import nearest

    like = nearest(typed, list(words))
    return None, [like] if like else []


def candidates(words: list[str], *, surface: str, sources: Sources = no_values) -> list[Candidate]:
    """What can replace the last of `words` (it may be empty), best first."""
    typed = words[-1] if words else ""
    name, rest = split_words(words[:-1])
    command = find_command(name)
    if command is None:
        return _ordered(typed, _names(surface, words[:-1]))
    found: list[Candidate] = []
    following = _names(surface, words[:-1])
    flag = _flags(command).get(rest[-1]) if rest else None
    if flag is not None and flag.value:
        return _values(typed, flag.values, flag.choices, sources)
    if typed.startswith("-"):
        used = {word for word in rest if word.startswith("-")}
        flags = [
            f for f in (*command.flags, *(GLOBAL_FLAGS if surface == "cli" else ())) if f.repeat or f.name not in used
        ]
        return _ordered(typed, [Candidate(f.name, f.help, f.value) for f in flags])
    position = len([word for index, word in enumerate(rest) if not _belongs_to_flag(command, rest, index)])
    if command.arguments:
        argument = command.arguments[min(position, len(command.arguments) - 1)]
        if position < len(command.arguments) or argument.many:
            found = _values(typed, argument.values, argument.choices, sources)
    return _ordered(typed, following) + found


def _names(surface: str, before: list[str]) -> list[Candidate]:
    """Command names (the next word of them) after the words already typed."""
    lead = " ".join(before)
    seen: dict[str, Candidate] = {}
    for command in commands_for(surface):
        for name in (command.name, *command.aliases):
            if lead and not name.startswith(lead + " "):
                continue
            word = name[len(lead) :].strip().split(" ")[0]
            if word and word not in seen:
                hint = " ".join(a.name.upper() if a.required else f"[{a.name.upper()}]" for a in command.arguments)
                seen[word] = Candidate(word, command.summary, hint)
    return list(seen.values())


def _flags(command: Command) -> dict[str, Flag]:
    return {name: flag for flag in (*command.flags, *GLOBAL_FLAGS) for name in (flag.name, flag.short) if name}


def _belongs_to_flag(command: Command, rest: list[str], index: int) -> bool:
    if rest[index].startswith("-"):
        return True
    before = _flags(command).get(rest[index - 1]) if index else None
    return before is not None and bool(before.value)


def _values(typed: str, kind: str, choices: tuple[str, ...], sources: Sources) -> list[Candidate]:
    if choices:
        return _ordered(typed, [Candidate(choice) for choice in choices])
    return _ordered(typed, sources(kind, typed)) if kind else []


def _ordered(typed: str, found: Iterable[Candidate]) -> list[Candidate]:
    """Those that match, best rank first, otherwise in the order given."""
    ranked = [(rank(typed, candidate.text), candidate) for candidate in found]
    return [candidate for score, candidate in sorted(ranked, key=lambda pair: pair[0]) if score < 4]


EXECUTORS = ("auto", "anthropic", "claude", "codex", "gemini", "acp", "scripted", "replay")
THEMES = ("auto", "dark", "light", "high-contrast", "mono")
CRITERIA = ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12")
_FIXED = {
    "event": (*EVENT_NAMES, *SESSION_EVENTS),
    "executor": EXECUTORS,
    "status": TASK_STATUSES,
    "theme": THEMES,
    "criterion": CRITERIA,
}
_MOST = 200


def sources_for(context: Context, surface: str) -> Sources:
    """Look-ups in the project of `context`; one that fails offers nothing."""

    def look_up(kind: str, prefix: str) -> list[Candidate]:
        if kind in _FIXED:
            return [Candidate(name) for name in _FIXED[kind]]
        try:
            if kind == "task":
                return _tasks(context)
            if kind in {"file", "folder"}:
                return _files(context, prefix, folders_only=kind == "folder")
        except (PmError, OSError):
            return []
        if kind == "command":
            return [Candidate(command.name, command.summary) for command in commands_for(surface)]
        if kind == "config-key":
            from repl.actions import key_rows

            keys = key_rows({}, mode="screen") if prefix.startswith("repl.keys") else ()
            found = [Candidate(setting.key, setting.help) for setting in SETTINGS]
            return [*found, *(Candidate(f"repl.keys.{row.id}", f"{row.keys}: {row.what}") for row in keys)]
        return []

    return look_up


def _tasks(context: Context) -> list[Candidate]:
    from tracer.catalog.tasks import list_tasks

    rows = list_tasks(context.state_dir, limit=_MOST)
    return [Candidate(row.task_id, f"{row.status} {row.title}".strip()) for row in rows]


def _files(context: Context, prefix: str, *, folders_only: bool) -> list[Candidate]:
    parent, _, start = prefix.rpartition("/")
    folder = os.path.join(context.folder, os.path.expanduser(parent or ("/" if prefix.startswith("/") else "")))  # noqa: PTH118, PTH111
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith(".")):
                if entry.is_dir():
                    found.append(f"{entry.name}/")
                elif not folders_only:
                    found.append(entry.name)
    return [
        Candidate(f"{parent}/{name}" if parent or prefix.startswith("/") else name) for name in sorted(found)[:_MOST]
    ]
