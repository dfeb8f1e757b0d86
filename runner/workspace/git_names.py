"""What a task is called in a repository: its worktrees share refs, and each has a state dir with its own `task-001`.

A task's refs stand under its id where the state dir is the repository's usual one, else under the id and a mark. The
mark is of the way from the repository to the state dir: both may be moved together.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from runner.workspace.git import Git
from tracer.statedir import STATE_DIR_NAME

__all__ = ["common_dir", "name_in_repository"]

_USUAL_PLACE: Final = f"..{os.sep}{STATE_DIR_NAME}"


def common_dir(git: Git) -> Path:
    """The folder that all worktrees of the repository share."""
    try:
        return (git.git_dir / (git.git_dir / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except OSError:
        return git.git_dir


def name_in_repository(git: Git, task_id: str, *, state_dir: Path) -> str:
    """The part of refs, branches and folders that only this task of this state dir has."""
    place = os.path.relpath(state_dir, common_dir(git))
    if place == _USUAL_PLACE:
        return task_id
    return f"{task_id}@{hashlib.sha256(os.fsencode(place)).hexdigest()[:8]}"
