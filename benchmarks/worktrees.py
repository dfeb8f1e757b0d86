"""Subtasks in worktrees of their own against the bare git commands of the same work, in the same run.

Run: `python -m benchmarks.worktrees [subtasks]`. Each subtask writes one file and takes 0.5 s; ten run at once. Bare:
`git worktree add`, wait, commit, merge, `worktree remove`, `branch -D`. Limit: 1.3 times.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.harness import Figure, heading, show
from runner.isolation.worktrees import GitWorktrees

AT_ONCE = 10
WORK_S = 0.5
_FILES = 500


async def git(folder: Path, *arguments: str) -> None:
    """One bare git command."""
    named = ["-c", "user.name=b", "-c", "user.email=b"]
    process = await asyncio.create_subprocess_exec(
        "git", *named, *arguments, cwd=folder, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        raise RuntimeError(arguments)


async def make(folder: Path) -> None:
    """A repository of some hundred files."""
    for number in range(_FILES):
        path = folder / f"part{number // 50}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"answer = {number}\n" * 20)
    (folder / ".gitignore").write_text("/.pm-orchestrator/\n")
    await git(folder, "init", "-q")
    await git(folder, "add", "-A")
    await git(folder, "commit", "-qm", "start")


async def in_turn(names: list[str], work: Callable[[str], Awaitable[None]]) -> float:
    """Seconds for all, ten at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with gate:
            await work(name)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))
    return time.perf_counter() - started


async def bare(folder: Path, names: list[str]) -> float:
    """The same work by hand."""
    alone = asyncio.Lock()
    trees = folder / ".pm-orchestrator" / "bare"
    trees.mkdir(parents=True)

    async def work(name: str) -> None:
        tree = trees / name
        async with alone:
            await git(folder, "worktree", "add", "-q", "-b", f"bare/{name}", str(tree))
        await asyncio.sleep(WORK_S)
        (tree / f"{name}.txt").write_text(name)
        await git(tree, "add", "-A")
        await git(tree, "commit", "-qm", name)
        async with alone:
            await git(folder, "merge", "-q", "--no-edit", f"bare/{name}")
            await git(folder, "worktree", "remove", str(tree))
            await git(folder, "branch", "-D", f"bare/{name}")

    return await in_turn(names, work)


async def ours(folder: Path, names: list[str]) -> float:
    """The same work through the isolation, from its start to the person's files."""
    apart = GitWorktrees(folder, state_dir=folder / ".pm-orchestrator", task_id="task-001")

    async def work(name: str) -> None:
        tree = await apart.open(name)
        await asyncio.sleep(WORK_S)
        (tree / f"{name}.txt").write_text(name)
        await apart.merge(name)

    started = time.perf_counter()
    await apart.begin()
    await in_turn(names, work)
    await apart.apply()
    await apart.close()
    return time.perf_counter() - started


async def measure(subtasks: int) -> tuple[float, float]:
    """Seconds by hand and through the isolation, each in a repository of its own."""
    names = [f"sub-{number}" for number in range(subtasks)]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        await make(Path(one))
        await make(Path(two))
        return await bare(Path(one), names), await ours(Path(two), names)


def main(subtasks: int = 100) -> None:
    """Measure once: a hundred subtasks are many rounds already."""
    by_hand, through = asyncio.run(measure(subtasks))
    heading(f"{subtasks} subtasks in worktrees, {AT_ONCE} at once, {WORK_S} s each")
    note = f"bare {by_hand:.2f} s, isolation {through:.2f} s"
    show(Figure("worktree isolation / bare git", through / by_hand, 1.3, note=note))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
