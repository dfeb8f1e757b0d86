"""Every key of the full screen, by the id that `repl.keys.<id>` rebinds: one table for `/keys`, palette and docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from textual.binding import Binding

from repl.screen.hints import key_name


class KeyBinding(NamedTuple):
    """One action: where it holds, its id, its keys as shown, and what it does."""

    place: str
    id: str
    keys: tuple[str, ...]
    what: str


def binding_rows(changes: Mapping[str, str]) -> list[KeyBinding]:
    """All bindings that have an id; `changes` are keys set by the person, by id."""
    from repl.screen.app import PmApp
    from repl.screen.captures import CaptureScreen
    from repl.screen.diff import DiffScreen
    from repl.screen.home import HomeScreen
    from repl.screen.lists import Page
    from repl.screen.prompt import Prompt
    from repl.screen.tasks import TaskScreen
    from repl.screen.themes import Themed
    from repl.screen.trace.view import TraceScreen
    from repl.screen.transcript import Transcript

    places = (
        ("everywhere", (*PmApp.BINDINGS, *Themed.BINDINGS)), ("prompt", Prompt.BINDINGS),
        ("tasks", HomeScreen.BINDINGS),
        ("session", Transcript.BINDINGS), ("task", TaskScreen.BINDINGS), ("trace", TraceScreen.BINDINGS),
        ("capture", CaptureScreen.BINDINGS),
        ("diff", DiffScreen.BINDINGS), ("pages", Page.BINDINGS),
    )  # fmt: skip
    rows: dict[str, KeyBinding] = {}
    for place, bindings in places:
        for binding in bindings:
            if isinstance(binding, Binding) and binding.id and binding.id not in rows:
                keys = changes.get(binding.id, binding.key).split(",")
                shown = tuple(key_name(key.strip()) for key in keys)
                rows[binding.id] = KeyBinding(place, binding.id, shown, binding.description)
    return list(rows.values())
