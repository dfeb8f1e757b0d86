"""The keys of line mode by action id: defaults, what the user rebound, and the table that `?` and docs print.

A binding is one or more keys in prompt_toolkit's names (`c-t`, `escape enter`); alternatives are separated by commas.
`repl.keys.<id>` in the settings replaces all keys of an action. The table is pure data; no terminal is touched here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tracer.errors import ConfigError

_NAMES = {"escape": "Esc", "enter": "Enter", "tab": "Tab", "up": "Up", "down": "Down", "space": "Space", "?": "?"}


class Action(NamedTuple):
    """Something a key does: when nothing runs, and while a task runs where that differs."""

    id: str
    keys: tuple[str, ...]
    idle: str
    running: str = ""


ACTIONS: tuple[Action, ...] = (
    Action("submit", ("enter",), "submit", "queue for after this task"),
    Action("newline", ("escape enter", "c-j"), "insert a line break (also \\ at the end, Shift+Enter)"),
    Action("stop", ("escape",), "close the completion menu", "stop at the next safe point; asks once"),
    Action("interrupt", ("c-c",), "clear the line", "clear the line; an empty one: like Esc"),
    Action("leave", ("c-d",), "empty line: leave", "asks: wait, stop and leave, or cancel"),
    Action("previous", ("up",), "earlier input that begins like this", "empty line: pull back the last queued input"),
    Action("search", ("c-r",), "search earlier inputs; again: session, project, all"),
    Action("editor", ("c-x c-e", "c-g"), "edit the line in $VISUAL or $EDITOR"),
    Action("expand", ("c-x p",), "expand a folded paste"),
    Action("detail", ("c-o",), "", "show or hide detail of the current iteration"),
    Action("trace", ("c-t",), "open the trace of the current or last task in full screen"),
    Action("clear", ("c-l",), "clear the screen, keep the state"),
    Action("suspend", ("c-z",), "suspend to the shell"),
    Action("help", ("?",), "empty line: print this table"),
)


def keymap(changes: Mapping[str, str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Key sequences by action id; `changes` are the settings below `repl.keys`.

    Raises ConfigError: no such action, no key, or a key that two actions would share.
    """
    found = {action.id: tuple(tuple(keys.split()) for keys in action.keys) for action in ACTIONS}
    for action_id, text in changes.items():
        if "." in action_id:
            continue  # an action of the full screen
        if action_id not in found:
            raise ConfigError(f"repl.keys.{action_id}: no such action", next_step=f"one of {', '.join(found)}")
        found[action_id] = tuple(tuple(keys.split()) for keys in str(text).split(",") if keys.strip())
        if not found[action_id]:
            raise ConfigError(f"repl.keys.{action_id}: no key", next_step=f"pm config set repl.keys.{action_id} c-x")
    owners: dict[tuple[str, ...], str] = {}
    for action_id, sequences in found.items():
        for sequence in sequences:
            if owners.setdefault(sequence, action_id) != action_id:
                raise ConfigError(
                    f"repl.keys: {' '.join(sequence)} stands for {owners[sequence]} and {action_id}",
                    next_step=f"pm config set repl.keys.{action_id} KEY",
                )
    return found


def shown(sequence: tuple[str, ...]) -> str:
    if len(sequence) == 2 and sequence[0] == "escape":
        return f"Alt+{shown(sequence[1:])}"
    parts = []
    for key in sequence:
        if key.startswith("c-"):
            parts.append(f"Ctrl+{key[2:].upper()}")
        elif key.startswith("s-"):
            parts.append(f"Shift+{_NAMES.get(key[2:], key[2:].capitalize())}")
        else:
            parts.append(_NAMES.get(key, key.upper() if len(key) > 1 else key))
    return " ".join(parts)


def key_rows(keys: Mapping[str, tuple[tuple[str, ...], ...]]) -> list[tuple[str, str, str]]:
    """(action id, keys, what they do) of a live keymap, for `?`, `/keys` and the docs."""
    rows = []
    for action in ACTIONS:
        text = action.idle
        if action.running:
            text = f"{text}; while a task runs: {action.running}" if text else f"while a task runs: {action.running}"
        rows.append((action.id, ", ".join(shown(sequence) for sequence in keys[action.id]), text))
    return rows
