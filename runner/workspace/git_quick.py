"""The common comparison made cheap: two small trees that hold only the paths that may differ.

Holds where our own index of the baseline is at hand and untouched and the workspace has no nested repositories: then
that index is only read, and nothing the size of the whole repository is written.
"""

from __future__ import annotations

from pathlib import Path

from runner.workspace.git import Git, GitError, GitStopped, listed
from runner.workspace.git_snapshot import SnapshotMaker, SnapshotPlace
from tracer.clock import short_token

__all__ = ["changed_trees"]

_ABSENT = "000000"


def changed_trees(git: Git, folder: Path, index: Path, *, place: SnapshotPlace) -> tuple[str, str] | None:
    """Trees of the paths that may differ, as they were in `index` and as they are on disk; None: not this way."""
    maker = SnapshotMaker(git, folder, place=place)
    try:
        look = maker.look(git.with_index(index), known_plain=True)
        if look.hidden or any(path.endswith(b"/") for path in look.others):
            return None
        own = place.store / f"changed-{short_token(16)}.index"
        small = git.with_index(own)
        try:
            base = [
                b"%s %s\t%s" % (entry.modes[0].encode(), entry.ids[0].encode(), entry.path)
                for entry in look.changed
                if entry.modes[0] != _ABSENT
            ]
            small.run("update-index", "-z", "--index-info", stdin=listed(base))
            before = maker.write_tree(small)
            paths = {entry.path for entry in look.changed} | look.others
            maker.put(small, maker.sort_out(small, paths, careful=False))
            return before, maker.write_tree(small)
        finally:
            own.unlink(missing_ok=True)
            Path(f"{own}.lock").unlink(missing_ok=True)
    except GitStopped:
        raise
    except GitError:  # files come and go, or cannot be read: the longer way says what it is
        return None
