"""Everything the session prints, oldest first: what line mode leaves in the terminal's scrollback.

Blocks are kept whole and rendered by their kind when drawn anew; the newest `MAX_BLOCKS` stay. The view stays at the
end until the user scrolls up, and then says that more waits below. Writing is safe from any thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, ClassVar, Final

from rich.segment import Segment
from textual.events import Resize
from textual.strip import Strip
from typing_extensions import override

from repl.present.answer import FOLD, GUTTER, MOST_MARKDOWN, markdown
from repl.present.blocks import Block, diff_kind
from repl.present.cells import hanging, shown
from repl.present.text import count_text
from repl.screen.keymap import KEYS
from repl.screen.line_view import LineView

MAX_BLOCKS: Final = 20_000
Row = tuple[str, str] | Strip  # a line and its tone, or what Markdown made of it


class TranscriptStream:
    """A text stream for `Output` whose whole lines go to `take`; other threads are brought to the loop first."""

    def __init__(self, take: Callable[[list[Block]], None]) -> None:
        self._take = take
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open = ""

    def write(self, text: str) -> int:
        """Take text; a line shows once its newline has come."""
        self._in_loop(self._write, text)
        return len(text)

    def take_block(self, block: Block) -> None:
        self._in_loop(self._take, [block])

    def _in_loop(self, work: Callable[[Any], None], value: object) -> None:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        self._loop = self._loop or here
        if here is not None or self._loop is None:
            work(value)
        else:
            self._loop.call_soon_threadsafe(work, value)

    def bind(self) -> None:
        """The running loop is the one that lines are brought to."""
        self._loop = asyncio.get_running_loop()

    def _write(self, text: str) -> None:
        *lines, self._open = (self._open + text).split("\n")
        if lines:
            self._take([Block("error" if line.startswith("pm: ") else "text", line) for line in lines])

    def flush(self) -> None:
        """Nothing is held back but an unfinished line."""


class Transcript(LineView, inherit_bindings=False):
    """The lines; `live` lines stand below the printed ones and are replaced, not kept."""

    STYLE_PREFIX = "transcript"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "transcript--typed", "transcript--bad", "transcript--good", "transcript--detail", "transcript--task",
    }  # fmt: skip
    BINDINGS = KEYS["transcript"]
    HELP = "What the session printed. End follows new lines again; y copies everything."

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.kept: deque[Block] = deque(maxlen=MAX_BLOCKS)
        self.live: list[str] = []
        self.unfolded = False
        self._rows: list[Row] = []
        self._live_rows: list[Row] = []
        self._width = 0
        self._following = True

    def take(self, blocks: Iterable[Block | str]) -> None:
        new = [Block("text", one) if isinstance(one, str) else one for one in blocks]
        dropped = len(self.kept) + len(new) > MAX_BLOCKS
        self.kept.extend(new)
        if dropped:
            self._lay_out()
        elif self._width:
            for block in new:
                self._rows += self._rendered(block)
            self._resized()

    def put_before(self, blocks: list[Block]) -> None:
        """Put what an earlier session showed above everything else."""
        self.kept.extendleft(reversed(blocks))
        self._lay_out()

    def unfold(self, *, whole: bool) -> None:
        """Show long answers whole, or fold them again."""
        self.unfolded = whole
        self._lay_out()

    def _rendered(self, block: Block) -> list[Row]:
        return _rows_of(block, self._width, self.unfolded, not getattr(self.app, "no_color", False))

    def show_live(self, lines: list[str]) -> None:
        if lines != self.live:
            self.live = lines
            self._live_rows = _lines_of(lines, self._width, "detail") if self._width else []
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
        self._rows = [row for block in self.kept for row in self._rendered(block)]
        self._live_rows = _lines_of(self.live, self._width, "detail")
        self._resized()

    def _resized(self) -> None:
        self.lines_changed()
        if self._following:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)
        else:
            self.border_subtitle = "more below (End)"

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
        text = self.text
        self.app.copy_to_clipboard(text)
        self.notify(f"copied {text.count(chr(10)) + 1 if text else 0:,} lines")

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.kept)

    @override
    def line_count(self) -> int:
        return len(self._rows) + len(self._live_rows)

    @override
    def line(self, number: int, width: int) -> Strip:
        printed = len(self._rows)
        row = self._rows[number] if number < printed else self._live_rows[number - printed]
        if isinstance(row, Strip):
            return row
        text, tone = row
        return Strip([Segment(text, self.tone(tone) if tone else None)])


_TONES: Final = {"error": "bad", "typed": "typed", "task": "task", "good": "good", "bad": "bad", "detail": "detail"}
_DIFF_TONES: Final = {"+": "good", "-": "bad", "@@": "detail", "": ""}


@lru_cache(maxsize=2_000)
def _rows_of(block: Block, width: int, unfolded: bool, coloured: bool) -> list[Row]:  # noqa: FBT001 - a cache's key
    """The block in rows of `width` cells."""
    match block.kind:
        case "answer":
            rows = _answer(block.text, width, coloured=coloured)
            hidden = 0 if unfolded or not block.whole_by else len(rows) - FOLD
            more = f"  … {count_text(hidden, 'more row')}   Ctrl+O unfolds   {block.whole_by} shows all"
            return rows if hidden <= 0 else [*rows[:FOLD], *_lines_of([more], width, "detail")]
        case "question":
            head, _, text = block.text.partition("\n")
            return [*_lines_of([head], width, "task"), *_answer(text, width, coloured=coloured)]
        case "diff":
            lines = block.text.removesuffix("\n").split("\n")
            return [row for one in lines for row in _lines_of([one], width, _DIFF_TONES.get(diff_kind(one), "task"))]
        case _:
            return _lines_of(block.text.split("\n"), width, _TONES.get(block.kind, ""))


def _answer(text: str, width: int, *, coloured: bool) -> list[Row]:
    """Markdown in rows; an agent's own words never look like a line of ours."""
    safe = "\n".join(shown(line) for line in text.strip("\n").split("\n"))
    if len(safe) > MOST_MARKDOWN:
        return _lines_of([f"{GUTTER}{line}" for line in safe.split("\n")], width, "")
    console, rendered = markdown(safe, max(width - len(GUTTER), 20))
    rows: list[Row] = []
    for line in console.render_lines(rendered.renderable, pad=False):
        plain = line if coloured else list(Segment.remove_color(line))
        rows.append(Strip([Segment(GUTTER), *(one for one in plain if not one.control)]))
    return rows


def _lines_of(lines: list[str], width: int, tone: str) -> list[Row]:
    return [(row, tone) for line in lines for row in hanging(shown(line), width)]
