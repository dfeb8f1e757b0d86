"""The files that a task changed in words; those that tools made are counted."""

from __future__ import annotations

from collections.abc import Iterable

from repl.present.text import count_text, one_line
from runner.changed_paths import in_reading_order, is_made
from tracer.facts import FileCount


def files_text(paths: Iterable[str], *, most: int = 8) -> str:
    """`src/cart.py, tests/test_cart.py and 3 made by tools`; empty where nothing changed."""
    ordered = in_reading_order(paths)
    own = [one_line(path) for path in ordered if not is_made(path)]
    made = len(ordered) - len(own)
    shown = ", ".join(own[:most]) + (f" … {len(own) - most} more" if len(own) > most else "")
    told = f"{made} made by tools" if made else ""
    return " and ".join(part for part in (shown, told) if part)


def lines_text(counts: Iterable[FileCount]) -> str:
    """`2 files +31 -4`; the lines only where somebody counted them."""
    listed = list(counts)
    known = [count for count in listed if count.added is not None]
    lines = f" +{sum(one.added or 0 for one in known)} -{sum(one.removed or 0 for one in known)}" if known else ""
    return count_text(len(listed), "file") + lines
