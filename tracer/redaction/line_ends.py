"""Whether a value that goes over a line's end, where lines were put together, ended with its line after all.

A line may be as wide as a wrap by chance. The value ends with it where the line alone shows one, and that is complete
by its shape, or what stands below it begins as lines do and not as the rest of a value.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from tracer.redaction.rule_set import RANK_NAMED, Find
from tracer.redaction.views import View

_WRAP: Final = re.compile(rb"=?\r*\n[ \t>#*|;%/-]*")  # not what a sign at the line's end continues
_SOFT: Final = ord("=")
_QUOTES: Final = frozenset(b"\"'`")
_PADDED: Final = re.compile(rb"[A-Za-z0-9+/_-]{18,}={1,2}$")
_UUID: Final = re.compile(rb"(?:^|[^0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")
_DIGITS: Final = re.compile(rb"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{128})")
_NAME: Final = rb"(?:[a-z]{3,}|[A-Z][a-z]+|[A-Z]{2,})(?:[a-z]*[A-Z][a-z]+)*\d{0,2}(?:[_.-][A-Za-z]{2,}\d{0,2})*"
# A prompt, a time, an entry, a remark, a heading, a setting, a file: what lines begin with, and no rest of a value.
_BEGINS: Final = re.compile(
    rb"[$#%>*|+;-][ \t]|>>> |\.\.\. |PS [A-Z]:\\|[A-Z]:\\[^\n>]*>|\(\w+\) [\w$]|[\w.-]+@[\w.-]+[: ~]+[^\n]{0,80}?[$#%]"
    rb"|\[?\d{4}[-/]\d\d[-/]\d\d(?:[T \]]|$)|\[?\d\d:\d\d(?::\d\d)?[ .,\]]|[A-Z][a-z]{2} [ \d]\d \d\d:|\d{1,3}[.)] "
    rb"|\d{1,3}(?:\.\d{1,3}){3}(?:[\s:/]|$)"
    rb"|(?://|--|/\*)[ \t]|[-=*#_~.]{3,}|\[[a-z][\w. -]*\](?:\r?\n|$)|</?[A-Za-z!]|[a-z]{2,6}://|[dl-][r-][w-][xsS-]\S{6}"
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


class Ended(NamedTuple):
    """The range of a value that ends with its line; `known`: it is found in that line alone."""

    start: int
    end: int
    known: bool


def ended(
    layer: View, data: bytes, span: tuple[int, int], beside: Iterable[Find], found_in: Callable[[bytes], Iterable[Find]]
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


def _first_join(layer: View, span: tuple[int, int]) -> tuple[int, int] | None:
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
    if _BEGINS.match(line) is not None or (line[0] >= 0x80 and value.isascii()):
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
    padded = _PADDED.search(value)
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
