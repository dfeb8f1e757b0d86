"""Lines that were one before they were wrapped: what to leave out of a text for them to be one again.

And of what was found over a line's end, whether it ended there after all.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, compress, count, pairwise
from typing import Final, NamedTuple, Protocol

from tracer.redaction.gate import Called, Key
from tracer.redaction.rule_set import RANK_NAMED, Find, of_bytes


class Pieces(NamedTuple):
    """Pieces of a text as it is seen, and the range of the original that each stands for.

    `between`: which of them stand for a join; they are empty.
    """

    pieces: list[bytes]
    origins: list[tuple[int, int]]
    between: list[int]

    def with_blanks(self, numbers: Iterable[int] | None = None) -> Pieces:
        """The same with a blank at each join, or at those of these `numbers`."""
        pieces = self.pieces.copy()
        for at in self.between if numbers is None else [self.between[number] for number in numbers]:
            pieces[at] = b" "
        return Pieces(pieces, self.origins, [])


CONTINUED: Final = rb"[\\=^`]\r{0,2}\n"
# In a drawn frame; as strings of code that are put together, by a sign or by standing so.
_FRAMED: Final = rb"\xe2\x94[\x82\x83]\r?\n[ ]*\xe2\x94[\x82\x83][ ]?"
_FRAME, _PADDED, _SOFT = 0xE2, 200, ord("=")
_ADDED: Final = rb"[\"'][ \t]*(?:[+.][ \t]*\r?\n[ \t]*|\r?\n[ \t]*[+.][ \t]*)[\"']"
_STRINGS: Final = rb"[\w+/.-]{6}([\"'][ \t]*\r?\n[ \t]*[\"'])[\w+/.-]{4}"
# Widths that terminals, mails and formatters wrap at.
_WIDTHS: Final = frozenset({60, 64, 70, 72, 74, 75, 76, 78, 79, 80, 100, 120, 132, 160})
_SIZES: Final = _WIDTHS | {width + 1 for width in _WIDTHS}  # with a carriage return
_QUOTED_SIZES: Final = _SIZES | {size + 1 for size in _SIZES}
_SIGN: Final = rb"[A-Za-z0-9+/_.~%&-]"
_MAIL: Final = 76
_INDENT: Final = rb" {2,}|[ \t]*\t[ \t]*"
_INDENT_AT_ONCE: Final = rb" {2,}+|[ ]*+\t[ \t]*+"  # likewise, in a time that grows with its length
_REST: Final = rb"%s(\r?\n(?:%s)?)(%s{6,})[\"'=]{0,3}\r?(?:\n|\z)" % (_SIGN, _INDENT, _SIGN)
_EACH: Final = rb"[^\n]{39}%s|(%s|%s|%s)|%s" % (_REST, CONTINUED, _FRAMED, _ADDED, _STRINGS)
# RE2 tells where one begins, in a third of the time that it takes to tell the groups too.
_JOINED = of_bytes(re.sub(rb"\((?!\?)", b"(?:", _EACH))
_GROUPS: Final = re.compile(_EACH.replace(_INDENT, _INDENT_AT_ONCE).replace(rb"\z", rb"\Z"))
KEY: Final = "wraps"
PATTERNS: Final[Mapping[Key, str]] = {
    KEY: b"|".join((_REST, CONTINUED, _FRAMED, _ADDED, rb"[\"'][ \t]*\r?\n[ \t]*[\"']")).decode("ascii")
}
"""What calls for lines to be put together, widths apart."""
_MEMBERS: Final = 4
_MEMBER: Final = re.compile(rb"[ \t]*\"[\w.-]{1,40}\": [^\n]*,\r?\n")  # others of the same object
_NO_WORD = re.compile(rb"[0-9A-Z]")
_LEAST, _MOST = min(_SIZES), max(_SIZES)
_QUOTE: Final = rb"[ \t]*(?:[>#*|;%]{1,3}|//+|--)[ \t]+"
_HANGING: Final = re.compile(rb"(%s|%s)[!-~]" % (_QUOTE, _INDENT))
_HANGS: Final = frozenset(b" \t>#*|;%/-")
_BLANK: Final = frozenset(b" \t")
_TAB, _SPACE = ord("\t"), ord(" ")
_BEHIND_KEY: Final = re.compile(rb'": ?(?=")')
_FIRST_WORD: Final = re.compile(rb"[ \t]+[^ \t]+[ \t]")
_BLANKS: Final = re.compile(rb"[ \t]+")
_ALIKE: Final = 8
_NAME_LINE: Final = 48
# At the end of a line that is indented like the next one: more than an ordinary word.
_NO_WORD_CUT: Final = re.compile(rb"[0-9]|[a-z][A-Z]|_|.{30}")


def joined(data: bytes, called: Called | None, *, widths: bool) -> Iterator[Pieces]:
    """Lines that were one before they were wrapped: full to a usual width, or followed by a lone rest; or continued.

    `widths`: whether to look for full lines. Where nothing shows that a line goes on, it ends: a mark across a line's
    end would take the next line along. Where a guess adds a line to those that are said to be one, or joins them in
    another way, they are seen without it too.
    """
    said: _Joins = {}
    folded: _Joins = {}  # as YAML reads what is said: without the next line's indent
    soft: _Joins = {}  # as in mail; base64 ends so as well
    padded: _Joins = {}  # base64, nearly always
    guessed: _Joins = {}
    lone_ones: _Joins = {}
    found = _JOINED.search(data) if called is None or KEY in called else None
    while found is not None and (match := _GROUPS.match(data, found.start())) is not None:
        lone = match.span(1)
        start, end = lone if lone[0] >= 0 else max(match.span(3), match.span(4))
        if data[start] == _FRAME:
            before = data[max(start - _PADDED, 0) : start]
            start -= len(before) - len(before.rstrip(b" "))
        if lone[0] < 0:
            joins = said if data[start] != _SOFT else padded if data[start - 1 : start] == b"=" else soft
            joins[data.find(b"\n", start)] = start, end
            if joins is said and data[end : end + 1] in {b" ", b"\t"} and (indent := _BLANKS.match(data, end)):
                folded[end - 1] = start, indent.end()
        elif _NO_WORD.search(data, *match.span(2)) is not None:
            lone_ones[data.find(b"\n", start)] = start, end
        found = _JOINED.search(data, end - 1)  # that line's end begins the next line
    full = _full_lines(data) if widths else {}
    if not (said or soft or padded or lone_ones or full):
        return
    # What goes on itself is no rest of the line before.
    guessed |= {at: reach for at, reach in lone_ones.items() if data.find(b"\n", reach[1]) not in full} | full
    views = _ways(data, said, soft, padded, guessed)
    if folded:
        views.append(said | folded)
    one = {at: (start, end + 1) for at, (start, end) in full.items() if data.startswith(b" ", end)}
    if one:  # as headers, calendars and directories fold
        views.append(full | one)
    made = [_without_others(data, joins) for joins in views if joins]
    yield from made
    # An option, or a token that goes on; or the blank that stood where the line was cut is one with the indent.
    if any(data.startswith(b"-", end) or data[end - 1] in b" \t" for _, end in full.values()):
        whole = made[0] if full == views[0] else _without_others(data, full)
        yield whole.with_blanks()
        if deeper := _deeper(data, full):
            yield whole.with_blanks(deeper)


_Joins = dict[int, tuple[int, int]]
"""By the place of a line's end, the range that falls out for the next line to follow at once."""


def _ways(data: bytes, said: _Joins, soft: _Joins, padded: _Joins, guessed: _Joins) -> list[_Joins]:
    """Which joins to see together: all, and those that are surer without the others beside them."""
    views = [said | soft | padded | guessed]
    if padded and _beside(data, padded, guessed):
        views.append(said | soft | guessed)
    guessed = guessed | padded
    if soft and _beside(data, soft, guessed):
        views += (said | soft, said | guessed)
    if said and _beside(data, said, soft | guessed):
        views.append(said)
    return views


def _deeper(data: bytes, joins: _Joins) -> set[int]:
    """Those, by number, whose indent is by one wider than that of the line before or behind: a blank is part of it."""
    found: set[int] = set()
    for number, ((at, (_, end)), (below, (_, stop))) in enumerate(pairwise(sorted(joins.items()))):
        if data.find(b"\n", end) == below and abs(wider := end - at - stop + below) == 1:
            found.add(number if wider > 0 else number + 1)
    return found


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
    if max(lengths) < _LEAST:
        return {}
    sizes = _SIZES if b"\r" in data else _WIDTHS
    full = list(_likely(lines, lengths, sizes, told=b'":' in data))
    joins: _Joins = {}
    ends = list(accumulate(lengths)) if full else []
    for first, size in full:
        number, hanging = first, True
        while hanging and number + 1 < len(lines):
            at, line, after = ends[number] + number, lines[number], lines[number + 1]
            if not _is_full(line, size, after):
                break
            blanks = _hanging(line, after, size)
            length = len(after) - blanks
            fits = length <= size + 1 and length <= size + after.endswith(b'"')
            if fits and _goes_on(line, after, blanks, already=number > first):
                joins[at] = at - line.endswith(b"\r"), at + 1 + blanks
            # Below its beginning it goes on at the same width; a blank there is one with the indent.
            hanging = blanks > 0 and size - length in {0, 1}
            number += 1
    return joins


def _hanging(line: bytes, after: bytes, size: int) -> int:
    """How far `after` is indented as one that goes on, or quoted as `line`; a lone blank is a diff's, or a header's."""
    indent = _HANGING.match(after) if after and after[0] in _HANGS else None
    if indent is None or not (indent[1].isspace() or line.startswith(indent[1], len(line) - size)):
        return 0  # `| sudo` is no quote where the line before has none
    return indent.end(1)


def _likely(lines: list[bytes], lengths: list[int], sizes: frozenset[int], *, told: bool) -> Iterator[tuple[int, int]]:
    """Lines of one of `sizes` before such as may go on with them, and the width of the text in each, by number.

    `told`: in JSON, where a text has something before it.
    """
    quoted_sizes = _QUOTED_SIZES if sizes is _SIZES else _SIZES
    likely: Iterable[int] = compress(count(), map(quoted_sizes.__contains__, lengths))
    if told:
        likely = [
            number
            for number, length in enumerate(lengths)
            if length >= _LEAST and (length in quoted_sizes or b'":' in lines[number])
        ]
    for number in likely:
        after = lines[number + 1] if number + 1 < len(lines) else b""
        if not after:
            continue
        line, size = lines[number], lengths[number]
        # Not before another of its kind, as in a log, where nearly all are, or a longer one.
        beside = after[0] > _SPACE
        if beside and (lengths[number + 1] > size + 1 or line[:_ALIKE] == after[:_ALIKE]):
            continue
        whole = size in sizes and (beside or _may_go_on(line, after, size))
        quoted = size - 1 in sizes and line.startswith(b'"') and (not number or lines[number - 1] == b"\0")
        behind = _behind(line) if told and b'":' in line else 0
        if (whole or quoted or behind in sizes) and (beside or not _is_call(line, after)):
            if whole:
                yield number, size
            if quoted:
                yield number, size - 1
            if behind in sizes:
                yield number, behind


def _is_call(line: bytes, after: bytes) -> bool:
    """Whether both are indented and begin with the same word, as in a stack."""
    word = _FIRST_WORD.match(line)
    return word is not None and after.startswith(word[0])


def _may_go_on(line: bytes, after: bytes, size: int) -> bool:
    """False where `after` is indented without a quote and `_goes_on` does not hold: most lines of code."""
    if after[0] not in _BLANK:  # a control character
        return True
    body = after.lstrip(b" \t")
    indent = len(after) - len(body)
    if not body or body[0] in _HANGS or len(body) == size or (indent == 1 and after[0] != _TAB):
        return True
    deeper = indent - size + len(line.lstrip())
    return deeper > 0 or (deeper == 0 and _NO_WORD_CUT.search(line.rpartition(b" ")[2]) is not None)


def _goes_on(line: bytes, after: bytes, blanks: int, *, already: bool) -> bool:
    """Whether `line`, which is full, goes on in the next one, behind `blanks`; `already`: so did the one before."""
    if not blanks:
        return after[:1] > b" " or after[1:2] > b" "
    quoted = not after[:blanks].isspace()
    deeper = 0 if quoted else blanks - (len(line) - len(line.lstrip()))
    if already:  # the indent of the line before may have had a blank in it
        return deeper >= -1
    return deeper > 0 or (deeper == 0 and _NO_WORD_CUT.search(line.rpartition(b" ")[2]) is not None)


def _behind(line: bytes) -> int:
    """The length of a text that begins in this line, behind a key."""
    found = _BEHIND_KEY.search(line, max(len(line) - _MOST - 4, 0))
    while found is not None:
        left = len(line) - found.end() - 1
        if left <= _MOST:
            return left
        found = _BEHIND_KEY.search(line, found.start() + 1)
    return 0


def _is_full(line: bytes, size: int, after: bytes) -> bool:
    """Whether `line`, whose text has `size` signs, ends at a usual width; `after` it comes the next one."""
    width = size - line.endswith(b"\r")
    soft = width == _MAIL and line.endswith((b"=", b"=\r")) and after[:1] > b" "  # no such break indents
    return width in _WIDTHS and not soft


def _without_others(data: bytes, joins: _Joins) -> Pieces:
    """The joined lines, with an empty piece for each join, and the lines that they do not touch left out."""
    pieces: list[bytes] = []
    origins: list[tuple[int, int]] = []
    between: list[int] = []
    done = at = 0
    for start, end in sorted(joins.values()):
        if start > at:
            line = above = line_above(data, at, data.rfind(b"\n", at, start) + 1)
            for _ in range(_MEMBERS):
                if above <= at or _MEMBER.match(data, above) is None:
                    break
                line = above = line_above(data, at, above)
            if line > at:
                if at > done:
                    pieces.append(data[done:at])
                    origins.append((done, at))
                pieces.append(left_out(at, line))
                origins.append((at, line))
                done = line
        if start > done:
            pieces.append(data[done:start])
            origins.append((done, start))
        between.append(len(pieces))
        pieces.append(b"")
        origins.append((start, end))
        done = end
        at = data.find(b"\n", end)
        at = len(data) if at < 0 else at
    if at > done:
        pieces.append(data[done:at])
        origins.append((done, at))
    if at < len(data):
        pieces.append(b"\n")
        origins.append((at, len(data)))
    return Pieces(pieces, origins, between)


_NAMES: Final = (b":", b"assword>")


def line_above(data: bytes, at: int, start: int) -> int:
    """Where the line above the one at `start` begins, if it begins behind `at` and may name it or set another value."""
    if start <= at:
        return start
    above = data.rfind(b"\n", at, start - 1) + 1 or at
    if start - above > _NAME_LINE:
        return start
    if any(data.find(sign, above, start) >= 0 for sign in _NAMES):
        return above
    return above if data.find(b"=", above, start) >= 0 > data.find(b"<", above, start) else start


def left_out(start: int, end: int) -> bytes:
    """What stands for lines that are left out: an empty one, so that none seems to go on in one that is far away."""
    return b"\n" if end - start == 1 else b"\n\n"


# A line may be as wide as a wrap by chance. A value ends with it where the line alone shows one and that is complete by
# its shape, or where what stands below it begins as lines do and not as the rest of a value.
_WRAP: Final = re.compile(rb"=?\r*\n[ \t>#*|;%/-]*")  # not what a sign at the line's end continues
_QUOTES: Final = frozenset(b"\"'`")
_PADDED_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{18,}={1,2}$")
_UUID: Final = re.compile(rb"(?:^|[^0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")
_DIGITS: Final = re.compile(rb"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{128})")
_NAME: Final = rb"(?:[a-z]{3,}|[A-Z][a-z]+|[A-Z]{2,})(?:[a-z]*[A-Z][a-z]+)*\d{0,2}(?:[_.-][A-Za-z]{2,}\d{0,2})*"
# A prompt, a time, an entry, a remark, a heading, a setting, a file: what lines begin with, and no rest of a value.
_BEGINS: Final = re.compile(
    rb"[$#%>*|+;-][ \t]|>>> |\.\.\. |PS [A-Z]:\\|[A-Z]:\\[^\n>]*>|\(\w+\) [\w$]|[\w.-]+@[\w.-]+[: ~]+[^\n]{0,80}?[$#%]"
    rb"|\[?\d{4}[-/]\d\d[-/]\d\d(?:[T \]]|$)|\[?\d\d:\d\d(?::\d\d)?[ .,\]]|[A-Z][a-z]{2} [ \d]\d \d\d:|\d{1,3}[.)] "
    rb"|\d{1,3}(?:\.\d{1,3}){3}(?:[\s:/]|$)"
    rb"|(?://|--|/\*)[ \t]|[-=*#_~.]{3,}|\[[a-z][\w. -]*\](?:\r?\n|$)|</?[A-Za-z!]|[a-z]{2,6}://"
    rb"|[dl-][r-][w-][xsS-]\S{6}"
    rb"|(?:export |set )?[A-Z][A-Z0-9_]+=[^=\s]|[\"']?<name>[\"']?[ \t]*(?::[ \t\r\n]|:$|=[ \t]*[^=\s])"
    rb"|(?:\.{0,2}/[a-z]{2,}[\w.-]*){2}".replace(b"<name>", _NAME)
)
_SIGNS: Final = re.compile(rb"[^A-Za-z0-9\s\x80-\xff]{1,3}(?=\s|$)")
_WORD: Final = re.compile(rb"(?:[A-Z]?[a-z]{1,9}|[A-Z]{1,10}|\d{1,4})[,.:!?]?(?=\s|$)")
_HASH: Final = re.compile(rb"[0-9a-f]{7,12}(?= \S)")
_HEXADECIMAL: Final = re.compile(rb"[0-9A-Fa-f-]{8}$")
_JOINING: Final = frozenset(b"-_./")
_AROUND: Final = 4000  # bytes of other lines
_BEFORE: Final = 400  # bytes that tell what a value is


class Read(Protocol):
    """Some bytes read in another way, made of pieces, of which each stands for a range of the original."""

    @property
    def data(self) -> bytes:
        """What is read."""

    @property
    def starts(self) -> list[int]:
        """Where each piece begins."""

    @property
    def origins(self) -> list[tuple[int, int]]:
        """Of each piece, the range of the original."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The range of the original behind a range of `data`."""


class Ended(NamedTuple):
    """The range of a value that ends with its line; `known`: it is found in that line alone."""

    start: int
    end: int
    known: bool


def ended(
    layer: Read, data: bytes, span: tuple[int, int], beside: Iterable[Find], found_in: Callable[[bytes], Iterable[Find]]
) -> Ended | None:
    """Where in `data` the value ends that was found at `span` of `layer`, lines of `data` put together.

    None where it goes over no line's end, or may go on. `beside`: what was found in `data`; without a find there that
    ends with the line, only the next one's beginning tells. `found_in`: what is found in a text.
    """
    join = _first_join(layer, span)
    if join is None or _WRAP.fullmatch(data, *join) is None:
        return None
    start, behind = join
    left, right = layer.original(*span)
    end = data.find(b"\n", start)
    end -= data[end - 1 : end] == b"\r"
    stop = data.find(b"\n", behind)
    line = data[behind : stop if stop >= 0 else len(data)]
    rest = line[: right - behind]
    value = data[left:end]
    here = [find for find in beside if find.start <= left and start <= find.end <= end]
    complete, soft = _is_complete(value, rest), data[start] == _SOFT  # part of the value, or mail's
    is_ended = _begins(data, left, value, line, rest, known=bool(here) and (complete or not soft))
    if here and not soft:
        shapes = {find.rule for find in here if find.rank < RANK_NAMED}
        is_ended = is_ended or complete or _is_of_one_length(data, left, end, shapes, found_in)
    return Ended(left, end, bool(here)) if is_ended else None


def _first_join(layer: Read, span: tuple[int, int]) -> tuple[int, int] | None:
    """The range of the original that fell out for two lines to become one."""
    first = bisect_right(layer.starts, span[0])
    for at in range(first, bisect_right(layer.starts, span[1] - 1) - 1):
        start, end = layer.origins[at]
        size = layer.starts[at + 1] - layer.starts[at]
        if size < end - start and (not size or layer.data.startswith(b" ", layer.starts[at])):
            return start, end
    return None


def _begins(data: bytes, left: int, value: bytes, line: bytes, rest: bytes, *, known: bool) -> bool:
    """Whether `line` begins something else than the `rest` of `value`, which begins at `left`."""
    if data[left - 1 : left] and data[left - 1] in _QUOTES and data[left - 1 : left] in line:
        return False  # the quote goes on
    if not line or _BEGINS.match(line) is not None or (line[0] >= 0x80 and value.isascii()):
        return True
    if not known:
        return False
    if any((found := form.match(line)) is not None and found.end() >= len(rest) for form in (_SIGNS, _HASH)):
        return line[0] not in b"0123456789abcdef" or _HEXADECIMAL.search(value) is None
    word = _WORD.match(line)
    if word is None or word.end() < len(rest):
        return False
    return not (value[-1] in _JOINING or b" " in value or _is_cut(data, left))


def _is_cut(data: bytes, at: int) -> bool:
    """Whether other lines around are cut where the one at `at` ends, and none is longer."""
    begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
    sizes = [len(line) for line in data[max(begin - _AROUND, 0) : end + _AROUND].split(b"\n")]
    return max(sizes[1:-1], default=0) <= end - begin and sizes.count(end - begin) > 1


def _is_complete(value: bytes, rest: bytes) -> bool:
    """Whether nothing can follow: base64 with its padding, a UUID, digits of a usual length before another sign."""
    padded = _PADDED_BASE64.search(value)
    if padded is not None:
        return len(padded[0]) % 4 == 0 and not rest.startswith(b"=")
    hexadecimal = re.match(rb"[0-9A-Fa-f]", rest) is not None
    return not hexadecimal and (_UUID.search(value) is not None or _DIGITS.fullmatch(value) is not None)


def _is_of_one_length(
    data: bytes, left: int, end: int, shapes: set[str], found_in: Callable[[bytes], Iterable[Find]]
) -> bool:
    """Whether one of `shapes` finds the value, and no more with more of the same behind it."""
    before, value = data[max(left - _BEFORE, 0) : left], data[left:end]

    def ends(more: bytes) -> Iterator[tuple[str, int]]:
        return ((find.rule, find.end) for find in found_in(before + value + more))

    here = len(before) + len(value)
    fixed = {rule for rule, at in ends(b"") if rule in shapes and at == here} if shapes else shapes
    return bool(fixed) and any(
        all(at <= here for more in (value[-1:], value[-8:]) for other, at in ends(more) if other == rule)
        for rule in fixed
    )
