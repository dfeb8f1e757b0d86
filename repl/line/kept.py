"""What line mode prints, kept for the full screen's transcript: a change of skin loses no line."""

from __future__ import annotations

import re
from collections import deque

from repl.present.output import Stream

__all__ = ["KeptStream"]

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class KeptStream:
    """Hands text on to `stream`, and whole lines without their colours to `lines`."""

    def __init__(self, stream: Stream, lines: deque[str]) -> None:
        self._stream = stream
        self._lines = lines
        self._open = ""

    def write(self, text: str) -> int:
        """Take text."""
        self._stream.write(text)
        *whole, self._open = (self._open + text).split("\n")
        self._lines.extend(_COLOURS.sub("", line) for line in whole)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        self._stream.flush()
