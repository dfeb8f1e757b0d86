"""What the timeline shows, without showing it: group headers and facts, folding, and where each stands. Pure.

Positions count facts (of the whole file, of a filter's matches, or of the file's tail); indexes count displayed rows.
Facts of the whole task have no header. Runs are fed in order as they become known; looking up costs a bisection.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from tracer.rows.model import NO_GROUP, Group

__all__ = ["Item", "Timeline"]


class Item(NamedTuple):
    """One displayed row: a fact at `position`, or the header (`position` None) of the run `run`."""

    run: int
    group: Group
    position: int | None


class Timeline:
    """`count` facts in runs of equal groups; `folded` groups show their header alone."""

    def __init__(self, folded: set[Group] | None = None) -> None:
        self.folded: set[Group] = folded if folded is not None else set()
        self.count = 0
        self._starts: list[int] = []
        self._groups: list[Group] = []
        self._tops: list[int] = []
        self._size = 0
        self._dirty: int | None = None

    def __len__(self) -> int:
        self._settle()
        return self._size

    @property
    def runs(self) -> int:
        """How many runs have been fed."""
        return len(self._starts)

    def feed(self, position: int, group: Group) -> None:
        """Facts from `position` on belong to `group`; positions come in ascending order."""
        if self._groups and self._groups[-1] == group:
            return
        if self._starts and self._starts[-1] == position:
            self._groups[-1] = group
        else:
            self._starts.append(position)
            self._groups.append(group)
            self._tops.append(0)
        self._place(len(self._starts) - 2)

    def grow(self, count: int) -> None:
        """There are `count` facts now."""
        if count != self.count:
            if not self._starts and count:
                self.feed(0, NO_GROUP)
            self._place(bisect_right(self._starts, min(count, self.count)) - 1)
            self.count = count

    def fold(self, group: Group, *, folded: bool) -> None:
        """Fold or unfold every run of `group`."""
        if group == NO_GROUP:
            return
        if folded:
            self.folded.add(group)
        else:
            self.folded.discard(group)
        self._place(0)

    def fold_all_but(self, kept: set[Group]) -> None:
        """Fold everything except `kept`."""
        self.folded.clear()
        self.folded.update(group for group in self._groups if group not in kept and group != NO_GROUP)
        self._place(0)

    def unfold_all(self) -> None:
        """Show every fact."""
        self.folded.clear()
        self._place(0)

    def groups(self) -> list[Group]:
        """The groups in order of their first appearance."""
        return list(dict.fromkeys(self._groups))

    def _length(self, run: int) -> int:
        end = self._starts[run + 1] if run + 1 < len(self._starts) else self.count
        return max(min(end, self.count) - self._starts[run], 0)

    def _place(self, first: int) -> None:
        """Runs from `first` on have to be placed anew."""
        first = max(first, 0)
        self._dirty = first if self._dirty is None else min(first, self._dirty)

    def _settle(self) -> None:
        if self._dirty is None:
            return
        first, self._dirty = self._dirty, None
        top = self._tops[first] if 0 < first < len(self._tops) else 0
        for run in range(first, len(self._starts)):
            self._tops[run] = top
            group, length = self._groups[run], self._length(run)
            header = 1 if group != NO_GROUP and length else 0
            top += header + (0 if group in self.folded else length)
        self._size = top

    def item(self, index: int) -> Item:
        """The displayed row at `index`. Raises IndexError outside of `len`."""
        self._settle()
        if not 0 <= index < self._size:
            raise IndexError(index)
        run = bisect_right(self._tops, index) - 1
        group = self._groups[run]
        inside = index - self._tops[run] - (1 if group != NO_GROUP else 0)
        return Item(run, group, None if inside < 0 else self._starts[run] + inside)

    def index_of(self, position: int) -> int:
        """Where the fact at `position` is shown; its header where it is folded away."""
        self._settle()
        run = max(bisect_right(self._starts, position) - 1, 0)
        if not self._starts:
            return 0
        group = self._groups[run]
        header = 1 if group != NO_GROUP else 0
        inside = 0 if group in self.folded else position - self._starts[run] + header
        return min(self._tops[run] + inside, max(self._size - 1, 0))

    def first_of(self, group: Group) -> int | None:
        """The position of the first fact of `group`; None where it has none."""
        for start, candidate in zip(self._starts, self._groups, strict=True):
            if candidate == group:
                return start
        return None

    def run_length(self, run: int) -> int:
        """How many facts the run holds."""
        return self._length(run)
