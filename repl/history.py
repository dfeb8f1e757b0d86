"""Inputs typed at `pm>`: stored as JSON lines for the project and the user, and searched (Ctrl+R)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tracer.clock import now_iso
from tracer.redaction.redactor import RedactionSettings, Redactor
from tracer.statedir import user_state_folder

if TYPE_CHECKING:
    from repl.session import Session

Scope = Literal["session", "project", "all"]
SCOPES: tuple[Scope, ...] = ("session", "project", "all")
_KEPT = 5000
_MOST_BYTES = 4 << 20


class History:
    """The inputs of one session over those of earlier ones, oldest first."""

    def __init__(self, session: Session) -> None:
        self._project = session.state_dir.root / "history.jsonl"
        self._all = user_state_folder(session.environ) / "history.jsonl"
        self._folder = str(session.folder)
        self._state_root, self._context = session.state_dir.root, session.context
        self._redactor: tuple[RedactionSettings, Redactor] | None = None
        self._session: list[str] = []

    def entries(self, scope: Scope) -> list[str]:
        """The inputs of `scope`, oldest first, repetitions in a row once."""
        if scope == "session":
            return list(self._session)
        return _read(self._project if scope == "project" else self._all)

    def add(self, text: str) -> None:
        """Remember `text`, unless it begins with a space or repeats the last one; blocks for a few milliseconds."""
        if not text.strip() or text.startswith(" "):
            return
        masked = self._masked(text)
        if self._session and self._session[-1] == masked:
            return
        self._session.append(masked)
        record = {"ts": now_iso(), "text": masked, "folder": self._folder}
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        if self._state_root.is_dir():
            _append(self._project, line)
        _append(self._all, line)

    def _masked(self, text: str) -> str:
        redaction = self._context.redaction()
        if self._redactor is None or self._redactor[0] != redaction:
            self._redactor = (redaction, self._context.redactor(state_dir=self._all.parent, pii=False))
        return self._redactor[1].redact_text(text)[0]


def _append(path: Path, line: bytes) -> None:
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)


def _read(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    found: list[str] = []
    for line in lines[-_KEPT:]:
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(text, str) and (not found or found[-1] != text):
            found.append(text)
    return found


class HistorySearch:
    """`saved` is the line that was being edited; `match` what the query finds, newest first."""

    def __init__(self, entries: Callable[[Scope], list[str]], *, saved: str) -> None:
        self._entries = entries
        self.saved = saved
        self.scope: Scope = "project"
        self._index = 0

    def cycle(self) -> None:
        """Look in the next scope: session, project, all."""
        self.scope = SCOPES[(SCOPES.index(self.scope) + 1) % len(SCOPES)]
        self._index = 0

    def matches(self, query: str) -> list[str]:
        wanted = query.lower()
        return list(dict.fromkeys(text for text in reversed(self._entries(self.scope)) if wanted in text.lower()))

    def match(self, query: str) -> str:
        found = self.matches(query)
        return found[min(self._index, len(found) - 1)] if found else ""

    def move(self, query: str, by: int) -> None:
        """To an older (1) or newer (-1) match."""
        self._index = max(0, min(self._index + by, len(self.matches(query)) - 1))
