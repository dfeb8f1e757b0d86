"""Redaction as captures need it: paths of the sender's machine, and a whole batch in one search.

A session's workspace lies on the sender's machine, so each workspace root has a redactor of its own (the last 64 are
kept). Texts of a batch are searched together: the fixed cost of a search is paid once, and pieces of one output are
seen as the one text they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.port import Redacted

__all__ = ["CaptureRedactors", "Pieces", "TextRedactor"]

_SEPARATOR: Final = "\n\0\n"  # no rule matches across it, and intake refuses NUL
_LARGE: Final = 250_000  # characters: from 1 MB of bytes on, a text is shortened, and searched by itself
_HOME: Final = re.compile(r"(/home/[^/]+|/Users/[^/]+|/root)(?:/|$)")
_LONGEST_ROOT: Final = 4_096
_KEPT: Final = 64


class TextRedactor(Protocol):
    """What the intake needs of `ProjectRedactor`."""

    def redact_text(self, text: str) -> tuple[str, dict[str, int]]:
        """One text; shortened where it is over 1 MB."""
        ...

    def redact_value(self, value: Any) -> Redacted:
        """A JSON value."""
        ...

    def redact_chunks(self, chunks: Sequence[str]) -> tuple[list[str], dict[str, int]]:
        """Pieces of one text."""
        ...


class CaptureRedactors:
    """The redactors of all workspace roots, made from one of the project's."""

    def __init__(self, base: ProjectRedactor) -> None:
        self._base = base.with_paths()
        self.for_root: Callable[[str | None], TextRedactor] = lru_cache(_KEPT)(self._for_root)
        """The redactor for events of a workspace root; None: no root is known."""

    def _for_root(self, root: str | None) -> TextRedactor:
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

    def redact(self, redactor: TextRedactor) -> None:
        """Do it: afterwards `redacted`, `counts` and `changed` hold."""
        whole: list[str] = [*self._texts, *reversed(self._chunks)]
        large = [place for place, text in enumerate(whole) if len(text) >= _LARGE]
        rows, order = self._rows(whole)
        result, self.counts = redactor.redact_chunks(rows)
        self.redacted = list(whole)
        for place, text in zip(order, result, strict=True):
            if place is not None:
                self.redacted[place] = text
        for place in large:
            self.redacted[place], more = redactor.redact_text(whole[place])
            for rule, count in more.items():
                self.counts[rule] = self.counts.get(rule, 0) + count
        self.changed = bool(self.counts) or self.redacted != whole

    def _rows(self, whole: list[str]) -> tuple[list[str], list[int | None]]:
        """What is searched as one: texts and streams, set apart by separators; and the place each row goes to."""
        rows: list[str] = []
        order: list[int | None] = []
        runs: list[list[int]] = [[place] for place in range(len(self._texts))]
        runs += [[len(whole) - 1 - at for at in stream] for stream in self._streams.values()]
        for run in runs:
            for place in run:
                if len(whole[place]) < _LARGE:
                    rows.append(whole[place])
                    order.append(place)
            rows.append(_SEPARATOR)
            order.append(None)
        return rows, order
