"""A snapshot that leaves its index as it is: the tree is the index's own, with the few paths exchanged that differ.

A large index is not written again for a few files; what differs from it lies beside it as an overlay.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runner.workspace.git import Git, GitError, GitStopped
from runner.workspace.git_entries import Found, Overlay, put_few, read_entries, small_index
from runner.workspace.git_folders import Start, Watched, watch
from runner.workspace.git_index import IndexFacts
from runner.workspace.git_look import ABSENT, Look, Looking, index_facts
from runner.workspace.git_scope import write_tree
from runner.workspace.git_sort import Sorter
from runner.workspace.git_trees import Entry, exchange, read_folders

__all__ = ["Light", "light_tree"]

_FEW = 500
_FEW_BYTES = 8 << 20


class Light(NamedTuple):
    """A tree and where it differs from git's index; `watched` spares a later walk."""

    tree: str
    overlay: Overlay
    watched: Watched | None = None


def light_tree(git: Git, index: Path, sorter: Sorter) -> tuple[Light | None, Look | None]:
    """The tree of the disk by git's `index`, a new file of ours, which stays as it is.

    None: not this way. The look serves another.
    """
    try:
        start = Start.of(index, clock_ns=sorter.place.limits.clock_ns)
        with ThreadPoolExecutor(3) as pool:
            looking = Looking(git, sorter.scope.pathspec, pool)
            facts = index_facts(git)
            indexed = pool.submit(_indexed_tree, git, sorter, facts)
            watched = watch(git, sorter.scope, facts.folders, start=start) if facts is not None else None
            look = looking.end(facts)
        if not look.is_plain or look.hidden or any(path.endswith(b"/") for path in look.others):
            return None, look
        tree = indexed.result()
        watched = watched and watched._replace(others=frozenset(look.others))
        found = sorter.sort_out(git, {entry.path for entry in look.changed} | look.others, careful=False)
        if not any(found):
            return Light(tree, {}, watched), look
        if index.stat().st_size < sorter.place.limits.large_index or not _are_few(found, sorter):
            return None, look
        return Light(*_exchange(git, sorter, tree, look=look, found=found), watched), look
    except GitStopped:
        raise
    except GitError:  # conflicts, files that come and go: the longer way has an answer to each
        return None, None


def _indexed_tree(git: Git, sorter: Sorter, facts: IndexFacts | None) -> str:
    """The tree of the index as it stands; the index itself often knows it, though not whether it is still there."""
    is_looked_for = sorter.place.label is not None  # before a ref is made for it
    if facts is not None and facts.tree is not None and not sorter.scope.prefix and is_looked_for:
        return facts.tree
    return write_tree(git, sorter.scope)


def _are_few(found: Found, sorter: Sorter) -> bool:
    """Whether it costs little to read them once more at every comparison."""
    if sum(map(len, found)) > _FEW:
        return False
    sizes = 0
    for path in found.added:
        with suppress(OSError):
            sizes += os.lstat(sorter.scope.absolute(path)).st_size
    return sizes <= _FEW_BYTES


def _exchange(git: Git, sorter: Sorter, tree: str, *, look: Look, found: Found) -> tuple[str, Overlay]:
    """The tree brought up to what was found, and what was exchanged in it."""
    start = len(sorter.scope.prefix)
    paths = {entry.path for entry in look.changed} | look.others
    with ThreadPoolExecutor(1) as pool:
        folders = pool.submit(read_folders, git, tree, [path[start:] for path in paths])
        overlay = _read_few(sorter, look, found)
    entries = {path[start:]: entry for path, entry in overlay.items()}
    return exchange(git, folders.result(), entries, length=len(tree)), overlay


def _read_few(sorter: Sorter, look: Look, found: Found) -> Overlay:
    known = {
        entry.path: Entry(entry.modes[0].encode(), entry.ids[0].encode())
        for entry in look.changed
        if entry.modes[0] != ABSENT
    }
    with small_index(sorter.repository, sorter.place.store) as small:
        put_few(small, known, found)
        return {**dict.fromkeys(found.removed), **dict.fromkeys(found.added), **read_entries(small)}
