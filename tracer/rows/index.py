"""Where the lines of a file start, and where groups change: compact, growing, bounded in memory.

Line starts are kept in one array of 64-bit numbers; past `MAX_STARTS` every second one is dropped and the gap to the
next is scanned when it is asked for, so 10 GB of short lines costs 8 MB too. Runs of equal groups stop being kept past
`MAX_RUNS`; `runs_whole` then says that grouping is off. Not thread-safe: the owner holds a lock.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

from tracer.rows.model import NO_GROUP, Group

__all__ = ["MAX_RUNS", "MAX_STARTS", "LineIndex"]

MAX_STARTS: Final = 1 << 20
MAX_RUNS: Final = 100_000


class LineIndex:
    """`count` whole lines are known, the last of them ends (newline included) at byte `end`."""

    def __init__(self) -> None:
        self.count = 0
        self.end = 0
        self.stride = 1
        self.starts: array[int] = array("Q")
        self.groups: list[Group] = []
        self.run_lines: array[int] = array("Q")
        self.run_groups: array[int] = array("L")
        self.runs_whole = True
        self._group_ids: dict[Group, int] = {}

    def extend(self, starts: list[int], end: int) -> None:
        """Add whole lines starting at `starts`; the last one's newline is at `end - 1`."""
        first = -self.count % self.stride
        self.starts.extend(starts[first :: self.stride])
        self.count += len(starts)
        self.end = end
        while len(self.starts) > MAX_STARTS:
            self.starts = self.starts[::2]
            self.stride *= 2

    def add_run(self, line: int, group: Group) -> None:
        """Lines from `line` on belong to `group`."""
        if not self.runs_whole:
            return
        number = self._group_ids.get(group)
        if number is None:
            number = self._group_ids[group] = len(self.groups)
            self.groups.append(group)
        if self.run_groups and self.run_groups[-1] == number:
            return
        if len(self.run_lines) >= MAX_RUNS:
            self.runs_whole = False
            self.run_lines, self.run_groups = array("Q", [0]), array("L", [number])
            return
        self.run_lines.append(line)
        self.run_groups.append(number)

    def near(self, line: int) -> tuple[int, int]:
        """The nearest kept start at or before `line`: its byte offset, and how many lines to skip from there."""
        slot, skip = divmod(line, self.stride)
        return self.starts[slot], skip

    def line_at(self, offset: int) -> tuple[int, int]:
        """The kept line at or before byte `offset`: its number and its start."""
        slot = max(bisect_right(self.starts, offset) - 1, 0)
        return slot * self.stride, self.starts[slot] if self.starts else 0

    def group_of(self, line: int) -> Group:
        """The group that `line` belongs to; the whole task's where grouping is off."""
        slot = bisect_right(self.run_lines, line) - 1
        return self.groups[self.run_groups[slot]] if slot >= 0 and self.runs_whole else NO_GROUP
