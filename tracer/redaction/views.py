"""The same bytes seen another way, with every position leading back to the original.

A view is a rewriting of some bytes (escapes undone, marks collapsed) that remembers where each piece came from, so
that what is found in the view can be replaced in the original. Pure, linear in the input.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

__all__ = ["BASE64_TEXT", "Base64View", "View", "base64_views", "collapsed", "json_view", "url_view"]

_JSON_ESCAPE = re.compile(rb"\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[\"\\/bfnrt'])")
_URL_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
# Base64 of printable ASCII, aligned: what each of the four characters of a group can be. Six groups hold 18 bytes.
_GROUP = rb"[CDI-Za-f][ACDEFGHQSTUVWXgijklmnwyz0123][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
# A wrapped run goes on at the next line: lines hold whole groups.
_BASE64_TEXT = (
    rb"(?:%s(?:\r?\n)?){5,}(?:[CDI-Za-f][AQgw](?:==)?|[CDI-Za-f][ACDEFGHQSTUVWXgijklmnwyz0123][AEIMQUYcgkosw048]=?)?"
)
BASE64_TEXT = _BASE64_TEXT % _GROUP
_URLSAFE = bytes.maketrans(b"-_", b"+/")
_SIMPLE = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_GROUP_SIZE = 4
_BREAK = re.compile(rb"[\r\n]")


class View(NamedTuple):
    """`data`, made of pieces: piece i starts at `starts[i]` and covers the range `origins[i]` of the original.

    A piece as long as its origin is a plain copy; any other stands for its origin as a whole.
    """

    data: bytes
    starts: list[int]
    origins: list[tuple[int, int]]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The original range behind `data[start:end]`; whole escapes where the range begins or ends inside one."""
        first = bisect_right(self.starts, start) - 1
        last = bisect_right(self.starts, end - 1) - 1
        from_start, _ = self.origins[first]
        left = from_start + start - self.starts[first] if self._plain(first) else from_start
        to_start, to_end = self.origins[last]
        right = to_start + end - self.starts[last] if self._plain(last) else to_end
        return left, max(right, left)

    def _plain(self, index: int) -> bool:
        start, end = self.origins[index]
        stop = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.data)
        return stop - self.starts[index] == end - start


def _rewritten(data: bytes, changes: Iterable[tuple[int, int, bytes]]) -> View:
    """`data` with each (start, end, replacement) applied; changes ascend and do not overlap."""
    pieces: list[bytes] = []
    starts: list[int] = []
    origins: list[tuple[int, int]] = []
    at = length = 0
    for start, end, replacement in changes:
        if start > at:
            pieces.append(data[at:start])
            starts.append(length)
            origins.append((at, start))
            length += start - at
        if replacement:
            pieces.append(replacement)
            starts.append(length)
            origins.append((start, end))
            length += len(replacement)
        at = end
    if at < len(data) or not starts:
        pieces.append(data[at:])
        starts.append(length)
        origins.append((at, len(data)))
    return View(b"".join(pieces), starts, origins)


def collapsed(data: bytes, changes: Iterable[tuple[int, int, bytes]]) -> View:
    """`data` as the next reader will see it: each (start, end) replaced; a NUL stands where a mark will stand."""
    return _rewritten(data, changes)


def _unescape(escape: bytes) -> bytes:
    kind, digits = escape[1:2], escape[2:]
    if kind in {b"u", b"x"}:
        return chr(int(digits, 16)).encode("utf-8", "replace")
    return _SIMPLE.get(kind, kind)


def _percent(escape: bytes) -> bytes:
    return binascii.unhexlify(escape[1:])


def _lines_with(sign: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    """The lines of `data` that hold `sign`, as ranges."""
    at = data.find(sign)
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield start, end
        at = data.find(sign, end)


def _decoded(data: bytes, sign: bytes, escape: re.Pattern[bytes], decode: Callable[[bytes], bytes]) -> View | None:
    """The lines that hold escapes, decoded; other lines add nothing to what the plain bytes show, and are left out."""
    if sign not in data or escape.search(data) is None:
        return None

    def changes() -> Iterator[tuple[int, int, bytes]]:
        at = 0
        for start, end in _lines_with(sign, data):
            if start > at:
                yield at, start, b"\n"
            for match in escape.finditer(data, start, end):
                yield match.start(), match.end(), decode(match[0])
            at = end
        if at < len(data):
            yield at, len(data), b"\n"

    return _rewritten(data, changes())


def json_view(data: bytes) -> View | None:
    """One level of string escapes undone (`\\n`, `\\"`, `\\/`, `\\u0041`, `\\x41`); None where there are none."""
    return _decoded(data, b"\\", _JSON_ESCAPE, _unescape)


def url_view(data: bytes) -> View | None:
    """Percent escapes undone; None where there are none."""
    return _decoded(data, b"%", _URL_ESCAPE, _percent)


class Base64View(NamedTuple):
    """A run of base64, decoded. `breaks` are the places of its line breaks, counted in the run without them."""

    data: bytes
    start: int
    end: int
    breaks: list[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The whole groups of four characters behind `data[start:end]`."""
        left = self._place(start // 3 * _GROUP_SIZE)
        last = (end - 1) // 3 * _GROUP_SIZE + _GROUP_SIZE
        right = self.end if end >= len(self.data) else self._place(last - 1) + 1
        return left, max(right, left)

    def _place(self, at: int) -> int:
        return self.start + at + bisect_right(self.breaks, at)


def base64_views(data: bytes, runs: Iterable[tuple[int, int]]) -> Iterator[Base64View]:
    """One view for each run of base64 text (ranges found by `BASE64_TEXT`), decoded; wrapped or not."""
    for start, end in runs:
        run = data[start:end]
        breaks = [match.start() - number for number, match in enumerate(_BREAK.finditer(run))]
        text = run.translate(_URLSAFE, b"\r\n=")
        if len(text) % _GROUP_SIZE == 1:
            text = text[:-1]
        decoded = base64.b64decode(text + b"=" * (-len(text) % _GROUP_SIZE))
        if decoded:
            yield Base64View(decoded, start, end, breaks)
