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
from textual.geometry import Size
from textual.reactive import reactive
from textual.strip import Strip
from typing_extensions import override

from repl.present.cells import fit, matches_in, shown
from repl.screen.line_view import CursorView
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


class FactList(CursorView, inherit_bindings=False):
    """The events of `model`, below the headers of their groups."""

    STYLE_PREFIX = "fact-list"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "fact-list--cursor", "fact-list--group", "fact-list--bad", "fact-list--good", "fact-list--dim",
        "fact-list--hit",
    }  # fmt: skip
    needle: reactive[str] = reactive("", init=False)

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

    @override
    def line_count(self) -> int:
        return len(self.model.timeline)

    def watch_needle(self) -> None:
        self.refresh()

    def on_click(self, event: Click) -> None:
        index = self.clicked(event)
        if index is None:
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
    def line(self, number: int, width: int) -> Strip:
        try:
            item = self.model.timeline.item(number)
            segments = self._group(item.group, item.run) if item.position is None else self._fact(item.position, width)
        except (IndexError, OSError):
            return Strip.blank(width)
        line = Strip([Segment(">" if number == self.cursor else " "), *segments]).adjust_cell_length(width)
        spans = matches_in(line.text, self.needle)
        return Strip(painted(line, spans, self.tone("hit")), line.cell_length) if spans else line

    def _group(self, group: Group, run: int) -> list[Segment]:
        folded = group in self.model.timeline.folded
        count = f"  {self.model.timeline.run_length(run):,} events" if folded else ""
        return [Segment(f"{'>' if folded else 'v'} {group_name(group)}{count}", self.tone("group"))]

    def _fact(self, position: int, width: int) -> list[Segment]:
        row = self.model.row(position)
        number = "    ·" if row.seq is None else f"{row.seq:>5}"
        if row.kind != "fact":
            return [Segment(f"{number} ? ", self.tone("bad")), Segment(fit(shown(row.summary), max(width - 9, 0)))]
        first = self.model.first_ms
        when = f"{relative_time(row.epoch_ms, first):<8}"
        tone = {"x": "bad", "v": "good", "": "dim"}[row.mark]
        event = fit(shown(row.event), _EVENT_CELLS)
        left = [
            Segment(f"{number} "), Segment(f"{when} ", self.tone("dim")),
            Segment(f"{row.mark or ' '} ", self.tone(tone)),
            Segment(event, self.tone(tone) if row.mark else None),
        ]  # fmt: skip
        room = width - 18 - _EVENT_CELLS - 1
        if room > 3:
            left.append(Segment(" " + fit(shown(row.summary), room - 1), self.tone("dim")))
        return left


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
