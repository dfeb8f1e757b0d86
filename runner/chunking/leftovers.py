"""What a killed process left: worktrees, branches and refs of tasks that had ended, locks that nobody holds.

The folder of a task's worktrees is removed last, so its presence says that something is left. A task that has not ended
needs its worktrees and keeps them; so does one that some process is running.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from tracer.errors import LockedError, NotFoundError, RecordError, TraceError
from tracer.lock import FileLock
from tracer.lookup import resolve_task
from tracer.statedir import StateDir

__all__ = ["remove_leftovers"]


async def remove_leftovers(state_dir: StateDir) -> tuple[str, ...]:
    """Remove what ended tasks left behind; the ids of those tasks. Costs one look at a folder where there is nothing.

    Raises:
        PmError: the repository cannot be used.

    """
    await asyncio.to_thread(_remove_locks, state_dir)
    cleaned = []
    for task_id in await asyncio.to_thread(_left, state_dir):
        ended = await asyncio.to_thread(_how_it_ended, state_dir, task_id)
        if ended is None:
            continue
        from runner.worktrees import GitWorktrees  # 100 ms of git: every start of pm passes here, few find something

        workspace, status = ended
        isolation = GitWorktrees(workspace, state_dir=state_dir.root, task_id=task_id)
        await isolation.close(keep_results=status in {"INCOMPLETE", "ERROR"})
        cleaned.append(task_id)
    return tuple(cleaned)


def _remove_locks(state_dir: StateDir) -> None:
    """Lock files of tasks and sessions that were killed: the kernel let go of the lock, the name stayed."""
    for path in (*state_dir.root.glob("tracepack/*.lock"), *state_dir.root.glob("locks/*.lock")):
        lock = FileLock(path)
        with suppress(LockedError, RecordError):
            lock.acquire(patience_s=0)
            lock.release()


def _left(state_dir: StateDir) -> list[str]:
    folder = state_dir.root / "worktrees"
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def _how_it_ended(state_dir: StateDir, task_id: str) -> tuple[Path, str] | None:
    """The workspace and final status of a task that has ended and that nobody runs; None for others."""
    if state_dir.writer_of(task_id) is not None:
        return None
    from runner.evolve import fold  # 20 ms each, as above
    from tracer.conversation import ConversationTracer

    try:
        state = fold(ConversationTracer.read_trace(resolve_task(state_dir, task_id).path))
    except (NotFoundError, TraceError):
        return None
    if state.final is None or state.request is None or not state.request.workspace:
        return None
    workspace = Path(state.request.workspace)
    return (workspace, str(state.final.get("status"))) if workspace.is_dir() else None
