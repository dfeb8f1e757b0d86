"""Redaction of text that arrives in pieces: a secret split over two of them is caught all the same.

What `feed` returns is final. The newest 4 KB are held back until what follows them is known, and a find that reaches
into them is held back whole; the 4 KB before stay in view, since a name may stand before the value it betrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

__all__ = ["StreamRedactor"]

_MARGIN = 4096
_LONGEST_HELD = 1_000_000


class StreamRedactor:
    """One stream of text. `feed` each piece, then `close`; what they return, joined, is the redacted text.

    Memory is bounded: at most 1 MB is held, and only while one find (a private key block) goes on for that long.
    """

    def __init__(self, redactor: ProjectRedactor) -> None:
        self._redactor = redactor.untruncated()
        self._margin = max(_MARGIN, redactor.longest_known_value)
        self._seen = b""
        self._held = b""
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many marks each rule has left in what was returned so far."""
        return dict(self._counts)

    def feed(self, text: str) -> str:
        """Take the next piece; returns what can be told to be clean by now."""
        return self.feed_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def close(self) -> str:
        """Everything that was held back."""
        return self.close_bytes().decode("utf-8", "surrogatepass")

    def feed_bytes(self, data: bytes) -> bytes:
        """As `feed`, on bytes of any encoding that holds ASCII."""
        self._held += data
        if len(self._held) < 2 * self._margin:
            return b""
        return self._release(len(self._held) - self._margin)

    def close_bytes(self) -> bytes:
        """As `close`, for `feed_bytes`."""
        return self._release(len(self._held))

    def _release(self, upto: int) -> bytes:
        """Return the held bytes before `upto`, or before a find that reaches beyond it."""
        offset = len(self._seen)
        last = upto == len(self._held)
        marks = self._redactor.marks(self._seen + self._held)
        crossing = [mark for mark in marks if mark.start - offset < upto and mark.end - offset >= upto]
        if crossing and not last and len(self._held) < _LONGEST_HELD:
            upto = max(crossing[0].start - offset, 0)
        elif crossing:
            upto = max(upto, crossing[0].end - offset)
        upto = self._boundary(upto)
        wanted = [
            mark._replace(start=max(mark.start - offset, 0), end=mark.end - offset)
            for mark in marks
            if mark.end > offset and mark.start - offset < upto
        ]
        text, counts = self._redactor.apply(self._held[:upto], wanted)
        self._counts.update(counts)
        self._seen = (self._seen + self._held[:upto])[-self._margin :]
        self._held = self._held[upto:]
        return text

    def _boundary(self, at: int) -> int:
        """`at`, moved back to where a UTF-8 character begins."""
        while 0 < at < len(self._held) and self._held[at] & 0xC0 == 0x80:
            at -= 1
        return at
