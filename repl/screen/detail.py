"""The detail pane: one fact in full, decoded only when it is selected, drawn line by line.

Modes: readable, indented JSON, stored bytes. Long values are folded; `x` unfolds the one at the top of the view or all.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from typing_extensions import override

from repl.screen.cells import matches_in
from repl.screen.detail_lines import MODES, Line, Mode, detail_lines
from repl.screen.fact_list import painted
from tracer.rows.model import Decoded, Row

__all__ = ["Detail"]


class Detail(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows `row` with its decoded line; empty until `show` is called."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "detail--title", "detail--key", "detail--dim", "detail--good", "detail--bad", "detail--fold", "detail--hit",
    }  # fmt: skip
    DEFAULT_CSS = """
    Detail {
        overflow-x: hidden;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        & > .detail--title { text-style: bold; }
        & > .detail--key { color: $text-primary; text-style: bold; }
        & > .detail--dim { text-style: dim; }
        & > .detail--good { color: $text-success; }
        & > .detail--bad { color: $text-error; text-style: bold; }
        & > .detail--fold { text-style: italic; }
        & > .detail--hit { text-style: reverse bold; }
    }
    """
    needle: reactive[str] = reactive("", init=False)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.row: Row | None = None
        self.decoded: Decoded | None = None
        self.mode: Mode = "readable"
        self.unfolded: frozenset[str] = frozenset()
        self._lines: list[Line] = []
        self._width = 0

    def show(self, row: Row | None, decoded: Decoded | None) -> None:
        """Show another fact (None: nothing), from its top, folded."""
        same = row is not None and self.row is not None and row.offset == self.row.offset and row.size == self.row.size
        self.row, self.decoded = row, decoded
        if not same:
            self.unfolded = frozenset()
        self.layout_lines()
        if not same:
            self.scroll_to(y=0, animate=False, immediate=True)

    def next_mode(self) -> Mode:
        """Go on to the next of readable, pretty, raw; returns it."""
        self.mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        self.layout_lines()
        self.scroll_to(y=0, animate=False, immediate=True)
        return self.mode

    def toggle_unfolded(self) -> None:
        """Unfold every folded value, or fold them all again."""
        paths = frozenset(line.path for line in self._lines if line.path)
        self.unfolded = frozenset() if self.unfolded else paths
        self.layout_lines()

    def layout_lines(self) -> None:
        """Make the lines anew for the present width."""
        self._width = self.scrollable_content_region.width
        if self.row is None or self.decoded is None or not self._width:
            self._lines = []
        else:
            self._lines = detail_lines(
                self.row, self.decoded, width=self._width, mode=self.mode, unfolded=self.unfolded
            )
        self.virtual_size = Size(0, len(self._lines))
        self.refresh()

    def on_resize(self, _event: Resize) -> None:
        """Wrap anew where the width changed."""
        if self.scrollable_content_region.width != self._width:
            self.layout_lines()

    def watch_needle(self) -> None:
        """Highlight anew."""
        self.refresh()

    def find_needle(self) -> None:
        """Scroll to the first line that holds the needle, unfolding what hides it; stay where it is in view."""
        number = self._line_with_needle()
        if number is None and self.needle and not self.unfolded and any(line.path for line in self._lines):
            self.toggle_unfolded()
            number = self._line_with_needle()
        if number is not None and not self.scroll_offset.y <= number < self.scroll_offset.y + self.size.height:
            self.scroll_to(y=max(number - 2, 0), animate=False, immediate=True)

    def _line_with_needle(self) -> int | None:
        return next((number for number, line in enumerate(self._lines) if matches_in(line.text, self.needle)), None)

    @property
    def text(self) -> str:
        """What is shown, as plain text."""
        return "\n".join(line.text for line in self._lines)

    @override
    def render_line(self, y: int) -> Strip:
        """The line at `y` of the pane."""
        width, base = self.scrollable_content_region.width, self.rich_style
        number = y + self.scroll_offset.y
        if number >= len(self._lines):
            return Strip.blank(width, base)
        line = self._lines[number]
        style = self._style(line.tone) if line.tone else None
        strip = Strip([Segment(line.text, style)])
        spans = matches_in(line.text, self.needle)
        if spans:
            strip = Strip(painted(strip, spans, self._style("hit")))
        return strip.adjust_cell_length(width).apply_style(base)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"detail--{name}", partial=True)
