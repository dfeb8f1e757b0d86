"""What differs between an index and the disk, in the part of a repository that is compared."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from runner.workspace.changes import LEFT_OUT
from runner.workspace.git.repository import Beside, Git, GitError, GitStopped, RawEntry, parse_raw

_OTHERS = ("ls-files", "-z", "--others", "--exclude-standard", *(f"--exclude={name}" for name in LEFT_OUT))
ABSENT = "000000"
_CHANGED = ("diff-files", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=all")
_UNUSUAL = re.compile(rb"\0(?!H 1[02]|\Z)")  # anything but a file or link without flags: 100644, 100755, 120000


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


def walk(git: Git, pathspec: Iterable[str]) -> set[bytes]:
    """The files that git's index does not know and no rule ignores; a nested repository ends in a slash."""
    return set(git.run(*_OTHERS, *pathspec).split(b"\0")) - {b""}


class Look(NamedTuple):
    """What differs between an index and the disk; `is_plain`: no submodules, conflicts or flags that hide changes.

    `hidden` are known files that git passes over.
    """

    changed: list[RawEntry]
    others: set[bytes]
    is_plain: bool
    hidden: set[bytes]


def look_at(git: Git, scope: Sequence[str], *, is_plain: bool = False) -> Look:
    """What differs between git's index and the disk; `is_plain`: the index is known to be plain."""
    complaints: list[bytes] = []
    with Beside() as beside:
        changed = beside.start(git.run, *_CHANGED, *scope, complaints=complaints)
        others = beside.start(walk, git, scope)
        is_plain = is_plain or _is_plain(git, scope)
    entries = parse_raw(changed())
    return Look(entries, others(), is_plain, _unseen(git, scope) if complaints else set())


def forced(git: Git, scope: Sequence[str]) -> set[bytes]:
    """Ignored files that the user's index knows all the same (`git add -f`) and git's own index does not."""
    ask = ("ls-files", "-z", "--cached", "--ignored", "--exclude-standard", *scope)
    try:
        known = set(git.with_index(git.git_dir / "index").run(*ask).split(b"\0")) - {b""}
    except GitStopped:
        raise
    except GitError:
        return set()
    return known - set(git.run(*ask).split(b"\0")) if known else known


def _is_plain(git: Git, scope: Sequence[str]) -> bool:
    """Whether git lists nothing unusual; an index with a part in another file, which may go, is never plain."""
    if any(git.git_dir.glob("sharedindex.*")):
        return False
    return _UNUSUAL.search(b"\0" + git.run("ls-files", "-z", "-v", "-s", *scope)) is None


def _unseen(git: Git, scope: Sequence[str]) -> set[bytes]:
    """Known files that git cannot ask after and only complains of: in a closed folder, behind a link in a circle."""
    top = os.fsencode(git.top)
    known = git.run("ls-files", "-z", *scope).split(b"\0")
    return {path for path in known if path and not _can_be_asked_after(top + b"/" + path)}


def _can_be_asked_after(path: bytes) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):  # git tells of these
        pass
    except OSError:
        return False
    return True
