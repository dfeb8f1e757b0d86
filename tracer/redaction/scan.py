"""Finds the secrets in bytes: every rule over the plain bytes and over each decoding of them.

A view is a decoding (JSON and URL escapes, base64, hex) that maps every position back to the original. What
`Scanner.marks` leaves holds nothing it would mark on a second run.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, Protocol
from urllib.parse import unquote_to_bytes

from tracer.redaction.gate import Called, Gate
from tracer.redaction.marks import MARKER, PLACEHOLDER
from tracer.redaction.rule_set import Find, compiled

_JSON_ESCAPE = re.compile(rb"\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[\"\\/bfnrt'])")
_CODE_ESCAPE = re.compile(rb"\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})")
_NUL_ESCAPE = re.compile(rb"\\(?:u0000|x00)")
_SIGNS = (b'"', b"/", b"b", b"f", b"n", b"r", b"t", b"'")
_URL_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
# Base64 of printable ASCII, aligned: what each of the four characters of a group can be. Six groups hold 18 bytes.
_GROUP = rb"[CDI-Za-f][ACDEFGHQSTUVWXgijklmnwyz0123][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
# A wrapped run goes on at the next line: lines hold whole groups.
_BASE64_TEXT = (
    rb"(?:%s(?:\r?\n)?){5,}(?:[CDI-Za-f][AQgw](?:==)?|[CDI-Za-f][ACDEFGHQSTUVWXgijklmnwyz0123][AEIMQUYcgkosw048]=?)?"
)
BASE64_TEXT = _BASE64_TEXT % _GROUP
# Printable ASCII in hexadecimal digits, 16 bytes or more, wrapped or not: no digest looks so.
HEX_TEXT = rb"(?:(?:[2-7][0-9A-Fa-f]|0[9AaDd])(?:\r?\n)?){16,}"
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


def _json_at_once(text: bytes) -> bytes | None:
    """`text` with its escapes undone by replacing each kind in turn; None where that would not do."""
    if b"\0" in text:
        return None
    text = text.replace(b"\\\\", b"\0")  # a pair of backslashes begins no other escape
    if _NUL_ESCAPE.search(text) is not None:
        return None
    for sign in _SIGNS:
        text = text.replace(b"\\" + sign, _SIMPLE.get(sign, sign))
    if b"\\u" in text or b"\\x" in text:
        text = _CODE_ESCAPE.sub(lambda match: _unescape(match[0]), text)
    return text.replace(b"\0", b"\\")


class Undone:
    """The lines of some bytes that hold escapes, undone; other lines show nothing new and are left out.

    `data` comes at once; the way back to the original is laid only where something was found.
    """

    def __init__(
        self,
        whole: bytes,
        sign: bytes,
        escape: re.Pattern[bytes],
        decode: Callable[[bytes], bytes],
        at_once: Callable[[bytes], bytes | None],
    ) -> None:
        self._whole, self._sign, self._escape, self._decode = whole, sign, escape, decode
        self._at_once = at_once

    @cached_property
    def data(self) -> bytes:
        """The decoded text."""
        pieces: list[bytes] = []
        at = 0
        for start, end in self._lines():
            if start > at:
                pieces.append(b"\n")
            pieces.append(self._whole[start:end])
            at = end
        if at < len(self._whole):
            pieces.append(b"\n")
        quick = self._at_once(b"".join(pieces))
        return self._view.data if quick is None else quick

    def original(self, start: int, end: int) -> tuple[int, int]:
        """As `View.original`."""
        return self._view.original(start, end)

    @cached_property
    def _view(self) -> View:
        return _rewritten(self._whole, self._changes())

    def _changes(self) -> Iterator[tuple[int, int, bytes]]:
        at = 0
        for start, end in self._lines():
            if start > at:
                yield at, start, b"\n"
            for match in self._escape.finditer(self._whole, start, end):
                yield match.start(), match.end(), self._decode(match[0])
            at = end
        if at < len(self._whole):
            yield at, len(self._whole), b"\n"

    def _lines(self) -> Iterator[tuple[int, int]]:
        """The lines that hold `sign`, as ranges."""
        data, sign = self._whole, self._sign
        at = data.find(sign)
        while at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            yield start, end
            at = data.find(sign, end)


def json_view(data: bytes) -> Undone | None:
    """One level of string escapes undone (`\\n`, `\\"`, `\\/`, `\\u0041`, `\\x41`); None where there are none."""
    if b"\\" not in data or _JSON_ESCAPE.search(data) is None:
        return None
    return Undone(data, b"\\", _JSON_ESCAPE, _unescape, _json_at_once)


def url_view(data: bytes) -> Undone | None:
    """Percent escapes undone; None where there are none."""
    if b"%" not in data or _URL_ESCAPE.search(data) is None:
        return None
    return Undone(data, b"%", _URL_ESCAPE, _percent, unquote_to_bytes)


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
        text = run.translate(_URLSAFE, b"\r\n=")
        if len(text) % _GROUP_SIZE == 1:
            text = text[:-1]
        decoded = base64.b64decode(text + b"=" * (-len(text) % _GROUP_SIZE))
        if decoded:
            yield Base64View(decoded, start, end, _breaks(run))


def _breaks(run: bytes) -> list[int]:
    return [match.start() - number for number, match in enumerate(_BREAK.finditer(run))]


class HexView(NamedTuple):
    """A run of hexadecimal digits, decoded. `breaks` as in `Base64View`."""

    data: bytes
    start: int
    breaks: list[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The digits behind `data[start:end]`."""
        return self._place(2 * start), self._place(2 * end - 1) + 1

    def _place(self, at: int) -> int:
        return self.start + at + bisect_right(self.breaks, at)


def hex_views(data: bytes, runs: Iterable[tuple[int, int]]) -> Iterator[HexView]:
    """One view for each run of hexadecimal text (ranges found by `HEX_TEXT`)."""
    for start, end in runs:
        run = data[start:end]
        yield HexView(binascii.unhexlify(run.translate(None, b"\r\n")), start, _breaks(run))


BASE64_KEY = "base64"
HEX_KEY = "hex"
_MAX_LOOKS = 12
_BASE64 = compiled(BASE64_TEXT.decode("ascii"))
_HEX = compiled(HEX_TEXT.decode("ascii"))


class _Finder(Protocol):
    def finds(self, data: bytes, called: Called | None) -> Iterator[Find]: ...


class Mark(NamedTuple):
    """A range to replace: by `replacement` where given (a path), else by the placeholder of `rule` for `secret`."""

    start: int
    end: int
    rule: str
    secret: bytes
    replacement: bytes | None


class Scanner:
    """Runs finders over bytes and settles what they found into marks that neither touch placeholders nor overlap.

    Two gates say what a text calls for: `patterns` knows the rules' and finders' expressions and `BASE64_KEY`, the same
    for every project; `words` the project's own names, values and folders.
    """

    def __init__(self, finders: Iterable[_Finder], *, patterns: Gate, words: Gate) -> None:
        self._finders = tuple(finders)
        self._patterns = patterns
        self._words = words

    def prepare(self) -> None:
        """Open the gates now."""
        for gate in (self._patterns, self._words):
            if not gate.is_open:
                gate.open()

    def marks(self, data: bytes) -> list[Mark]:
        """What to replace in `data`, left to right, without overlaps."""
        standing = [m.span() for m in PLACEHOLDER.finditer(data)] if MARKER in data else []
        found = self._look(collapsed(data, ((s, e, b"\0") for s, e in standing)) if standing else _same(data))
        if not found:
            return []
        marks = _settled(found, standing)
        for _ in range(_MAX_LOOKS):
            more = self._look(collapsed(data, _seen_next(marks, standing)))
            if not more:
                break
            found += more
            marks = _settled(found, standing)
        return marks

    def suspects(self, data: bytes) -> list[tuple[int, int]]:
        """Ranges of `data` in which `marks` would mark something; a text that none of them touches holds nothing."""
        return [(find.start, find.end) for find in self._look(_same(data))]

    def _look(self, view: View) -> list[Find]:
        """Every find in the view and in its decodings, in positions of the original."""
        called = self._called(view.data)
        finds = [_moved(find, view) for find in self._plain(view.data, called)]
        for decoded in self._decodings(view.data, called):
            data = decoded.data
            finds += (_moved(_moved(find, decoded), view) for find in self._plain(data, self._called(data)))
        return finds

    def _called(self, data: bytes) -> Called | None:
        called = self._patterns.called(data)
        if called is None:
            return None
        words = self._words.called(data)
        return called | (self._words.keys if words is None else words)

    def _plain(self, data: bytes, called: Called | None) -> Iterator[Find]:
        for finder in self._finders:
            yield from finder.finds(data, called)

    @staticmethod
    def _decodings(data: bytes, called: Called | None) -> Iterator[Undone | Base64View | HexView]:
        for view in (json_view(data), url_view(data)):
            if view is not None:
                yield view
        if called is None or BASE64_KEY in called:
            yield from base64_views(data, (match.span() for match in _BASE64.finditer(data)))
        if called is None or HEX_KEY in called:
            yield from hex_views(data, (match.span() for match in _HEX.finditer(data)))


def _same(data: bytes) -> View:
    return View(data, [0], [(0, len(data))])


def _moved(find: Find, view: View | Undone | Base64View | HexView) -> Find:
    start, end = view.original(find.start, find.end)
    return find._replace(start=start, end=end)


def _seen_next(marks: Iterable[Mark], standing: Iterable[tuple[int, int]]) -> list[tuple[int, int, bytes]]:
    made = [(mark.start, mark.end, b"\0" if mark.replacement is None else mark.replacement) for mark in marks]
    return sorted([*made, *((start, end, b"\0") for start, end in standing)])


def _settled(finds: Iterable[Find], standing: list[tuple[int, int]]) -> list[Mark]:
    """Finds that overlap become one mark over all of them, named by the find of the lowest rank (then the longest)."""
    marks: list[Mark] = []
    group: list[Find] = []
    reach = -1
    for find in sorted(finds, key=lambda find: (find.start, find.end)):
        if group and find.start >= reach:
            marks.extend(_merged(group, reach, standing))
            group = []
        reach = max(reach, find.end) if group else find.end
        group.append(find)
    if group:
        marks.extend(_merged(group, reach, standing))
    return marks


def _merged(group: list[Find], reach: int, standing: list[tuple[int, int]]) -> Iterator[Mark]:
    best = min(group, key=lambda find: (find.rank, find.start - find.end))
    start = group[0].start
    for left, right in _around(start, reach, standing):
        yield Mark(left, right, best.rule, best.secret, best.replacement)


def _around(start: int, end: int, standing: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The pieces of the range outside placeholders that already stood there: those are never marked again."""
    for at in range(max(bisect_right(standing, (start, 0)) - 1, 0), len(standing)):
        hole_start, hole_end = standing[at]
        if hole_end <= start:
            continue
        if hole_start >= end:
            break
        if hole_start > start:
            yield start, hole_start
        start = max(start, hole_end)
    if start < end:
        yield start, end
