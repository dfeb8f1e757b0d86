"""A frozen mapping that is cheap to change in one place: what a fold over thousands of subtasks keeps by id. Pure.

A plain dict would be copied whole for every fact; here one of many small parts is. Iteration follows no order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

__all__ = ["Sharded"]

V = TypeVar("V")
_PARTS: Final = 64


@dataclass(frozen=True, slots=True)
class Sharded(Generic[V]):
    """Share freely: `having` never changes the one it is called on."""

    parts: tuple[dict[str, V], ...] = ({},) * _PARTS

    def having(self, key: str, value: V) -> Sharded[V]:
        """The same entries, and `value` under `key`."""
        at = hash(key) % _PARTS
        parts = self.parts
        return Sharded((*parts[:at], {**parts[at], key: value}, *parts[at + 1 :]))

    def get(self, key: str) -> V | None:
        """The value under `key`; None where there is none."""
        return self.parts[hash(key) % _PARTS].get(key)

    def items(self) -> Iterator[tuple[str, V]]:
        """Keys with their values."""
        for part in self.parts:
            yield from part.items()

    def values(self) -> Iterator[V]:
        """The values."""
        for part in self.parts:
            yield from part.values()
