"""Everything the session prints, oldest first: what line mode leaves in the terminal's scrollback.

Lines are kept whole and wrapped when drawn anew; the newest `MAX_LINES` stay. The view stays at the end until the
user scrolls up, and then says how many lines wait below. Writing is safe from any thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from typing_extensions import override

from repl.present.answer import GUTTER
from repl.screen.cells import shown, wrap
from repl.screen.keymap import KEYS

MAX_LINES: Final = 20_000


class TranscriptStream:
    """A text stream for `Output` whose whole lines go to `take`; other threads are brought to the loop first."""

    def __init__(self, take: Callable[[list[str]], None]) -> None:
        self._take = take
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open = ""

    def write(self, text: str) -> int:
        """Take text; a line shows once its newline has come."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        self._loop = self._loop or here
        if here is not None or self._loop is None:
            self._write(text)
        else:
            self._loop.call_soon_threadsafe(self._write, text)
        return len(text)

    def bind(self) -> None:
        """The running loop is the one that lines are brought to."""
        self._loop = asyncio.get_running_loop()

    def _write(self, text: str) -> None:
        *lines, self._open = (self._open + text).split("\n")
        if lines:
            self._take(lines)

    def flush(self) -> None:
        """Nothing is held back but an unfinished line."""


class Transcript(ScrollView, can_focus=True, inherit_bindings=False):
    """The lines; `live` lines stand below the printed ones and are replaced, not kept."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "transcript--typed", "transcript--bad", "transcript--good", "transcript--dim", "transcript--strong",
    }  # fmt: skip
    BINDINGS = KEYS["transcript"]
    DEFAULT_CSS = """
    Transcript {
        overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        & > .transcript--typed { text-style: bold; }
        & > .transcript--strong { text-style: bold; }
        & > .transcript--bad { color: $text-error; }
        & > .transcript--good { color: $text-success; }
        & > .transcript--dim { text-style: dim; }
    }
    """
    HELP = "What the session printed. End follows new lines again; y copies everything."

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.kept: deque[str] = deque(maxlen=MAX_LINES)
        self.live: list[str] = []
        self._rows: list[tuple[str, str]] = []
        self._live_rows: list[tuple[str, str]] = []
        self._width = 0
        self._following = True

    def take(self, lines: list[str]) -> None:
        dropped = len(self.kept) + len(lines) > MAX_LINES
        self.kept.extend(lines)
        if dropped:
            self._lay_out()
        elif self._width:
            for line in lines:
                self._rows += _rows_of(line, self._width)
            self._resized()

    def show_live(self, lines: list[str]) -> None:
        if lines != self.live:
            self.live = lines
            self._live_rows = [row for line in lines for row in _rows_of(line, self._width)] if self._width else []
            self._resized()

    def clear(self) -> None:
        """Forget what was printed; the record on disk stays."""
        self.kept.clear()
        self._lay_out()

    def on_resize(self, _event: Resize) -> None:
        if self.scrollable_content_region.width != self._width:
            self._width = self.scrollable_content_region.width
            self._lay_out()
        elif self._following:
            self.action_to_end()

    def _lay_out(self) -> None:
        if not self._width:
            return
        self._rows = [row for line in self.kept for row in _rows_of(line, self._width)]
        self._live_rows = [row for line in self.live for row in _rows_of(line, self._width)]
        self._resized()

    def _resized(self) -> None:
        self.virtual_size = Size(0, len(self._rows) + len(self._live_rows))
        if self._following:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)
        else:
            self.border_subtitle = "more below (End)"
        self.refresh()

    def action_scroll_by(self, step: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + step, animate=False, immediate=True)
        self._following = self.scroll_offset.y >= self.max_scroll_y
        self.border_subtitle = "" if self._following else "End follows"

    def action_scroll_page(self, step: int) -> None:
        self.action_scroll_by(step * max(self.size.height - 1, 1))

    def action_to_start(self) -> None:
        self.action_scroll_by(-len(self._rows))

    def action_to_end(self) -> None:
        self._following = True
        self.border_subtitle = ""
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)

    def action_copy(self) -> None:
        text = "\n".join(self.kept)
        self.app.copy_to_clipboard(text)
        self.notify(f"copied {len(self.kept):,} lines")

    @property
    def text(self) -> str:
        return "\n".join(self.kept)

    @override
    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        number = y + self.scroll_offset.y
        rows = self._rows
        if number >= len(rows):
            number -= len(rows)
            rows = self._live_rows
        if number >= len(rows):
            return Strip.blank(width, base)
        text, tone = rows[number]
        style: Style | None = self.get_component_rich_style(f"transcript--{tone}", partial=True) if tone else None
        return Strip([Segment(text, style)]).adjust_cell_length(width).apply_style(base)


def _rows_of(line: str, width: int) -> list[tuple[str, str]]:
    """The line in rows of `width` cells; what does not fit the first is indented under it."""
    tone = _tone(line)
    text = shown(line)
    first, *more = wrap(text, width)
    if not more:
        return [(first, tone)]
    hang = min(len(text) - len(text.lstrip(" ")) + 4, width // 3)
    rest = wrap(text[len(first) :], width - hang)
    return [(first, tone), *((" " * hang + piece, tone) for piece in rest)]


def _tone(line: str) -> str:
    """How a line looks; its words say the same without colour. An agent's own words look like no fact of ours."""
    if line.startswith(GUTTER):
        return ""
    if line.startswith("pm> "):
        return "typed"
    if line.startswith("pm: ") or " REJECT " in line[:16]:
        return "bad"
    if " PASS " in line[:16]:
        return "good"
    if line.startswith("task-") and " · " in line:
        return "strong"
    return "dim" if line.startswith("      ") else ""
