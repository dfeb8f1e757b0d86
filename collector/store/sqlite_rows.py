"""Many rows by few statements: each statement gives the interpreter's lock away and has to wait for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

__all__ = ["by_rows", "insert_rows"]

_SIZES: Final = (64, 16, 4, 1)  # few texts, so that each is prepared once and kept; 100 rows are four statements


def by_rows(into: str, row: str, end: str = "") -> dict[int, str]:
    """Statements that insert so many rows of the values `row` at once, the most first; `end` follows them.

    OR FAIL: a statement that could be undone by itself has SQLite copy each page it changes into a temporary file,
    which took a sixth of an append. Here whatever fails has the whole transaction undone (`GroupWriter`).
    """
    return {
        size: f"INSERT OR FAIL INTO {into} VALUES {', '.join([row] * size)} {end}"  # noqa: S608 # our own names
        for size in _SIZES
    }


def insert_rows(connection: sqlite3.Connection, statements: Mapping[int, str], rows: Sequence[Sequence[Any]]) -> None:
    """Insert `rows`, in order, by the statements that `by_rows` made.

    Raises:
        sqlite3.Error: a row is refused; those before it are in, so that the transaction must be rolled back.

    """
    at = 0
    for size, statement in statements.items():
        while len(rows) - at >= size:
            connection.execute(statement, tuple(chain.from_iterable(rows[at : at + size])))
            at += size
