"""One row for one line of any trace file, cheap enough to make for every line on the screen.

A row is a fact of a known family, an incomplete last line, or a line that is no JSON object; none is ever dropped.
`mark` carries the meaning in words of one letter: `x` failed, `v` passed, empty for everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

Family = Literal["conversation", "tracepack", "agentic", "capture", "other"]
RowKind = Literal["fact", "incomplete", "unreadable"]


class Group(NamedTuple):
    """What rows are grouped by; both None for facts of the whole task."""

    subtask: str | None
    iteration: int | None


NO_GROUP: Final = Group(None, None)


class Head(NamedTuple):
    """What the first bytes of a line tell. `time` is as stored: ISO text, or epoch milliseconds as digits."""

    family: Family
    event: str
    time: str
    group: Group
    body: int


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `seq` is its zero-based number, None while it is not known; `size` is in bytes without the newline."""

    seq: int | None
    offset: int
    size: int
    kind: RowKind
    family: Family
    event: str
    time: str = ""
    epoch_ms: int | None = None
    group: Group = NO_GROUP
    mark: Literal["", "x", "v"] = ""
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A line in full. `value` is the JSON object, None where it is none or the line is too long to decode.

    `raw` holds the stored bytes (the first part of them where `cut` is true), `problem` why there is no value.
    """

    raw: bytes
    value: dict[str, Any] | None
    problem: str = ""
    cut: bool = False
