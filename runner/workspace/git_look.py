"""What differs between an index and the disk, by as few readings of a large index as there can be.

Two commands run side by side: one asks after every known file, the other walks the folders. Where it is not known yet
whether the index holds flags that hide changes, its file is read here meanwhile, and only one that is out of the
ordinary is listed by a third command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Semaphore
from typing import NamedTuple

from runner.workspace.git import Git, GitError, GitStopped, RawEntry, parse_raw
from runner.workspace.git_folders import walk
from runner.workspace.git_index import IndexFacts, read_index

__all__ = ["ABSENT", "Look", "Looking", "forced", "index_facts", "index_stamp", "look_at", "look_at_plain"]

ABSENT = "000000"
_CHANGED = ("diff-files", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=all")
_HEAD_START_S = 0.1
_UNUSUAL = re.compile(rb"(?:\A|\0)(?:[^H] |H 160000 )")


class Look(NamedTuple):
    """What differs between an index and the disk; `is_plain`: no submodules, conflicts or flags that hide changes.

    `hidden` are known files that git passes over.
    """

    changed: list[RawEntry]
    others: set[bytes]
    is_plain: bool
    hidden: set[bytes]


class Looking:
    """A look under way in threads of `pool`; `scope` is a pathspec after `--`, or nothing."""

    def __init__(self, git: Git, scope: Sequence[str], pool: Executor) -> None:
        self._git, self._scope = git, scope
        running = Semaphore(0)
        self._complaints: list[bytes] = []
        self._changed = pool.submit(git.run, *_CHANGED, *scope, started=running.release, complaints=self._complaints)
        self._others = pool.submit(walk, git, scope, started=running.release)
        for _each in (self._changed, self._others):  # our own work would take the time in which they are started
            running.acquire(timeout=_HEAD_START_S)

    def end(self, facts: IndexFacts | None) -> Look:
        """What was seen; `facts` are what the index says of itself.

        Raises:
            GitError: files came or went meanwhile, or the index is damaged.

        """
        is_plain = facts is not None or _is_listed_as_plain(self._git, self._scope)
        changed = parse_raw(self._changed.result())
        hidden = _unseen(self._git, self._scope) if self._complaints else set()
        return Look(changed, self._others.result(), is_plain, hidden)


def look_at(git: Git, scope: Sequence[str]) -> Look:
    """What differs between git's index and the disk.

    Raises:
        GitError: files came or went meanwhile, or the index is damaged.

    """
    with ThreadPoolExecutor(2) as pool:
        return Looking(git, scope, pool).end(index_facts(git))


def look_at_plain(git: Git, scope: Sequence[str], *, walked: Callable[[], set[bytes]] | None = None) -> Look:
    """The same where the index is known to be plain. `walked` finds the unknown files; by default a walk does.

    Raises:
        GitError: files came or went meanwhile, or the index is damaged.

    """
    with ThreadPoolExecutor(1) as pool:
        complaints: list[bytes] = []
        changed = pool.submit(git.run, *_CHANGED, *scope, complaints=complaints)
        found = walked() if walked is not None else walk(git, scope)
        entries = parse_raw(changed.result())
    return Look(entries, found, is_plain=True, hidden=_unseen(git, scope) if complaints else set())


def index_facts(git: Git) -> IndexFacts | None:
    """What the file of git's index says of itself; None: not an ordinary index."""
    try:
        content = git.index.read_bytes() if git.index is not None else b""
    except OSError:
        return None
    return read_index(content, id_bytes=git.id_bytes) if git.id_bytes is not None else None


def index_stamp(git: Git) -> tuple[int, ...] | None:
    """What changes with the person's index; None: there is none."""
    try:
        facts = (git.git_dir / "index").stat()
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def forced(git: Git, scope: Sequence[str]) -> set[bytes]:
    """Files that git ignores, that the person's index knows all the same (`git add -f`) and that git's index does not.

    Raises:
        GitError: git's index is damaged. (Of a damaged one of the person's nothing is expected.)

    """
    ask = ("ls-files", "-z", "--cached", "--ignored", "--exclude-standard", *scope)
    try:
        known = set(git.with_index(git.git_dir / "index").run(*ask).split(b"\0")) - {b""}
    except GitStopped:
        raise
    except GitError:
        return set()
    return known - set(git.run(*ask).split(b"\0")) if known else known


def _is_listed_as_plain(git: Git, scope: Sequence[str]) -> bool:
    """The same by git's word; an index of which a part is in another file, which may go, is never plain."""
    if any(git.git_dir.glob("sharedindex.*")):
        return False
    return _UNUSUAL.search(git.run("ls-files", "-z", "-v", "-s", *scope)) is None


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
