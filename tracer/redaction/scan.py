"""Finds the secrets in bytes: every rule over the plain bytes and over each view of them.

Each rule sees the text as it is and as its readers see it (`tracer.redaction.views`). What
`Scanner.marks` leaves holds nothing it would mark on a second run.
"""

from __future__ import annotations

import string
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from tracer.redaction.gate import Called, Gate
from tracer.redaction.marks import MARKER, PLACEHOLDER
from tracer.redaction.rule_set import RANK_GENERIC, RANK_OWN, Find, is_told, literals
from tracer.redaction.views import READINGS, Layer, View, collapsed, layers_of
from tracer.redaction.wraps import ended

_MAX_LOOKS = 12
_LEVELS = 3
_NEAR = 16_384  # on either side of a mark that is seen together with it
_LEFT_OUT = b"\n\0\n"
_MOST_TOLD, _AT_ONCE = 1024, 256  # few enough that each text is searched a few times only
_ADDRESS = "email"
_SURE = range(RANK_OWN, RANK_GENERIC)  # what these find is told by a name or a shape
_WORD = frozenset(string.ascii_letters.encode() + string.digits.encode() + b"_")


class _Finder(Protocol):
    def finds(self, data: bytes, called: Called | None) -> Iterator[Find]: ...


class Mark(NamedTuple):
    """A range to replace: by `replacement` where given (a path), else by the placeholder of `rule` for `secret`."""

    start: int
    end: int
    rule: str
    secret: bytes
    replacement: bytes | None


class Told:
    """Values that were found by what stands beside them, drawn ones, which are secret wherever they stand again."""

    def __init__(self) -> None:
        self._found: dict[bytes, Find] = {}

    def add(self, finds: Iterable[Find]) -> bool:
        """Keep those of `finds` that no ordinary text holds; whether one is new. The newest are kept."""
        before = len(self._found)
        found = self._found
        for find in finds:
            if find.rank in _SURE:
                # A user's name may stand before it.
                for value in dict.fromkeys((find.secret, find.secret.rpartition(b":")[2])):
                    if value not in found and is_told(value):
                        found[value] = find._replace(secret=value)
        new = len(found) > before
        while len(found) > _MOST_TOLD:
            del found[next(iter(found))]
        return new

    def finds(self, data: bytes) -> Iterator[Find]:
        """Every place of theirs in `data`."""
        values = tuple(self._found)
        for at in range(0, len(values), _AT_ONCE):
            for match in _any_of(values[at : at + _AT_ONCE]).finditer(data):
                start, end = match.span()
                if not (_goes_on(data, start - 1, start) or _goes_on(data, end - 1, end)):
                    yield self._found[match.group()]._replace(start=start, end=end)


@lru_cache(maxsize=16)
def _any_of(values: tuple[bytes, ...]) -> Any:
    return literals(sorted(values, key=lambda value: (-len(value), value)))


def _goes_on(data: bytes, left: int, right: int) -> bool:
    """Whether a word reaches over the place between two bytes."""
    return left >= 0 and right < len(data) and data[left] in _WORD and data[right] in _WORD


class Scanner:
    """Runs finders over bytes and settles what they found into marks that neither touch placeholders nor overlap.

    Two gates say what a text calls for: `patterns` knows the expressions of rules, finders and `runs.RUNS`, the same
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

    def marks(self, data: bytes, told: Told | None = None) -> list[Mark]:
        """What to replace in `data`, left to right, without overlaps; `told`: values of the text before it, kept up."""
        told = Told() if told is None else told
        standing = [m.span() for m in PLACEHOLDER.finditer(data)] if MARKER in data else []
        found = self._look(collapsed(data, ((s, e, b"\0") for s, e in standing)) if standing else _same(data))
        told.add(found)
        found += told.finds(data)
        if not found:
            return []
        marks = fresh = _settled(found, standing)
        for _ in range(_MAX_LOOKS):
            more = self._look(collapsed(data, _seen_next(data, marks, standing, fresh)))
            if not more:
                break
            if told.add(more):
                more += told.finds(data)
            found += more
            before, marks = set(marks), _settled(found, standing)
            fresh = [mark for mark in marks if mark not in before]
        return marks

    def suspects(self, data: bytes) -> list[tuple[int, int]]:
        """Ranges of `data` in which `marks` would mark something; a text that none of them touches holds nothing."""
        return [(find.start, find.end) for find in self._look(_same(data))]

    def _look(self, view: View) -> list[Find]:
        """Every find in the view and in what stands behind it, in positions of the original.

        No view is longer than what it was made from, and each has few of its own: the work is linear.
        """
        finds: list[Find] = []
        level: list[tuple[_Seen, ...]] = [(_Seen(view, []),)]
        for depth in range(_LEVELS + 1):
            below: list[tuple[_Seen, ...]] = []
            for layers in level:
                layer, here = layers[-1]
                called = self._called(layer.data)
                here += self._plain(layer.data, called)
                finds += filter(None, (self._moved(find, layers) for find in here))
                if depth < _LEVELS:
                    below += ((*layers, _Seen(decoded, [])) for decoded in layers_of(layer, called, first=depth == 0))
            level = below
        return finds

    def _moved(self, find: Find, layers: tuple[_Seen, ...]) -> Find | None:
        """`find` in positions of the original; None for one over a line's end that is found before it as well."""
        span, secret = (find.start, find.end), find.secret
        for at in range(len(layers) - 1, -1, -1):
            layer = layers[at].layer
            if at and isinstance(layer, View):
                above, beside = layers[at - 1]
                if (value := ended(layer, above.data, span, beside, self._found_in)) is not None:
                    if value.known:
                        return None
                    span = value.start, value.end
                    secret = above.data[slice(*span)]
                    continue
            span = layer.original(*span)
        return find._replace(start=span[0], end=span[1], secret=secret)

    def _found_in(self, data: bytes) -> Iterator[Find]:
        return self._plain(data, self._called(data))

    def _called(self, data: bytes) -> Called | None:
        called = self._patterns.called(data)
        if called is None:
            return None
        words = self._words.called(data)
        return called | (self._words.keys if words is None else words)

    def _plain(self, data: bytes, called: Called | None) -> Iterator[Find]:
        if called is None or not called <= READINGS:
            for finder in self._finders:
                yield from finder.finds(data, called)


class _Seen(NamedTuple):
    """A way to read a text, and what was found in it."""

    layer: Layer
    finds: list[Find]


def _same(data: bytes) -> View:
    return View(data, [0], [(0, len(data))])


def _seen_next(
    data: bytes, marks: Iterable[Mark], standing: Iterable[tuple[int, int]], fresh: Iterable[Mark]
) -> Iterator[tuple[int, int, bytes]]:
    """What a second run changes around the `fresh` marks: elsewhere it sees what was seen before."""
    made = [(mark.start, mark.end, b"\0" if mark.replacement is None else mark.replacement) for mark in marks]
    changes = sorted([*made, *((start, end, b"\0") for start, end in standing)])
    at = place = 0
    for first, last in _windows(data, fresh):
        place = bisect_left(changes, first, lo=place, key=itemgetter(0))
        start = max(first, changes[place - 1][1]) if place else first
        if start > at:
            yield at, start, _LEFT_OUT
        at = max(at, last)
        while place < len(changes) and changes[place][0] < at:
            yield changes[place]
            at = max(at, changes[place][1])
            place += 1
    if at < len(data):
        yield at, len(data), _LEFT_OUT


def _windows(data: bytes, marks: Iterable[Mark]) -> Iterator[tuple[int, int]]:
    """Whole lines around each mark, without overlaps. No part of a line is looked at twice: it may be long."""
    first = last = -1
    start = seen = stop = 0
    for mark in marks:
        before, behind = max(mark.start - _NEAR, 0), mark.end + _NEAR
        start, seen = data.rfind(b"\n", seen, before) + 1 or start, before
        if stop <= behind:
            stop = data.find(b"\n", behind) + 1 or len(data)
        if first >= 0 and start > last:
            yield first, last
            first = -1
        first = start if first < 0 else first
        last = stop
    if first >= 0:
        yield first, last


def _settled(finds: Iterable[Find], standing: list[tuple[int, int]]) -> list[Mark]:
    """Finds that overlap become one mark over all of them, named by the find of the lowest rank (then the longest)."""
    marks: list[Mark] = []
    group: list[Find] = []
    reach = secret = -1
    for find in sorted(finds, key=lambda find: (find.start, find.end)):
        if find.rule == _ADDRESS and find.start < secret < find.end:
            continue  # of `password@host` the host stays
        if find.rank <= RANK_GENERIC:
            secret = max(secret, find.end)
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
