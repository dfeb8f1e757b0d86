"""Chooses the isolation of a task (worktrees or the user's folder) and opens places for subtasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from runner.effects_port import Begun, Effects, Place
from runner.isolation.isolation_port import Conflict, Isolation, Merged
from runner.isolation.worktrees import GitWorktrees, why_not_parallel
from tracer.errors import UsageError


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


class SubtaskPlaces:
    """The places of a task's subtasks, or of the task itself: folders of its isolation, with the effects of each.

    `choose` is called once, when the first subtask needs a place.
    """

    def __init__(
        self,
        choose: Callable[[], Awaitable[Isolation]],
        *,
        working_in: _WorkingIn,
        parallel: bool,
    ) -> None:
        self.parallel = parallel
        self._choose = choose
        self._working_in = working_in
        self._isolation: Isolation | None = None
        self._choosing = asyncio.Lock()
        self._whole: Place | None = None

    async def begin(self, *, branch: str) -> Begun:
        isolation = await self._chosen()
        await isolation.begin(branch=branch)
        self.parallel = isolation.parallel
        return Begun("worktrees" if isolation.parallel else "direct", isolation.why)

    async def open(self, subtask_id: str, *, fresh: bool) -> Place:
        return self._place(await (await self._chosen()).open(subtask_id, fresh=fresh))

    async def merge(self, subtask_id: str) -> Merged | Conflict:
        self._whole = None
        return await (await self._chosen()).merge(subtask_id)

    async def merged(self) -> tuple[str, ...] | None:
        return await (await self._chosen()).merged()

    async def whole(self) -> Place:
        if self._whole is None:  # the same place until something more is merged
            self._whole = self._place(await (await self._chosen()).whole())
        return self._whole

    async def hand_over(self, *, branch: str) -> Merged | Conflict:
        return await (await self._chosen()).apply(branch=branch)

    async def close(self, *, keep_results: bool) -> None:
        self._whole = None
        await (await self._chosen()).close(keep_results=keep_results)

    def _place(self, folder: Path) -> Place:
        return Place(self._working_in(str(folder)), str(folder))

    async def _chosen(self) -> Isolation:
        async with self._choosing:
            if self._isolation is None:
                self._isolation = await self._choose()
            return self._isolation
