"""The one message of a terminal that is too small for anything else."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Static
from typing_extensions import override

__all__ = ["TooSmall"]


class TooSmall(Screen[None]):
    """Says the needed size; tasks go on behind it."""

    DEFAULT_CSS = "TooSmall { align: center middle; & > Static { width: auto; height: auto; } }"

    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self._needed = (width, height)

    @override
    def compose(self) -> ComposeResult:
        """The message."""
        yield Static(f"pm needs {self._needed[0]}x{self._needed[1]}: make it larger, or pm --line", markup=False)
