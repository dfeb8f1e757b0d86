"""Letting go of baselines: the refs that keep their trees, once the task's record is gone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from runner.workspace.git import GitError, find_repository
from runner.workspace.git_names import name_in_repository

__all__ = ["release_baselines"]


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
