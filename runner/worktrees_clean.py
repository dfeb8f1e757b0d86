"""Names of what a task's isolation leaves in a repository, and their removal, also after a kill at any point."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from runner.processes.table import send_signal
from runner.processes.tree import ProcessTree, tree_members
from runner.workspace.git import Git, GitError
from runner.workspace.git_names import common_dir, name_in_repository
from tracer.clock import monotonic
from tracer.errors import UsageError

__all__ = [
    "TaskNames",
    "admin_folder",
    "discard",
    "end_leftovers",
    "remove_all",
    "remove_worktree",
]

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock$))*")
_PATIENCE_S = 10.0
_ATTEMPTS = 5


class TaskNames:
    """Folders, branches and refs of one task; `own` is what it is called in the repository (see `within`)."""

    def __init__(self, task_id: str, folder: Path) -> None:
        if _ID.fullmatch(task_id) is None:
            raise UsageError(f"{task_id!r} cannot name branches", next_step="use letters, digits, '.', '_' and '-'")
        self.task_id = task_id
        self.own = task_id
        self.folder = folder
        self.mark = "worktrees-" + hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]

    def within(self, git: Git) -> TaskNames:
        """The names in this repository."""
        named = TaskNames(self.task_id, self.folder)
        named.own = name_in_repository(git, self.task_id, state_dir=self.folder.parent.parent)
        return named

    def ref(self, name: str) -> str:
        """The full name of one of the task's refs."""
        return f"refs/pm-orchestrator/{self.own}/chunk/{name}"

    def folder_of(self, subtask_id: str) -> Path:
        """Where the subtask works; the last part is unique in the repository, git names its own folder after it."""
        if _ID.fullmatch(subtask_id) is None:
            raise UsageError(f"{subtask_id!r} cannot name a folder", next_step="use letters, digits, '.', '_' and '-'")
        return self.folder / f"{self.own}--{subtask_id}"

    def branch_of(self, subtask_id: str) -> str:
        """The subtask's branch."""
        return f"pm/{self.own}/{subtask_id}"

    def read(self, git: Git, name: str) -> str | None:
        """What a ref points to; None where there is none."""
        said = git.run("rev-parse", "--quiet", "--verify", self.ref(name), ok_codes=(0, 1, 128))
        return said.decode().strip() or None

    def read_branch(self, git: Git, subtask_id: str) -> Path | None:
        """The file of the subtask's branch, where it is not packed."""
        path = common_dir(git) / "refs" / "heads" / self.branch_of(subtask_id)
        return path if path.exists() else None

    def write(self, git: Git, values: Mapping[str, str | None]) -> None:
        """Set refs together or not at all; None deletes."""
        lines = [
            f"update {self.ref(name)} {value}\n" if value is not None else f"delete {self.ref(name)}\n"
            for name, value in values.items()
        ]
        _change_refs(git, self, "".join(lines))


def _change_refs(git: Git, names: TaskNames, lines: str) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            git.run("update-ref", "--stdin", stdin=lines.encode())
        except GitError as error:
            if ".lock" not in str(error) or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(0.05 * (attempt + 1))
            _remove_own_locks(git, names)
        else:
            return


def _remove_own_locks(git: Git, names: TaskNames) -> None:
    """Locks on the task's own refs: only the holder of the task writes these, and that is us."""
    common = common_dir(git)
    for root in (f"refs/pm-orchestrator/{names.own}", f"refs/heads/pm/{names.own}"):
        for lock in (common / root).rglob("*.lock"):
            lock.unlink(missing_ok=True)


def end_leftovers(names: TaskNames) -> None:
    """End git commands of a killed process that still work on the task, and wait: git takes its locks away itself."""
    give_up = monotonic() + _PATIENCE_S
    while running := tree_members(ProcessTree(names.mark, None, "")):
        for entry in running:
            send_signal(entry, signal.SIGTERM if monotonic() < give_up else signal.SIGKILL)
        time.sleep(0.02)


def admin_folder(git: Git, folder: Path) -> Path:
    """Git's own folder of the worktree at `folder`: named after it, and its name is unique in the repository."""
    return common_dir(git) / "worktrees" / folder.name


def discard(git: Git, names: TaskNames, subtask_id: str) -> None:
    """Remove the subtask's worktree and branch, whole or half made."""
    folder = names.folder_of(subtask_id)
    if not remove_worktree(git, folder) and names.read_branch(git, subtask_id) is None:
        return
    with suppress(GitError):
        _change_refs(git, names, f"delete refs/heads/{names.branch_of(subtask_id)}\n")


def remove_worktree(git: Git, folder: Path) -> bool:
    """Remove a worktree, whole or half made; whether there was anything."""
    admin = admin_folder(git, folder)
    there = admin.exists() or folder.exists()
    shutil.rmtree(admin, ignore_errors=True)  # by hand: git refuses half made ones
    shutil.rmtree(folder, ignore_errors=True)
    return there


def remove_all(git: Git, names: TaskNames, *, keep_results: bool = False) -> None:
    """Remove everything of the task's isolation; its folder goes last, so that a kill leaves a sign of what is left.

    `keep_results`: the refs that say what is merged stay.
    """
    _remove_worktrees(git, names)
    _remove_own_locks(git, names)
    patterns = [f"refs/heads/pm/{names.own}/"]
    patterns.append(names.ref("start/") if keep_results else names.ref(""))
    refs = git.run("for-each-ref", "--format=%(refname)", *patterns).decode().split()
    if refs:
        _change_refs(git, names, "".join(f"delete {ref}\n" for ref in refs))
    shutil.rmtree(names.folder, ignore_errors=True)
    with suppress(OSError):
        names.folder.parent.rmdir()


def _remove_worktrees(git: Git, names: TaskNames) -> None:
    """Git's own folders of the task's worktrees. Done by hand: git refuses half made ones."""
    with suppress(OSError):
        for admin in (common_dir(git) / "worktrees").iterdir():
            if _belongs(admin, names):
                shutil.rmtree(admin, ignore_errors=True)


def _belongs(admin: Path, names: TaskNames) -> bool:
    try:
        place = Path((admin / "gitdir").read_text(encoding="utf-8").strip()).parent
    except OSError:  # half made or half removed: the name tells, it begins with the task's
        return admin.name.startswith(f"{names.own}--")
    return place.is_relative_to(names.folder)
