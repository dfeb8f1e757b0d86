"""Stop requests between processes: an empty file in the state directory that the task's own process looks for.

A request for a task that nobody runs is not left lying: it would stop the next run at once.
"""

from __future__ import annotations

from typing import Final

from tracer.errors import RecordError
from tracer.statedir import StateDir

__all__ = ["clear_stop", "forget_earlier_stop", "request_stop", "stop_requests"]

_PREFIX: Final = "stop-"


def request_stop(state_dir: StateDir, task_id: str) -> bool:
    """Ask the process that runs `task_id` to stop it; False if no process does.

    Raises:
        RecordError: the state directory cannot be written.

    """
    if state_dir.writer_of(task_id) is None:
        return False
    try:
        state_dir.control.mkdir(mode=0o700, parents=True, exist_ok=True)
        (state_dir.control / f"{_PREFIX}{task_id}").touch(mode=0o600)
    except OSError as error:
        raise RecordError(
            f"cannot ask for a stop of {task_id}",
            why=str(error),
            next_step="check the rights of the state directory",
        ) from error
    return True


def stop_requests(state_dir: StateDir) -> tuple[str, ...]:
    """The tasks that some process wants stopped."""
    try:
        return tuple(
            path.name.removeprefix(_PREFIX) for path in state_dir.control.iterdir() if path.name.startswith(_PREFIX)
        )
    except OSError:
        return ()


def forget_earlier_stop(state_dir: StateDir, task_id: str) -> None:
    """Forget a request to a process that was killed before it saw it; call with the task's lock held.

    The lock file was written when the lock was taken: what is older was not meant for whoever holds it now.
    """
    try:
        asked = (state_dir.control / f"{_PREFIX}{task_id}").stat().st_mtime_ns
        if asked < state_dir.task_lock(task_id).stat().st_mtime_ns:
            clear_stop(state_dir, task_id)
    except OSError:
        return  # nobody asked


def clear_stop(state_dir: StateDir, task_id: str) -> None:
    """Forget a request that was carried out or came too late."""
    try:
        (state_dir.control / f"{_PREFIX}{task_id}").unlink(missing_ok=True)
    except OSError:
        return  # a read-only state directory has stopped the task already
