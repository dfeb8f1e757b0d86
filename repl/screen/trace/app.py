"""The smallest program around the trace viewer: what `pm trace T --screen` opens; nothing of the rest is loaded."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import override

from repl.screen.themes import Themed
from repl.screen.trace.view import TraceScreen


class ViewerApp(Themed):
    """One trace, full screen; leaving the viewer ends the program with 0."""

    TITLE = "pm trace"

    def __init__(
        self, path: Path, *, follow: bool = False, wanted: str = "", theme: str = "auto", colour: bool = True
    ) -> None:
        super().__init__(theme=theme, colour=colour)
        self.viewer = TraceScreen(path, follow=follow, wanted=wanted)

    @override
    def get_default_screen(self) -> TraceScreen:
        return self.viewer

    def leave_viewer(self) -> bool:
        self.exit(0)
        return True
