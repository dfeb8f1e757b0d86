"""Search through earlier inputs (Ctrl+R): the query, the scope, and which match is shown. Pure over lists."""

from __future__ import annotations

from collections.abc import Callable

from repl.history import SCOPES, Scope

__all__ = ["HistorySearch"]


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
        """What holds the query, newest first, each once."""
        wanted = query.lower()
        return list(dict.fromkeys(text for text in reversed(self._entries(self.scope)) if wanted in text.lower()))

    def match(self, query: str) -> str:
        """The match at hand, or an empty text."""
        found = self.matches(query)
        return found[min(self._index, len(found) - 1)] if found else ""

    def move(self, query: str, by: int) -> None:
        """To an older (1) or newer (-1) match."""
        self._index = max(0, min(self._index + by, len(self.matches(query)) - 1))
