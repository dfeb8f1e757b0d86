"""What stands in base64, hexadecimal digits, wide characters or a dump: runs of signs, decoded, with the way back."""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import accumulate, product
from typing import Final, NamedTuple

from tracer.redaction.gate import Called, Key, beyond_hexadecimal
from tracer.redaction.rule_set import compiled

# Base64 of printable ASCII, aligned: what each of the four characters of a group can be. Six groups hold 18 bytes.
_GROUP = rb"[CDI-Za-f][ACDEFGHQSTUVWXgijklmnwyz0123][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
# A wrapped run goes on at the next line: lines hold whole groups.
_BASE64_TEXT = (
    rb"(?:%s(?:\r?\n)?){5,}(?:[CDI-Za-f][AQgw](?:==)?|[CDI-Za-f][ACDEFGHQSTUVWXgijklmnwyz0123][AEIMQUYcgkosw048]=?)?"
)
BASE64_TEXT = _BASE64_TEXT % _GROUP
# Of UTF-8 with other letters: by the kind of a byte (one of ASCII, one that begins a letter of two or three, one that
# goes on) what the signs can be that hold its first bits, its halves, and its last ones.
_ANY: Final = "[A-Za-z0-9+/_-]"
_ASCII, _TWO, _THREE, _ON = "a23-"
_SIGNS_OF: Final = {
    _ASCII: ("[CDI-Za-f]", "[0123ACDEFGHQSTUVWXgijklmnwyz]", "[014589ABEFIJMNQRUVYZcdghklopstwx]", _ANY),
    _TWO: ("[0123wxyz]", "[89MNcdst]", "[/37DHLPTX_bfjnrvz]", "[C-Za-f]"),
    _THREE: ("[4567]", "[+Oeu-]", "[/37DHLPTX_bfjnrvz]", "[g-v]"),
    _ON: ("[g-v]", "[4567IJKLYZabopqr]", "[+26CGKOSWaeimquy-]", _ANY),
}
# What three bytes in a row can be, within letters at either end: of drawn ones, one group in five.
_IN_A_ROW: Final = re.compile("-{0,2}(?:a|2-|3--)*(?:2|3-?)?")
# Three letters beyond ASCII in a row, wherever a group begins (x: any byte): one drawn run in a thousand holds some.
_LETTERS: Final = re.compile(rb"(?:[\xc2-\xdf][\x80-\xbf]){3}|(?:[\xe0-\xef][\x80-\xbf]{2}){3}")
_LETTERS_BY_GROUPS: Final = (
    "2-2 -2-",
    "x2- 2-2 -xx",
    "xx2 -2- 2-x",
    "3-- 3-- 3--",
    "x3- -3- -3- -xx",
    "xx3 --3 --3 --x",
)
_BROKEN: Final = r"(?:\r?\n)?"


def _signs(row: str) -> str:
    one, two, three = (_SIGNS_OF.get(kind, (_ANY,) * 4) for kind in row)
    return one[0] + two[1] + three[2] + three[3]


def _utf8_text() -> str:
    rows = filter(_IN_A_ROW.fullmatch, map("".join, product(_SIGNS_OF, repeat=3)))
    return rf"(?:(?:{'|'.join(map(_signs, rows))}){_BROKEN}){{6,}}(?:{_ANY}{{2,3}}={{0,2}})?"


def _other_letters() -> str:
    ways = (_BROKEN.join(map(_signs, way.split())) for way in _LETTERS_BY_GROUPS)
    return "|".join(way.removeprefix(_ANY).removeprefix(_ANY) for way in ways)


# UTF-8 in hexadecimal digits, 14 letters or more, wrapped or not: no digest looks so.
HEX_TEXT = (
    rb"(?:(?:[2-7][0-9A-Fa-f]|0[9AaDd]|(?:[Cc][2-9A-Fa-f]|[Dd][0-9A-Fa-f]|[Ee][0-9A-Fa-f][89ABab][0-9A-Fa-f])"
    rb"[89ABab][0-9A-Fa-f])(?:\r?\n)?){14,}"
)
_URLSAFE = bytes.maketrans(b"-_", b"+/")
_GROUP_SIZE = 4
_BREAK = re.compile(rb"[\r\n]")
_SIGNS = re.compile(rb"[A-Za-z0-9+/_-]{4}")
_BEHIND_OTHERS, _BEFORE_OTHERS = re.compile(rb"[\x80-\xbf][ -~]{0,2}\Z"), re.compile(rb"[ -~]{1,2}[\xc2-\xf4]")
_LAST_SIGNS: Final = re.compile(rb"[A-Za-z0-9+/_\r\n-]*\Z")
_LABEL: Final = 64  # signs before a run in which a label in other letters may stand
_LEAST, _WORD = 20, 12  # of a run, and of what may be a word


class Run(NamedTuple):
    """A run that decodes to `data`: each byte of it stands for `size` signs of the run, from `start` on, by groups.

    `breaks` are the places of its line breaks, counted in the run without them.
    """

    data: bytes
    start: int
    end: int
    breaks: list[int]
    of_data: int
    of_run: int

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The whole groups behind `data[start:end]`."""
        left = self._place(start // self.of_data * self.of_run)
        last = (end - 1) // self.of_data * self.of_run + self.of_run
        right = self.end if end >= len(self.data) else self._place(last - 1) + 1
        return left, max(right, left)

    def _place(self, at: int) -> int:
        return self.start + at + bisect_right(self.breaks, at)


class Dump(NamedTuple):
    """A dump's lines, which decode to `data`: where the digits of each byte begin, and where it is shown last.

    That is in the text beside the digits, or in them: what stands between those of two bytes goes with them.
    """

    data: bytes
    starts: list[int]
    ends: list[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """As `View.original`."""
        left = self.starts[min(start, len(self.starts) - 1)]
        return left, max(self.ends[max(end, 1) - 1], left)


class Runs:
    """Many runs, decoded, one after another with a gap that no rule matches across."""

    def __init__(self, runs: Iterable[Run | Dump]) -> None:
        self._runs = list(runs)
        self._starts = [0]
        for run in self._runs:
            self._starts.append(self._starts[-1] + len(run.data) + len(_GAP))
        self.data = b"".join(run.data + _GAP for run in self._runs)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """As `View.original`."""
        which = bisect_right(self._starts, start) - 1
        run, offset = self._runs[which], self._starts[which]
        return run.original(start - offset, min(end - offset, len(run.data)))


_GAP = b"\n\0\n"
BASE64_KEY, UTF8_KEY, HEX_KEY, WIDE_KEY, DUMP_KEY = "base64", "base64-utf8", "hex", "wide", "dump"
# Printable ASCII in UTF-16 or UTF-32, of either order.
WIDE_TEXT = rb"(?:[\t\n\r -~]\x00{1,3}){8,}"
_NO_BYTE: Final = re.compile("[^\\x00-\\xff]")
_NO_LETTER: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufffd\\U00010000-\\U0010ffff]")
_LABEL_WIDE: Final = 200  # bytes of one before wide signs
# An offset and groups of digits (xxd, hexdump, od), or signs (od -c): two behind four zeros, four behind three.
DUMP = (
    rb"0000[0-9A-Fa-f]{2,4}(?::? {1,4}[0-9A-Fa-f]{2,8} {1,4}[0-9A-Fa-f]{2}|(?:   [!-~]|  \\[0-9a-z]){2})"
    rb"|000[0-9A-Fa-f]{5}(?::? {1,2}[0-9A-Fa-f]{2,8}(?: {1,2}[0-9A-Fa-f]{2,8}){3})"
)
RUNS: Final = {
    BASE64_KEY: BASE64_TEXT, UTF8_KEY: _other_letters().encode(), HEX_KEY: HEX_TEXT, WIDE_KEY: WIDE_TEXT, DUMP_KEY: DUMP
}  # fmt: skip
RUN_KEYS: Final[Called] = frozenset(RUNS)
# Runs of signs of one kind that are in each of them, line breaks among them: quick to look for.
FIRSTS: Mapping[Key, str] = {
    BASE64_KEY: r"[A-Za-z0-9+/_\r\n-]{20}",
    UTF8_KEY: r"[A-Za-z0-9+/]{28}",
    HEX_KEY: r"[0-9A-Fa-f\r\n]{24}",
}
_FOUND = {key: compiled(text.decode("ascii")) for key, text in RUNS.items()} | {UTF8_KEY: compiled(_utf8_text())}


def runs_views(data: bytes, called: Called | None) -> Iterator[Runs]:
    """What stands in base64, hexadecimal digits or wide characters, as far as it was `called` for."""
    for key, decode in _DECODERS.items():
        if (called is None or key in called) and (key != WIDE_KEY or b"\0" in data):
            parts = _whole if key in _WHOLE else _parts
            runs = (decode(data, *part) for match in _FOUND[key].finditer(data) for part in parts(data, *match.span()))
            found = Runs(run for run in runs if run.data)
            if found.data:
                yield found
    if called is None or DUMP_KEY in called:
        dumps = Runs(_dumps(data))
        if dumps.data:
            yield dumps


def _whole(_data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    yield start, end


def _parts(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A run, and its middle alone where its first line, or a short last one, may be a word that stands beside it."""
    yield start, end
    first, last = data.find(b"\n", start, end) + 1, data.rfind(b"\n", start, end)
    if first:
        second = data.find(b"\n", first, end)
        left = first if first - start <= (second if second >= 0 else end) - first else start
        right = last if left <= last and end - last <= _WORD else end
        if (left, right) != (start, end) and right - left >= _LEAST:
            yield left, right


def _base64_run(data: bytes, start: int, end: int) -> Run:
    run = data[start:end]
    text = run.translate(_URLSAFE, b"\r\n=")
    rest = len(text) % _GROUP_SIZE
    # Where other signs than ASCII's stand beside the run, a group holds some of either.
    head, tail = _group(data, start - _GROUP_SIZE), _group(data, end - rest)
    head, start = _with_others(data, start) if _BEHIND_OTHERS.search(head) else (b"", start)
    if _BEFORE_OTHERS.match(tail):
        end += _GROUP_SIZE - rest
    else:
        rest, tail = 0, b""
    text = text[: len(text) - rest]
    if len(text) % _GROUP_SIZE == 1:
        text = text[:-1]
    decoded = head + base64.b64decode(text + b"=" * (-len(text) % _GROUP_SIZE)) + tail
    return Run(decoded, start, end, _breaks(data[start:end]), 3, _GROUP_SIZE)


def _with_others(data: bytes, start: int) -> tuple[bytes, int]:
    """What the groups before a run decode to, from that on from which all is UTF-8, and where they begin."""
    last = _LAST_SIGNS.search(data, max(start - _LABEL, 0), start)
    signs = last[0].translate(_URLSAFE, b"\r\n") if last is not None else b""
    decoded = base64.b64decode(signs[len(signs) % _GROUP_SIZE :])
    text = decoded.decode("utf-8", "replace")
    count = -(-len(text[text.rfind("\ufffd") + 1 :].encode()) // 3)
    at = start
    for _ in range(count * _GROUP_SIZE):
        at -= 1
        while data[at] in b"\r\n":
            at -= 1
    return decoded[len(decoded) - count * 3 :], at


def _utf8_run(data: bytes, start: int, end: int) -> Run:
    """Nothing where it is no UTF-8, or has hardly a letter beyond ASCII: what is printable ASCII is decoded as such."""
    run = data[start:end].rstrip(b"\r\n")
    end = start + len(run)
    text = run.translate(_URLSAFE, b"\r\n=")
    text = text[: len(text) - (len(text) % _GROUP_SIZE == 1)]
    decoded = base64.b64decode(text + b"=" * (-len(text) % _GROUP_SIZE))
    if (
        _LETTERS.search(decoded) is None
        or any(must.search(run) is None for must in _utf8_marks())
        or decoded.lstrip(_GOING_ON).decode("utf-8", "ignore").encode() not in decoded
    ):
        decoded = b""
    return Run(decoded, start, end, _breaks(run), 3, _GROUP_SIZE)


def _group(data: bytes, at: int) -> bytes:
    """What the group of base64 at a place decodes to; nothing where there is none."""
    group = data[max(at, 0) : at + _GROUP_SIZE]
    return base64.b64decode(group.translate(_URLSAFE)) if _SIGNS.fullmatch(group) else b""


def _hex_run(data: bytes, start: int, end: int) -> Run:
    run = data[start:end].rstrip(b"\r\n")
    end = start + len(run)
    return Run(binascii.unhexlify(run.translate(None, b"\r\n")), start, end, _breaks(run), 1, 2)


def _wide_run(data: bytes, start: int, end: int) -> Run | Dump:
    """Its zero bytes are what breaks are elsewhere; the last sign may have none behind it."""
    end += end < len(data) and 0x20 <= data[end] <= 0x7E
    run = data[start:end]
    zeros = [match.start() - number for number, match in enumerate(re.finditer(rb"\0", run))]
    plain = Run(run.replace(b"\0", b""), start, end, zeros, 1, 1)
    decoded, starts, ends = b"", list[int](), list[int]()
    # The first sign may be half of a letter. Either order of bytes may make sense.
    second = plain.original(1, 2)[0]
    for text, places in (_wide_before(data, second, big=big) for big in (False, True)):
        if not text.isascii():
            signs = [plain.original(at, at + 1) for at in range(1, len(plain.data))]
            before = [place for place, letter in zip(places, text, strict=True) for _ in letter.encode()]
            starts += [*before, *(left for left, _ in signs), *[end] * len(_GAP)]
            ends += [*(place + 1 for place in before), *(right for _, right in signs), *[end] * len(_GAP)]
            decoded += text.encode() + plain.data[1:] + _GAP
    return Dump(decoded, starts, ends) if decoded else plain


def _wide_before(data: bytes, start: int, *, big: bool) -> tuple[str, list[int]]:
    """The letters of any writing on the line before a wide sign, with their places where they are no ASCII.

    Each sign of `data` was a byte then, which one beyond ASCII shows as a letter of Latin-1.
    """
    size = 4 if data.startswith(b"\0\0\0", start + 1) else 2
    end = max(start - (size - 1 if big else 0), 0)  # its zeros stand before it
    first = max(end - _LABEL_WIDE, 0)
    signs = _NO_BYTE.split(data[first:end].decode("utf-8", "replace"))[-1]
    shown = signs.encode("latin-1")
    letters = shown[len(shown) % size :].decode(f"utf-{8 * size}-{'be' if big else 'le'}", "replace")
    text = _NO_LETTER.split(letters)[-1]
    if text.isascii():
        return text, []
    signs = signs[len(signs) - size * len(text) :]
    sizes = [1 if sign.isascii() else 2 for sign in signs]
    return text, list(accumulate(sizes[:-1], initial=end - sum(sizes)))[::size]


_OFFSET: Final = rb"[^\n]{0,80}?(?<![0-9A-Za-z])[0-9A-Fa-f]{6,8}"
# Digits of xxd follow a colon and one blank each; its text stands two blanks behind them.
_DUMPED = re.compile(
    rb"%s(?:(:) ((?:[0-9A-Fa-f]{2,8} ){0,64}[0-9A-Fa-f]{2,8})"
    rb"|[ ]{1,4}((?:[0-9A-Fa-f]{2,8}[ ]{1,4}){0,64}[0-9A-Fa-f]{2,8}))(?![0-9A-Za-z])" % _OFFSET
)
_SIGNS_DUMPED = re.compile(rb"%s()()((?:   [ -~]|  \\[0-9a-z]| [0-7]{3})+)" % _OFFSET)
_DIGITS = re.compile(rb"[0-9A-Fa-f]+")
_SIGN_DUMPED = re.compile(rb"(?s:.){3}(?s:.)")
_SHOWN: Final = re.compile(rb"[ ]*([|>])")
_ESCAPES: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}
_NO_TEXT: Final = bytes(set(range(32)) - set(b"\t\n\r"))
_AS_ZERO: Final = bytes.maketrans(_NO_TEXT, bytes(len(_NO_TEXT)))
_OCTAL_BYTE, _OCTAL_WORD = 3, 6


def _dumps(data: bytes) -> Iterator[Dump]:
    """Each dump: lines that begin with an offset. What is no text in it becomes zeros, which no rule goes across."""
    at = 0
    while (match := _FOUND[DUMP_KEY].search(data, at)) is not None:
        at = max(data.rfind(b"\n", at, match.start()) + 1, at)
        decoded, starts, ends = bytearray(), list[int](), list[int]()
        while True:
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            line = _DUMPED.match(data, at, end)
            if line is None or (not line[1] and b"\\" in line[0]):
                line = _SIGNS_DUMPED.match(data, at, end)
            if line is not None:
                _undump(data, line, end, decoded, starts, ends)
            elif data[at:end].strip() != b"*":
                break
            at = end + 1
            if at >= len(data):
                break
        at = max(at, match.end())
        yield Dump(bytes(decoded).translate(_AS_ZERO), starts, ends)


def _undump(
    data: bytes, line: re.Match[bytes], end: int, decoded: bytearray, starts: list[int], ends: list[int]
) -> None:
    """Add the bytes of one `line` that ends at `end`, and where they stand."""
    group = 2 if line[1] else 3
    signs = line.re is _SIGNS_DUMPED
    first = len(starts)
    for digits in (_SIGN_DUMPED if signs else _DIGITS).finditer(data, *line.span(group)):
        part = _of_sign(digits[0].strip(b" ")) if signs else _of_digits(digits[0], big=bool(line[1]))
        decoded += part
        size = len(digits[0]) // len(part) if line[1] else 0
        for at in range(len(part)):
            starts.append(digits.start() + size * at)
            ends.append(digits.start() + size * (at + 1) if size else digits.end())
    count = len(starts) - first
    bar = _SHOWN.match(data, line.end(group), end)
    shown = bar.end() if bar is not None else end - count if line[1] else 0
    if shown >= line.end(group):
        ends[first:] = [min(shown + at + 1, end) for at in range(count)]


def _of_digits(digits: bytes, *, big: bool) -> bytes:
    """Bytes as they are, octal ones, or words whose last byte stands first."""
    if len(digits) == _OCTAL_BYTE or (len(digits) == _OCTAL_WORD and not big):
        try:
            return (int(digits, 8) & 0xFFFF).to_bytes(1 if len(digits) == _OCTAL_BYTE else 2, "little")
        except (ValueError, OverflowError):
            return b"\0"
    decoded = binascii.unhexlify(digits[: len(digits) // 2 * 2])
    return decoded if big else decoded[::-1]


def _of_sign(sign: bytes) -> bytes:
    """A sign as `od -c` shows it."""
    if len(sign) == _OCTAL_BYTE:
        return bytes([int(sign, 8) & 0xFF])
    return _ESCAPES.get(sign[1:], b"\0") if sign[:1] == b"\\" and len(sign) > 1 else sign or b" "


@cache
def _utf8_marks() -> tuple[re.Pattern[bytes], ...]:
    """What a run of base64 that holds UTF-8 has in it, as the gate asks for it."""
    first = FIRSTS[UTF8_KEY]
    return re.compile(first.encode()), re.compile(beyond_hexadecimal(first).encode())


def _breaks(run: bytes) -> list[int]:
    return [match.start() - number for number, match in enumerate(_BREAK.finditer(run))]


_GOING_ON: Final = bytes(range(0x80, 0xC0))
_WHOLE: Final = {UTF8_KEY, WIDE_KEY}
_DECODERS: Final = {BASE64_KEY: _base64_run, UTF8_KEY: _utf8_run, HEX_KEY: _hex_run, WIDE_KEY: _wide_run}
