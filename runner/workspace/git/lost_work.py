"""Uncommitted work of the user's that a task lost, and what tasks left there themselves."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from runner.gate.criterion import Harm
from runner.workspace.changes import Change, Limits, safe_text
from runner.workspace.git.compare import GITLINK, TreeChanges, read_blobs
from runner.workspace.git.repository import ABSENT, Git, GitError, RawEntry, parse_raw
from runner.workspace.git.state import GitState
from tracer.durable import replace

_MOSTLY: Final = 0.5
_MOST_MADE: Final = 10_000


class MadeByTasks:
    """Which content tasks left at which path (git's id of it): the newest of each, until somebody changes it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Mapping[str, str]:
        """Ids by path; empty where nothing is on record, or where it cannot be read."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def add(self, entries: Iterable[RawEntry]) -> None:
        """Note what a task left. Best effort: without it a later rewrite of these files counts as the user's loss."""
        found = {os.fsdecode(entry.path): entry.ids[1] for entry in entries if entry.modes[1] != ABSENT}
        if not found:
            return
        known = dict(self.read())
        kept = [*((path, made) for path, made in known.items() if path not in found), *found.items()]
        if known == dict(kept):
            return
        with suppress(OSError):
            replace(self._path, json.dumps(dict(kept[-_MOST_MADE:])).encode("ascii"))


def lost_work(
    git: Git,
    state: GitState,
    tree: str,
    found: TreeChanges,
    *,
    made: Mapping[str, str],
    folder: Path,
    limits: Limits,
) -> Iterator[Harm]:
    """Files that held uncommitted work in `tree` and do not hold it any more.

    `made` says what earlier tasks left, by path: to rewrite that is the next task's business.
    """
    old = {entry.path: entry for entry in found.entries if entry.modes[0] != ABSENT and GITLINK not in entry.modes}
    if not old:
        return
    committed: dict[bytes, str] = {}
    uncommitted = set(old)
    if state.commit:
        inside = "" if folder == git.top else str(folder.relative_to(git.top))
        with suppress(GitError):  # not in that commit at all: everything is new
            then = f"{state.commit}:{inside}" if inside else f"{state.commit}^{{tree}}"
            raw = parse_raw(git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", then, tree))
            committed = {entry.path: entry.ids[0] for entry in raw if entry.modes[0] != ABSENT}
            uncommitted = old.keys() & {entry.path for entry in raw}
    wanted = {committed[path] for path in uncommitted & committed.keys()}
    contents = read_blobs(git, wanted, most=limits.total, largest=limits.file)
    changes = {change.path: change for change in found.changes}
    for path in sorted(uncommitted):
        entry, change = old[path], changes[path]
        told = safe_text(path)
        if entry.modes[1] == ABSENT:
            yield Harm(kind="deleted", what=told)
        elif entry.ids[1] == committed.get(path):
            yield Harm(kind="reset", what=told)
        elif made.get(os.fsdecode(path)) != entry.ids[0] and _is_overwritten(
            change, contents.get(committed.get(path, ""))
        ):
            yield Harm(kind="overwritten", what=told)


def _is_overwritten(change: Change, committed: bytes | None) -> bool:
    """Whether most of the user's own lines (those that `committed` does not have) are gone from a text file."""
    before, after = change.before, change.after
    if before is None or after is None or before.cut or after.cut:
        return False
    if b"\0" in before.content or b"\0" in after.content:
        return False  # what programs write (coverage data, databases) cannot be told from what a person made
    own = Counter(_lines(before.content)) - Counter(_lines(committed or b""))
    kept = own & Counter(_lines(after.content))
    return bool(own) and kept.total() < own.total() * _MOSTLY


def _lines(content: bytes) -> Iterator[bytes]:
    return (line for raw in content.split(b"\n") if (line := raw.strip()))
