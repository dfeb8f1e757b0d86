"""A baseline whose repository is gone: which files changed can still be told, what they held before cannot.

Our index of the baseline lies in the state dir with the id of every file; the disk is compared with it through an empty
repository made for the moment.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

from runner.workspace.git import Git, GitError, Stopper, scratch_repository
from runner.workspace.git_changes import TreeChanges
from runner.workspace.git_snapshot import SnapshotMaker, SnapshotPlace
from runner.workspace.model import Change, Side

__all__ = ["compare_without_repository", "index_of", "remember_place"]

_ENTRY = re.compile(rb"(\d+) ([0-9a-f]+) \d\t(.*)", re.DOTALL)


def index_of(store: Path, tree: str) -> Path:
    """Where the index of a baseline is kept."""
    return store / f"base-{tree}.index"


def remember_place(index: Path, git: Git) -> None:
    """Write beside an index which folder its paths start from."""
    index.with_suffix(".json").write_text(json.dumps({"top": os.fsdecode(git.top)}), encoding="utf-8")


def compare_without_repository(tree: str, folder: Path, *, place: SnapshotPlace, stopper: Stopper) -> TreeChanges:
    """What differs between the baseline `tree`, whose index lies in the place's store, and the disk.

    Raises:
        GitError: the index is gone as well.

    """
    index = index_of(place.store, tree)
    try:
        top = Path(json.loads(index.with_suffix(".json").read_text(encoding="utf-8"))["top"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GitError("the repository, or its record of the baseline, is not there any more") from error
    with tempfile.TemporaryDirectory(prefix="pm-compare-") as scratch:
        git = scratch_repository(Path(scratch), top, sha256=len(tree) == 64, stopper=stopper)
        then = _listed(git.with_index(index))
        made = SnapshotMaker(git, folder, place=place).make(index=index)
        now = _listed(git.with_index(made.index_file))
        made.index_file.unlink(missing_ok=True)
    prefix = os.fsencode(folder.relative_to(top)) + b"/" if folder != top else b""
    changes = []
    for path in sorted(then.keys() | now.keys()):
        if then.get(path) != now.get(path) and path.startswith(prefix):
            before = Side(b"", cut=True) if path in then else None
            after = _read(top / os.fsdecode(path), place.limits.file) if path in now else None
            changes.append(Change(path.removeprefix(prefix), before, after))
    note = "the repository was removed or lost its objects; earlier contents are not at hand and there is no diff"
    if folder == top and not (top / ".git").exists():
        changes.append(Change(b".git", Side(b"", cut=True), None))
    return TreeChanges(changes, b"", [note])


def _listed(git: Git) -> dict[bytes, tuple[bytes, bytes]]:
    """Mode and id of every path of the index."""
    found = {}
    for line in git.run("ls-files", "-s", "-z").split(b"\0"):
        if (match := _ENTRY.fullmatch(line)) is not None:
            found[match[3]] = (match[1], match[2])
    return found


def _read(path: Path, limit: int) -> Side:
    if path.is_symlink():
        return Side(b"")
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError:
        return Side(b"", cut=True)
    return Side(content[:limit], cut=len(content) > limit)
