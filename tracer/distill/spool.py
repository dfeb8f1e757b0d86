"""Where a trace's lines wait until the session is read to its end, in bounded memory.

Places are reserved in file order and filled later (a call's result arrives after other lines). They leave ordered by
time, equal times in the order they came. Beyond a few megabytes they lie in a nameless temporary SQLite database,
which the system removes with the process. Only redacted text gets here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

__all__ = ["Spool"]

_HELD_BYTES: Final = 4 * 1024 * 1024
_HELD_LINES: Final = 50_000


class Spool:
    """An ordered store of encoded lines. Not for more than one thread."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, bytes]] = {}
        self._held_bytes = 0
        self._database: sqlite3.Connection | None = None
        self._count = 0
        self._last_ms = 0
        self._in_order = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._database is not None:
            self._database.close()

    def __len__(self) -> int:
        return self._count

    def reserve(self, at_ms: int) -> int:
        """A place for a line that comes later; the number returned names it in `put`."""
        number = self._count
        self._count += 1
        if at_ms < self._last_ms:
            self._in_order = False
        self._last_ms = at_ms
        return number

    def put(self, number: int, at_ms: int, line: bytes) -> None:
        """Put `line` in the place `number`, reserved for the time `at_ms`; a second one replaces the first."""
        old = self._held.get(number)
        self._held[number] = (at_ms, line)
        self._held_bytes += len(line) - (len(old[1]) if old is not None else 0)
        if self._held_bytes > _HELD_BYTES or len(self._held) > _HELD_LINES:
            self._spill()

    def lines(self) -> Iterator[bytes]:
        """All lines, by time and then by order of arrival."""
        if self._database is None:
            numbers = sorted(self._held) if self._in_order else sorted(self._held, key=lambda n: (self._held[n][0], n))
            for number in numbers:
                yield self._held[number][1]
            return
        self._spill()
        order = "number" if self._in_order else "at_ms, number"
        for (line,) in self._database.execute(f"SELECT line FROM lines ORDER BY {order}"):  # noqa: S608 - two constants
            yield line

    def _spill(self) -> None:
        if self._database is None:
            # An empty name is a private on-disk database: it spills past its cache and needs no clean-up.
            self._database = sqlite3.connect("", isolation_level=None)
            self._database.execute("PRAGMA journal_mode=OFF")
            self._database.execute("PRAGMA synchronous=OFF")
            self._database.execute("PRAGMA cache_size=-8000")
            self._database.execute("CREATE TABLE lines (number INTEGER PRIMARY KEY, at_ms INTEGER, line BLOB)")
        rows = ((number, at_ms, line) for number, (at_ms, line) in self._held.items())
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR REPLACE INTO lines VALUES (?, ?, ?)", rows)
        self._database.execute("COMMIT")
        self._held.clear()
        self._held_bytes = 0
