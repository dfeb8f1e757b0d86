"""The five themes, and the base class of our apps: themes, NO_COLOR, help, steady cursors."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from textual import on
from textual.app import App
from textual.events import DescendantFocus
from textual.theme import Theme
from textual.widgets import Input
from typing_extensions import override

from repl.screen.keymap import KEYS

DEFAULT_THEME: Final = "auto"

_ANSI: Final = {
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "block-cursor-foreground": "ansi_default",
    "block-cursor-background": "ansi_default",
    "block-cursor-text-style": "reverse",
    "block-cursor-blurred-foreground": "ansi_default",
    "block-cursor-blurred-background": "ansi_default",
    "block-cursor-blurred-text-style": "bold",
    "input-cursor-background": "ansi_default",
    "input-cursor-foreground": "ansi_default",
    "input-cursor-text-style": "reverse",
    "screen-selection-background": "ansi_bright_black",
    "border-blurred": "ansi_bright_black",
    "footer-key-foreground": "ansi_default",
}
_COLOURLESS: Final = dict.fromkeys(
    ("scrollbar", "scrollbar-hover", "scrollbar-active", "scrollbar-background", "scrollbar-corner-color", "border",
     "border-blurred", "input-selection-background", "input-selection-foreground", "screen-selection-background"),
    "ansi_default",
)  # fmt: skip

THEMES: Final[tuple[Theme, ...]] = (
    Theme(
        name="auto", ansi=True, dark=True, primary="ansi_blue", secondary="ansi_cyan", warning="ansi_yellow",
        error="ansi_red", success="ansi_green", accent="ansi_cyan", foreground="ansi_default",
        background="ansi_default", surface="ansi_default", panel="ansi_default", boost="ansi_default", variables=_ANSI,
    ),
    Theme(
        name="dark", dark=True, primary="#7aa2f7", secondary="#7dcfff", warning="#e0af68", error="#f7768e",
        success="#9ece6a", accent="#7dcfff", foreground="#d5d9e5", background="#16181f", surface="#1c1f29",
        panel="#262a36", boost="#262a36",
        variables={"border-blurred": "#6b7086"},
    ),
    Theme(
        name="light", dark=False, primary="#2456b8", secondary="#0f6b7c", warning="#8a5a00", error="#b3261e",
        success="#1c6b2c", accent="#0f6b7c", foreground="#1d2129", background="#ffffff", surface="#f5f6f8",
        panel="#e6e9ee", boost="#e6e9ee",
        variables={"border-blurred": "#8a90a0"},
    ),
    Theme(
        name="high-contrast", dark=True, primary="#ffff00", secondary="#00ffff", warning="#ffff00", error="#ff6060",
        success="#00ff00", accent="#00ffff", foreground="#ffffff", background="#000000", surface="#000000",
        panel="#000000", boost="#000000",
        variables={"border-blurred": "#ffffff"},
    ),
    Theme(
        name="mono", ansi=True, dark=True, primary="ansi_default", secondary="ansi_default", warning="ansi_default",
        error="ansi_default", success="ansi_default", accent="ansi_default", foreground="ansi_default",
        background="ansi_default", surface="ansi_default", panel="ansi_default", boost="ansi_default",
        variables={**_ANSI, **_COLOURLESS},
    ),
)  # fmt: skip


def theme_for(wanted: str, *, no_colour: bool) -> str:
    """The theme's name to use: `mono` where colour is not wanted, the default where `wanted` is unknown."""
    if no_colour:
        return "mono"
    return wanted if any(theme.name == wanted for theme in THEMES) else DEFAULT_THEME


class Themed(App[Any]):
    """An app with our five themes, NO_COLOR read as everywhere in `pm`, and help for the focused pane.

    `colour` is what `--no-color` takes away.
    """

    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False
    BINDINGS = KEYS["themed"]
    CSS_PATH = Path(__file__).with_name("screen.tcss")  # whole: an app in a folder below looks there

    def __init__(self, *, theme: str = "auto", colour: bool = True) -> None:
        self.outside: asyncio.Future[Any] | None = None
        """The editor or pager that has the terminal."""
        no_colour = not colour or bool(os.environ.get("NO_COLOR"))
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

    async def shown(self, *, mouse: bool = True) -> Any:
        """Run until the user leaves. Where this is cancelled, the app ends as if left, the terminal as it was."""
        running = asyncio.ensure_future(self.run_async(mouse=mouse))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.exit()
            await asyncio.wait({running})
            raise

    @override
    def exit(self, result: Any = None, return_code: int = 0, message: Any = None) -> None:
        if self.outside is None:
            super().exit(result, return_code, message)
        else:  # the screen takes the terminal back first
            self.outside.add_done_callback(lambda _ended: self.exit(result, return_code, message))
            self.outside.cancel()

    @property
    def defect(self) -> Exception | None:
        """The exception that ended the app, if one did."""
        return self._exception

    def on_ready(self) -> None:
        self.app_resume_signal.subscribe(self, lambda _app: self.refresh(layout=True))

    @on(DescendantFocus)
    def steady_cursor(self, event: DescendantFocus) -> None:
        if isinstance(event.widget, Input):
            event.widget.cursor_blink = False

    def action_help(self) -> None:
        from repl.screen.hints import HelpScreen, key_rows

        self.push_screen(HelpScreen("Help", str(getattr(self.screen, "HELP", "")), key_rows(self.screen)))
