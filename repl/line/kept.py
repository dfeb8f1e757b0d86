"""What line mode prints, kept for the full screen's transcript: a change of skin loses no line."""

from __future__ import annotations

import re
from collections import deque

from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.utils import is_dumb_terminal

from repl.present.output import Stream

__all__ = ["KeptStream", "kept_stream"]

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

    def close(self) -> None:
        """Write what waits to be drawn above a prompt."""
        if isinstance(self._stream, StdoutProxy):
            self._stream.close()


def kept_stream(stdout: Stream, lines: deque[str]) -> KeptStream:
    """What line mode prints to: above the prompt, or straight out where a dumb terminal draws no prompt again."""
    return KeptStream(stdout if is_dumb_terminal() else StdoutProxy(sleep_between_writes=0.03, raw=True), lines)
