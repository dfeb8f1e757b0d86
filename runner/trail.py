"""A frozen sequence that grows at its end in constant time: what a fold collects over a million facts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

__all__ = ["EMPTY_TRAIL", "Trail"]

T = TypeVar("T")


class Trail(NamedTuple, Generic[T]):
    """A linked list from the newest item back; share freely, `then` never changes the one it is called on."""

    length: int = 0
    newest: T | None = None
    earlier: Trail[T] | None = None

    def then(self, item: T) -> Trail[T]:
        """The same items and `item` after them."""
        return Trail(self.length + 1, item, self)

    def items(self) -> tuple[T, ...]:
        """All items, oldest first."""
        return tuple(self._backwards())[::-1]

    def _backwards(self) -> Iterator[T]:
        trail: Trail[T] | None = self
        while trail is not None and trail.length and trail.newest is not None:
            yield trail.newest
            trail = trail.earlier


EMPTY_TRAIL: Trail[str] = Trail()
