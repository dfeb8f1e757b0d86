"""Long pastes folded to `[pasted 212 lines]` in the line, and put back whole when the line is submitted. Pure."""

from __future__ import annotations

__all__ = ["FOLD_LINES", "Pastes"]

FOLD_LINES = 20


class Pastes:
    """The folded pastes of the line being edited."""

    def __init__(self) -> None:
        self._folded: dict[str, str] = {}

    def insert(self, text: str) -> str:
        """What to put into the line for a paste: the text itself, or its mark where it is longer than 20 lines."""
        clean = text.replace("\r\n", "\n").replace("\r", "\n")
        count = clean.rstrip("\n").count("\n") + 1
        if count <= FOLD_LINES:
            return clean
        mark, number = f"[pasted {count} lines]", 2
        while mark in self._folded:
            mark, number = f"[pasted {count} lines #{number}]", number + 1
        self._folded[mark] = clean.rstrip("\n")
        return mark

    def expand(self, line: str) -> str:
        """`line` with every mark replaced by what was pasted; marks a person typed stay."""
        for mark, text in self._folded.items():
            line = line.replace(mark, text, 1)
        return line

    def clear(self) -> None:
        """Forget all: the line was submitted or thrown away."""
        self._folded.clear()
