"""No isolation: every subtask works in the person's own folder, so they must run one after another.

For folders without git, and repositories whose submodules a worktree would miss. What a subtask did is there at once
and stays, whatever becomes of the parent; `why` is what the person is told.
"""

from __future__ import annotations

from pathlib import Path

from runner.isolation import Conflict, Merged
from tracer.errors import UsageError

__all__ = ["DirectIsolation"]


class DirectIsolation:
    """The isolation port for one subtask at a time in `workspace`."""

    parallel = False

    def __init__(self, workspace: Path, *, why: str) -> None:
        self._workspace = workspace
        self._order: list[str] = []
        self.why = why

    async def begin(self) -> str:
        """Nothing to record: the loop's own baselines are the record."""
        return "direct"

    async def open(self, subtask_id: str) -> Path:  # noqa: ARG002 - the port's shape
        """The person's folder."""
        return self._workspace

    async def reopen(self, subtask_id: str) -> Path:  # noqa: ARG002 - the port's shape
        """The person's folder, as it is."""
        return self._workspace

    async def merge(self, subtask_id: str) -> Merged | Conflict:
        """The work is there already."""
        if subtask_id not in self._order:
            self._order.append(subtask_id)
        return Merged(result="direct")

    async def merged(self) -> tuple[str, ...]:
        """The subtasks this process saw end; the trace knows all of them."""
        return tuple(self._order)

    async def check_out(self) -> Path:
        """The person's folder."""
        return self._workspace

    async def apply(self, *, branch: str | None = None) -> Merged | Conflict:
        """The work is there already.

        Raises:
            UsageError: a branch was asked for.

        """
        if branch is not None:
            raise UsageError(f"no branch {branch!r} can be made", why=self.why, next_step="leave --into out")
        return Merged(result="direct")

    async def close(self, *, keep_results: bool = False) -> None:
        """Nothing to remove."""
