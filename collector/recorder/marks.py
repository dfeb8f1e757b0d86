"""Tells prompt, command and output apart in what a shell writes: our own marks, after the manner of OSC 133.

A mark is `ESC ] 7717 ; <nonce> ; <kind> [; fields] BEL`; the nonce is this recording's, so that a file that is printed
cannot fake one. `Cut.feed` takes bytes in any pieces and gives what the person is to see (marks taken out) and the
tokens in order. A command's text stands raw between a `C` and a `/` mark, so no encoder is needed in the shell. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Cut", "Mark", "Token"]

_LONGEST_MARK: Final = 64 << 10
_LONGEST_TEXT: Final = 1 << 20
_BEL: Final = b"\x07"


class Mark(NamedTuple):
    """A mark of ours. `prompt`: the last command ended; `command`: one begins, `text` is its line.

    Fields: prompt (exit code, pipe status, folder); command (flags).
    """

    kind: str
    fields: tuple[str, ...]
    text: bytes = b""


Token = Mark | bytes


class Cut:
    """Cuts one stream. `feed` returns (shown, tokens); bytes between marks are tokens too, in order."""

    def __init__(self, nonce: str) -> None:
        self._start = b"\x1b]7717;" + nonce.encode("ascii") + b";"
        self._held = b""
        self._open: Mark | None = None
        self._text = b""

    def feed(self, data: bytes) -> tuple[bytes, list[Token]]:
        """Take the next bytes."""
        data, self._held = self._held + data, b""
        shown: list[bytes] = []
        tokens: list[Token] = []
        while data:
            at = data.find(self._start)
            if at < 0:
                keep = _partial(data, self._start)
                self._held = data[len(data) - keep :]
                self._plain(data[: len(data) - keep], shown, tokens)
                break
            self._plain(data[:at], shown, tokens)
            end = data.find(_BEL, at)
            if end < 0:
                if len(data) - at <= _LONGEST_MARK:
                    self._held = data[at:]
                else:  # no mark of ours is that long
                    self._plain(data[at:], shown, tokens)
                break
            self._mark(data[at + len(self._start) : end], tokens)
            data = data[end + 1 :]
        return b"".join(shown), tokens

    def close(self) -> tuple[bytes, list[Token]]:
        """What was held back, at the end of the stream."""
        rest, self._held = self._held, b""
        shown: list[bytes] = []
        tokens: list[Token] = []
        self._plain(rest, shown, tokens)
        return b"".join(shown), tokens

    def _plain(self, data: bytes, shown: list[bytes], tokens: list[Token]) -> None:
        if not data:
            return
        if self._open is None:
            shown.append(data)
            tokens.append(data)
            return
        self._text += data
        if len(self._text) > _LONGEST_TEXT:  # the end mark was lost: what was swallowed must be seen again
            shown.append(self._text)
            tokens.append(self._text)
            self._open, self._text = None, b""

    def _mark(self, body: bytes, tokens: list[Token]) -> None:
        kind, *fields = body.decode("utf-8", "replace").split(";")
        if kind == "C":
            self._open, self._text = Mark("command", tuple(fields)), b""
        elif kind == "/" and self._open is not None:
            text = self._text.replace(b"\r\n", b"\n")  # the terminal's line discipline put the CRs in
            tokens.append(self._open._replace(text=text))
            self._open, self._text = None, b""
        elif kind == "A":
            tokens.append(Mark("prompt", tuple(fields)))


def _partial(data: bytes, start: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of `start`."""
    for length in range(min(len(start) - 1, len(data)), 0, -1):
        if data.endswith(start[:length]):
            return length
    return 0
