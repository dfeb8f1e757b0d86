"""Absolute paths told apart from where they are: `$PROJECT_ROOT/…` and `$HOME/…`.

Used for agentic traces, captures and exports; a conversation trace keeps its paths, since resume needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tracer.redaction.gate import Called
from tracer.redaction.rule_set import Find, literals

KEY = "path"
_RANK = 5
_LEAST_LENGTH = 4
_NOT_A_SLUG = re.compile(r"[^A-Za-z0-9]")


class Places:
    """Finds the project's and the home folder's path, as given and with links resolved, and as a folder-name slug."""

    def __init__(self, *, project_root: Path | None, home: Path | None) -> None:
        names: dict[bytes, bytes] = {}
        for folder, name in ((project_root, b"$PROJECT_ROOT"), (home, b"$HOME")):
            for spelling in _spellings(folder):
                names.setdefault(spelling.encode("utf-8", "surrogateescape"), name)
        self._names = names
        ordered = sorted(names, key=lambda path: (-len(path), path))
        self._pattern: Any = literals(ordered) if ordered else None

    @property
    def words(self) -> Iterable[bytes]:
        """Every spelling of the folders."""
        return self._names

    def finds(self, data: bytes, called: Called | None = None) -> Iterator[Find]:
        """Each path in `data` that is one of ours or lies below it, with what is to stand in its place.

        None where `KEY` was not `called`.
        """
        if self._pattern is None or (called is not None and KEY not in called):
            return
        for match in self._pattern.finditer(data):
            start, end = match.span(0)
            before = data[start - 1 : start] if start else b""
            slug = match.group(0).startswith(b"-") and data[end : end + 1] == b"-"
            if (slug or _ends_here(data[end : end + 2])) and not (before.isalnum() or before in {b"_", b"."}):
                yield Find(start, end, _RANK, KEY, match.group(0), self._names[match.group(0)])


def _spellings(folder: Path | None) -> Iterator[str]:
    if folder is None:
        return
    for path in {str(folder), str(folder.resolve())}:
        if len(path) >= _LEAST_LENGTH:
            yield path
            yield _NOT_A_SLUG.sub("-", path)


def _ends_here(after: bytes) -> bool:
    """Whether a path's last name ends before `after`: `/home/a` is no part of `/home/ab` or `/home/a.b`."""
    first, second = after[:1], after[1:2]
    if first in {b".", b"-"}:
        return not (second.isalnum() or second == b"_")
    return not (first.isalnum() or first == b"_" or first >= b"\x80")
