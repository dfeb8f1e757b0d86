"""A baseline whose repository is gone: which files changed can still be told, what they held before cannot.

Our index of the baseline lies in the state dir with the id of every file, and beside it what differed from it; the disk
is compared with both through an empty repository made for the moment.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from runner.workspace.git import Git, GitError, scratch_repository
from runner.workspace.git_changes import TreeChanges
from runner.workspace.git_entries import Overlay, read_entries
from runner.workspace.git_place import Snapshot, SnapshotPlace
from runner.workspace.git_snapshot import SnapshotMaker
from runner.workspace.git_stopper import Stopper
from runner.workspace.git_trees import Entry
from runner.workspace.model import Change, Side

__all__ = ["compare_without_repository", "index_of", "keep_index"]


def index_of(store: Path, tree: str) -> Path:
    """Where the index of a baseline is kept."""
    return store / f"base-{tree}.index"


def keep_index(made: Snapshot, kept: Path, git: Git) -> None:
    """Move a snapshot's index to `kept`; beside it which folder its paths start from, and what differed from it."""
    differing = {
        os.fsdecode(path): None if entry is None else [part.decode("ascii") for part in entry]
        for path, entry in made.overlay.items()
    }
    beside = kept.with_suffix(".json")
    aside = made.index_file.with_suffix(".json")
    aside.write_text(json.dumps({"top": os.fsdecode(git.top), "differing": differing}), encoding="utf-8")
    beside.unlink(missing_ok=True)  # an earlier one belongs to an earlier index: at a kill between, none is the truth
    made.index_file.replace(kept)
    aside.replace(beside)


def compare_without_repository(tree: str, folder: Path, *, place: SnapshotPlace, stopper: Stopper) -> TreeChanges:
    """What differs between the baseline `tree`, whose index lies in the place's store, and the disk.

    Raises:
        GitError: the index is gone as well.

    """
    index = index_of(place.store, tree)
    try:
        record = json.loads(index.with_suffix(".json").read_text(encoding="utf-8"))
        top, overlay = Path(record["top"]), _overlay_of(record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GitError("the repository, or its record of the baseline, is not there any more") from error
    with tempfile.TemporaryDirectory(prefix="pm-compare-") as scratch:
        git = scratch_repository(Path(scratch), top, sha256=len(tree) == 64, stopper=stopper)
        then: Overlay = {**read_entries(git.with_index(index)), **overlay}
        start = Snapshot(tree, index, plain=False, overlay=overlay)
        made = SnapshotMaker(git, folder, place=place).make(start=start)
        now = read_entries(git.with_index(made.index_file))
        made.index_file.unlink(missing_ok=True)
    prefix = os.fsencode(folder.relative_to(top)) + b"/" if folder != top else b""
    changes = []
    for path in sorted(then.keys() | now.keys()):
        if then.get(path) != now.get(path) and path.startswith(prefix):
            before = Side(b"", cut=True) if then.get(path) is not None else None
            after = _read(top / os.fsdecode(path), place.limits.file) if path in now else None
            changes.append(Change(path.removeprefix(prefix), before, after))
    note = "the repository was removed or lost its objects; earlier contents are not at hand and there is no diff"
    if folder == top and not (top / ".git").exists():
        changes.append(Change(b".git", Side(b"", cut=True), None))
    return TreeChanges(changes, b"", [note])


def _overlay_of(record: dict[str, Any]) -> Overlay:
    return {
        os.fsencode(path): None if entry is None else Entry(*(part.encode("ascii") for part in entry))
        for path, entry in record.get("differing", {}).items()
    }


def _read(path: Path, limit: int) -> Side:
    if path.is_symlink():
        return Side(b"")
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError:
        return Side(b"", cut=True)
    return Side(content[:limit], cut=len(content) > limit)
