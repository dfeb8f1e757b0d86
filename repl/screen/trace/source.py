"""A trace file as the viewer reads it: rows by position, groups and folding, title and filter texts."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from repl.present.cells import shown
from repl.present.text import cost_text, count_text, tokens_text
from tracer.clock import seconds_text
from tracer.rows.digest import Digest, Totals
from tracer.rows.filters import Filter
from tracer.rows.row import NO_GROUP, Group, Row
from tracer.rows.row_file import RowFile
from tracer.rows.search import Background, FilterScan, find


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
        if count != self.count:
            if not self._starts and count:
                self.feed(0, NO_GROUP)
            self._place(bisect_right(self._starts, min(count, self.count)) - 1)
            self.count = count

    def fold(self, group: Group, *, folded: bool) -> None:
        if group == NO_GROUP:
            return
        if folded:
            self.folded.add(group)
        else:
            self.folded.discard(group)
        self._place(0)

    def fold_all_but(self, kept: set[Group]) -> None:
        self.folded.clear()
        self.folded.update(group for group in self._groups if group not in kept and group != NO_GROUP)
        self._place(0)

    def unfold_all(self) -> None:
        self.folded.clear()
        self._place(0)

    def groups(self) -> list[Group]:
        return list(dict.fromkeys(self._groups))

    def run_length(self, run: int) -> int:
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
            group, length = self._groups[run], self.run_length(run)
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
        return self._starts[self._groups.index(group)] if group in self._groups else None


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
        at = bisect_left(matches, seq)
        return at if at < len(matches) and matches[at] == seq else None

    # -- the end, before the index knows it -------------------------------------------------------------------------

    def show_tail(self) -> None:
        """Show the end of the file at once, unnumbered, where it is not indexed yet."""
        if not self.file.indexed and self.scan is None:
            self.tail = self.file.tail(_TAIL_ROWS)
            self._rebuild_tail()

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
        iteration = row.group.iteration
        earlier = self._alike(row, range(row.seq - 1, max(row.seq - _WALK, -1), -1)) if row.seq is not None else ()
        return next((one for one in earlier if iteration is None or one.group.iteration != iteration), None)

    def next_like(self, row: Row) -> Row | None:
        """The nearest later fact of the same event and subtask."""
        if row.seq is None:
            return None
        return next(self._alike(row, range(row.seq + 1, min(row.seq + _WALK, self.file.count))), None)

    def _alike(self, row: Row, seqs: Iterable[int]) -> Iterator[Row]:
        for one in map(self.file.row, seqs):
            if one.event == row.event and one.group.subtask == row.group.subtask:
                yield one

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


_NAME: Final = re.compile(r"conversation-(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(_\d+)?\.jsonl")
_SHOWN_JUDGMENTS: Final = 6


def trace_name(path: Path) -> str:
    """The task's id for a conversation trace, else the file's name."""
    found = _NAME.fullmatch(path.name)
    return shown(found.group(1) if found else path.name)


def title_text(model: TraceModel) -> str:
    """`task-015 · COMPLETE · 2 iterations · REJECT, PASS · 7.9 s · 4,750 tok · $0.04` as far as it is known."""
    totals = model.digest.totals
    parts = [trace_name(model.file.path), *_middle(totals)]
    if totals.first_ms is not None and totals.last_ms is not None and totals.last_ms > totals.first_ms:
        parts.append(seconds_text(totals.last_ms - totals.first_ms))
    if totals.tokens is not None:
        parts.append(tokens_text(totals.tokens))
    if totals.family == "conversation" and (totals.judged or totals.cost_usd is not None):
        parts.append(cost_text(None if totals.cost_unknown else totals.cost_usd))
    return " · ".join(part for part in parts if part)


def _middle(totals: Totals) -> list[str]:
    if totals.family != "conversation":
        return [totals.family, f"{totals.failed:,} failed" if totals.failed else ""]
    status = shown(totals.status) or (f"unfinished after {shown(totals.last_event)}" if totals.last_event else "")
    parts = [status]
    if totals.iterations:
        parts.append(count_text(totals.iterations, "iteration"))
    if totals.judgments:
        last = totals.judgments[-_SHOWN_JUDGMENTS:]
        more = f"{totals.judged - len(last)} more, " if totals.judged > len(last) else ""
        parts.append(more + ", ".join(shown(word) for word in last))
    return parts


def follow_text(*, following: bool, waiting: int) -> str:
    """`FOLLOW`, `+12 events (end to follow)`, or nothing."""
    if following:
        return "FOLLOW"
    return f"+{count_text(waiting, 'event')} (end to follow)" if waiting > 0 else ""


def filter_text(model: TraceModel) -> str:
    """`filter: failed   12 of 40 facts`; says when grouping is off, when looking goes on, and what stays hidden."""
    count = model.file.index.count
    torn = f"   line {count} incomplete ({model.file.torn:,} bytes)" if model.file.torn else ""
    grouping = "" if model.file.index.runs_whole else "   too many groups: shown flat"
    if model.scan is None:
        return f"filter: none   {count_text(count, 'event')}{torn}{grouping}"
    scan = model.scan
    going = f"   looking, {scan.done * 100 // max(count, 1)} %" if scan.done < count and not scan.full else ""
    full = "   stopped at the first matches" if scan.full else ""
    return f"filter: {describe(model)}   {len(scan.matches):,} of {count:,} events{going}{full}{torn}"


def describe(model: TraceModel) -> str:
    wanted = model.wanted
    terms = []
    if wanted.events:
        terms.append("event:" + ",".join(wanted.events))
    if wanted.iterations:
        terms.append("it:" + ",".join(f"{low}-{high}" if low != high else str(low) for low, high in wanted.iterations))
    if wanted.subtasks:
        terms.append("sub:" + ",".join(wanted.subtasks))
    terms += [f'text:"{text}"' for text in wanted.texts]
    if wanted.failed:
        terms.append("failed")
    return shown(" ".join(terms))


def index_text(model: TraceModel, width: int) -> str:
    """A thin bar while the file is being indexed; empty once it is."""
    if model.file.indexed:
        return ""
    done = model.file.scanned / max(model.file.size, 1)
    filled = int(done * width)
    where = "   the end of the file, not numbered yet" if model.tail is not None else ""
    return f"indexing [{'#' * filled}{'.' * (width - filled)}] {done * 100:.0f} %{where}"
