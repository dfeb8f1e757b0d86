"""Texts as their readers see them: escapes, control sequences, entities, tags and wraps undone, with the way back.

Each view knows which range of the original stands behind a range of its own. What decodes is undone level by level, a
few levels deep; what it may grow to is bounded.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from html import unescape
from itertools import accumulate, compress, count, repeat
from operator import contains, or_
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from tracer.redaction.gate import Called, Key
from tracer.redaction.rule_set import of_bytes
from tracer.redaction.runs import RUN_KEYS, Runs, runs_views
from tracer.redaction.wraps import CONTINUED, joined, left_out, line_above
from tracer.redaction.wraps import PATTERNS as WRAPS

# A letter of UTF-8 is told by its bytes, as in C, shells and Python; a lone one is that of Latin-1, as in JavaScript.
_ON, _ON_OCTAL = rb"(?:\\x[89ABab][0-9A-Fa-f])", rb"(?:\\2[0-7]{2})"
_LETTER = (
    rb"x(?:[CDcd][0-9A-Fa-f]%(x)s|[Ee][0-9A-Fa-f]%(x)s{2}|[Ff][0-4]%(x)s{3})"
    rb"|3(?:[0-3][0-7]%(o)s|[45][0-7]%(o)s{2}|6[0-4]%(o)s{3})"
) % {b"x": _ON, b"o": _ON_OCTAL}
_CODE = rb"u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U000[0-9A-Fa-f]{5}|%s|x[0-9A-Fa-f]{2}|[0-3][0-7]{2}" % _LETTER
# Before any other sign, a blank too, a backslash takes its meaning away: TeX, roff, Java's properties, shells.
_JSON_ESCAPE = re.compile(rb"\\(?:%s|[befnrt -/:-@\[-`{-~])" % _CODE)
_CODE_ESCAPE = re.compile(rb"\\(?:%s)" % _CODE)
_SIGN_ESCAPE = re.compile(rb"\\([ -/:-@\[-`{-~])")
_NUL_ESCAPE = re.compile(rb"\\(?:u0000|u\{0+\}|U0{8}|x00|000)")
_SIGNS = (b'"', b"n", b"/", b"b", b"f", b"r", b"t", b"'", b"e")
_JSON_LINE_END = re.compile(rb"\\(?:[nr]|(?:u\{?|U000)0*[aAdD]|x0[aAdD]|01[25])")
_NOT_SIMPLE = re.compile(rb"\\(?![bfnrt\"'])")
_URL_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_URL_LINE_END = re.compile(rb"%0[aAdD]")
_LAST_CODE = 0x10FFFF
_SIMPLE = {b"b": b"\b", b"e": b"\x1b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_LOOKED_UP, _MOST_LOOKED_UP = 12, 4096  # bytes of an escape, and how many
_SPARSE = 60  # bytes for one escape: from here on one by one is quicker
_HEAD = 16_384  # enough to tell whether most lines hold escapes
_PART = 8192  # bytes that are decoded together: as much is laid for each find
_REACHING: Final = frozenset({b"\\", b"=", b"^", b"`"})  # before a line's end: it may be part of an escape
_ENDS_CONTINUED: Final = tuple(sign + returns for sign in _REACHING for returns in (b"", b"\r", b"\r\r"))
_HELD = re.compile(rb"\x01+")
_OPENS: Final = frozenset({b":", b"|", b">", b"-", b"+"})  # at a line's end: what it names stands below


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
    if b"\\" in digits:
        codes = escape.replace(b"x", b"").split(b"\\")[1:]
        return bytes(int(code, 16 if kind == b"x" else 8) for code in codes)
    if kind.isdigit():
        code = int(escape[1:], 8)
    elif kind in {b"u", b"x", b"U"}:
        code = int(digits, 16)
    else:
        return _SIMPLE.get(kind, kind)
    return chr(code).encode("utf-8", "replace") if code <= _LAST_CODE else b"?"


def _percent(escape: bytes) -> bytes:
    return binascii.unhexlify(escape[1:])


class _Table(dict[bytes, bytes]):
    """What escapes stand for; those that come again are looked up, in a quarter of the time."""

    def __init__(self, decode: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._decode = decode

    def __missing__(self, escape: bytes) -> bytes:
        decoded = self._decode(escape)
        if len(escape) <= _LOOKED_UP and len(self) < _MOST_LOOKED_UP:
            self[escape] = decoded
        return decoded


def _replaced(text: bytes, escape: re.Pattern[bytes], table: _Table) -> bytes:
    """`text` with each match of `escape`, which is one group, replaced."""
    parts = escape.split(text)
    parts[1::2] = map(table.__getitem__, parts[1::2])
    return b"".join(parts)


@cache
def _one_of(*patterns: bytes) -> re.Pattern[bytes]:
    return re.compile(b"(%s)" % b"|".join(patterns))


_OF_JSON: Final = _Table(_unescape)


def _json_at_once(text: bytes) -> bytes | None:
    """`text` with its escapes undone, many by replacing each kind in turn; None where that would not do."""
    if text.count(b"\\") * _SPARSE < len(text):
        return _replaced(text, _one_of(_JSON_ESCAPE.pattern), _OF_JSON)
    if b"\0" in text:
        return None
    text = text.replace(b"\\\\", b"\0").replace(b"\\/", b"/")  # a pair of backslashes begins no other escape
    if _NOT_SIMPLE.search(text) is None:
        # As a string of code, whose signs are bytes: in a third of the time.
        return text.decode("unicode_escape").encode("latin-1").replace(b"\0", b"\\")
    for sign in _SIGNS:
        if b"\\" not in text:
            break
        text = text.replace(b"\\" + sign, _SIMPLE.get(sign, sign))
    if b"\\" in text:
        if _NUL_ESCAPE.search(text) is not None:
            return None
        text = _replaced(_SIGN_ESCAPE.sub(rb"\1", text), _one_of(_CODE_ESCAPE.pattern), _OF_JSON)
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
        line_end: Any = None,
    ) -> None:
        self._whole, self._lines, self._escape, self._decode = whole, _below_names(lines), escape, decode
        self._at_once = at_once
        self._line_end = line_end
        # Where each part begins, in the shown lines and in the decoded text.
        self._cuts: list[int] = []
        self._starts: list[int] = []
        self._parts: dict[int, View] = {}

    @property
    def wraps(self) -> bool:
        """Whether a line may end here, or be as wide as a wrap, that does not in the original.

        What is escaped for a string, a query or a form was wrapped before, and then its line ends are escapes, or
        after, and then the original shows it. What nobody sees does not count for the width of a line.
        """
        return self._line_end is None or self._line_end.search(self._whole) is not None

    @property
    def may_be_form(self) -> bool:
        """Whether it may be a form's text that was escaped once more: its plus signs are read as blanks below."""
        return self._escape is _URL_ESCAPE

    @cached_property
    def data(self) -> bytes:
        """The decoded text."""
        text = self._text
        at = 0
        decoded: list[bytes] = []
        for end in _cuts(text):
            part = text[at:end]
            quick = self._at_once(part)
            decoded.append(self._rewritten(part).data if quick is None else quick)
            self._cuts.append(at)
            at = end
        self._starts.extend(accumulate(map(len, decoded), initial=0))
        return b"".join(decoded)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """As `View.original`."""
        first, last = (bisect_right(self._starts, at, 1, len(self._cuts)) - 1 for at in (start, end - 1))
        left, right = self._behind(first, start, end)
        if last > first:
            _, right = self._behind(last, self._starts[last], end)
        return self._shown.original(left, right)

    def _behind(self, number: int, start: int, end: int) -> tuple[int, int]:
        """Where in the shown lines the range of the decoded text begins, and where its end in the same part lies."""
        offset, cut = self._starts[number], self._cuts[number]
        view = self.part(number)
        left, right = view.original(start - offset, min(end - offset, len(view.data)))
        return cut + left, cut + right

    def part(self, number: int) -> View:
        """A part of the text, decoded escape by escape: it is laid only where something was found."""
        if number not in self._parts:
            end = self._cuts[number + 1] if number + 1 < len(self._cuts) else len(self._text)
            self._parts[number] = self._rewritten(self._text[self._cuts[number] : end])
        return self._parts[number]

    def _rewritten(self, part: bytes) -> View:
        escapes = self._escape.finditer(part)
        return _rewritten(part, ((*escape.span(), self._decode(escape[0])) for escape in escapes))

    @cached_property
    def _text(self) -> bytes:
        """The lines that hold escapes, as they are."""
        whole, at = self._whole, 0
        pieces: list[bytes] = []
        for start, end in self._lines(whole):
            if start > at:
                pieces.append(left_out(at, start))
            pieces.append(whole[start:end])
            at = end
        if at < len(whole):
            pieces.append(b"\n")
        return b"".join(pieces)

    @cached_property
    def _shown(self) -> View:
        """The same with the way back."""
        return _rewritten(self._whole, self._left_out())

    def _left_out(self) -> Iterator[tuple[int, int, bytes]]:
        at = 0
        for start, end in self._lines(self._whole):
            if start > at:
                yield at, start, left_out(at, start)
            at = end
        if at < len(self._whole):
            yield at, len(self._whole), b"\n"


def _cuts(text: bytes) -> Iterator[int]:
    """Line ends that no escape reaches over, each some way behind the one before, and the end."""
    at = 0
    while (at := text.find(b"\n", at + _PART) + 1) > 0:
        if at < len(text) and text[max(at - 4, 0) : at - 1].rstrip(b"\r")[-1:] not in _REACHING:
            yield at
    yield len(text)


def _lines_with(
    *signs: bytes, holds: Callable[..., object] | None = None, continued: bool = False
) -> Callable[[bytes], Iterator[tuple[int, int]]]:
    """The lines that hold one of `signs` and of which `holds` is true, as ranges; those that follow on are one.

    `continued`: and those that go on in the next one, with it.
    """

    def lines(data: bytes) -> Iterator[tuple[int, int]]:
        here = [sign for sign in signs if sign in data]
        head = data[:_HEAD]
        if continued or 10 * sum(map(head.count, here)) > head.count(b"\n"):
            yield from _held(data, here, holds, continued=continued)
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


def _below_names(lines: Callable[[bytes], Iterator[tuple[int, int]]]) -> Callable[[bytes], Iterator[tuple[int, int]]]:
    """These lines, each run of them with the line above that may name it, and the one below that it may name."""

    def ranges(data: bytes) -> Iterator[tuple[int, int]]:
        at = 0
        keyed = any(word in data for word in _OPENS_KEY)
        for start, end in lines(data):
            # Below a name they may have come already: a line that came twice would lead back to other places.
            first, at = line_above(data, at, start) if start > at else at, max(at, end)
            if data[end - 1 : end] in _OPENS and data[end + 1 : end + 2] in {b" ", b"\t"}:
                at = data.find(b"\n", end + 1)
                at = len(data) if at < 0 else at
            elif keyed and (body := _end_of_key(data, max(start, end - _LONGEST_HEADER), end)) > at:
                at = body
            if at > first:
                yield first, at

    return ranges


_LONGEST_HEADER, _LONGEST_KEY = 400, 8192
_OPENS_KEY: Final = (b"BEGIN", b"ivate-Lines")
_LAST_WORDS: Final = (b"PRIVATE", b"KEY", b"Static key", b"ivate-Lines")


def _end_of_key(data: bytes, start: int, end: int) -> int:
    """Where a key ends whose header is the last of these lines: its body stands below it, as it is; else 0."""
    first = data.rfind(b"\n", start, end) + 1 or start
    if not any(data.find(word, first, end) >= 0 for word in _LAST_WORDS) or data.find(b"END ", first, end) >= 0:
        return 0
    last = data.find(b"-----END", end, end + _LONGEST_KEY)
    if last < 0:
        last = data.find(b"Private-MAC", end, end + _LONGEST_KEY)
    stop = data.find(b"\n", last) if last >= 0 else -1
    return len(data) if last >= 0 > stop else stop


def _held(
    data: bytes, signs: Iterable[bytes], holds: Callable[..., object] | None, *, continued: bool
) -> Iterator[tuple[int, int]]:
    """As `_lines_with`; quicker where many lines hold a sign."""
    lines = data.split(b"\n")
    held = bytearray(len(lines))
    for sign in signs:
        # A number is looked for in a fifth of the time that bytes of one sign take.
        held = bytearray(map(or_, held, map(contains, lines, repeat(sign[0] if len(sign) == 1 else sign))))
    if holds is not None:
        for at in list(compress(count(), held)):
            held[at] = bool(holds(lines[at]))
    if continued:
        for at in list(compress(count(), map(bytes.endswith, lines[:-1], repeat(_ENDS_CONTINUED)))):
            held[at] = held[at + 1] = True
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


def json_view(data: bytes, _called: Called | None = None) -> Undone | None:
    """One level of string escapes undone (`\\n`, `\\"`, `\\u0041`, `\\x41`, `\\101`); None where there are none."""
    if b"\\" not in data or _JSON_ESCAPE.search(data) is None:
        return None
    return Undone(data, _lines_with(b"\\"), _JSON_ESCAPE, _unescape, _json_at_once, _JSON_LINE_END)


def url_view(data: bytes, _called: Called | None = None) -> Undone | None:
    """Percent escapes undone; None where there are none."""
    if b"%" not in data or _URL_ESCAPE.search(data) is None:
        return None
    lines = _lines_with(b"%", holds=_URL_ESCAPE.search)
    return Undone(data, lines, _URL_ESCAPE, _percent, unquote_to_bytes, _URL_LINE_END)


_FORM: Final = re.compile(rb"%s|\+" % _URL_ESCAPE.pattern)
_FORM_TOLD: Final = (
    rb"%[0-9A-Fa-f]{2}[^\s]*\+|\+[^\s]*%[0-9A-Fa-f]{2}|=[\w.%/+-]+\+-[^\s]*\+|=[\w.%/-]+(?:\+[\w.%/-]+){3}"
)
_FORM_QUICK: Final = of_bytes(_FORM_TOLD)
# Not of `id=20fc2bc3`, of which a log may be full.
_MAIL_TOLD: Final = (
    rb"=(?:3D|5F|(?:[CD]|E[0-9A-F]=[89AB])[0-9A-F]=[89AB][0-9A-F]|20[^\s=&?;]+=20[^\s&]"
    rb"|20[A-Fa-f]{0,4}[G-Zg-z/\"'(-][^\s=&?;]{4}|\?[\w-]+\?[BbQq]\?)"
)
_MAIL_ESCAPE: Final = re.compile(rb"=(?:[0-9A-F]{2}|\r?\n)|\?=\r?\n[ \t]=\?[\w-]+\?[BbQq]\?")
_MAIL_QUICK: Final = of_bytes(_MAIL_ESCAPE.pattern)
_MAIL: Final = of_bytes(_MAIL_TOLD)
_MAIL_REACH: Final = 4096


def form_view(data: bytes, called: Called | None = None) -> Undone | None:
    """As `url_view`, and a plus sign is a blank, as in forms; None where no run has both, an option, or four words."""
    if not _calls(called, "form") or _FORM_QUICK.search(data) is None:
        return None
    lines = _lines_around(_FORM_QUICK)
    return Undone(data, lines, _FORM, _of_form, _form_at_once, _URL_LINE_END)


def mail_view(data: bytes, called: Called | None = None) -> Undone | None:
    """Quoted-printable undone, which escapes equals signs or all blanks, and a header's encoded words put together."""
    if not _calls(called, "mail") or _MAIL.search(data) is None or _MAIL_QUICK.search(data) is None:
        return None
    lines = _lines_around(_MAIL_QUICK, _MAIL_REACH)  # a key's lines stand whole between such that are not
    return Undone(data, lines, _MAIL_ESCAPE, _of_mail, _mail_at_once)


def _of_mail(escape: bytes) -> bytes:
    return _percent(escape) if len(escape) == 3 and escape[1] > 0x20 else b""


def _of_form(escape: bytes) -> bytes:
    return b" " if escape == b"+" else _percent(escape)


def _form_at_once(text: bytes) -> bytes:
    return _replaced(text, _one_of(_FORM.pattern), _OF_FORM)


def _mail_at_once(text: bytes) -> bytes:
    return _replaced(text, _one_of(_MAIL_ESCAPE.pattern), _OF_MAIL)


_OF_FORM: Final = _Table(_of_form)
_OF_MAIL: Final = _Table(_of_mail)

# Each choice begins with a sign of its own: what `re` does not look beyond it takes a tenth of the time.
# What a terminal, or a font, makes of it is nothing: colours, titles, links, letters struck twice, signs without width.
_SEQUENCE: Final = (
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,900}(?:\x07|\x1b\\)"
    rb"|[PX^_][^\x1b\n]{0,900}\x1b\\|[ -/]{0,8}[0-Z\\`-~])"
)
_SHOWN: Final = rb"\^\[\[[0-?]{0,64}[ -/]{0,8}[@-~]"
_STRUCK: Final = rb"(?:[\t -~]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2})\x08"
_WIDTHLESS: Final = (
    rb"\xc2\x9b[0-?]{0,64}[ -/]{0,8}[@-~]|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf|\xc2\xad"
)
_ENTITY: Final = rb"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,24});"
_TAG: Final = rb"<(?:/?[A-Za-z][^<>\n]{0,400}|!--[^<>\n]{0,400}--)>"
_EXTRA: Final = rb"%[0-7][0-9A-Fa-f]"  # a lone byte of another kind is no text that rules read
_ELEMENT: Final = (
    rb"(?i)(?:pass|passw[a-z]+|pwd|secret|token|key|auth|salt)(?:\\*[\"'][^<>\n]{0,80})?>"
    rb"(?:[^<>\n]{6,400}</|[^<>\n]{0,80}<value>)|\svalue=\\"
)
_TELLING = of_bytes(_ELEMENT)
_MARKUP = re.compile(rb"%s|%s" % (_ENTITY, _TAG))


def _here(data: bytes, *patterns: bytes) -> re.Pattern[bytes]:
    """Any of `patterns`, or of a letter struck twice, without those of which no sign stands in `data`."""
    here = [pattern for pattern in (*patterns, _STRUCK) if data.find(_SIGN_OF.get(pattern, b"")) >= 0]
    for pattern, is_there in ((_WIDTHLESS, _has_widthless), (CONTINUED, _goes_on)):
        if pattern in here and not is_there(data):
            here.remove(pattern)
    return _one_of(*here)


def _goes_on(data: bytes) -> bool:
    return _CONTINUED_QUICK.search(data) is not None


def _has_widthless(data: bytes) -> bool:
    return not data.isascii() and _WIDTHLESS_QUICK.search(data) is not None


_CONTROLS: Final = (_SEQUENCE, _SHOWN, _WIDTHLESS)
_IN_LINES: Final = (*_CONTROLS, _JSON_ESCAPE.pattern, _EXTRA, _ENTITY, _TAG)
_ALL: Final = (*_CONTROLS, CONTINUED, _JSON_ESCAPE.pattern, _EXTRA, _ENTITY, _TAG)
_CONTROL: Final = re.compile(rb"\x1b|\x08|\^\[\[|" + _WIDTHLESS)
_CONTROL_SIGNS: Final = (b"\x1b", b"\b", b"^[[")
_ANY_SIGNS: Final = (*_CONTROL_SIGNS, b"\\", b"%", b"&", b"<")
_WIDE_SIGNS: Final = (b"\xc2", b"\xe2", b"\xef")


def _quick(*patterns: bytes) -> Any:
    """The same for RE2, which is quick at telling where none of it stands."""
    return of_bytes(b"|".join(patterns))


_ESCAPES_QUICK = _quick(*_ALL, _STRUCK)
_CONTROL_QUICK = _quick(*_CONTROLS, _STRUCK)
_WIDTHLESS_QUICK = _quick(_WIDTHLESS)
_CONTINUED_QUICK = _quick(CONTINUED)
_SIGN_OF: Final = {
    _SEQUENCE: b"\x1b", _SHOWN: b"^[[", _STRUCK: b"\b", _JSON_ESCAPE.pattern: b"\\", _EXTRA: b"%", _ENTITY: b"&",
    _TAG: b"<",
}  # fmt: skip
_MARKUP_TOLD = (_ENTITY, rb"</?[A-Za-z][^<>\n]*>", rb"<!--")
_MARKUP_SIGNS = tuple(map(_quick, _MARKUP_TOLD))
DRESSES: Final[Mapping[Key, str]] = {
    key: b"|".join(told).decode("ascii")
    for key, told in {
        "form": (_FORM_TOLD,), "mail": (_MAIL_TOLD,), "control": (*_CONTROLS, _STRUCK), "markup": _MARKUP_TOLD,
        "any": (*_ALL, _STRUCK), "element": (_ELEMENT,),
    }.items()
}  # fmt: skip
"""What calls for the views that are made of few texts; escapes of JSON and URLs are quick to find."""


def _calls(called: Called | None, key: Key) -> bool:
    return called is None or key in called


def control_view(data: bytes, called: Called | None = None) -> Undone | None:
    """Without terminal control sequences, overstrikes and signs that have no width."""
    if not _calls(called, "control") or _CONTROL_QUICK.search(data) is None:
        return None
    lines = _lines_with(*_CONTROL_SIGNS)
    if _has_widthless(data):
        lines = _lines_with(*_CONTROL_SIGNS, *_WIDE_SIGNS, holds=_CONTROL.search)
    escape = _here(data, *_CONTROLS)
    return Undone(data, lines, escape, _nothing, lambda text: escape.sub(b"", text))


def markup_view(data: bytes, called: Called | None = None) -> Undone | None:
    """HTML and XML: entities undone, tags and comments gone."""
    # By a first sign each: faster than all in one.
    if not _calls(called, "markup") or all(sign.search(data) is None for sign in _MARKUP_SIGNS):
        return None
    lines = _lines_with(b"<", b"&", holds=_MARKUP.search)
    return Undone(data, lines, _MARKUP, _markup, _markup_at_once)


def _markup(text: bytes) -> bytes:
    if text.startswith(b"<"):
        return b" " if _CELL_END.fullmatch(text) else b""
    return unescape(text.decode("ascii")).encode("utf-8", "replace")


def _markup_at_once(text: bytes) -> bytes | None:
    """No entity holds what begins a tag: tags go first, and leave a sign behind that keeps what they part apart."""
    if b"\0" in text:
        return None
    text = _TAGS.sub(b"\0", _CELL_END.sub(b" \0", text))
    return _replaced(text, _one_of(_ENTITY), _OF_ENTITY).replace(b"\0", b"")


_TAGS: Final = re.compile(_TAG)
_CELL_END: Final = re.compile(rb"</t[dh]>")  # what stands in two cells is no word: a line's number, and a program
_OF_ENTITY: Final = _Table(_markup)


def any_view(data: bytes, called: Called | None = None) -> Undone | None:
    """One more level of everything that stands for something else, in one go."""
    if not _calls(called, "any") or _ESCAPES_QUICK.search(data) is None:
        return None
    signs = [sign for sign in _ANY_SIGNS if data.find(sign) >= 0]
    if _has_widthless(data):
        signs += _WIDE_SIGNS
    continued = _goes_on(data)
    in_lines = _here(data, *_IN_LINES)
    escape = _here(data, *_ALL) if continued else in_lines
    lines = _lines_with(*signs, holds=in_lines.search, continued=continued)
    return Undone(data, lines, escape, _undone, lambda text: _replaced(text, escape, _OF_ANY))


_QUOTED: Final = b"'\"'\"'"  # a quote within a shell's quotes


def quoted_view(data: bytes, _: Called | None = None) -> Undone | None:
    """What a shell gets that was quoted for it once more."""
    if _QUOTED not in data:
        return None
    return Undone(data, _lines_with(_QUOTED), re.compile(_QUOTED), _quote, lambda text: text.replace(_QUOTED, b"'"))


def _quote(_: bytes) -> bytes:
    return b"'"


_DOUBLED: Final = re.compile(rb'""')  # a quote within a field of CSV
_DOUBLED_TOLD: Final = of_bytes(rb'[^"]""[A-Za-z0-9]')
_NOWHERE: Final = re.compile(rb"(?!)")


def doubled_view(data: bytes, _: Called | None = None) -> Undone | None:
    """What a field of CSV holds that has quotes in it: they are written twice there."""
    if b'""' not in data or _DOUBLED_TOLD.search(data) is None:
        return None
    lines = _lines_with(b'""', holds=_DOUBLED_TOLD.search)
    return Undone(data, lines, _DOUBLED, lambda _: b'"', lambda text: text.replace(b'""', b'"'), _NOWHERE)


def element_view(data: bytes, called: Called | None = None) -> Undone | None:
    """As `json_view`, of lines in which an element's name or attribute tells what it holds: `any_view` drops tags."""
    if not _calls(called, "element") or b"\\" not in data or _TELLING.search(data) is None:
        return None
    return Undone(data, _lines_with(b"\\", holds=_TELLING.search), _JSON_ESCAPE, _unescape, _json_at_once)


def _undone(escape: bytes) -> bytes:
    first = escape[:1]
    if first == b"\\" and not escape.endswith(b"\n"):
        return _unescape(escape)
    if escape.endswith(b"\b"):
        return b""
    if first in {b"&", b"<"}:
        return _markup(escape)
    return _percent(escape) if first == b"%" else b""


_OF_ANY: Final = _Table(_undone)


# A name whose value stands in the line below, or any after a number and an arrow, as agents read files.
BEFORE_KEY: Final = "before-lines"
BEFORE_LINES: Final = (
    r"(?i)(?:passw(?:or)?d|passphrase|passcode|pwd|secret|token|key|recovery phrase|private-lines)"
    r"(?:[\"'\]>=:)*_ ]{1,8}|</\w{2,6}>|: [0-9]{1,4}|[ ]?\([^()\n]{1,20}\):)\r?\n"
    r"|[0-9]\xe2\x86\x92[^\n]*(?:passw|passphrase|pwd|_pw|pass[\"' =:]|secret|private-lines)"
)
_FOUND_BEFORE: Final = of_bytes(BEFORE_LINES.encode())
_TOKEN: Final = re.compile(rb"[0-9]+|[ ]+|\xe2\x86\x92|(?s:.)")
_ENDS_BEFORE: Final = (b" ", b"\t", b":", b"|", b">", b"-", b"\xe2\x86\x92")
_STANDS_BEFORE: Final = re.compile(rb"[^0-9]*[0-9]|[ ]*[>+\[]|-[^ ]?\Z")  # no item of a list, no word
_DIFFS: Final = frozenset({b"+", b"-", b" "})
_LONGEST_BEFORE, _ROWS, _ROWS_OF_KEY = 160, 4, 40


def _before_lines(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The changes that leave names with the lines below them, each without what stands before it in a log.

    That is what the line of the name and the next one begin with, numbers apart: a time, a file, a line's number.
    """
    lines: dict[int, tuple[int, int]] = {}
    found = _FOUND_BEFORE.search(data)
    while found is not None:
        start = data.rfind(b"\n", 0, found.start()) + 1
        stop = at = _line_end(data, found.start())
        name = data[start : min(stop, start + _LONGEST_BEFORE)]
        for number in range(_ROWS_OF_KEY if b"rivate-" in name else _ROWS):
            end = _line_end(data, at + 1)
            mine, size = _alike(name, data[at + 1 : min(end, at + 1 + _LONGEST_BEFORE)])
            if not size:
                break
            if not number:
                lines[start] = start + mine, stop
            lines[at + 1] = at + 1 + size, end
            at = end
        found = _FOUND_BEFORE.search(data, stop)
    at = 0
    for start, (begin, end) in sorted(lines.items()):
        if start > at:
            yield at, start, left_out(at, start)
        yield start, begin, b""
        at = min(end + 1, len(data))
    if lines and at < len(data):
        yield at, len(data), b"\n"


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


def _alike(line: bytes, other: bytes) -> tuple[int, int]:
    """How far two lines begin alike in what may stand before each line of a log; zeros where that does not."""
    signed = line[:1] in _DIFFS and other[:1] in _DIFFS and not line[:1] == other[:1] == b" "
    at, beside = (1, 1) if signed else (len(line) - len(line.lstrip(b" ")), len(other) - len(other.lstrip(b" ")))
    alike = (1, 1) if signed else (0, 0)
    while (one := _TOKEN.match(line, at)) is not None and (two := _TOKEN.match(other, beside)) is not None:
        if one[0] != two[0] and not (one[0].isdigit() and two[0].isdigit()) and one[0].strip() + two[0].strip():
            break
        at, beside = one.end(), two.end()
        if one[0].endswith(_ENDS_BEFORE):
            alike = at, beside
    return alike if _STANDS_BEFORE.match(line[: alike[0]]) is not None else (0, 0)


def joined_views(data: bytes, called: Called | None = None, *, widths: bool = True) -> Iterator[View]:
    """Lines that were one before they were wrapped, in each way in which they may have been."""
    for pieces, origins, _ in joined(data, called, widths=widths):
        starts = list(accumulate(map(len, pieces[:-1]), initial=0))
        yield View(b"".join(pieces), starts, origins)


Layer = View | Undone | Runs
"""One way to read some bytes: its `data`, and `original`, the range of those bytes behind a range of it."""


def layers_of(layer: Layer, called: Called | None, *, first: bool) -> Iterator[Layer]:
    """The ways to read `layer`: on the first level one for each dress, below that one for all, as dresses may mix."""
    data = layer.data
    undone = layer if isinstance(layer, Undone) else None
    views = [view for make in (_FIRST_MAKERS if first else _MAKERS) if (view := make(data, called)) is not None]
    if undone is not None and undone.may_be_form and (form := form_view(data, called)) is not None:
        views.append(form)
    yield from views
    if (called is None or BEFORE_KEY in called) and (changes := list(_before_lines(data))):
        yield _rewritten(data, changes)
    for one in joined_views(data, called, widths=undone is None or undone.wraps):
        if all(one.data != view.data for view in views):  # `any_view` puts lines that a sign continues together as well
            yield one
    if called is None or not called.isdisjoint(RUN_KEYS):
        yield from runs_views(data, called)


READINGS: Final[Called] = RUN_KEYS.union(DRESSES, WRAPS, (BEFORE_KEY,))
"""What calls for another way to read a text, and for no finder."""
_Maker = Callable[[bytes, Called | None], Undone | None]
_FIRST_MAKERS: Final[tuple[_Maker, ...]] = (
    json_view, url_view, form_view, mail_view, control_view, markup_view, quoted_view, doubled_view,
)  # fmt: skip
_MAKERS: Final[tuple[_Maker, ...]] = (any_view, element_view, quoted_view, doubled_view)
