"""The palette: commands, what keys do here, recent tasks, themes and settings by name. Enter runs what is highlighted.

Commands that need arguments come to the prompt instead of running; nothing runs that was not highlighted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textual.app import App
from textual.binding import ActiveBinding
from textual.screen import Screen
from typing_extensions import override

from repl.present.cells import fit, shown
from repl.registry.commands import commands_for
from repl.registry.complete import rank
from repl.screen.desk import Desk
from repl.screen.hints import key_rows
from repl.screen.keymap import KEYS
from repl.screen.pickers import Search
from repl.screen.themes import THEMES

_RECENT = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing the palette can do: its name, key and slash name, and how it is done."""

    name: str
    help: str
    key: str
    run: Callable[[], object]


def palette_entries(desk: Desk, below: Screen[Any]) -> list[Entry]:
    """What can be done; `below` is the screen that the palette covers, whose keys can be found by name too."""
    entries: list[Entry] = []
    for command in commands_for("slash"):
        needs = any(argument.required for argument in command.arguments)
        line = command.slash
        run = _typing(desk, line + " ") if needs else _running(desk, line)
        entries.append(Entry(line, command.palette_text, "", run))
    entries += [
        Entry(row.what, "a key", " ".join(row.keys), _acting(below.app, row.active))
        for row in key_rows(below)
        if row.enabled and row.active.binding.id
    ]
    recent = desk.rows[:_RECENT]
    entries += [
        Entry(f"trace {row.task_id}", row.title, "", _running(desk, f"/trace {row.task_id} --screen")) for row in recent
    ]
    entries += [Entry(f"theme {theme.name}", "colours", "", _running(desk, f"/theme {theme.name}")) for theme in THEMES]
    entries += [
        Entry(f"set {key}", "a setting", "", _typing(desk, f"/config set {key} "))
        for key in sorted(desk.session.settings.rows)
    ]
    return entries


def _acting(app: App[Any], active: ActiveBinding) -> Callable[[], object]:
    return lambda: app.run_action(active.binding.action, default_namespace=active.node)


def _running(desk: Desk, line: str) -> Callable[[], None]:
    return lambda: desk.run_line(line)


def _typing(desk: Desk, text: str) -> Callable[[], None]:
    return lambda: desk.put(text)


class Palette(Search[None]):
    """Enter runs the highlighted entry."""

    BINDINGS = KEYS["palette"]
    title_text = "Palette"
    keys_text = "Enter runs, Esc closes"
    placeholder = "command, key, task, theme or setting"

    def __init__(self, desk: Desk, below: Screen[Any]) -> None:
        super().__init__()
        self._entries = palette_entries(desk, below)

    @override
    def find(self, wanted: str) -> list[Entry]:
        wanted = wanted.strip()
        if not wanted:
            return self._entries
        scored = [
            (min(rank(wanted, entry.name.lstrip("/")), 3 + rank(wanted, entry.help)), entry) for entry in self._entries
        ]
        return [entry for score, entry in sorted(scored, key=lambda pair: pair[0]) if score < 6]

    @override
    def row(self, entry: Entry) -> str:
        key = f"  {entry.key}" if entry.key else ""
        width = max(min(int(self.app.size.width * 0.9), 100) - 6 - len(key), 10)
        return fit(f"{fit(shown(entry.name), 26)} {shown(entry.help)}", width) + key

    @override
    def take(self, entry: Entry | None) -> None:
        if entry is not None:
            self.dismiss()
            self.app.call_later(entry.run)
