"""Letting go of baselines: the refs that keep their trees, once the task's record is gone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from runner.workspace.git import GitError, find_repository

__all__ = ["release_baselines"]


def release_baselines(workspace: Path, task_ids: Iterable[str]) -> int:
    """Delete the refs `refs/pm-orchestrator/<task>/…` of these tasks, in nested repositories too; how many there were.

    The objects go with git's own next `gc`. A folder without a repository has none; nothing is raised for it. Blocks.
    """
    wanted = {f"refs/pm-orchestrator/{task_id}/" for task_id in task_ids}
    if not wanted:
        return 0
    return sum(_release(folder, wanted) for folder in (workspace, *_nested(workspace)))


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


def _release(folder: Path, wanted: set[str]) -> int:
    try:
        git = find_repository(folder)
        if git is None:
            return 0
        refs = git.run("for-each-ref", "--format=%(refname)", *sorted(wanted)).decode().split()
        if refs:
            git.run("update-ref", "--stdin", stdin="".join(f"delete {ref}\n" for ref in refs).encode())
        return len(refs)
    except GitError:
        return 0
