"""Near-duplicates among traces: pairs whose text shares most of its runs of words.

Each text is kept as the 256 smallest hashes of its five-word runs; two such sketches estimate how much of the runs the
texts share (Jaccard). Only pairs that have a rare hash in common are compared, so a set of thousands stays quick. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import chain, combinations
from math import ceil
from typing import Final, NamedTuple

Sketch = tuple[int, ...]
"""The smallest hashes of a text's runs, ascending."""

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_RUN: Final = 5
_KEPT: Final = 256
_COMMON: Final = 200
_ROUNDING: Final = 1e-9  # 0.8 * 5 is a little more than 4
_REMEMBERED: Final = 1 << 17


class NearDuplicate(NamedTuple):
    """Two traces, and the share of runs of words (0 to 1) that they have in common."""

    one: str
    other: str
    similarity: float


class _Numbers(dict[str, int]):
    """A number for each word, the same in every process; below 61 bits, so that Python hashes it to itself."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _REMEMBERED:
            self.clear()
        number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=7).digest())
        self[word] = number
        return number


_NUMBERS: Final = _Numbers()


class Sketching:
    """The sketch of a text that comes in paragraphs; memory does not grow with it."""

    def __init__(self) -> None:
        self._before: list[int] = []
        self._smallest: set[int] = set()

    def take(self, paragraph: str) -> None:
        """Count the runs of the next paragraph, those too that began in the one before."""
        words = [*self._before, *map(_NUMBERS.__getitem__, _WORD.findall(paragraph.lower()))]
        # A tuple of numbers has the same hash everywhere (only texts are salted), and no loop of ours makes it.
        hashes = map(hash, zip(*(words[at:] for at in range(_RUN)), strict=False))
        self._smallest = set(sorted(self._smallest.union(hashes))[:_KEPT])
        self._before = words[-(_RUN - 1) :]

    def sketch(self) -> Sketch:
        """Of all that was taken."""
        return tuple(sorted(self._smallest))


def near_duplicates(sketches: Mapping[str, Sketch], *, at_least: float = 0.8) -> list[NearDuplicate]:
    """Pairs that share `at_least` that much, the most alike first.

    Texts with equal sketches are told as pairs with the first of them. A hash that more than 200 different texts have
    (a licence header) brings no pair together by itself.
    """
    first: dict[Sketch, str] = {}
    found = [
        NearDuplicate(first[sketch], name, 1.0)
        for name, sketch in sorted(sketches.items())
        if sketch and first.setdefault(sketch, name) != name
    ]
    frequency = Counter(chain.from_iterable(first))
    # Whoever is alike shares all but so many hashes: the rarest that two share is among the rarest so many of each.
    holders: dict[int, list[str]] = defaultdict(list)
    for sketch, name in first.items():
        rarest = sorted(sketch, key=frequency.__getitem__)
        for each in rarest[: len(sketch) - _fewest(at_least, sketch) + 1]:
            holders[each].append(name)
    pairs = {pair for each, names in holders.items() if frequency[each] <= _COMMON for pair in combinations(names, 2)}
    found += [
        NearDuplicate(one, other, round(similarity, 3))
        for one, other in pairs
        if (similarity := _similarity(sketches[one], sketches[other], at_least)) >= at_least
    ]
    return sorted(found, key=lambda pair: (-pair.similarity, pair.one, pair.other))


def _fewest(at_least: float, sketch: Sketch) -> int:
    """How many hashes it has in common with one that is alike."""
    return ceil(at_least * len(sketch) - _ROUNDING)


def _similarity(one: Sketch, other: Sketch, at_least: float) -> float:
    """The share of what both have among the smallest of either; 0 where it is `at_least` so much for certain not."""
    both = set(one).intersection(other)
    if len(both) < _fewest(at_least, max(one, other, key=len)):
        return 0.0
    smallest = sorted({*one, *other})[:_KEPT]
    return sum(each in both for each in smallest) / len(smallest)
