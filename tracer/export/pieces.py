"""A JSON document written piece by piece, and the last check of each piece before it leaves.

`Many` stands for a list that is never held, `Later` for a value known only after everything before it. `Audit` judges
and never changes: whatever still looks like a secret stops the export, named by its JSON pointer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from tracer.redaction.leaks import LeakError

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor


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


_TOLD: Final = 5
_AT_ONCE: Final = 1 << 20
_IN_VIEW: Final = 64 << 10


class Leak(NamedTuple):
    """So many `finds` of `rule` in the string at `pointer`."""

    pointer: str
    rule: str
    finds: int


LookedAt = Callable[[Any], list[tuple[str, Any]]]
"""What to look at in a value that a format writes whole: the parts of it as readers will see them, each with its
pointer within the value."""


def as_it_is(value: Any) -> list[tuple[str, Any]]:
    """Nothing in it hides anything."""
    return [("", value)]


class Audit:
    """One document, looked at while it is written.

    `passed` gives out what was found clean, in order, and nothing any more once there was a find; `close` raises then.
    A megabyte is looked at at once, in view of the 64 KB before it and not without what follows it: a secret in two
    neighbouring values is seen as it would be in the whole.
    """

    def __init__(
        self, redactor: ProjectRedactor, *, what: str, looked_at: LookedAt = as_it_is, redact: bool = False
    ) -> None:
        self._redactor = redactor
        self._what = what
        self._looked_at = looked_at
        self._redact = redact
        self._seen: list[_Weighed] = []
        self._held: list[_Weighed] = []
        self._weight = 0
        self._leaks: dict[tuple[str, str], int] = {}

    @property
    def waiting(self) -> int:
        """The bytes that were not looked at yet."""
        return self._weight

    def take(self, piece: Piece) -> bool:
        """Hold the next piece back; whether it is time for `passed`."""
        weighed = _Weighed(piece, len(written(piece)))
        self._held.append(weighed)
        self._weight += weighed.size
        return self._weight >= _AT_ONCE

    def passed(self, *, last: bool = False) -> list[Piece]:
        """What can be told to be clean by now; with `last` everything that was held back."""
        if self._redact:
            self._replace()
        self._look()
        kept = [] if last else _tail(self._held)
        free = self._held[: len(self._held) - len(kept)]
        self._seen = _tail([*self._seen, *free])
        self._held = kept
        self._weight = 0  # a look is due when there is as much again: a long value is not looked at for each short one
        return [] if self._leaks else [weighed.piece for weighed in free]

    def close(self) -> None:
        """Raise `LeakError` with the places if anything that looks like a secret was found."""
        if not self._leaks:
            return
        told = [f"{count} x {rule} at {place}" for (place, rule), count in list(self._leaks.items())[:_TOLD]]
        more = len(self._leaks) - len(told)
        raise LeakError(
            f"{self._what} still holds what looks like secrets: nothing was written",
            why="\n".join([*told, *([f"and at {more} more places"] if more > 0 else [])]),
            next_step="export with --redact to replace them in the copy, or leave the trace out",
        )

    def _look(self) -> None:
        parts = [part for leaf in _leaves([*self._seen, *self._held]) for part in self._parts(leaf)]
        if not self._redactor.touched_value([value for _, value in parts]):
            return
        for pointer, value in parts:
            for leak in find_leaks(self._redactor, value):
                self._leaks[pointer + leak.pointer.removesuffix("/"), leak.rule] = leak.finds
        if not self._leaks:  # it shows across strings only
            found = self._redactor.touched_value([value for _, value in parts])
            self._leaks |= {("/", rule): count for rule, count in found.items()}

    def _parts(self, leaf: Leaf) -> list[tuple[str, Any]]:
        """A leaf's name belongs to what is looked at: it may be what betrays the value."""
        parts = self._looked_at(leaf.value)
        if isinstance(leaf.value, str) and leaf.key:
            return [(leaf.pointer.removesuffix(f"/{_escaped(leaf.key)}"), {leaf.key: leaf.value})]
        return [(leaf.pointer + pointer, value) for pointer, value in parts]

    def _replace(self) -> None:
        """Put marks in the place of finds. Names that the format gives stand beside their values and stay."""
        before = [leaf.value for leaf in _leaves(self._seen)]
        leaves = list(_leaves(self._held))
        values = self._redactor.redact_value([*before, *({leaf.key: leaf.value} for leaf in leaves)]).value
        fresh = (next(iter(held.values())) for held in values[len(before) :])
        self._held = [
            _Weighed(piece._replace(value=next(fresh)), size) if isinstance(piece, Leaf) else _Weighed(piece, size)
            for piece, size in self._held
        ]


class _Weighed(NamedTuple):
    piece: Piece
    size: int


def _leaves(pieces: Iterable[_Weighed]) -> Iterator[Leaf]:
    return (weighed.piece for weighed in pieces if isinstance(weighed.piece, Leaf))


def _tail(pieces: list[_Weighed]) -> list[_Weighed]:
    """The last pieces, as many as make up what stays in view."""
    size = 0
    for at in range(len(pieces) - 1, -1, -1):
        size += pieces[at].size
        if size >= _IN_VIEW:
            return pieces[at:]
    return pieces[:]


def find_leaks(redactor: ProjectRedactor, value: Any) -> list[Leak]:
    """Where the finds are. A find that only shows across strings is told at the root."""
    leaks = [
        Leak(pointer, rule, count)
        for pointer, key, text in _strings(value, "", "")
        for rule, count in sorted(redactor.touched_value({key: text} if key else [text]).items())
    ]
    return leaks or [Leak("/", rule, count) for rule, count in sorted(redactor.touched_value(value).items())]


def _strings(value: Any, pointer: str, key: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield pointer or "/", key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _strings(inner, f"{pointer}/{_escaped(name)}", name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strings(inner, f"{pointer}/{index}", key)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
