"""Entries of an index or a tree: read, put into an index, or made into a tree of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from runner.workspace.git.repository import Git, listed
from tracer.clock import short_token

Entry = tuple[str, str]
"""What stands in an index or a tree for a path: its mode in octal digits and its id."""
_LISTED = re.compile(rb"(\d+) ([0-9a-f]+) \d\t(.*)", re.DOTALL)


def merged_tree(git: Git, *, start: str, ours: str, theirs: str, store: Path) -> str:
    """The tree that joins what `ours` and `theirs` changed since `start`; a path that does not merge is that of `ours`.

    GitError: git is older than 2.38, or an object is missing.
    """
    first = git.commit_tree(start, message="start")
    heads = [git.commit_tree(tree, first, message="side") for tree in (ours, theirs)]
    out = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *heads, ok_codes=(0, 1))
    tree, *paths = [part for part in out.split(b"\0") if part]
    if not paths:
        return tree.decode()
    with small_index(git, store) as small:
        small.run("read-tree", tree.decode())
        remove(small, paths)
        put_as_known(small, tree_entries(git, ours, paths))
        return small.line("write-tree", "--missing-ok")


def tree_of(git: Git, entries: Mapping[bytes, Entry], *, store: Path) -> str:
    """A tree of just these entries."""
    with small_index(git, store) as small:
        put_as_known(small, entries)
        return small.line("write-tree", "--missing-ok")


def tree_entries(git: Git, tree: str, paths: Iterable[bytes] = ()) -> dict[bytes, Entry]:
    """The entries of a tree, or those of them that are named."""
    found = {}
    for line in git.run("ls-tree", "-r", "-z", tree, "--", *map(os.fsdecode, paths)).split(b"\0"):
        if line:
            about, _, path = line.partition(b"\t")
            mode, _, blob = about.decode("ascii").split(" ")
            found[path] = (mode, blob)
    return found


class Found(NamedTuple):
    """Paths to remove from an index, to read from disk, and entries to put in as they are."""

    removed: list[bytes]
    added: list[bytes]
    entries: list[bytes]


def put(git: Git, found: Found) -> None:
    """Bring the index up to what was found on disk."""
    remove(git, found.removed)
    if found.added:
        git.run("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=listed(found.added))
    put_lines(git, found.entries)


def remove(git: Git, paths: Iterable[bytes]) -> None:
    """Take paths out of the index."""
    if gone := listed(paths):
        git.run("update-index", "-z", "--force-remove", "--stdin", stdin=gone)


def put_as_known(git: Git, entries: Mapping[bytes, Entry]) -> None:
    """Put entries into the index as they are, without a look at the disk."""
    put_lines(git, (b"%s %s\t%s" % (mode.encode(), blob.encode(), path) for path, (mode, blob) in entries.items()))


def put_lines(git: Git, lines: Iterable[bytes]) -> None:
    """The same of lines: mode, id, tab, path."""
    if entries := listed(lines):
        git.run("update-index", "-z", "--replace", "--index-info", stdin=entries)


def read_entries(git: Git) -> dict[bytes, Entry]:
    """Mode and id of every path of the index."""
    lines = (_LISTED.fullmatch(line) for line in git.run("ls-files", "-s", "-z").split(b"\0"))
    return {match[3]: (match[1].decode(), match[2].decode()) for match in lines if match is not None}


@contextmanager
def small_index(git: Git, store: Path) -> Iterator[Git]:
    """The repository with an empty index of its own, which is gone afterwards."""
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = store / f"changed-{short_token(16)}.index"
    try:
        yield git.with_index(own)
    finally:
        own.unlink(missing_ok=True)
        Path(f"{own}.lock").unlink(missing_ok=True)
