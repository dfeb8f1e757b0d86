"""What differs between an index and the disk; reads an ordinary index file itself."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import repeat
from threading import Semaphore
from typing import NamedTuple

from runner.workspace.git.folders import walk
from runner.workspace.git.repository import Git, GitError, GitStopped, RawEntry, parse_raw

_HEADER = 12  # signature, version, number of entries
_FACTS = 40  # of a file: times, numbers, mode, size; the id follows, then two bytes of flags
_LENGTH = 0x0FFF
_GITLINK = re.compile(rb"\xe0(?<=\0\0\xe0)\0")  # the mode, wherever these bytes are: by its rare byte half as dear
# Known not to change what the entries say; any other could.
_HARMLESS = frozenset({b"TREE", b"REUC", b"UNTR", b"FSMN", b"EOIE", b"IEOT"})
_LONGEST, _MOST_FOLDERS = 1024, 100_000  # what a file made to be dear to read could go beyond
_TREE = re.compile(rb"([^\0]*)\0(\d{1,9}) (\d{1,9})\n")


class IndexFacts(NamedTuple):
    """An ordinary index; `tree` is the id of the tree that it would be written as, where the index itself knows.

    `folders` are those of this tree, each with a slash behind it; the top is the empty name.
    """

    tree: str | None
    folders: tuple[bytes, ...]


class _OutOfOrdinaryError(Exception):
    """Git has to be asked."""


def read_index(content: bytes, *, id_bytes: int) -> IndexFacts | None:
    """The facts of an index with ids of `id_bytes` bytes; None where it is out of the ordinary or damaged."""
    end = len(content) - id_bytes  # a checksum stands last
    if content[:4] != b"DIRC" or end < _HEADER or _GITLINK.search(content) is not None:
        return None
    version, count = (int.from_bytes(content[at : at + 4], "big") for at in (4, 8))
    try:
        if version in {2, 3}:
            at = _behind_padded_entries(content, count, id_bytes)
        elif version == 4:
            at = _behind_packed_entries(content, count, id_bytes)
        else:
            return None
        return _facts(_extensions(content, at, end).get(b"TREE", b""), count, id_bytes)
    except (_OutOfOrdinaryError, IndexError):  # an index that was cut off
        return None


def _name_length(flags: int) -> int:
    """The length of an entry's name.

    Raises:
        _OutOfOrdinaryError: it has a flag or belongs to a conflict, or its length is not told.

    """
    if flags >= _LENGTH:
        raise _OutOfOrdinaryError
    return flags


def _behind_padded_entries(content: bytes, count: int, id_bytes: int) -> int:
    """Where the entries of version 2 or 3 end; each starts a multiple of 8 bytes behind the first."""
    fixed = _FACTS + id_bytes + 2
    sizes = [(fixed + length + 8) // 8 * 8 for length in range(256)]
    at = flags = _HEADER + fixed - 1  # the second byte of them, as the first is zero but for a long name
    for _ in repeat(None, count):
        if content[flags - 1]:
            flags += (fixed + _name_length(content[flags - 1] << 8 | content[flags]) + 8) // 8 * 8
        else:
            flags += sizes[content[flags]]
    return flags - at + _HEADER


def _behind_packed_entries(content: bytes, count: int, id_bytes: int) -> int:
    """Where the entries of version 4 end; of each name only what differs from the one before is there."""
    fixed = _FACTS + id_bytes + 2
    at, before = _HEADER, 0
    for _ in repeat(None, count):
        behind = at + fixed
        length = _name_length(content[behind - 2] << 8 | content[behind - 1])
        dropped = content[behind]
        if dropped > 127:
            dropped, behind = _large_number(content, behind)
        if dropped > before:
            raise _OutOfOrdinaryError
        at = behind + 1 + length - (before - dropped) + 1
        if at <= behind + 1:
            raise _OutOfOrdinaryError
        before = length
    return at


def _large_number(content: bytes, at: int) -> tuple[int, int]:
    """A number of several bytes, and where its last byte is."""
    number = content[at] & 127
    while content[at] > 127:
        at += 1
        number = (number + 1 << 7) + (content[at] & 127)
    return number, at


def _extensions(content: bytes, at: int, end: int) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    while at < end:
        name = content[at : at + 4]
        start = at + 8
        at = start + int.from_bytes(content[at + 4 : start], "big")
        if name not in _HARMLESS or name in found or at > end:
            raise _OutOfOrdinaryError
        found[name] = content[start:at]
    if at != end:
        raise _OutOfOrdinaryError
    return found


def _facts(trees: bytes, count: int, id_bytes: int) -> IndexFacts:
    """What the index knows of its trees; every one must be known, or nothing is.

    Of each tree its name stands there, how many entries are in it (-1 in an index that was changed since) and how many
    folders, then its id, then the same of its folders.
    """
    at, root, folders = 0, None, []
    above = [(b"", 1)]  # the folders that we are in, and how many of each are still to come
    while above:
        parent, left = above.pop()
        if not left:
            continue
        tree = _TREE.match(trees, at)
        if tree is None or (root is None and tree[2] != b"%d" % count):
            return IndexFacts(None, ())
        at = tree.end() + id_bytes
        root = root or trees[tree.end() : at].hex()
        here = parent + tree[1] + b"/" if tree[1] else b""
        folders.append(here)
        if len(here) > _LONGEST or len(folders) > _MOST_FOLDERS:
            return IndexFacts(None, ())
        above += [(parent, left - 1), (here, int(tree[3]))]
    return IndexFacts(root, tuple(folders)) if at == len(trees) else IndexFacts(None, ())


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
