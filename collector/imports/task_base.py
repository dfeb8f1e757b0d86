"""The tree a task began with, as a commit of its own in a bundle: what an imported session is replayed from.

The task's repository is only read: the commit is made in a repository of ours that borrows its objects. Methods block.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from collector.final.bundle_trees import FILE_MODES, Trees, commit_of
from collector.final.replay import UNKNOWN, Content
from runner.workspace.git.repository import Git, GitError, find_repository
from tracer.errors import TraceError

_TREE: Final = "git:"


class TaskBase:
    """A base tree: `commit` names it, `content` answers its files, `bundle` holds it."""

    def __init__(self, git: Git, folder: Path, tree: str) -> None:
        self._git = git
        self._folder = folder
        self._tree = tree
        self.commit = commit_of(git, tree, "The state that the task began with")

    def content(self, path: str) -> Content:
        """A file of the tree: its bytes, None where there is none, Unknown for a link or a submodule."""
        said = self._git.run("ls-tree", "-z", self._tree, "--", path)
        if not said:
            return None
        mode, _, object_id = said.partition(b"\t")[0].decode("ascii").split(" ")
        return self._git.run("cat-file", "blob", object_id) if mode in FILE_MODES else UNKNOWN

    def bundle(self) -> bytes:
        """A bundle of the commit, without any history."""
        path = self._folder / "base.bundle"
        self._git.run("update-ref", "refs/heads/base", self.commit)
        self._git.run("bundle", "create", "-q", str(path), "refs/heads/base")
        data = path.read_bytes()
        path.unlink()
        return data


def task_base(workspace: Path, base: str | None, folder: Path) -> TaskBase | None:
    """The base recorded as `git:<tree>` or `git:<tree>@<state>`, None where there is none.

    `folder` is empty, and the caller removes it.
    """
    if base is None or not base.startswith(_TREE) or not workspace.is_dir():
        return None
    tree = base.removeprefix(_TREE).partition("@")[0]  # behind it stands how the repository was
    try:
        theirs = find_repository(workspace)
        if theirs is None or not theirs.has(tree):
            return None
        objects = Path(theirs.line("rev-parse", "--path-format=absolute", "--git-path", "objects"))
        ours = Trees(folder, commit=tree).git
        alternates = folder / "git" / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        alternates.write_text(f"{objects}\n", encoding="utf-8", errors="surrogateescape")
        return TaskBase(ours, folder, tree)
    except GitError as error:
        raise TraceError("the tree that the task began with cannot be read", why=str(error)) from error
