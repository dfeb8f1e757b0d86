"""Widgets of many lines, of which only those on the screen are drawn; `CursorView` has a cursor on one of them."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from typing_extensions import override


class LineView(ScrollView, can_focus=True):
    """Subclasses give `line_count` and `line`; a tone of their lines is the component class `STYLE_PREFIX--tone`."""

    STYLE_PREFIX: ClassVar[str]

    def line_count(self) -> int:
        raise NotImplementedError

    def line(self, number: int, width: int) -> Strip:
        """The line in any number of cells; it is cut or filled to `width`."""
        raise NotImplementedError

    def tone(self, name: str) -> Style:
        return self.get_component_rich_style(f"{self.STYLE_PREFIX}--{name}", partial=True)

    def lines_changed(self) -> None:
        """There are other lines now."""
        self.virtual_size = Size(0, self.line_count())
        self.refresh()

    @override
    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        number = y + self.scroll_offset.y
        strip = self.drawn(number, width) if number < self.line_count() else Strip.blank(width)
        return strip.apply_style(base)

    def drawn(self, number: int, width: int) -> Strip:
        return self.line(number, width).adjust_cell_length(width)


class CursorView(LineView):
    """Posts `Moved` when the cursor comes to another line, by whomever it was moved. Its tone is `cursor`."""

    cursor: reactive[int] = reactive(0, init=False)

    class Moved(Message):
        """The cursor is on another line."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, self.line_count() - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        self.show_cursor()
        self.refresh_line(old)
        self.refresh_line(new)
        self.post_message(self.Moved(new))

    def show_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True, immediate=True)

    def clicked(self, event: Click) -> int | None:
        """The line under the mouse."""
        inside = event.get_content_offset(self)
        number = None if inside is None else inside.y + self.scroll_offset.y
        return number if number is not None and number < self.line_count() else None

    @override
    def drawn(self, number: int, width: int) -> Strip:
        strip = super().drawn(number, width)
        if number == self.cursor:
            strip = Strip([Segment(strip.text)], width).apply_style(self.tone("cursor"))
        return strip
