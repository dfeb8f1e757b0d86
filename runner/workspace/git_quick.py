"""The common comparison made cheap: a small tree and a small index that hold only the paths that may differ.

Holds where our own index of the baseline is at hand and untouched and the workspace has no nested repositories: then
that index is only read, and nothing the size of the whole repository is written.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from runner.workspace.git import Git, GitError, GitStopped
from runner.workspace.git_changes import TreeChanges, compare_trees
from runner.workspace.git_entries import Overlay, put_few, small_index
from runner.workspace.git_folders import walk_again
from runner.workspace.git_look import ABSENT, Look, forced, index_stamp, look_at_plain
from runner.workspace.git_place import Snapshot, SnapshotPlace
from runner.workspace.git_scope import write_tree
from runner.workspace.git_snapshot import SnapshotMaker
from runner.workspace.git_trees import Entry, tree_of

__all__ = ["quick_changes"]


def quick_changes(git: Git, folder: Path, known: Snapshot, *, place: SnapshotPlace) -> TreeChanges | None:
    """What differs between the baseline `known` and the disk; None: not this way."""
    maker = SnapshotMaker(git, folder, place=place)
    try:
        index = git.with_index(known.index_file)
        walked = partial(walk_again, index, maker.scope, known.watched) if known.watched is not None else None
        look = look_at_plain(index, maker.scope.pathspec, walked=walked)
        if look.hidden or any(path.endswith(b"/") for path in look.others):
            return None
        paths = {entry.path for entry in look.changed} | look.others | known.overlay.keys()
        if index_stamp(git) != known.users_index:
            paths |= forced(index, maker.scope.pathspec)
        found = maker.sorter.sort_out(git, paths, careful=False)
        if not any(found):
            return TreeChanges([], b"", []) if git.has(known.tree) else None
        base = _entries_of(look, known.overlay, maker)
        brief = git.in_passing()  # the baseline holds what has to last
        with small_index(brief, place.store) as now:
            with ThreadPoolExecutor(1) as pool:
                start = len(maker.scope.prefix)
                then = {path[start:]: entry for path, entry in base.items()}
                before = pool.submit(tree_of, brief, then, length=len(known.tree))
                put_few(now, base, found)
                after = write_tree(now, maker.scope) if start else None
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
    return {path: entry for path, entry in known.items() if entry is not None and not maker.scope.is_excluded(path)}
