"""The order in which a reader wants the files that a task changed, and which of them tools made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from runner.gate.file_roles import is_test_file

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
