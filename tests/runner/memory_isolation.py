"""Isolation in memory: the same promises without a disk, for measuring the scheduler and for its tests.

A tree is a mapping of path to bytes. `folder(subtask_id)` is the mapping a subtask works in; `files` is the person's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from runner.isolation.isolation_port import Conflict, ConflictPlace, Merged

_WHOLE = "whole"
Tree = dict[str, bytes]


class MemoryIsolation:
    """The isolation port over dictionaries; `files` is changed in `apply` only."""

    parallel = True
    why = ""

    def __init__(self, files: Tree) -> None:
        self.files = files
        self.branches: dict[str, Tree] = {}
        self._base: Tree | None = None
        self._integration: Tree = {}
        self._order: list[str] = []
        self._paths: dict[str, tuple[str, ...]] = {}
        self._starts: dict[str, Tree] = {}
        self._folders: dict[str, Tree] = {}

    def folder(self, subtask_id: str) -> Tree:
        """What lies in the subtask's folder; change it as an agent would."""
        return self._folders[subtask_id]

    async def begin(self, *, branch: str = "") -> str:
        """Record the person's files as everyone's start."""
        if self._base is None:
            self._base = dict(self.files)
            self._integration = dict(self.files)
        return _id(self._base)

    async def open(self, subtask_id: str, *, fresh: bool = False) -> Path:
        """The subtask's folder; `fresh` on what is merged."""
        if fresh or subtask_id not in self._folders:
            self._starts[subtask_id] = dict(self._integration)
            self._folders[subtask_id] = dict(self._integration)
        return _place(subtask_id)

    async def merge(self, subtask_id: str) -> Merged | Conflict:
        """Merge the subtask's folder into the common result."""
        if subtask_id in self._paths:
            return Merged(result=_id(self._integration), paths=self._paths[subtask_id])
        joined = _join(self._starts[subtask_id], self._integration, self._folders[subtask_id])
        if isinstance(joined, Conflict):
            return joined
        paths = _differing(self._integration, joined)
        self._integration = joined
        self._order.append(subtask_id)
        self._paths[subtask_id] = paths
        del self._folders[subtask_id]
        return Merged(result=_id(joined), paths=paths)

    async def merged(self) -> tuple[str, ...]:
        """The subtasks that went in, in order."""
        return tuple(self._order)

    async def whole(self) -> Path:
        """A folder with the common result."""
        return await self.open(_WHOLE, fresh=True)

    async def apply(self, *, branch: str = "") -> Merged | Conflict:
        """Give the common result to the person."""
        if branch:
            self.branches[branch] = dict(self._integration)
            return Merged(result=_id(self._integration), paths=_differing(self._base or {}, self._integration))
        joined = _join(self._base or {}, self.files, self._integration)
        if isinstance(joined, Conflict):
            return joined
        paths = _differing(self.files, joined)
        self.files.clear()
        self.files.update(joined)
        return Merged(result=_id(joined), paths=paths)

    async def close(self, *, keep_results: bool = False) -> None:
        """Forget all folders."""
        self._folders.clear()
        self._starts.clear()
        if keep_results:
            return
        self._order.clear()
        self._paths.clear()
        self._base = None


def _place(subtask_id: str) -> Path:
    return Path("/memory") / subtask_id


def _join(base: Mapping[str, bytes], ours: Mapping[str, bytes], theirs: Mapping[str, bytes]) -> Tree | Conflict:
    """Three-way merge by whole files: a file that both sides changed differently is a conflict."""
    joined, places = dict(ours), []
    for path in sorted(base.keys() | theirs.keys()):
        was, mine, yours = base.get(path), ours.get(path), theirs.get(path)
        if yours in (was, mine):
            continue
        if mine != was:
            places.append(ConflictPlace(path=path))
        elif yours is None:
            joined.pop(path, None)
        else:
            joined[path] = yours
    return Conflict(places=tuple(places)) if places else joined


def _differing(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    return tuple(path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path))


def _id(tree: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path in sorted(tree):
        digest.update(f"{path}\0{len(tree[path])}\0".encode() + tree[path])
    return f"memory:{digest.hexdigest()}"
