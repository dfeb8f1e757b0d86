"""Keeps what an agent names inside the workspace: no `..`, no absolute path, no symlink out, no state directory."""

from __future__ import annotations

from pathlib import Path

from tracer.errors import UsageError

__all__ = ["confined_path"]


def confined_path(path: str, *, workspace: Path, state_dir: Path | None = None) -> Path:
    """The real path of `path` (relative to `workspace`, or absolute inside it), symlinks resolved.

    Raises:
        UsageError: it leads out of the workspace, into the state directory or git's own folder, or is no path at all.

    """
    if not path or "\0" in path:
        raise UsageError(f"{path!r} is not a path")
    root = workspace.resolve()
    try:
        target = (root / path).resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symlinks
        raise UsageError(f"{path!r} cannot be resolved", why=str(error)) from error
    if target == root or not target.is_relative_to(root):
        raise UsageError(f"{path!r} is outside the workspace", next_step="use a path inside the workspace")
    state = state_dir.resolve() if state_dir is not None else None
    # A subtask's own working tree lies in the state directory, and all of it is the subtask's.
    if state is not None and target.is_relative_to(state) and not root.is_relative_to(state / "worktrees"):
        raise UsageError(f"{path!r} is in the state directory", next_step="leave pm's own records alone")
    if target.relative_to(root).parts[0] == ".git":
        raise UsageError(f"{path!r} is in git's own folder", next_step="use git itself")
    return target
