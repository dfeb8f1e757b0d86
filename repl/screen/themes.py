"""The five themes. `auto` uses the terminal's own colours; `mono` uses none, only bold, dim and reverse.

Meaning is never in a colour alone, so a theme may say as little as it likes.
"""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

__all__ = ["DEFAULT_THEME", "THEMES", "theme_for"]

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
