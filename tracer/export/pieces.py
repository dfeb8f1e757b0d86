"""A JSON document written piece by piece: its long lists as they come, the rest whole.

A document is plain JSON values in which `Many` stands for a list that is never held, and `Later` for a value that is
known only after everything before it. Written one after the other its pieces are the bytes that `orjson.dumps` gives
for the whole. Pure.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

__all__ = ["Later", "Leaf", "Many", "Piece", "pieces_of", "written"]


@dataclass(frozen=True)
class Many:
    """A list whose items come one by one, once."""

    items: AsyncIterator[Any]


@dataclass(frozen=True)
class Later:
    """A value that is asked for when it is written."""

    value: Callable[[], Any]


class Leaf(NamedTuple):
    """A value that is written whole; `pointer` is its place (a JSON pointer), `key` the name it stands under."""

    pointer: str
    key: str
    value: Any


Piece = bytes | Leaf
"""What stands between values, as it is, or a value."""


def written(piece: Piece) -> bytes:
    """The bytes of a piece."""
    return piece if isinstance(piece, bytes) else orjson.dumps(piece.value)


async def pieces_of(value: Any, pointer: str = "", key: str = "") -> AsyncGenerator[Piece]:
    """The pieces of a document, in order."""
    if isinstance(value, Later):
        value = value.value()
    if _whole(value):
        yield Leaf(pointer, key, value)
        return
    named = isinstance(value, dict)
    yield b"{" if named else b"["
    at = 0
    async for name, inner in _members(value):
        yield (b"," if at else b"") + (orjson.dumps(name) + b":" if named else b"")
        async for piece in pieces_of(inner, f"{pointer}/{name if named else at}", name if named else key):
            yield piece
        at += 1
    yield b"}" if named else b"]"


async def _members(value: Any) -> AsyncIterator[tuple[str, Any]]:
    """What is in a container, with the names that an object gives."""
    if isinstance(value, Many):
        async for item in value.items:
            yield "", item
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name, inner
    else:
        for inner in value:
            yield "", inner


def _whole(value: Any) -> bool:
    """Whether nothing in it comes piece by piece."""
    if isinstance(value, dict):
        return all(_whole(inner) for inner in value.values())
    if isinstance(value, list):
        return all(_whole(inner) for inner in value)
    return not isinstance(value, Many | Later)
