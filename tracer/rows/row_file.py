"""Any trace file as rows: virtual over byte offsets, readable from both ends before it is indexed.

Line starts and group changes are kept in bounded memory. A background thread (`tracer.rows.search`) calls
`index_some` and `poll`; views call the rest, from any thread. A replaced or shortened file is read anew, and
`generation` tells it.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from threading import RLock
from typing import Final

from tracer.errors import NotFoundError, TraceError
from tracer.rows.line import (
    HEAD_BYTES,
    epoch_ms,
    group_at,
    head_of,
    head_of_fields,
    load_object,
    mark_and_summary,
    summary_from_head,
)
from tracer.rows.row import NO_GROUP, Decoded, Group, Row, RowKind

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


_CHUNK: Final = 1 << 20
_BACK: Final = 1 << 18
_SMALL: Final = 16 << 10
_END: Final = 2048
_CACHED_ROWS: Final = 2048
MAX_DECODE: Final = 32 << 20
_CUT: Final = 64 << 10


class RowFile:
    """An open trace file. `size` is the bytes seen, `generation` how often it was read anew, `torn` its open tail.

    Raises `NotFoundError`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        self._lock = RLock()
        self._rows: OrderedDict[int, Row] = OrderedDict()
        self._descriptor = -1
        self._open()

    def _open(self) -> None:
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
            status = os.fstat(self._descriptor)
        except FileNotFoundError as error:
            raise NotFoundError(
                f"no trace file {str(self.path)!r}", next_step="pm tasks lists what there is"
            ) from error
        except OSError as error:
            raise TraceError(f"cannot read {str(self.path)!r}", why=str(error)) from error
        if not S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise TraceError(f"{str(self.path)!r} is not a file")
        self._identity = (status.st_dev, status.st_ino)
        self.size = status.st_size
        self.index = LineIndex()
        self.scanned = 0
        self.torn = 0
        self._torn_seen = self.size
        self._rows.clear()

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    @property
    def indexed(self) -> bool:
        """Whether every whole line up to `size` is known by number."""
        return self.scanned >= self.size

    @property
    def count(self) -> int:
        """How many rows are known by number: whole lines, and the open tail once the index has reached it."""
        with self._lock:
            return self.index.count + (1 if self.torn else 0)

    # -- growth -----------------------------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Look at the file once; whether there is more to index, or it is another file now."""
        with self._lock:
            if self._descriptor < 0:
                return False
            try:
                status = self.path.stat()
            except OSError:
                status = os.fstat(self._descriptor)
            changed = (status.st_dev, status.st_ino) != self._identity or status.st_size < self.index.end
            if changed:
                os.close(self._descriptor)
                self._open()
                self.generation += 1
                return True
            grown = status.st_size != self.size
            self.size = status.st_size
            self.scanned = min(self.scanned, self.size)
            if not grown and self.indexed:
                settled = self.size - self.index.end
                grown, self.torn = settled != self.torn, settled
            return grown

    def index_some(self, budget: int = _CHUNK) -> bool:
        """Read up to `budget` further bytes for the index; whether any were left to read."""
        with self._lock:
            start = self.scanned
            want = min(budget, self.size - start)
            if want <= 0 or self._descriptor < 0:
                return False
            generation, first_line_start = self.generation, self.index.end
        chunk = self._read(start, want)
        starts, groups, end = self._frame(chunk, start, first_line_start)
        with self._lock:
            if self.generation != generation or not chunk:
                self.size = min(self.size, start) if not chunk else self.size
                return False
            base = self.index.count
            for position, group in groups:
                self.index.add_run(base + position, group)
            if starts:
                self.index.extend(starts, end)
                self.torn = 0
            self.scanned = start + len(chunk)
            if self.scanned >= self.size and self._torn_seen == self.size:
                self.torn = self.size - self.index.end
            return True

    def _frame(self, chunk: bytes, start: int, line_start: int) -> tuple[list[int], list[tuple[int, Group]], int]:
        """Line starts that end in `chunk`, where groups change (position in that list), and the end of the last."""
        starts: list[int] = []
        groups: list[tuple[int, Group]] = []
        last: Group | None = None
        position = chunk.find(b"\n")
        while position >= 0:
            inside = line_start - start
            group = group_at(chunk, inside) if inside >= 0 else None
            if group is None:
                group = self._slow_group(line_start, start + position - line_start)
            if group is not None and group != last:
                groups.append((len(starts), group))
                last = group
            starts.append(line_start)
            line_start = start + position + 1
            position = chunk.find(b"\n", position + 1)
        return starts, groups, line_start

    def _slow_group(self, offset: int, size: int) -> Group | None:
        head = self._read(offset, min(size, HEAD_BYTES))
        group = group_at(head, 0)
        if group is not None or (b'"iteration_index"' not in head and b'"subtask_id"' not in head) or size > _SMALL:
            return group
        fields, _problem = load_object(head if size <= HEAD_BYTES else self._read(offset, size))
        return None if fields is None else head_of_fields(fields).group

    # -- reading ----------------------------------------------------------------------------------------------------

    def peek(self, offset: int, size: int) -> bytes:
        """Up to `size` stored bytes from `offset`."""
        return self._read(offset, size)

    def _read(self, offset: int, size: int) -> bytes:
        with self._lock:
            descriptor = self._descriptor
            return os.pread(descriptor, size, offset) if descriptor >= 0 and size > 0 else b""

    def _line_end(self, offset: int) -> int:
        """The offset of the newline that ends the line at `offset`, or the file's size."""
        while offset < self.size:
            chunk = self._read(offset, _BACK)
            if not chunk:
                break
            found = chunk.find(b"\n")
            if found >= 0:
                return offset + found
            offset += len(chunk)
        return self.size

    def span(self, seq: int) -> tuple[int, int]:
        """Byte offset and size (without the newline) of line `seq`."""
        with self._lock:
            if not 0 <= seq < self.count:
                raise IndexError(seq)
            if seq == self.index.count:
                return self.index.end, self.torn
            offset, skip = self.index.near(seq)
            if self.index.stride == 1:
                end = self.index.starts[seq + 1] if seq + 1 < self.index.count else self.index.end
                return offset, end - 1 - offset
        for _line in range(skip):
            offset = self._line_end(offset) + 1
        return offset, self._line_end(offset) - offset

    def row(self, seq: int) -> Row:
        """Row number `seq`, from its first bytes only where it is long. Raises IndexError where it is not known."""
        offset, size = self.span(seq)
        return self.row_at(offset, size, seq=seq, whole=seq < self.index.count)

    def row_at(self, offset: int, size: int, *, seq: int | None, whole: bool = True) -> Row:
        """The row of the line at `offset`; `whole` is false for a tail without newline."""
        with self._lock:
            cached = self._rows.get(offset)
            if cached is not None and cached.size == size and cached.seq == seq:
                self._rows.move_to_end(offset)
                return cached
        row = self._make(offset, size, seq, whole=whole)
        with self._lock:
            self._rows[offset] = row
            if len(self._rows) > _CACHED_ROWS:
                self._rows.popitem(last=False)
        return row

    def _make(self, offset: int, size: int, seq: int | None, *, whole: bool) -> Row:
        def damaged(kind: RowKind, why: str, detail: str = "") -> Row:
            text = f"line {'?' if seq is None else seq} {why}, {size:,} bytes{detail}"
            return Row(seq, offset, size, kind, "other", "?", mark="x", summary=text)

        if not whole:
            return damaged("incomplete", "incomplete")
        start = self._read(offset, min(size, _SMALL))
        head = head_of(start)
        if size <= _SMALL or (head is None and size <= MAX_DECODE):
            fields, problem = load_object(start if size <= _SMALL else self._read(offset, size))
            if fields is None:
                return damaged("unreadable", "not readable", f" ({problem})")
            head = head or head_of_fields(fields)
            mark, summary = mark_and_summary(head, fields)
        elif head is None:
            return damaged("unreadable", "too long to decode")
        else:
            mark, summary = summary_from_head(head, start, self._read(offset + size - _END, _END), size)
        when = epoch_ms(head.time)
        return Row(seq, offset, size, "fact", head.family, head.event, head.time, when, head.group, mark, summary)

    def decode(self, row: Row) -> Decoded:
        """The line of `row` in full; long lines give their first 64 kB and say so."""
        if row.size > MAX_DECODE:
            note = f"{row.size:,} bytes are too many to decode; the first {_CUT:,} are shown"
            return Decoded(self._read(row.offset, _CUT), None, note, cut=True)
        raw = self._read(row.offset, row.size)
        if row.kind == "incomplete":
            return Decoded(raw, None, "the line has no end: it was cut off, or is being written")
        value, problem = load_object(raw)
        return Decoded(raw, value, problem)

    def raw_lines(self, row: Row) -> Iterator[bytes]:
        """The stored bytes of `row` in pieces of up to 1 MB, however long it is."""
        for offset in range(row.offset, row.offset + row.size, _CHUNK):
            yield self._read(offset, min(_CHUNK, row.offset + row.size - offset))

    def tail(self, count: int, before: int | None = None) -> list[Row]:
        """Up to `count` rows that end before byte `before` (None: the end of the file), found backwards, unnumbered."""
        end = self.size if before is None else before
        rows: list[Row] = []
        if before is None and end and self._read(end - 1, 1) != b"\n":
            start = self._start_before(end)
            rows.append(self.row_at(start, end - start, seq=None, whole=False))
            end = start
        while end > 0 and len(rows) < count:
            start = self._start_before(end - 1)
            rows.append(self.row_at(start, end - 1 - start, seq=None))
            end = start
        rows.reverse()
        return rows

    def _start_before(self, position: int) -> int:
        """The start of the line that contains the byte before `position` (its own newline, at `position`, left out)."""
        while position > 0:
            low = max(position - _BACK, 0)
            chunk = self._read(low, position - low)
            found = chunk.rfind(b"\n")
            if found >= 0:
                return low + found + 1
            position = low
        return 0

    def seq_of(self, offset: int) -> int | None:
        """The number of the line that starts at byte `offset`; None while the index has not reached it."""
        with self._lock:
            if offset == self.index.end:
                return self.index.count if self.torn else None
            if offset > self.index.end or not self.index.count:
                return None
            line, start = self.index.line_at(offset)
        while start < offset:
            start = self._line_end(start) + 1
            line += 1
        return line if start == offset else None
