"""What differs between an index and the disk, by as few readings of a large index as there can be.

Two commands run side by side: one asks after every known file, the other walks the folders. Where it is not known yet
whether the index holds flags that hide changes, its file is read here meanwhile, and only one that is out of the
ordinary is listed by a third command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Semaphore
from typing import NamedTuple

from runner.workspace.git import Git, RawEntry, parse_raw
from runner.workspace.git_folders import walk
from runner.workspace.git_index import IndexFacts, read_index

__all__ = ["ABSENT", "Look", "Looking", "index_facts", "look_at", "look_at_plain"]

ABSENT = "000000"
_CHANGED = ("diff-files", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=all")
_FEW_LINKS = 200
_HEAD_START_S = 0.1
_UNUSUAL = re.compile(rb"(?:\A|\0)(?:[^H] |H 160000 )")


class Look(NamedTuple):
    """What differs between an index and the disk; `is_plain`: no submodules, conflicts or flags that hide changes.

    `hidden` are known files that git passes over in silence.
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
        self._changed = pool.submit(git.run, *_CHANGED, *scope, started=running.release)
        self._others = pool.submit(walk, git, scope, started=running.release)
        for _each in (self._changed, self._others):  # our own work would take the time in which they are started
            running.acquire(timeout=_HEAD_START_S)

    def end(self, facts: IndexFacts | None) -> Look:
        """What was seen; `facts` are what the index says of itself.

        Raises:
            GitError: files came or went meanwhile, or the index is damaged.

        """
        is_plain = facts is not None or _is_listed_as_plain(self._git, self._scope)
        return _look(self._git, self._changed.result(), self._others.result(), self._scope, is_plain=is_plain)


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
        changed = pool.submit(git.run, *_CHANGED, *scope)
        found = walked() if walked is not None else walk(git, scope)
    return _look(git, changed.result(), found, scope, is_plain=True)


def _look(git: Git, changed: bytes, others: set[bytes], scope: Sequence[str], *, is_plain: bool) -> Look:
    return Look(parse_raw(changed), others, is_plain, _behind_links(git, others, scope))


def index_facts(git: Git) -> IndexFacts | None:
    """What the file of git's index says of itself; None: not an ordinary index."""
    try:
        content = git.index.read_bytes() if git.index is not None else b""
    except OSError:
        return None
    return read_index(content, id_bytes=git.id_bytes) if git.id_bytes is not None else None


def _is_listed_as_plain(git: Git, scope: Sequence[str]) -> bool:
    """The same by git's word; an index of which a part is in another file, which may go, is never plain."""
    if any(git.git_dir.glob("sharedindex.*")):
        return False
    return _UNUSUAL.search(git.run("ls-files", "-z", "-v", "-s", *scope)) is None


def _behind_links(git: Git, untracked: Iterable[bytes], scope: Sequence[str]) -> set[bytes]:
    """Known files under what is a link now: git says nothing of them when the link leads in a circle."""
    top = os.fsencode(git.top)
    links = [path for path in untracked if os.path.islink(top + b"/" + path)]  # noqa: PTH114 - names are bytes
    if not links:
        return set()
    # A few links are asked for by name; more would not fit on a command line.
    few = [os.fsdecode(link) + "/" for link in links] if len(links) <= _FEW_LINKS else scope[1:]
    known = git.run("ls-files", "-z", "--", *few).split(b"\0")
    roots = tuple(link + b"/" for link in links)
    return {path for path in known if path and path.startswith(roots)}
