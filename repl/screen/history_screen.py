"""Search through earlier inputs: type to narrow, Ctrl+R for the next scope, Enter puts the input on the line."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option
from typing_extensions import override

from repl.history import SCOPES, History
from repl.present.escape import one_line
from repl.screen.cells import fit, shown

__all__ = ["HistoryScreen"]

_MAX_SHOWN = 200


class HistoryScreen(ModalScreen[str | None]):
    """Answers the chosen input, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close", id="history.close"),
        Binding("ctrl+r", "scope", "session, project, all", id="history.scope"),
        Binding("down", "move(1)", "older", id="history.older"),
        Binding("up", "move(-1)", "newer", id="history.newer"),
    ]
    DEFAULT_CSS = """
    HistoryScreen { align: center middle;
        & > Vertical { width: 90%; height: 70%; border: round $border; }
        Input { height: 1; border: none !important; padding: 0; }
        OptionList { height: 1fr; border: none !important; }
    }
    """

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self._scope = 1
        self._found: list[str] = []

    @override
    def compose(self) -> ComposeResult:
        """Input above, matches below."""
        with Vertical() as box:
            box.border_subtitle = "Enter takes it, Ctrl+R next scope, Esc closes"
            yield Input(placeholder="search earlier inputs")
            yield OptionList()

    def on_mount(self) -> None:
        """Begin with everything of this project."""
        self.query_one(Input).focus()
        self._show()

    def _show(self) -> None:
        scope = SCOPES[self._scope]
        wanted = self.query_one(Input).value.lower()
        entries = dict.fromkeys(reversed(self._history.entries(scope)))
        self._found = [entry for entry in entries if wanted in entry.lower()][:_MAX_SHOWN]
        self.query_one(Vertical).border_title = f"History: {scope}"
        listing = self.query_one(OptionList)
        listing.clear_options()
        width = max(int(self.app.size.width * 0.9) - 6, 20)
        listing.add_options([Option(Content(fit(shown(one_line(entry)), width))) for entry in self._found])
        listing.highlighted = 0 if self._found else None

    @on(Input.Changed)
    def typed(self) -> None:
        """Narrow."""
        self._show()

    @on(Input.Submitted)
    def taken(self) -> None:
        """Take the highlighted input."""
        at = self.query_one(OptionList).highlighted
        self.dismiss(None if at is None else self._found[at])

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        """Take the clicked input."""
        self.dismiss(self._found[event.option_index])

    def action_scope(self) -> None:
        """Session, project, all, and round again."""
        self._scope = (self._scope + 1) % len(SCOPES)
        self._show()

    def action_move(self, step: int) -> None:
        """Another match."""
        listing = self.query_one(OptionList)
        if self._found:
            listing.highlighted = ((listing.highlighted or 0) + step) % len(self._found)
