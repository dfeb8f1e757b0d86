"""The isolation port: where each subtask of one task works, and how their results become one.

Subtasks start from the user's work as it lay on disk, merge in the order asked for, and touch the user's tree only
in `apply`. Every call may be repeated, also by another process after a kill: a repeated call finds what the first one
left and ends in the same state.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tracer.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictPlace:
    """One path on which two results do not agree; `hunks` show both versions between conflict marks, bounded."""

    path: str
    hunks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A result went in. `result` names the merged tree; `paths` are what it changed."""

    result: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A result did not go in, and nothing was changed by the attempt."""

    places: tuple[ConflictPlace, ...]

    def reason(self, by: str = "Other subtasks") -> str:
        """What the agent that is sent back is told."""
        parts = [f"{by} changed the same lines meanwhile. Do the work again on the present files."]
        parts += [f"{place.path}:\n{place.hunks}" if place.hunks else place.path for place in self.places]
        return "\n\n".join(parts)


class Isolation(Protocol):
    """Working folders for the subtasks of one task. `parallel` False: one after another, `why` says why."""

    parallel: bool
    why: str

    async def begin(self, *, branch: str = "") -> str:
        """Record the user's work as everyone's start; its id.

        Raises:
            UsageError: the result cannot become the new branch `branch`.

        """
        ...

    async def open(self, subtask_id: str, *, fresh: bool = False) -> Path:
        """The subtask's folder with the work in it; `fresh`, or not there yet: made on the results merged so far."""
        ...

    async def merge(self, subtask_id: str) -> Merged | Conflict:
        """Merge what lies in the subtask's folder into the common result. After success its folder is not needed."""
        ...

    async def merged(self) -> tuple[str, ...] | None:
        """The subtasks whose results went in, in that order; None where only the trace knows."""
        ...

    async def whole(self) -> Path:
        """A folder with the common result, to be judged as a whole; the same one until something more is merged."""
        ...

    async def apply(self, *, branch: str = "") -> Merged | Conflict:
        """Give the common result to the user: into their files, or as a new branch. All of it or nothing."""
        ...

    async def close(self, *, keep_results: bool = False) -> None:
        """Remove folders, branches and refs of the task, also those of a killed process.

        `keep_results`: what is merged can still be found by `begin` and `merged`, so that a resume goes on with it.
        """
        ...


class DirectIsolation:
    """The isolation port for one subtask at a time in `workspace`; the loop's own baselines are the record."""

    parallel = False

    def __init__(self, workspace: Path, *, why: str) -> None:
        self._workspace = workspace
        self.why = why

    async def begin(self, *, branch: str = "") -> str:
        if branch:
            raise UsageError(f"no branch {branch!r} can be made", why=self.why, next_step="leave --into out")
        return "direct"

    async def open(self, subtask_id: str, *, fresh: bool = False) -> Path:  # noqa: ARG002 - the port's shape
        return self._workspace

    async def merge(self, subtask_id: str) -> Merged | Conflict:  # noqa: ARG002 - the port's shape
        return Merged(result="direct")

    async def merged(self) -> tuple[str, ...] | None:
        return None

    async def whole(self) -> Path:
        return self._workspace

    async def apply(self, *, branch: str = "") -> Merged | Conflict:
        await self.begin(branch=branch)
        return Merged(result="direct")

    async def close(self, *, keep_results: bool = False) -> None:
        """Nothing to remove."""
