"""Redaction as captures need it: paths of the sender's machine, and a whole batch in one search.

Each workspace root has a redactor of its own (the last 64 are kept). Texts of a batch are searched together, which
costs less and finds a secret split over pieces of one output.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.redactor import Clean

_LARGE: Final = 250_000  # characters: from 1 MB of bytes on, a text is shortened, and searched by itself
_HOME: Final = re.compile(r"(/home/[^/]+|/Users/[^/]+|/root)(?:/|$)")
_LONGEST_ROOT: Final = 4_096
_KEPT: Final = 64
_SHORT: Final = 200
_REMEMBERED: Final = 4_096


class RootRedactor:
    """One workspace root's redactor; `seen` remembers frequent short texts without secrets (only paths replaced)."""

    def __init__(self, redactor: ProjectRedactor) -> None:
        self.project = redactor
        self.redact_text = redactor.redact_text
        self.redact_value = redactor.redact_value
        self.redact_rows = redactor.redact_rows
        self.seen: dict[str, Clean] = {}

    def remember(self, text: str, redacted: Clean) -> None:
        """Keep what became of a short text, if it held no secret."""
        if "[REDACTED:" not in redacted:
            if len(self.seen) >= _REMEMBERED:
                self.seen.clear()
            self.seen[text] = redacted


class CaptureRedactors:
    """The redactors of all workspace roots, made from one of the project's."""

    def __init__(self, base: ProjectRedactor) -> None:
        self._base = base.with_paths()
        self.for_root: Callable[[str | None], RootRedactor] = lru_cache(_KEPT)(
            lambda root: RootRedactor(self._project_redactor(root))
        )
        """The redactor for events of a workspace root; None: no root is known."""

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
    """A batch's texts in one redactor; `changed` has each changed text, `chunks` all pieces of each changed stream."""

    def __init__(self) -> None:
        self.changed: dict[str, Clean] = {}
        self.chunks: dict[Any, list[Clean]] = {}
        self._texts: dict[str, None] = {}
        self._streams: dict[Any, list[str]] = {}

    def add(self, text: str) -> None:
        """A text of its own; one that came before is looked at once."""
        self._texts[text] = None

    def add_chunk(self, text: str, stream: Any) -> int:
        """A piece of `stream`, searched together with the stream's other pieces; its place among them."""
        pieces = self._streams.setdefault(stream, [])
        pieces.append(text)
        return len(pieces) - 1

    def redact(self, redactor: RootRedactor) -> None:
        """Do it."""
        fresh: list[str] = []
        for text in self._texts:
            known = redactor.seen.get(text)
            if known is None and len(text) >= _LARGE:
                self.changed[text] = redactor.redact_text(text)[0]
            elif known is None:
                fresh.append(text)
            elif known != text:
                self.changed[text] = known
        streams = []
        for stream, pieces in self._streams.items():
            if any(len(piece) >= _LARGE for piece in pieces):
                self.chunks[stream] = [redactor.redact_text(piece)[0] for piece in pieces]
            else:
                streams.append(stream)
        rows = [*((text,) for text in fresh), *(self._streams[stream] for stream in streams)]
        changed, _counts = redactor.redact_rows(rows)
        for at, cleaned in changed.items():
            if at < len(fresh):
                self.changed[fresh[at]] = cleaned[0]
            else:
                self.chunks[streams[at - len(fresh)]] = cleaned
        for text in fresh:
            if len(text) <= _SHORT:
                redactor.remember(text, self.changed.get(text, Clean(text)))
