"""The common comparison made cheap: a small tree and a small index that hold only the paths that may differ.

Holds where our own index of the baseline is at hand and untouched and the workspace has no nested repositories: then
that index is only read, and nothing the size of the whole repository is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runner.workspace.git import Git, GitError, GitStopped
from runner.workspace.git_changes import TreeChanges, compare_trees
from runner.workspace.git_entries import Overlay, put_few, small_index, take_as_known
from runner.workspace.git_look import ABSENT, Look
from runner.workspace.git_snapshot import Snapshot, SnapshotMaker, SnapshotPlace
from runner.workspace.git_trees import Entry

__all__ = ["quick_changes"]


def quick_changes(git: Git, folder: Path, known: Snapshot, *, place: SnapshotPlace) -> TreeChanges | None:
    """What differs between the baseline `known` and the disk; None: not this way."""
    maker = SnapshotMaker(git, folder, place=place)
    try:
        with ThreadPoolExecutor(1) as pool:
            is_there = pool.submit(git.has, known.tree)
            look = maker.look(git.with_index(known.index_file), known_plain=True)
        if not is_there.result() or look.hidden or any(path.endswith(b"/") for path in look.others):
            return None
        paths = {entry.path for entry in look.changed} | look.others | known.overlay.keys()
        found = maker.sort_out(git, paths, careful=False)
        if not any(found):
            return TreeChanges([], b"", [])
        base = _entries_of(look, known.overlay, maker)
        with small_index(git, place.store) as then, small_index(git, place.store) as now:
            with ThreadPoolExecutor(1) as pool:
                before = pool.submit(_tree_of, maker, then, base)
                put_few(now, base, found)
                after = maker.write_tree(now) if maker.is_below_top else None
            return compare_trees(now, before.result(), after, folder=folder, limits=place.limits)
    except GitStopped:
        raise
    except GitError:  # files come and go, or cannot be read: the longer way says what it is
        return None


def _entries_of(look: Look, overlay: Overlay, maker: SnapshotMaker) -> dict[bytes, Entry]:
    """What the baseline holds of the paths that may differ."""
    changed = {entry.path: entry for entry in look.changed}
    known: dict[bytes, Entry | None] = {
        path: None if entry.modes[0] == ABSENT else Entry(entry.modes[0].encode(), entry.ids[0].encode())
        for path, entry in changed.items()
    }
    known |= overlay
    return {path: entry for path, entry in known.items() if entry is not None and not maker.is_excluded(path)}


def _tree_of(maker: SnapshotMaker, git: Git, entries: Mapping[bytes, Entry]) -> str:
    take_as_known(git, entries)
    return maker.write_tree(git)
