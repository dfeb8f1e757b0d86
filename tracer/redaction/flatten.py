"""A JSON value as one run of bytes that can be searched at once, and the value again with its strings replaced.

A string stands beside its key as it would in JSON text, so that rules which need a name (`"password": …`) see it.
Iterative: depth is bounded by memory, not by the interpreter's stack.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

__all__ = ["Flat", "mapped", "strings"]

_AFTER = b'"\n\0\n'
_LONGEST_KEY = 80
_HOLDERS = (str, dict, list, tuple)


def strings(value: Any) -> Iterator[tuple[str, str]]:
    """Each string of `value`, keys too, in the order of `mapped`, with the key it stands under (empty for keys)."""
    stack: list[tuple[Any, str]] = [(value, "")]
    while stack:
        item, key = stack.pop()
        if isinstance(item, str):
            yield item, key
        elif isinstance(item, dict):
            inner_ones: list[tuple[Any, str]] = []
            for name, inner in item.items():
                under = ""
                if isinstance(name, str):
                    yield name, ""
                    under = name
                # Numbers and null hold no string: most of a fact's values need not be stacked.
                if isinstance(inner, _HOLDERS):
                    inner_ones.append((inner, under))
            inner_ones.reverse()
            stack.extend(inner_ones)
        elif isinstance(item, list | tuple):
            stack.extend([(inner, key) for inner in reversed(item) if isinstance(inner, _HOLDERS)])


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with `change` applied to every string, in the order of `strings`; containers are new, order is kept.

    Two keys that become equal stay apart: the later one is given a number.
    """
    root: list[Any] = [None]
    stack: list[tuple[Any, Any, Any]] = [(value, root, 0)]
    while stack:
        item, holder, place = stack.pop()
        if isinstance(item, str):
            holder[place] = change(item)
        elif isinstance(item, dict):
            fresh: dict[Any, Any] = {}
            for name in item:
                fresh[_free(change(name) if isinstance(name, str) else name, fresh)] = None
            holder[place] = fresh
            stack.extend(
                (inner, fresh, name) for name, inner in zip(reversed(fresh), reversed(item.values()), strict=True)
            )
        elif isinstance(item, list | tuple):
            row: list[Any] = [None] * len(item)
            holder[place] = row
            stack.extend((inner, row, at) for at, inner in reversed(list(enumerate(item))))
        else:
            holder[place] = item
    return root[0]


def _free(name: Any, taken: dict[Any, Any]) -> Any:
    number, free = 2, name
    while free in taken:
        free = f"{name}~{number}"
        number += 1
    return free


@lru_cache(maxsize=512)
def _before(key: str) -> bytes:
    """What stands before a string under `key`; a fact's keys are few and the same."""
    return b'"%s": "' % key.encode("utf-8", "surrogatepass")


class Flat:
    """The strings of a value laid out in `data`; string i is `data[starts[i]:ends[i]]`."""

    def __init__(self, value: Any) -> None:
        parts: list[bytes] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        at = 0
        for text, key in strings(value):
            before = b'"' if not key else _before(key) if len(key) <= _LONGEST_KEY else _before(key[:_LONGEST_KEY])
            raw = text.encode("utf-8", "surrogatepass")
            parts += (before, raw, _AFTER)
            start = at + len(before)
            self.starts.append(start)
            self.ends.append(start + len(raw))
            at = start + len(raw) + len(_AFTER)
        self.data = b"".join(parts)

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The parts of a range that lie in strings: (which string, start, end within that string)."""
        which = max(bisect_right(self.starts, start) - 1, 0)
        while which < len(self.starts) and self.starts[which] < end:
            left, right = max(start, self.starts[which]), min(end, self.ends[which])
            if right > left:
                yield which, left - self.starts[which], right - self.starts[which]
            which += 1
