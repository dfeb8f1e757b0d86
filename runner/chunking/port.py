"""What running subtasks asks of the world, beside what one loop asks: places to work, and results that become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from runner.isolation import Conflict, Merged

if TYPE_CHECKING:
    from runner.perform import Effects

__all__ = ["Apart", "Begun", "Place"]


class Begun(NamedTuple):
    """How the subtasks are kept apart: `worktrees` or `direct`; `why` says why not side by side."""

    isolation: str
    why: str = ""


class Place(NamedTuple):
    """Where a subtask works, and the effects bound to it."""

    effects: Effects
    workspace: str


class Apart(Protocol):
    """The places of one task's subtasks. Every call may be repeated, also by another process after a kill.

    Every method may raise PmError; `parallel` False: one subtask after another.
    """

    parallel: bool

    async def begin(self, *, branch: str) -> Begun:
        """Record the person's work as everyone's start; `branch` is where the result is to go ("": their files)."""
        ...

    async def open(self, subtask_id: str, *, fresh: bool) -> Place:
        """The subtask's place: as it was left, or `fresh` on what is merged so far."""
        ...

    async def merge(self, subtask_id: str) -> Merged | Conflict:
        """Merge what the subtask did."""
        ...

    async def merged(self) -> tuple[str, ...] | None:
        """What is merged, in that order; None where only the record knows."""
        ...

    async def whole(self) -> Place:
        """A place with the merged result."""
        ...

    async def hand_over(self, *, branch: str) -> None:
        """Give the merged result to the person.

        Raises:
            ConflictError: they changed the same lines meanwhile; nothing was touched.

        """
        ...

    async def close(self, *, keep_results: bool) -> None:
        """Remove the places; `keep_results`: what is merged stays for a resume."""
        ...
