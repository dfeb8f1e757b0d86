"""Reading a conversation trace: all whole lines, with what is wrong said instead of thrown or dropped.

`scan` reads leniently (views, verification): damaged lines and the torn tail become problems. `read_entries` is strict
about damaged lines (state must not be folded from a record with holes) and lenient about the torn tail, which no
writer ever confirmed. Lines are framed on the byte `\\n` only. `seq` is the zero-based line number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tracer.errors import NotFoundError, TraceError
from tracer.events import parse_line
from tracer.facts import Entry
from tracer.journal.record_file import TornTail, require_file, torn_tail


class Problem(NamedTuple):
    """A line that is not a fact: its sequence, its length in bytes, and why."""

    seq: int
    length: int
    why: str


class Scan(NamedTuple):
    """A trace as it can be read: `facts` as (seq, entry), damaged lines, and the torn tail or None."""

    facts: list[tuple[int, Entry]]
    problems: list[Problem]
    torn: TornTail | None

    @property
    def entries(self) -> list[Entry]:
        """The readable facts in file order."""
        return [entry for _, entry in self.facts]


def iter_lines(path: str | os.PathLike[str], *, after: int = -1) -> Iterator[tuple[int, bytes]]:
    """(seq, line with its newline) for every whole line behind `after`; a torn tail is not among them.

    Raises `NotFoundError`.
    """
    try:
        require_file(path)
        with open(path, "rb") as file:
            torn = torn_tail(file.fileno())
            left = torn.offset if torn else -1
            for seq, line in enumerate(file):
                if torn:
                    left -= len(line)
                    if left < 0:
                        return
                if not line.endswith(b"\n"):  # it grew while we read: the rest is not whole yet
                    return
                if seq > after:
                    yield seq, line
    except FileNotFoundError as error:
        raise NotFoundError(f"no trace at {os.fspath(path)!r}") from error
    except OSError as error:
        raise TraceError(f"cannot read {os.fspath(path)!r}", why=error) from error


def read_entries(path: str | os.PathLike[str]) -> list[Entry]:
    """Every fact of the trace in file order; a torn tail is left out.

    Raises:
        NotFoundError: no such file.
        TraceError: it cannot be read, or a whole line is damaged (named by its 1-based number).

    """
    return entries_of(iter_lines(path), path=path)


def entries_of(lines: Iterable[tuple[int, bytes]], *, path: str | os.PathLike[str]) -> list[Entry]:
    """The facts that numbered `lines` of the trace at `path` hold; see `read_entries`."""
    entries: list[Entry] = []
    add = entries.append
    for seq, line in lines:
        try:
            add(parse_line(line))
        except TraceError as error:
            raise TraceError(
                f"line {seq + 1} of {os.fspath(path)!r} is damaged",
                why=error.line,
                next_step="look at it with: pm trace verify",
            ) from error
    return entries


def scan(path: str | os.PathLike[str]) -> Scan:
    """Everything of the trace that can be read, and everything that cannot. Raises `NotFoundError`."""
    facts: list[tuple[int, Entry]] = []
    problems: list[Problem] = []
    for seq, line in iter_lines(path):
        try:
            facts.append((seq, parse_line(line)))
        except TraceError as error:
            problems.append(Problem(seq, len(line), error.line))
    return Scan(facts, problems, torn_tail(path))
