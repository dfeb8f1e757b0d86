"""Output of any size in memory of a known size.

`BoundedOutput` keeps the head and the tail and counts what fell between; `LineSplitter` frames on the byte `\\n` alone
and cuts a line that is longer than its limit. Both are plain values that never wait.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_LINE: Final = 4096
_LETTERS: Final = bytes(range(0x21, 0x7F))


class Line(NamedTuple):
    """One line without its newline; `dropped_bytes` counts what was cut from its end."""

    data: bytes
    dropped_bytes: int = 0


class BoundedOutput:
    """Keeps at most `keep_bytes` of a stream: the first quarter as head, the rest as tail."""

    def __init__(self, keep_bytes: int) -> None:
        self._head_limit = max(keep_bytes // 4, 1)
        self._tail_limit = max(keep_bytes - self._head_limit, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total_bytes += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    @property
    def dropped_bytes(self) -> int:
        """How many bytes between head and tail were let go."""
        return self.total_bytes - len(self._head) - min(len(self._tail), self._tail_limit)

    def value(self) -> bytes:
        """Everything, or head and tail with one line between them that says how much is missing."""
        tail = bytes(self._tail[-self._tail_limit :])
        if not self.dropped_bytes:
            return bytes(self._head) + tail
        head = bytes(self._head)
        # Half a line goes too, or half a word: of a secret in it there would be a part that no rule knows.
        head = head[: head.rfind(b"\n", max(len(head) - _LINE, 0)) + 1] or head.rstrip(_LETTERS) or head
        tail = tail[tail.find(b"\n", 0, _LINE) + 1 :] if b"\n" in tail[:_LINE] else tail.lstrip(_LETTERS) or tail
        return head + b"\n[... %d bytes left out ...]\n" % (self.total_bytes - len(head) - len(tail)) + tail

    def tail(self, limit: int) -> bytes:
        """The last `limit` bytes that are still held."""
        if self.dropped_bytes:
            return bytes(self._tail[-min(limit, self._tail_limit) :])
        return (bytes(self._head) + bytes(self._tail))[-limit:] if limit else b""


class LineSplitter:
    """Turns chunks into lines; holds at most `limit` bytes of an unfinished line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._dropped = 0

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines that `chunk` completes."""
        *whole, rest = chunk.split(b"\n")
        lines: list[Line] = []
        for part in whole:
            self._hold(part)
            lines.append(self._take())
        self._hold(rest)
        return lines

    def finish(self) -> list[Line]:
        """The last line, where the stream ended without a newline."""
        return [self._take()] if self._held or self._dropped else []

    def _hold(self, part: bytes) -> None:
        room = self._limit - len(self._held)
        self._held += part[:room]
        self._dropped += max(len(part) - room, 0)

    def _take(self) -> Line:
        line = Line(bytes(self._held), self._dropped)
        self._held.clear()
        self._dropped = 0
        return line
