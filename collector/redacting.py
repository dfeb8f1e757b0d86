"""Redaction as captures need it: paths of the sender's machine, and a whole batch in one search.

A session's workspace lies on the sender's machine, so each workspace root has a redactor of its own (the last 64 are
kept). Texts of a batch are searched together: the fixed cost of a search is paid once, and pieces of one output are
seen as the one text they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tracer.redaction.engine import ProjectRedactor

__all__ = ["CaptureRedactors", "Pieces", "RootRedactor"]

_LARGE: Final = 250_000  # characters: from 1 MB of bytes on, a text is shortened, and searched by itself
_HOME: Final = re.compile(r"(/home/[^/]+|/Users/[^/]+|/root)(?:/|$)")
_LONGEST_ROOT: Final = 4_096
_KEPT: Final = 64
_SHORT: Final = 200
_REMEMBERED: Final = 4_096


class RootRedactor:
    """The redactor for one workspace root, with the short texts it has seen: they come with nearly every event.

    Only texts in which nothing was replaced but a path are remembered: `seen` holds no secret.
    """

    def __init__(self, redactor: ProjectRedactor) -> None:
        self.project = redactor
        self.redact_text = redactor.redact_text
        self.redact_value = redactor.redact_value
        self.redact_rows = redactor.redact_rows
        self.seen: dict[str, tuple[str, dict[str, int]]] = {}

    def remember(self, text: str, redacted: str) -> None:
        """Keep what became of a short text, if it held no secret."""
        if "[REDACTED:" not in redacted:
            if len(self.seen) >= _REMEMBERED:
                self.seen.clear()
            self.seen[text] = (redacted, {})


class CaptureRedactors:
    """The redactors of all workspace roots, made from one of the project's."""

    def __init__(self, base: ProjectRedactor) -> None:
        self._base = base.with_paths()
        self.for_root: Callable[[str | None], RootRedactor] = lru_cache(_KEPT)(self._for_root)
        """The redactor for events of a workspace root; None: no root is known."""

    def _for_root(self, root: str | None) -> RootRedactor:
        return RootRedactor(self._project_redactor(root))

    def _project_redactor(self, root: str | None) -> ProjectRedactor:
        if not root or len(root) > _LONGEST_ROOT or not root.startswith("/"):
            return self._base
        home = _HOME.match(root)
        environ = dict(self._base.parts.environ)
        if home is not None:
            environ["HOME"] = home[1]  # its last name is the developer's
        parts = replace(
            self._base.parts,
            environ=environ,
            project_root=Path(root.rstrip("/") or "/"),
            home=Path(home[1]) if home is not None else None,
        )
        return replace(self._base, parts=parts)


class Pieces:
    """Texts on their way through one redactor; `add` gives the place at which `redacted` has the result."""

    def __init__(self) -> None:
        self.redacted: list[str] = []
        self.counts: dict[str, int] = {}
        self.changed = False
        self._texts: dict[str, int] = {}
        self._streams: dict[Any, list[int]] = {}
        self._chunks: list[str] = []

    def add(self, text: str) -> int:
        """A text of its own; one that came before has the same place."""
        return self._texts.setdefault(text, len(self._texts))

    def add_chunk(self, text: str, stream: Any) -> int:
        """A piece of `stream`, searched together with the stream's other pieces. Its place counts from the end."""
        self._streams.setdefault(stream, []).append(len(self._chunks))
        self._chunks.append(text)
        return -len(self._chunks)

    def redact(self, redactor: RootRedactor) -> None:
        """Do it: afterwards `redacted`, `counts` and `changed` hold."""
        whole: list[str] = [*self._texts, *reversed(self._chunks)]
        runs: list[list[int]] = [[place] for place in range(len(self._texts))]
        runs += [[len(whole) - 1 - at for at in stream] for stream in self._streams.values()]
        rows: list[list[int]] = []
        self.redacted = list(whole)
        counts: Counter[str] = Counter()
        for run in runs:
            text = whole[run[0]]
            if len(run) == 1 and (known := redactor.seen.get(text)) is not None:
                self.redacted[run[0]] = known[0]
                counts.update(known[1])
            elif any(len(whole[place]) >= _LARGE for place in run):
                for place in run:
                    self.redacted[place], more = redactor.redact_text(whole[place])
                    counts.update(more)
            else:
                rows.append(run)
        counts.update(self._redact_rows(redactor, whole, rows))
        self.counts = dict(counts)
        self.changed = self.redacted != whole

    def _redact_rows(self, redactor: RootRedactor, whole: list[str], rows: list[list[int]]) -> dict[str, int]:
        if not rows:
            return {}
        results, counts = redactor.redact_rows([[whole[place] for place in row] for row in rows])
        for row, result in zip(rows, results, strict=True):
            for place, text in zip(row, result, strict=True):
                self.redacted[place] = text
            if len(row) == 1 and len(whole[row[0]]) <= _SHORT:
                redactor.remember(whole[row[0]], result[0])
        return counts
