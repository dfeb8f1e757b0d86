"""What one command printed, in chunks: plain text, redacted across chunk joins, its middle dropped beyond a limit.

The head is kept as it comes, then the last part; where something was dropped a line says how much, and nothing is
dropped that the last part still holds. Both ends are searched for secrets together with what lay next to the cut, and
a cut falls between lines.
"""

from __future__ import annotations

import re

from collector.recorder.plain_text import PlainText
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.stream import StreamRedactor

__all__ = ["CommandOutput"]

_CHUNK = 32 << 10
_MARGIN = 8 << 10
_NEWEST = 2048
# zsh's sign for output without a last newline, a line of blanks, and the way back (option PROMPT_SP).
_PROMPT_SP = re.compile(rb"(?:\x1b\[[0-9;]*m)*[%#](?:\x1b\[[0-9;]*m)* +\r \r\Z")


class CommandOutput:
    """The output of one command. `feed` and `close` return chunks that are ready; `redactor` None keeps all as it is.

    `dropped` is how many characters were left out, `total` how many came, `end` the last of them for looking at.
    """

    def __init__(self, redactor: ProjectRedactor | None, *, head: int, tail: int, zsh: bool = False) -> None:
        self._zsh = zsh
        self._newest = b""
        self._redactor = redactor
        self._stream = StreamRedactor(redactor) if redactor is not None else None
        self._plain = PlainText()
        self._head, self._tail = head, tail
        self._ready = ""
        self._ring = ""
        self._beyond = 0
        self._told_beyond = 0
        self._whole = True
        self.total = 0
        self.dropped = 0
        self.end = ""

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes of the terminal."""
        if self._zsh:  # what it draws before a prompt comes without a mark: the end is looked at when it is one
            data = self._newest + data
            self._newest = data[-_NEWEST:]
            data = data[: len(data) - len(self._newest)]
        return self._take(self._plain.feed(data))

    def flush(self) -> list[str]:
        """What is ready now, however little."""
        ready, self._ready = self._ready, ""
        return [ready] if ready else []

    def close(self) -> list[str]:
        """Everything left, the end of what was too long included."""
        chunks = self._take(self._plain.feed(_PROMPT_SP.sub(b"", self._newest)) + self._plain.close())
        if self._whole:
            self._ready += self._last(self._ring)
        else:
            self._end_of_long()
        self._ring = ""
        return chunks + self._split(last=True)

    def _take(self, text: str) -> list[str]:
        if not text:
            return []
        self.total += len(text)
        self.end = (self.end + text)[-4096:]
        room = max(self._head - (self.total - len(text)), 0)
        self._ready += self._clean(text[:room]) if room else ""
        if room < len(text):
            self._keep_tail(text[room:])
        return self._split(last=False)

    def _clean(self, text: str) -> str:
        return self._stream.feed(text) if self._stream is not None else text

    def _last(self, text: str) -> str:
        return self._stream.feed(text) + self._stream.close() if self._stream is not None else text

    def _keep_tail(self, text: str) -> None:
        self._beyond += len(text)
        ring, most = self._ring + text, self._tail + _MARGIN
        if self._whole and len(ring) > most:
            self._whole = False
            self._close_head(ring[:_MARGIN])
        self._ring = ring[-most:]

    def _close_head(self, after: str) -> None:
        """Something will be missing: close the head at the end of a line, judged with what comes after the cut."""
        self._ready += self._last(after)
        limit = max(len(self._ready) - len(after), 0)
        end = (self._ready.rfind("\n", 0, limit) + 1) or (self._ready.rfind("\n") + 1)
        self._told_beyond = len(after) - len(self._ready[end:])
        self._ready = self._ready[:end]

    def _end_of_long(self) -> None:
        ring = self._ring
        if self._redactor is not None:
            ring = self._redactor.untruncated().redact_text(ring)[0]
        start = ring.find("\n", max(len(ring) - self._tail, 0)) + 1
        kept = ring[start:]
        self.dropped = max(self._beyond - self._told_beyond - len(kept), 1)
        self._ready += f"[... {self.dropped:,} characters not kept ...]\n{kept}"

    def _split(self, *, last: bool) -> list[str]:
        chunks: list[str] = []
        while len(self._ready) >= _CHUNK:
            chunks.append(self._ready[:_CHUNK])
            self._ready = self._ready[_CHUNK:]
        if last and self._ready:
            chunks.append(self._ready)
            self._ready = ""
        return chunks
