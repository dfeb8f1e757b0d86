"""Texts as their readers see them: escapes, control sequences, entities, tags and wraps undone, with the way back.

Each view knows which range of the original stands behind a range of its own. What decodes is undone level by level, a
few levels deep; what it may grow to is bounded.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from html import unescape
from itertools import accumulate, compress, count, repeat
from operator import contains, or_
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from tracer.redaction.gate import Called
from tracer.redaction.rule_set import of_bytes
from tracer.redaction.runs import Runs, runs_views

_CODE = rb"u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U000[0-9A-Fa-f]{5}|x[0-9A-Fa-f]{2}|[0-3][0-7]{2}"
# Before any other sign a backslash takes its meaning away: TeX, roff, Java's properties, shells.
_JSON_ESCAPE = re.compile(rb"\\(?:%s|[befnrt!-/:-@\[-`{-~])" % _CODE)
_CODE_ESCAPE = re.compile(rb"\\(?:%s)" % _CODE)
_SIGN_ESCAPE = re.compile(rb"\\([!-/:-@\[-`{-~])")
_NUL_ESCAPE = re.compile(rb"\\(?:u0000|u\{0+\}|U0{8}|x00|000)")
_SIGNS = (b'"', b"n", b"/", b"b", b"f", b"r", b"t", b"'", b"e")
_URL_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_LAST_CODE = 0x10FFFF
_SIMPLE = {b"b": b"\b", b"e": b"\x1b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_SPARSE = 60  # bytes for one escape: from here on one by one is quicker
_HEAD = 16_384  # enough to tell whether most lines hold escapes
_HELD = re.compile(rb"\x01+")
_SOFT = ord("=")


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
    kind, digits = escape[1:2], escape[2:].strip(b"{}")
    if kind.isdigit():
        code = int(escape[1:], 8)
    elif kind in {b"u", b"x", b"U"}:
        code = int(digits, 16)
    else:
        return _SIMPLE.get(kind, kind)
    return chr(code).encode("utf-8", "replace") if code <= _LAST_CODE else b"?"


def _percent(escape: bytes) -> bytes:
    return binascii.unhexlify(escape[1:])


def _of_json(match: re.Match[bytes]) -> bytes:
    return _unescape(match[0])


def _json_at_once(text: bytes) -> bytes | None:
    """`text` with its escapes undone, many by replacing each kind in turn; None where that would not do."""
    if text.count(b"\\") * _SPARSE < len(text):
        return _JSON_ESCAPE.sub(_of_json, text)
    if b"\0" in text:
        return None
    text = text.replace(b"\\\\", b"\0")  # a pair of backslashes begins no other escape
    for sign in _SIGNS:
        if b"\\" not in text:
            break
        text = text.replace(b"\\" + sign, _SIMPLE.get(sign, sign))
    if b"\\" in text:
        if _NUL_ESCAPE.search(text) is not None:
            return None
        text = _CODE_ESCAPE.sub(lambda match: _unescape(match[0]), _SIGN_ESCAPE.sub(rb"\1", text))
    return text.replace(b"\0", b"\\")


class Undone:
    """The lines of some bytes that hold escapes, undone; other lines show nothing new and are left out.

    `data` comes at once; the way back to the original is laid only where something was found.
    """

    def __init__(
        self,
        whole: bytes,
        lines: Callable[[bytes], Iterator[tuple[int, int]]],
        escape: re.Pattern[bytes],
        decode: Callable[[bytes], bytes],
        at_once: Callable[[bytes], bytes | None],
    ) -> None:
        self._whole, self._lines, self._escape, self._decode = whole, lines, escape, decode
        self._at_once = at_once

    @cached_property
    def data(self) -> bytes:
        """The decoded text."""
        pieces: list[bytes] = []
        at = 0
        for start, end in self._lines(self._whole):
            if start > at:
                pieces.append(_left_out(at, start))
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
        for start, end in self._lines(self._whole):
            if start > at:
                yield at, start, _left_out(at, start)
            for match in self._escape.finditer(self._whole, start, end):
                yield match.start(), match.end(), self._decode(match[0])
            at = end
        if at < len(self._whole):
            yield at, len(self._whole), b"\n"


def _left_out(start: int, end: int) -> bytes:
    """What stands for lines that are left out: an empty one, so that none seems to go on in one that is far away."""
    return b"\n" if end - start == 1 else b"\n\n"


def _lines_with(
    *signs: bytes, holds: Callable[[bytes, int, int], object] | None = None
) -> Callable[[bytes], Iterator[tuple[int, int]]]:
    """The lines that hold one of `signs` and of which `holds` is true, as ranges; those that follow on are one."""

    def lines(data: bytes) -> Iterator[tuple[int, int]]:
        here = [sign for sign in signs if sign in data]
        head = data[:_HEAD]
        if holds is None and sum(map(head.count, here)) > 3 * head.count(b"\n"):
            yield from _held(data, here)
            return
        ends = set()
        for sign in here:
            at = data.find(sign)
            while at >= 0:
                end = data.find(b"\n", at)
                ends.add(end if end >= 0 else len(data))
                at = data.find(sign, end) if end >= 0 else -1
        first = last = seen = -1
        for end in sorted(ends):
            start = data.rfind(b"\n", max(seen, 0), end) + 1 or max(seen, 0)
            seen = end
            if holds is None or holds(data, start, end):
                if first >= 0 and start != last + 1:
                    yield first, last
                    first = -1
                first = start if first < 0 else first
                last = end
        if first >= 0:
            yield first, last

    return lines


def _held(data: bytes, signs: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """As `_lines_with`; quicker where most lines hold a sign."""
    lines = data.split(b"\n")
    held = bytearray(len(lines))
    for sign in signs:
        held = bytearray(map(or_, held, map(contains, lines, repeat(sign))))
    ends = list(accumulate(map(len, lines)))
    for match in _HELD.finditer(held):
        first, last = match.start(), match.end() - 1
        yield ends[first] - len(lines[first]) + first, ends[last] + last


def _lines_around(pattern: Any, near: int = 0) -> Callable[[bytes], Iterator[tuple[int, int]]]:
    """The lines that a match of `pattern` stands in or `near`, as ranges; those that one spans are one range."""

    def lines(data: bytes) -> Iterator[tuple[int, int]]:
        first = last = 0
        match = pattern.search(data)
        while match is not None:
            begin, end = match.span()
            if last and begin > last:
                yield first, last
            first = first if last and begin <= last else max(data.rfind(b"\n", 0, max(begin - near, 0)) + 1, last)
            last = data.find(b"\n", end + near)
            last = len(data) if last < 0 else last
            # A line may end in a match that reaches into the next one.
            match = pattern.search(data, max(end, last - 3))
        if last:
            yield first, last

    return lines


def _nothing(_escape: bytes) -> bytes:
    return b""


def json_view(data: bytes) -> Undone | None:
    """One level of string escapes undone (`\\n`, `\\"`, `\\u0041`, `\\x41`, `\\101`); None where there are none."""
    if b"\\" not in data or _JSON_ESCAPE.search(data) is None:
        return None
    return Undone(data, _lines_with(b"\\"), _JSON_ESCAPE, _unescape, _json_at_once)


def url_view(data: bytes) -> Undone | None:
    """Percent escapes undone; None where there are none."""
    if b"%" not in data or _URL_ESCAPE.search(data) is None:
        return None
    return Undone(data, _lines_around(_URL_ESCAPE), _URL_ESCAPE, _percent, unquote_to_bytes)


_FORM: Final = re.compile(rb"%s|\+" % _URL_ESCAPE.pattern)
_FORM_QUICK: Final = of_bytes(
    rb"%[0-9A-Fa-f]{2}[^\s]*\+|\+[^\s]*%[0-9A-Fa-f]{2}|=[\w.%/+-]+\+-[^\s]*\+|=[\w.%/-]+(?:\+[\w.%/-]+){4}"
)
_MAIL_ESCAPE: Final = re.compile(rb"=(?:[0-9A-F]{2}|\r?\n)|\?=\r?\n[ \t]=\?[\w-]+\?[BbQq]\?")
_MAIL_QUICK: Final = of_bytes(_MAIL_ESCAPE.pattern)
_MAIL_REACH: Final = 4096


def form_view(data: bytes) -> Undone | None:
    """As `url_view`, and a plus sign is a blank, as in forms; None where no run has both, an option, or five words."""
    if b"+" not in data or _FORM_QUICK.search(data) is None:
        return None
    return Undone(data, _lines_around(_FORM_QUICK), _FORM, _of_form, lambda text: _FORM.sub(_form_sign, text))


def mail_view(data: bytes) -> Undone | None:
    """Quoted-printable undone, which escapes each equals sign, and a header's encoded words put together."""
    if (b"=3D" not in data and b"?=" not in data) or _MAIL_QUICK.search(data) is None:
        return None
    lines = _lines_around(_MAIL_QUICK, _MAIL_REACH)  # a key's lines stand whole between such that are not
    return Undone(data, lines, _MAIL_ESCAPE, _of_mail, lambda text: _MAIL_ESCAPE.sub(_mail_sign, text))


def _of_mail(escape: bytes) -> bytes:
    return _percent(escape) if len(escape) == 3 and escape[1] > 0x20 else b""


def _of_form(escape: bytes) -> bytes:
    return b" " if escape == b"+" else _percent(escape)


def _mail_sign(match: re.Match[bytes]) -> bytes:
    return _of_mail(match[0])


def _form_sign(match: re.Match[bytes]) -> bytes:
    return _of_form(match[0])


# Each choice begins with a sign of its own: what `re` does not look beyond it takes a tenth of the time.
# What a terminal, or a font, makes of it is nothing: colours, titles, links, letters struck twice, signs without width.
_SEQUENCE: Final = (
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,900}(?:\x07|\x1b\\)"
    rb"|[PX^_][^\x1b\n]{0,900}\x1b\\|[ -/]{0,8}[0-Z\\`-~])"
)
_SHOWN: Final = rb"\^\[\[[0-?]{0,64}[ -/]{0,8}[@-~]"
_STRUCK: Final = rb"[\t -~]\x08"
_WIDTHLESS: Final = (
    rb"\xc2\x9b[0-?]{0,64}[ -/]{0,8}[@-~]|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf|\xc2\xad"
)
_ENTITY: Final = rb"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,24});"
_TAG: Final = rb"<(?:/?[A-Za-z][^<>\n]{0,400}|!--[^<>\n]{0,400}--)>"
_CONTINUED: Final = rb"\\\r?\n|=\r?\n|\^\r?\n|`\r?\n"
# In a drawn frame; as strings of code that are put together, by a sign or by standing so.
_FRAMED: Final = rb"\xe2\x94[\x82\x83]\r?\n[ ]*\xe2\x94[\x82\x83][ ]?"
_FRAME, _PADDED = 0xE2, 200
_ADDED: Final = rb"[\"'][ \t]*(?:[+.][ \t]*\r?\n[ \t]*|\r?\n[ \t]*[+.][ \t]*)[\"']"
_STRINGS: Final = rb"[\w+/.-]{6}([\"'][ \t]*\r?\n[ \t]*[\"'])[\w+/.-]{4}"
_EXTRA: Final = rb"%[0-7][0-9A-Fa-f]"  # a lone byte of another kind is no text that rules read
_MARKUP = re.compile(rb"%s|%s" % (_ENTITY, _TAG))


def _gone(text: bytes, decode: bytes | Callable[[re.Match[bytes]], bytes], *patterns: bytes) -> bytes:
    """Without looking for what is not there: at each letter for a second one above it, or for signs without width."""
    here = [pattern for pattern in (*patterns, _STRUCK) if _SIGN_OF.get(pattern, b"") in text]
    if _WIDTHLESS in here and not _has_widthless(text):
        here.remove(_WIDTHLESS)
    return _one_of(*here).sub(decode, text) if here else text


def _has_widthless(data: bytes) -> bool:
    return not data.isascii() and _WIDTHLESS_QUICK.search(data) is not None


@cache
def _one_of(*patterns: bytes) -> re.Pattern[bytes]:
    return re.compile(b"|".join(patterns))


_CONTROLS: Final = (_SEQUENCE, _SHOWN, _WIDTHLESS)
_ALL: Final = (*_CONTROLS, _CONTINUED, _JSON_ESCAPE.pattern, _EXTRA, _ENTITY, _TAG)
_CONTROL: Final = re.compile(rb"\x1b|\x08|\^\[\[|" + _WIDTHLESS)
_CONTROL_SIGNS: Final = (b"\x1b", b"\b", b"^[[")


def _quick(*patterns: bytes) -> Any:
    """The same for RE2, which is quick at telling where none of it stands."""
    return of_bytes(b"|".join(patterns))


_ESCAPES_QUICK = _quick(*_ALL, _STRUCK)
_CONTROL_QUICK = _quick(*_CONTROLS, _STRUCK)
_WIDTHLESS_QUICK = _quick(_WIDTHLESS)
_SIGN_OF: Final = {
    _SEQUENCE: b"\x1b", _SHOWN: b"^[[", _STRUCK: b"\b", _JSON_ESCAPE.pattern: b"\\", _EXTRA: b"%", _ENTITY: b"&",
    _TAG: b"<",
}  # fmt: skip
_MARKUP_SIGNS = (_quick(_ENTITY), _quick(rb"</?[A-Za-z][^<>\n]*>"), _quick(rb"<!--"))


def control_view(data: bytes) -> Undone | None:
    """Without terminal control sequences, overstrikes and signs that have no width."""
    if data.isascii() and b"\x1b" not in data and b"\x08" not in data and b"^[[" not in data:
        return None
    if _CONTROL_QUICK.search(data) is None:
        return None
    lines = _lines_with(*_CONTROL_SIGNS)
    if _has_widthless(data):
        lines = _lines_with(*_CONTROL_SIGNS, b"\xc2", b"\xe2", b"\xef", holds=_CONTROL.search)
    escape = _one_of(*_CONTROLS, _STRUCK)
    return Undone(data, lines, escape, _nothing, lambda text: _gone(text, b"", *_CONTROLS))


def markup_view(data: bytes) -> Undone | None:
    """HTML and XML: entities undone, tags and comments gone."""
    if all(sign.search(data) is None for sign in _MARKUP_SIGNS):  # by a first sign each: faster than all in one
        return None
    lines = _lines_with(b"<", b"&", holds=_MARKUP.search)
    return Undone(data, lines, _MARKUP, _markup, lambda text: _MARKUP.sub(_of_markup, text))


def _markup(text: bytes) -> bytes:
    if text.startswith(b"<"):
        return b""
    return unescape(text.decode("ascii")).encode("utf-8", "replace")


def _of_markup(match: re.Match[bytes]) -> bytes:
    return _markup(match[0])


def any_view(data: bytes) -> Undone | None:
    """One more level of everything that stands for something else, in one go."""
    if _ESCAPES_QUICK.search(data) is None:
        return None
    escape = _one_of(*_ALL, _STRUCK)
    return Undone(data, _lines_around(_ESCAPES_QUICK), escape, _undone, lambda text: _gone(text, _of_any, *_ALL))


def _undone(escape: bytes) -> bytes:
    first = escape[:1]
    if first == b"\\" and not escape.endswith(b"\n"):
        return _unescape(escape)
    if escape.endswith(b"\b"):
        return b""
    if first in {b"&", b"<"}:
        return _markup(escape)
    return _percent(escape) if first == b"%" else b""


def _of_any(match: re.Match[bytes]) -> bytes:
    return _undone(match[0])


# Widths that terminals, mails and formatters wrap at.
_WIDTHS: Final = frozenset({60, 64, 70, 72, 74, 75, 76, 78, 79, 80, 100, 120, 132, 160})
_SIZES: Final = _WIDTHS | {width + 1 for width in _WIDTHS}  # with a carriage return
_SIGN: Final = rb"[A-Za-z0-9+/_.~%&-]"
_MAIL: Final = 76
_INDENT: Final = rb" {2,}|[ \t]*\t[ \t]*"
_RESTING: Final = rb"[^\n]{39}%s(\r?\n(?:%s)?)(%s{6,})[\"'=]{0,3}\r?(?:\n|\z)" % (_SIGN, _INDENT, _SIGN)
_JOINED = of_bytes(rb"%s|(%s|%s|%s)|%s" % (_RESTING, _CONTINUED, _FRAMED, _ADDED, _STRINGS))
_NO_WORD = re.compile(rb"[0-9A-Z]")
_LEAST, _MOST = min(_SIZES), max(_SIZES)
_HANGING: Final = re.compile(rb"(%s)[!-~]" % _INDENT)
_BLANKS: Final = re.compile(rb"[ \t]+")
_ALIKE: Final = 8
# At the end of a line that is indented like the next one: more than an ordinary word.
_NO_WORD_CUT: Final = re.compile(rb"[0-9]|[a-z][A-Z]|_|.{30}")


def joined_views(data: bytes) -> Iterator[View]:
    """Lines that were one before they were wrapped: full to a usual width, or followed by a lone rest; or continued.

    Where nothing shows that a line goes on, it ends: a mark across a line's end would take the next line along. Where
    a guess adds a line to those that are said to be one, or joins them in another way, they are seen without it too.
    """
    said: _Joins = {}
    folded: _Joins = {}  # as YAML reads what is said: without the next line's indent
    soft: _Joins = {}  # as in mail; base64 ends so as well
    guessed: _Joins = {}
    lone_ones: _Joins = {}
    match = _JOINED.search(data)
    while match is not None:
        lone = match.span(1)
        start, end = lone if lone[0] >= 0 else max(match.span(3), match.span(4))
        if data[start] == _FRAME:
            before = data[max(start - _PADDED, 0) : start]
            start -= len(before) - len(before.rstrip(b" "))
        if lone[0] < 0:
            joins = said if data[start] != _SOFT else guessed if data[start - 1 : start] == b"=" else soft
            joins[data.find(b"\n", start)] = start, end
            if joins is said and data[end : end + 1] in {b" ", b"\t"} and (indent := _BLANKS.match(data, end)):
                folded[end - 1] = start, indent.end()
        elif _NO_WORD.search(data, *match.span(2)) is not None:
            lone_ones[data.find(b"\n", start)] = start, end
        match = _JOINED.search(data, end - 1)  # that line's end begins the next line
    full = _full_lines(data)
    # What goes on itself is no rest of the line before.
    guessed |= {at: reach for at, reach in lone_ones.items() if data.find(b"\n", reach[1]) not in full} | full
    views = [said | soft | guessed]
    if soft and _beside(data, soft, guessed):
        views += (said | soft, said | guessed)
    if said and _beside(data, said, soft | guessed):
        views.append(said)
    if folded:
        views.append(said | folded)
    one = {at: (start, end + 1) for at, (start, end) in full.items() if data.startswith(b" ", end)}
    if one:  # as headers, calendars and directories fold
        views.append(full | one)
    yield from (_rewritten(data, _without_others(data, joins)) for joins in views if joins)
    if any(data.startswith(b"-", end) for _, end in full.values()):  # an option, or a token that goes on
        yield _rewritten(data, _without_others(data, full, b" "))


_Joins = dict[int, tuple[int, int]]
"""By the place of a line's end, the range that falls out for the next line to follow at once."""


def _beside(data: bytes, joins: _Joins, others: _Joins) -> bool:
    """Whether one of `others` adds a line to those that `joins` make one, or stands at the same line's end."""
    return any(
        at in joins or data.find(b"\n", end) in joins or data.rfind(b"\n", 0, start) in joins
        for at, (start, end) in others.items()
    )


def _full_lines(data: bytes) -> _Joins:
    """The ends of lines that are full to a usual width, the next one being no longer: else it was not wrapped there."""
    lines = data.split(b"\n")
    lengths = list(map(len, lines))
    likely = map(_SIZES.__contains__, lengths[:-1])
    told = b'":' in data
    if told or b"\0" in data or data.startswith(b'"'):  # in JSON a text has something before it
        likely = map(_LEAST.__le__, lengths[:-1])
    full: list[tuple[int, int]] = []
    for number in compress(count(), likely):
        line, after = lines[number], lines[number + 1]
        if not after:
            continue
        # Another of its kind, as in a log, where nearly all are, or a longer one.
        size = lengths[number]
        if after[:1] > b" " and (line[:_ALIKE] == after[:_ALIKE] or lengths[number + 1] > size + 1):
            continue
        if size in _SIZES:
            full.append((number, size))
        if line[:1] == b'"' and size - 1 in _SIZES and (not number or lines[number - 1].endswith(b"\0")):
            full.append((number, size - 1))
        if told and b'":' in line and (size := _behind(line)) in _SIZES:
            full.append((number, size))
    joins: _Joins = {}
    ends = list(accumulate(lengths)) if full else []
    for first, size in full:
        number, hanging = first, True
        while hanging and number + 1 < len(lines):
            at, line, after = ends[number] + number, lines[number], lines[number + 1]
            if not _is_full(line, size, after):
                break
            # Indented as one that goes on; a lone blank is a diff's, or a folded header's.
            indent = _HANGING.match(after) if after[:1] <= b" " else None
            blanks = indent.end(1) if indent else 0
            length = len(after) - blanks
            fits = length <= size + 1 and length <= size + after.endswith(b'"')
            if fits and _goes_on(line, after, blanks, already=number > first):
                joins[at] = at - line.endswith(b"\r"), at + 1 + blanks
            hanging = blanks > 0 and length == size  # below its beginning it goes on at the same width
            number += 1
    return joins


def _goes_on(line: bytes, after: bytes, blanks: int, *, already: bool) -> bool:
    """Whether `line`, which is full, goes on in the next one, below `blanks`; `already`: so did the line before."""
    if not blanks:
        return after[:1] > b" " or after[1:2] > b" "
    deeper = blanks - (len(line) - len(line.lstrip()))
    return deeper > 0 or (deeper == 0 and (already or _NO_WORD_CUT.search(line.rpartition(b" ")[2]) is not None))


def _behind(line: bytes) -> int:
    """The length of a text that begins in this line, behind a key."""
    at = line.find(b'":', max(len(line) - _MOST - 4, 0))
    while at >= 0:
        left = len(line) - at - (4 if line[at + 2 : at + 3] == b" " else 3)
        if left <= _MOST and line[-left - 1 : -left] == b'"':
            return left
        at = line.find(b'":', at + 1)
    return 0


def _is_full(line: bytes, size: int, after: bytes) -> bool:
    """Whether `line`, whose text has `size` signs, ends at a usual width; `after` it comes the next one."""
    width = size - line.endswith(b"\r")
    soft = width == _MAIL and line.endswith((b"=", b"=\r")) and after[:1] > b" "  # no such break indents
    return width in _WIDTHS and not soft


def _without_others(data: bytes, joins: _Joins, between: bytes = b"") -> Iterator[tuple[int, int, bytes]]:
    """The joins, with `between` for each, and the lines that they do not touch left out."""
    at = 0
    for start, end in sorted(joins.values()):
        if start > at:
            line = data.rfind(b"\n", at, start) + 1
            if line > at:
                yield at, line, _left_out(at, line)
        yield start, end, between
        at = data.find(b"\n", end)
        at = len(data) if at < 0 else at
    if at < len(data):
        yield at, len(data), b"\n"


Layer = View | Undone | Runs
"""One way to read some bytes: its `data`, and `original`, the range of those bytes behind a range of it."""


def layers_of(data: bytes, called: Called | None, *, first: bool) -> Iterator[Layer]:
    """The ways to read `data`: on the first level one for each dress, below that one for all, as dresses may mix."""
    makers = (json_view, url_view, form_view, mail_view, control_view, markup_view) if first else (any_view,)
    for make in makers:
        layer = make(data)
        if layer is not None:
            yield layer
    yield from joined_views(data)
    yield from runs_views(data, called)
