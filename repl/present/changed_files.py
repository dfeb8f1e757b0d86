"""The files that a task changed in the order that a reader wants them: sources, tests, the rest; made ones counted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from repl.present.text import count_text, one_line
from runner.gate.file_roles import is_test_file
from tracer.facts import FileCount

_MADE: Final = frozenset(
    {"__pycache__", "node_modules", ".venv", "venv", "target", "dist", "build", "out", "coverage", ".git"}
)
_REST: Final = frozenset({".md", ".txt", ".rst", ".lock", ".json", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".csv"})


def in_reading_order(paths: Iterable[str]) -> list[str]:
    """Sources first, then tests, then texts and settings, then what caches and builds left; else as they came."""
    return sorted(paths, key=_rank)


def is_made(path: str) -> bool:
    """Whether a tool left it: a cache, a build's output."""
    parts = PurePosixPath(path).parts[:-1]
    return any(part in _MADE or part.endswith("_cache") for part in parts) or path.endswith((".pyc", ".log"))


def _rank(path: str) -> int:
    if is_made(path):
        return 3
    if is_test_file(path):
        return 1
    return 2 if PurePosixPath(path).suffix.lower() in _REST else 0


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
