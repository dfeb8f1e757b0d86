"""Chooses the isolation of a task (worktrees or the user's folder) and opens places for subtasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from runner.isolation.isolation_port import Conflict, Isolation, Merged
from runner.isolation.worktrees import GitWorktrees, why_not_parallel
from runner.perform import Begun, Effects, Place
from tracer.errors import ConflictError, UsageError


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


class _WorkingIn(Protocol):
    """Builds the effects of one working folder."""

    def __call__(self, workspace: str) -> Effects: ...


async def choose_isolation(
    workspace: Path, *, state_dir: Path, task_id: str, recorded: str, link: tuple[str, ...] = ()
) -> Isolation:
    """The isolation that the record names; a task that has none yet gets worktrees where they are possible."""
    why = ""
    if recorded != "worktrees":
        why = "the task began that way" if recorded else await asyncio.to_thread(why_not_parallel, workspace)
    if recorded == "direct" or why:
        return DirectIsolation(workspace, why=why)
    return GitWorktrees(workspace, state_dir=state_dir, task_id=task_id, link_ignored=link)


class IsolatedPlaces:
    """The port `Apart` over an isolation. `choose` is called once, when the first subtask needs a place."""

    def __init__(
        self,
        choose: Callable[[], Awaitable[Isolation]],
        *,
        working_in: _WorkingIn,
        task_id: str,
        parallel: bool,
    ) -> None:
        self.parallel = parallel
        self._choose = choose
        self._working_in = working_in
        self._task_id = task_id
        self._isolation: Isolation | None = None
        self._choosing = asyncio.Lock()
        self._whole: Place | None = None

    async def begin(self, *, branch: str) -> Begun:
        """Record the person's work as everyone's start.

        Raises:
            UsageError: no branch can be made here, or not that one.

        """
        isolation = await self._chosen()
        if branch:
            await self._check_branch(isolation, branch)
        await isolation.begin()
        self.parallel = isolation.parallel
        return Begun("worktrees" if isolation.parallel else "direct", isolation.why)

    async def open(self, subtask_id: str, *, fresh: bool) -> Place:
        """The subtask's folder."""
        isolation = await self._chosen()
        folder = await (isolation.reopen(subtask_id) if fresh else isolation.open(subtask_id))
        return Place(self._working_in(str(folder)), str(folder))

    async def merge(self, subtask_id: str) -> Merged | Conflict:
        """Merge what lies in the subtask's folder."""
        self._whole = None
        return await (await self._chosen()).merge(subtask_id)

    async def merged(self) -> tuple[str, ...] | None:
        """What is merged; None where subtasks work in the person's folder."""
        isolation = await self._chosen()
        return await isolation.merged() if isolation.parallel else None

    async def whole(self) -> Place:
        """A folder with the merged result; the same one until something more is merged."""
        if self._whole is None:
            folder = await (await self._chosen()).check_out()
            self._whole = Place(self._working_in(str(folder)), str(folder))
        return self._whole

    async def hand_over(self, *, branch: str) -> None:
        """Give the merged result to the person.

        Raises:
            ConflictError: they changed the same lines meanwhile; nothing was touched.

        """
        result = await (await self._chosen()).apply(branch=branch or None)
        if isinstance(result, Conflict):
            paths = ", ".join(place.path for place in result.places[:10])
            raise ConflictError(
                f"the result of {self._task_id} is ready, but your files changed meanwhile: {paths}",
                why="both changed the same lines; nothing of yours was touched",
                next_step=f"move your change aside, then `pm resume {self._task_id}`, or resume it with --into BRANCH",
            )

    async def close(self, *, keep_results: bool) -> None:
        """Remove the folders and branches."""
        self._whole = None
        await (await self._chosen()).close(keep_results=keep_results)

    async def _chosen(self) -> Isolation:
        async with self._choosing:
            if self._isolation is None:
                self._isolation = await self._choose()
            return self._isolation

    @staticmethod
    async def _check_branch(isolation: Isolation, branch: str) -> None:
        if isinstance(isolation, DirectIsolation):
            raise UsageError(f"no branch {branch!r} can be made", why=isolation.why, next_step="leave --into out")
        if isinstance(isolation, GitWorktrees):
            await isolation.check_branch(branch)
