"""A trace file as the viewer needs it: rows by position, in one of three sources, kept up to date in the background.

Sources: the whole file by line number; the matches of a filter; and, while the index has not reached the end, the
file's tail read backwards, without line numbers. `refresh` moves to the whole file once it is known, and says what
changed. The model knows nothing of the screen.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from repl.screen.timeline import Item, Timeline
from tracer.filters import Filter
from tracer.rows.background import Background
from tracer.rows.digest import Digest
from tracer.rows.file import RowFile
from tracer.rows.model import Decoded, Group, Row
from tracer.rows.search import FilterScan, find

__all__ = ["TraceModel"]

_TAIL_ROWS: Final = 100
_FIRST_ROWS: Final = 60
_FIRST_BYTES: Final = 8 << 20
_WALK: Final = 20_000


class TraceModel:
    """An open trace. `timeline` is what is shown now; `version` is the background's version that it reflects."""

    def __init__(self, path: Path) -> None:
        self.file = RowFile(path)
        self.background = Background(self.file)
        self.digest: Digest = self.background.digest
        self.timeline = Timeline()
        self.wanted = Filter()
        self.scan: FilterScan | None = None
        self.tail: list[Row] | None = None
        self.version = -1
        self._fed = 0
        self._fed_runs = 0
        self._generation = 0
        while self.file.count < _FIRST_ROWS and self.file.scanned < _FIRST_BYTES and self.file.index_some(1 << 18):
            pass
        self.refresh()

    def close(self) -> None:
        """End the background thread and let go of the file."""
        self.background.stop()
        self.file.close()

    # -- what is shown ----------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Take over what the background has found; whether anything changed."""
        if self.version == self.background.version:
            return False
        self.version = self.background.version
        if self.file.generation != self._generation:
            self._generation = self.file.generation
            self.tail = None
            self._restart()
        if self.tail is not None:
            if not self.file.indexed:
                return True
            self.tail = None
            self._restart()
        if self.scan is not None:
            self._feed_matches(self.scan)
        else:
            self._feed_whole()
        return True

    def _restart(self) -> None:
        self.timeline = Timeline(self.timeline.folded)
        self._fed = self._fed_runs = 0

    def _feed_whole(self) -> None:
        index, count = self.file.index, self.file.count
        if not index.runs_whole:
            if self._fed_runs:
                self._restart()
            self.timeline.grow(count)
            return
        stop = len(index.run_groups)
        for run in range(self._fed_runs, stop):
            self.timeline.feed(index.run_lines[run], index.groups[index.run_groups[run]])
        self._fed_runs = stop
        self.timeline.grow(count)

    def _feed_matches(self, scan: FilterScan) -> None:
        count = len(scan.matches)
        for position in range(self._fed, count):
            self.timeline.feed(position, self.file.index.group_of(scan.matches[position]))
        self._fed = count
        self.timeline.grow(count)

    def filter(self, wanted: Filter) -> None:
        """Show only what fits `wanted` from now on; an empty filter shows everything."""
        self.wanted = wanted
        self.tail = None
        self.scan = self.background.filter(wanted)
        self._restart()
        self.version = -1
        self.refresh()

    # -- rows -------------------------------------------------------------------------------------------------------

    @property
    def first_ms(self) -> int | None:
        """When the trace begins, in epoch milliseconds; None where the first line does not tell."""
        return self.file.row(0).epoch_ms if self.file.count else None

    def row(self, position: int) -> Row:
        """The fact at `position` of the current source. Raises IndexError where there is none."""
        if self.tail is not None:
            return self.tail[position]
        return self.file.row(self.scan.matches[position] if self.scan is not None else position)

    def position_of(self, seq: int) -> int | None:
        """Where line `seq` stands in the current source; None where it does not (yet)."""
        if self.tail is not None:
            return None
        if self.scan is None:
            return seq if seq < self.file.count else None
        matches = self.scan.matches
        low, high = 0, len(matches)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if matches[middle] < seq else (low, middle)
        return low if low < len(matches) and matches[low] == seq else None

    def item(self, index: int) -> Item:
        """The displayed row at `index`. Raises IndexError outside."""
        return self.timeline.item(index)

    def decode(self, row: Row) -> Decoded:
        """The row's line in full."""
        return self.file.decode(row)

    # -- the end, before the index knows it -------------------------------------------------------------------------

    def show_tail(self) -> bool:
        """Show the end of the file at once; whether the source changed to the unnumbered tail."""
        if self.file.indexed or self.scan is not None:
            return False
        self.tail = self.file.tail(_TAIL_ROWS)
        self._rebuild_tail()
        return True

    def show_head(self) -> None:
        """Back from the tail to what is indexed from the beginning."""
        if self.tail is not None:
            self.tail = None
            self._restart()
            self.version = -1
            self.refresh()

    def more_tail(self) -> int:
        """Read further back; how many rows were put before the ones shown."""
        if not self.tail or self.tail[0].offset == 0:
            return 0
        earlier = self.file.tail(_TAIL_ROWS, before=self.tail[0].offset)
        self.tail = earlier + self.tail
        self._rebuild_tail()
        return len(earlier)

    def _rebuild_tail(self) -> None:
        self._restart()
        for position, row in enumerate(self.tail or ()):
            self.timeline.feed(position, row.group)
        self.timeline.grow(len(self.tail or ()))

    # -- finding ----------------------------------------------------------------------------------------------------

    def candidates(self, start: int, *, backwards: bool) -> Sequence[int]:
        """Line numbers of the current source from line `start` on (exclusive), in search order."""
        lines: Sequence[int] = range(self.file.count) if self.scan is None else array("Q", self.scan.matches)
        if backwards:
            return [seq for seq in reversed(lines) if seq < start] if self.scan else range(start - 1, -1, -1)
        return [seq for seq in lines if seq > start] if self.scan else range(start + 1, self.file.count)

    def previous_like(self, row: Row) -> Row | None:
        """The newest earlier fact of the same event and subtask in another iteration (any earlier one without)."""
        if row.seq is None:
            return None
        for seq in range(row.seq - 1, max(row.seq - _WALK, -1), -1):
            candidate = self.file.row(seq)
            same = candidate.event == row.event and candidate.group.subtask == row.group.subtask
            if same and (row.group.iteration is None or candidate.group.iteration != row.group.iteration):
                return candidate
        return None

    def next_like(self, row: Row) -> Row | None:
        """The nearest later fact of the same event and subtask."""
        if row.seq is None:
            return None
        for seq in range(row.seq + 1, min(row.seq + _WALK, self.file.count)):
            candidate = self.file.row(seq)
            if candidate.event == row.event and candidate.group.subtask == row.group.subtask:
                return candidate
        return None

    def search(self, text: str, start: int, *, backwards: bool, stopped: object = None) -> int | None:
        """The next line after (before) `start` that holds `text`; None where there is none. `stopped()` ends it."""
        check = stopped if callable(stopped) else bool
        return find(self.file, text, self.candidates(start, backwards=backwards), check)

    def latest_groups(self) -> set[Group]:
        """The group of the highest iteration of each subtask."""
        latest: dict[str | None, int] = {}
        for group in self.timeline.groups():
            if group.iteration is not None:
                latest[group.subtask] = max(latest.get(group.subtask, 0), group.iteration)
        return {Group(subtask, iteration) for subtask, iteration in latest.items()}
