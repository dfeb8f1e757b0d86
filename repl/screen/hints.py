"""The line of keys at the foot of a screen, made from the bindings in force, and the help that lists them all.

Nothing is written twice: a rebound key shows as it is bound now. Hints drop from the right where the line is narrow;
a key that does nothing here is dimmed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import ActiveBinding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static
from typing_extensions import override

from repl.actions import key_name
from repl.screen.keymap import KEYS


class KeyRow(NamedTuple):
    """One action: its keys, what it does, whether it can act now, and the binding that has it."""

    keys: tuple[str, ...]
    what: str
    enabled: bool
    active: ActiveBinding


def key_rows(screen: Screen[Any]) -> list[KeyRow]:
    """Every binding in force, the focused widget's first; keys of one action together."""
    rows: dict[tuple[str, str], KeyRow] = {}
    against: Callable[[str], str] = getattr(screen, "reason_against", lambda _action: "")
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or binding.system:
            continue
        name = binding.key_display or key_name(binding.key)
        old = rows.get((binding.action, binding.description))
        keys = (*old.keys, name) if old else (name,)
        enabled = active.enabled and not against(binding.action)
        rows[binding.action, binding.description] = KeyRow(keys, binding.description, enabled, active)
    return list(rows.values())


def key_table(rows: list[KeyRow]) -> str:
    width = max((cell_len(" ".join(row.keys)) for row in rows), default=0)
    return "\n".join(
        f"{' '.join(row.keys).ljust(width)}  {row.what}{'' if row.enabled else '  (not now)'}" for row in rows
    )


class Hints(Widget):
    """One line of keys for the focused widget and its screen."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"hints--key", "hints--off"}

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    @override
    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y:
            return Strip.blank(width, self.rich_style)
        segments: list[Segment] = []
        used = 0
        off: Style = self.get_component_rich_style("hints--off", partial=True)
        strong: Style = self.get_component_rich_style("hints--key", partial=True)
        for row in key_rows(self.screen):
            needed = cell_len(row.keys[0]) + cell_len(row.what) + 3
            if not row.active.binding.show:
                continue
            if used + needed > width:
                break
            segments.append(Segment(f" {row.keys[0]}", strong if row.enabled else off))
            segments.append(Segment(f" {row.what} ", None if row.enabled else off))
            used += needed
        return Strip(segments).adjust_cell_length(width).apply_style(self.rich_style)


class HelpScreen(ModalScreen[None]):
    """Every key in force for the pane that had the focus, and what the pane is for."""

    BINDINGS = KEYS["help"]

    def __init__(self, title: str, about: str, rows: list[KeyRow]) -> None:
        super().__init__()
        self._heading, self._about, self._rows = title, about, rows

    @override
    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = self._heading
            box.border_subtitle = "Esc closes"
            text = f"{self._about}\n\n" if self._about else ""
            yield Static(
                f"{text}{key_table(self._rows)}\n\nSelect text with the mouse while Shift is held.", markup=False
            )
