"""What every app of ours shares: the five themes, NO_COLOR read once, help, steady cursors, no variables in a crash."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import DescendantFocus
from textual.widgets import Input
from typing_extensions import override

from repl.screen.themes import THEMES, theme_for

__all__ = ["Themed", "wanted_colours"]


def wanted_colours() -> bool:
    """Whether colours are wanted: NO_COLOR counts when it is set and not empty."""
    return not os.environ.get("NO_COLOR")


class Themed(App[Any]):
    """An app with our five themes, NO_COLOR read as everywhere in `pm`, and help for the focused pane.

    `colour` is what `--no-color` takes away.
    """

    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "quit", show=False, id="app.quit"),
        Binding("question_mark,f1", "help", "help", id="app.help"),
    ]
    CSS = """
    Screen { layers: base overlay; }
    ToastRack { margin-bottom: 1; }
    """

    def __init__(self, *, theme: str = "auto", colour: bool = True) -> None:
        no_colour = not (colour and wanted_colours())
        # Textual counts an empty NO_COLOR too, and its filter turns the terminal's own two colours into black on black.
        kept = os.environ.pop("NO_COLOR", None)
        super().__init__()
        if kept is not None:
            os.environ["NO_COLOR"] = kept  # programs we start still want it
        self.no_color = no_colour
        for known in THEMES:
            self.register_theme(known)
        self.theme = theme_for(theme, no_colour=no_colour)

    @override
    def _fatal_error(self) -> None:
        """A defect ends the screen without a word: Textual's own report would print variables, secrets among them.

        The exception stays in `defect`, for whoever started the app to report it redacted.
        """
        self.bell()
        self._close_messages_no_wait()

    @property
    def defect(self) -> Exception | None:
        """The exception that ended the app, if one did."""
        return self._exception

    def on_ready(self) -> None:
        """After Ctrl+Z and `fg` the terminal holds nothing of ours: draw all of it."""
        self.app_resume_signal.subscribe(self, lambda _app: self.refresh(layout=True))

    @on(DescendantFocus)
    def steady_cursor(self, event: DescendantFocus) -> None:
        """No cursor blinks: nothing is written to the terminal while nothing changes."""
        if isinstance(event.widget, Input):
            event.widget.cursor_blink = False

    def action_help(self) -> None:
        """Every key in force, and what the screen is for."""
        from repl.screen.hints import HelpScreen, key_rows

        self.push_screen(HelpScreen("Help", str(getattr(self.screen, "HELP", "")), key_rows(self.screen)))
