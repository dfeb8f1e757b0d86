"""Text search and filters over the lines of a `RowFile`, and the thread that indexes, follows and filters it.

A line is decoded only where its bytes leave doubt. The thread works in short steps with pauses as long as the work,
so the thread with the keyboard is never starved.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import Final, Literal

import orjson

from tracer.clock import monotonic
from tracer.rows.digest import Digest
from tracer.rows.filters import Filter
from tracer.rows.line import head_of, load_object
from tracer.rows.row import Row
from tracer.rows.row_file import MAX_DECODE, RowFile

MAX_MATCHES: Final = 2_000_000
_OVERLAP: Final = 4096
_PEEK: Final = 1024
_TRIES: Final = 64
Sight = Literal["no", "maybe", "yes"]


def look_for(text: str) -> Callable[[bytes], Sight]:
    """A test on a stored line: `no` and `yes` are certain, `maybe` wants the line decoded."""
    lowered = text.lower()
    needle = orjson.dumps(lowered)[1:-1]
    slash = b"/" in needle
    # The Kelvin sign and the dotted capital I are the only letters outside ASCII whose lower case holds ASCII letters.
    odd = [sign for letter, sign in (("k", b"\xe2\x84\xaa"), ("i", b"\xc4\xb0")) if letter in lowered]
    inside = not lowered.isascii() or _only_in_strings(lowered)

    def quick_sight(line: bytes) -> Sight:
        lower = line.lower()
        if needle in lower:
            return "yes" if inside and _in_value(lower, needle) else "maybe"
        hidden = b"\\u" in line or (slash and b"\\/" in line) or any(sign in line for sign in odd)
        return "maybe" if hidden else "no"

    def any_sight(line: bytes) -> Sight:
        shown = line.decode("utf-8", "replace").lower()
        return "maybe" if needle.decode() in shown or "\\u" in shown or (slash and "\\/" in shown) else "no"

    caseless = all(letter.isascii() or letter.upper() == letter for letter in lowered)
    return quick_sight if caseless else any_sight


def _only_in_strings(needle: str) -> bool:
    """Whether `needle` cannot occur in JSON outside of strings (in numbers, punctuation, true, false, null)."""
    return any(not any(run in word for word in ("true", "false", "null")) for run in re.findall("[a-z_]+", needle))


def _in_value(lower: bytes, needle: bytes) -> bool:
    """Whether an occurrence certainly belongs to a string value: not in a key, not made of an escape's letters."""
    position = lower.find(needle)
    for _try in range(_TRIES):
        if position < 0:
            return False
        if b"\\" not in lower[max(position - 6, 0) : position]:
            quote = lower.find(b'"', position + len(needle))
            if quote >= 0 and lower[quote + 1 : quote + 2] not in {b":", b" "}:
                return True
        position = lower.find(needle, position + 1)
    return False


def holds(file: RowFile, row: Row, wanted: Filter, tests: Iterable[Callable[[bytes], Sight]]) -> bool:
    """Whether the line of `row` fits `wanted` in full; in lines too long to decode, keys and escapes count as text."""
    if wanted.failed and row.mark != "x":
        return False
    if not wanted.accepts_head(event=row.event, iteration=row.group.iteration, subtask=row.group.subtask):
        return False
    if not wanted.texts:
        return True
    if row.size > MAX_DECODE:
        return all(_in_pieces(file, row, test) for test in tests)
    raw = b"".join(file.raw_lines(row))
    sights = {test(raw) for test in tests}
    if "maybe" not in sights:
        return "no" not in sights
    if "no" in sights:
        return False
    value, _problem = load_object(raw)
    return wanted.accepts_text(raw.decode("utf-8", "replace") if value is None else value)


def _in_pieces(file: RowFile, row: Row, test: Callable[[bytes], Sight]) -> bool:
    carried = b""
    for piece in file.raw_lines(row):
        if test(carried + piece) != "no":
            return True
        carried = piece[-_OVERLAP:]
    return False


class FilterScan:
    """The lines that fit `wanted`, found step by step as the index grows. `done` lines have been looked at."""

    def __init__(self, file: RowFile, wanted: Filter) -> None:
        self.wanted = wanted
        self.matches: array[int] = array("Q")
        self.done = 0
        self.generation = file.generation
        self.full = False
        self._file = file
        self._tests = [look_for(text) for text in wanted.texts]

    def step(self, lines: int = 64) -> bool:
        """Look at up to `lines` further lines; whether any were left."""
        if self.generation != self._file.generation:
            self.matches, self.done, self.generation = array("Q"), 0, self._file.generation
        stop = min(self._file.count, self.done + lines)
        if self.done >= stop or self.full:
            return False
        for seq in range(self.done, stop):
            if not self._look(seq):
                return False
            self.done = seq + 1
        self.full = len(self.matches) >= MAX_MATCHES
        return True

    def _look(self, seq: int) -> bool:
        try:
            offset, size = self._file.span(seq)
        except IndexError:
            return False
        head = head_of(self._file.peek(offset, min(size, _PEEK)))
        if head is not None and not self.wanted.accepts_head(
            event=head.event, iteration=head.group.iteration, subtask=head.group.subtask
        ):
            return True
        row = self._file.row(seq)
        if row.kind == "incomplete":
            return False
        if holds(self._file, row, self.wanted, self._tests):
            self.matches.append(seq)
        return True


def find(file: RowFile, text: str, candidates: Iterable[int], stopped: Callable[[], bool]) -> int | None:
    """The first of the line numbers `candidates` whose strings hold `text`; None where none does or `stopped`."""
    wanted = Filter(texts=(text.lower(),))
    tests = [look_for(text)]
    for seq in candidates:
        if stopped():
            return None
        try:
            row = file.row(seq)
        except IndexError:
            return None
        if holds(file, row, wanted, tests):
            return seq
    return None


_POLL_S: Final = 0.1
_STEP_S: Final = 0.004


class Background:
    """Keeps `file` indexed, `scan` and `digest` complete until `stop`."""

    def __init__(self, file: RowFile) -> None:
        self.file = file
        self.version = 0
        self.scan: FilterScan | None = None
        self.digest = Digest(file)
        self._stop = Event()
        self._wake = Event()
        self._thread = Thread(target=self._work, name="trace-rows", daemon=True)

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; safe before `start` and twice."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def filter(self, wanted: Filter) -> FilterScan | None:
        """Look for facts that fit `wanted` from now on (an empty filter ends the looking)."""
        self.scan = FilterScan(self.file, wanted) if wanted else None
        self.version += 1
        self._wake.set()
        return self.scan

    def _work(self) -> None:
        while not self._stop.is_set():
            began = monotonic()
            busy = self._steps(began + _STEP_S)
            if busy:
                self.version += 1
                self._stop.wait(min(monotonic() - began, 0.02))
                continue
            self._wake.wait(_POLL_S)
            self._wake.clear()
            if self.file.poll():
                self.version += 1

    def _steps(self, until: float) -> bool:
        busy = False
        while monotonic() < until and not self._stop.is_set():
            scan = self.scan
            more = self.file.index_some(1 << 18)
            more = (scan is not None and scan.step(16)) or more
            more = more or self.digest.step(16)
            busy = busy or more
            if not more:
                break
        return busy
