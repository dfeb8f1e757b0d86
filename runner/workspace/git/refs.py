"""Names of a task's refs in a repository, and the deletion of those that keep baselines."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from runner.workspace.git.repository import Git, GitError, find_repository
from tracer.statedir import STATE_DIR_NAME

# In a worktree of ours, and seen from there alone: what the user had committed when the task began.
USERS_COMMIT: Final = "refs/worktree/pm-user"
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


def release_baselines(workspace: Path, task_ids: Iterable[str], *, state_dir: Path) -> int:
    """Delete the refs `refs/pm-orchestrator/<task>/…` of these tasks, in nested repositories too; how many there were.

    The objects go with git's own next `gc`. A folder without a repository has none; nothing is raised for it. Blocks.
    """
    wanted = sorted(set(task_ids))
    if not wanted:
        return 0
    place = Path(os.path.realpath(state_dir))
    return sum(_release(folder, wanted, place) for folder in (workspace, *_nested(workspace)))


def _nested(workspace: Path) -> list[Path]:
    """Submodules and repositories that lie in this one."""
    try:
        git = find_repository(workspace)
        if git is None:
            return []
        index = git.git_dir / "index"
        known = git.with_index(index if index.exists() else None)
        entries = known.run("ls-files", "-s", "-z").split(b"\0")
        links = [entry.split(b"\t", 1)[1] for entry in entries if entry.startswith(b"160000 ")]
        others = known.run("ls-files", "-o", "-z", "--exclude-standard").split(b"\0")
        links += [path.rstrip(b"/") for path in others if path.endswith(b"/")]
        return [git.top / link.decode("utf-8", "surrogateescape") for link in links]
    except GitError:
        return []


def _release(folder: Path, task_ids: list[str], state_dir: Path) -> int:
    try:
        git = find_repository(folder)
        if git is None:
            return 0
        own = {task_id: name_in_repository(git, task_id, state_dir=state_dir) for task_id in task_ids}
        patterns = [f"refs/pm-orchestrator/{name}/" for name in {*own, *own.values()}]
        # Under the bare id lie the baselines of every state dir, and the merged results of the usual one only.
        kept = tuple(f"refs/pm-orchestrator/{task_id}/chunk/" for task_id, name in own.items() if name != task_id)
        listed = git.run("for-each-ref", "--format=%(refname)", *patterns).decode().split()
        refs = [ref for ref in listed if not ref.startswith(kept)]
        if refs:
            git.run("update-ref", "--stdin", stdin="".join(f"delete {ref}\n" for ref in refs).encode())
        return len(refs)
    except GitError:
        return 0
