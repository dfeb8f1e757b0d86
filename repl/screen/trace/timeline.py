"""The timeline as a virtual list: only the rows on the screen are ever read, whatever the file's size.

Shows a `TraceModel`; keeps a cursor (an index of displayed rows). Every state is readable without colour: `>` marks the
cursor, `x` and `v` failure and success, `v`/`>` before a group whether it is open.
"""

from __future__ import annotations

from itertools import pairwise
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

from repl.present.cells import fit, matches_in, shown
from repl.screen.trace.source import TraceModel
from tracer.clock import from_epoch_ms
from tracer.rows.row import Group, Row

_EVENT_CELLS = 18


def group_name(group: Group) -> str:
    """`iteration 0`, `task-015-sub-2 · iteration 0`, or the subtask alone."""
    parts = [group.subtask or "", "" if group.iteration is None else f"iteration {group.iteration}"]
    return shown(" · ".join(part for part in parts if part))


def relative_time(epoch_ms: int | None, first_ms: int | None) -> str:
    """The clock time of the first fact, `+5.1` (seconds) or `+12:05` (minutes) after it for the others."""
    if epoch_ms is None:
        return ""
    if first_ms is None or epoch_ms == first_ms:
        return from_epoch_ms(epoch_ms)[11:19] if 0 <= epoch_ms < 253_402_300_800_000 else ""
    seconds = (epoch_ms - first_ms) / 1000
    sign, seconds = ("+", seconds) if seconds >= 0 else ("-", -seconds)
    if seconds < 100:
        return f"{sign}{seconds:.1f}"
    if seconds < 6000:
        return f"{sign}{int(seconds // 60)}:{int(seconds % 60):02d}"
    return f"{sign}{int(seconds // 3600)}h{int(seconds % 3600 // 60):02d}"


class FactList(ScrollView, can_focus=True, inherit_bindings=False):
    """The list. Posts `Moved` when the cursor comes to another row, by whomever it was moved."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "fact-list--cursor", "fact-list--group", "fact-list--bad", "fact-list--good", "fact-list--dim",
        "fact-list--hit",
    }  # fmt: skip
    cursor: reactive[int] = reactive(0, init=False)
    needle: reactive[str] = reactive("", init=False)

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, model: TraceModel, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.model = model
        # Known before the first layout, so that the first frame has rows.
        self.virtual_size = Size(0, len(model.timeline))

    def resized(self) -> None:
        """The model grew, shrank, folded or changed its source."""
        count = len(self.model.timeline)
        if count != self.virtual_size.height:
            self.virtual_size = Size(0, count)
        if count and self.cursor >= count:
            self.cursor = count - 1
        self.refresh()

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, len(self.model.timeline) - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        self.show_cursor()
        self.draw_line(old - self.scroll_offset.y)
        self.draw_line(new - self.scroll_offset.y)
        self.post_message(self.Moved(new))

    def watch_needle(self) -> None:
        self.refresh()

    def show_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True, immediate=True)

    def draw_line(self, y: int) -> None:
        if 0 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def on_click(self, event: Click) -> None:
        inside = event.get_content_offset(self)
        if inside is None:
            return
        index = inside.y + self.scroll_offset.y
        if index >= len(self.model.timeline):
            return
        item = self.model.timeline.item(index)
        self.cursor = index
        if item.position is None:
            self.fold(folded=item.group not in self.model.timeline.folded)

    def row(self) -> Row | None:
        """The fact under the cursor, or the first of the group whose header it is; None in an empty list."""
        try:
            item = self.model.timeline.item(self.cursor)
            position = item.position
            if position is None:
                position = self.model.timeline.first_of(item.group)
            return None if position is None else self.model.row(position)
        except IndexError:
            return None

    def fold(self, *, folded: bool) -> None:
        """Fold or unfold the group under the cursor; the cursor stays on its header when folding."""
        if not len(self.model.timeline):
            return
        item = self.model.timeline.item(self.cursor)
        self.model.timeline.fold(item.group, folded=folded)
        self.resized()
        if item.position is not None:
            self.cursor = self.model.timeline.index_of(item.position)

    def toggle_fold(self) -> None:
        if len(self.model.timeline):
            self.fold(folded=self.model.timeline.item(self.cursor).group not in self.model.timeline.folded)

    def go_to(self, position: int) -> None:
        timeline = self.model.timeline
        index = timeline.index_of(position)
        if index < len(timeline) and self.model.timeline.item(index).position != position:
            timeline.fold(self.model.timeline.item(index).group, folded=False)
            self.resized()
            index = timeline.index_of(position)
        self.cursor = index

    @override
    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        index = y + self.scroll_offset.y
        base = self.rich_style
        try:
            item = self.model.timeline.item(index)
            segments = self._group(item.group, item.run) if item.position is None else self._fact(item.position, width)
        except (IndexError, OSError):
            return Strip.blank(width, base)
        here = index == self.cursor
        line = Strip([Segment(">" if here else " "), *segments]).adjust_cell_length(width)
        if here:
            line = Strip([Segment(line.text)], width).apply_style(self._style("cursor"))
        elif self.needle:
            line = self._highlit(line)
        return line.apply_style(base)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"fact-list--{name}", partial=True)

    def _group(self, group: Group, run: int) -> list[Segment]:
        folded = group in self.model.timeline.folded
        count = f"  {self.model.timeline.run_length(run):,} events" if folded else ""
        return [Segment(f"{'>' if folded else 'v'} {group_name(group)}{count}", self._style("group"))]

    def _fact(self, position: int, width: int) -> list[Segment]:
        row = self.model.row(position)
        number = "    ·" if row.seq is None else f"{row.seq:>5}"
        if row.kind != "fact":
            return [Segment(f"{number} ? ", self._style("bad")), Segment(fit(shown(row.summary), max(width - 9, 0)))]
        first = self.model.first_ms
        when = f"{relative_time(row.epoch_ms, first):<8}"
        tone = {"x": "bad", "v": "good", "": "dim"}[row.mark]
        event = fit(shown(row.event), _EVENT_CELLS)
        left = [
            Segment(f"{number} "), Segment(f"{when} ", self._style("dim")),
            Segment(f"{row.mark or ' '} ", self._style(tone)),
            Segment(event, self._style(tone) if row.mark else None),
        ]  # fmt: skip
        room = width - 18 - _EVENT_CELLS - 1
        if room > 3:
            left.append(Segment(" " + fit(shown(row.summary), room - 1), self._style("dim")))
        return left

    def _highlit(self, line: Strip) -> Strip:
        spans = matches_in(line.text, self.needle)
        if not spans:
            return line
        return Strip(list(painted(line, spans, self._style("hit"))), line.cell_length)


def painted(line: Strip, spans: list[tuple[int, int]], style: Style) -> list[Segment]:
    """The line's segments with the character ranges `spans` in `style`."""
    pieces: list[Segment] = []
    start = 0
    for segment in line:
        stop = start + len(segment.text)
        cuts = sorted({start, stop, *(edge for span in spans for edge in span if start < edge < stop)})
        for low, high in pairwise(cuts):
            hit = any(first <= low < last for first, last in spans)
            pieces.append(Segment(segment.text[low - start : high - start], style if hit else segment.style))
        start = stop
    return pieces
