"""The palette: commands, what keys do here, recent tasks, themes and settings by name. Enter runs what is highlighted.

Commands that need arguments come to the prompt instead of running; nothing runs that was not highlighted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textual import on
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option
from typing_extensions import override

from repl.present.cells import fit, shown
from repl.registry.commands import commands_for
from repl.registry.complete import rank
from repl.screen.desk import Desk
from repl.screen.hints import key_rows
from repl.screen.keymap import KEYS
from repl.screen.themes import THEMES

_MAX_SHOWN = 200
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


class Palette(ModalScreen[None]):
    """Type to narrow; Enter runs the highlighted entry."""

    BINDINGS = KEYS["palette"]

    def __init__(self, desk: Desk, below: Screen[Any]) -> None:
        super().__init__()
        self._entries = palette_entries(desk, below)
        self._found: list[Entry] = []

    @override
    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Palette"
            box.border_subtitle = "Enter runs, Esc closes"
            yield Input(placeholder="command, key, task, theme or setting")
            yield OptionList()

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._show("")

    def _show(self, wanted: str) -> None:
        scored = [(rank(wanted, entry.name.lstrip("/")), entry) for entry in self._entries]
        if wanted:
            scored = [(min(score, 3 + rank(wanted, entry.help)), entry) for score, entry in scored]
        found = sorted((pair for pair in scored if pair[0] < 6), key=lambda pair: pair[0]) if wanted else scored
        self._found = [entry for _score, entry in found][:_MAX_SHOWN]
        listing = self.query_one(OptionList)
        listing.clear_options()
        width = min(int(self.app.size.width * 0.9), 100) - 6
        listing.add_options([Option(Content(_row(entry, width))) for entry in self._found])
        listing.highlighted = 0 if self._found else None

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        self._show(event.value.strip())

    @on(Input.Submitted)
    def entered(self) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self._run(self._found[at])

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        self._run(self._found[event.option_index])

    def _run(self, entry: Entry) -> None:
        self.dismiss()
        self.app.call_later(entry.run)

    def action_move(self, step: int) -> None:
        listing = self.query_one(OptionList)
        if self._found:
            listing.highlighted = ((listing.highlighted or 0) + step) % len(self._found)


def _row(entry: Entry, width: int) -> str:
    key = f"  {entry.key}" if entry.key else ""
    return fit(f"{fit(shown(entry.name), 26)} {shown(entry.help)}", max(width - len(key), 10)) + key
