"""The part of a repository that is compared, and the search for untracked files in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from runner.workspace.git.repository import Git


class Scope:
    """The workspace `folder` in the working tree `top`, without the folders `excluded`. Paths start from the top.

    `prefix` is the folder with a slash behind it, empty at the top; `pathspec` are arguments that hold git to it.
    """

    def __init__(self, top: Path, folder: Path, *, excluded: Iterable[Path]) -> None:
        self._top = os.fsencode(top)
        self.prefix = os.fsencode(folder.relative_to(top)) + b"/" if folder != top else b""
        self.pathspec = ["--", os.fsdecode(self.prefix)] if self.prefix else []
        self._excluded = tuple(
            os.fsencode(path.relative_to(top)) + b"/" for path in excluded if path.is_relative_to(top) and path != top
        )

    def absolute(self, path: bytes) -> bytes:
        """Where the path is on disk."""
        return self._top + b"/" + path

    def is_excluded(self, path: bytes) -> bool:
        """Whether the path is left out of every snapshot."""
        return (path + b"/").startswith(self._excluded) if self._excluded else False


def write_tree(git: Git, scope: Scope) -> str:
    """The tree of the workspace's folder in git's index."""
    if not scope.prefix:
        return git.line("write-tree", "--missing-ok")
    if not git.run("ls-files", "-z", *scope.pathspec):
        return git.line("mktree")
    return git.line("write-tree", "--missing-ok", f"--prefix={os.fsdecode(scope.prefix)}")


_OTHERS = ("ls-files", "-z", "--others", "--exclude-standard")


def walk(git: Git, pathspec: Iterable[str]) -> set[bytes]:
    """The files that git's index does not know and no rule ignores; a nested repository ends in a slash."""
    return set(git.run(*_OTHERS, *pathspec).split(b"\0")) - {b""}
