"""A snapshot, and what all snapshots of one workspace share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from runner.workspace.git_entries import Overlay
from runner.workspace.git_folders import Watched
from runner.workspace.model import Limits
from runner.workspace.notes import FileHashes

__all__ = ["Snapshot", "SnapshotPlace"]


class Snapshot(NamedTuple):
    """A tree of the workspace and the index that goes with it; `plain`: without submodules or special flags.

    `overlay` is where the tree differs from the index: a large one is not written again for a few files. `watched`
    spares a later walk over the folders; None: not this time. `heeds_modes`: it mattered what is executable.
    `users_index` is the stamp of the person's index.
    """

    tree: str
    index_file: Path
    plain: bool
    overlay: Overlay = MappingProxyType({})
    watched: Watched | None = None
    heeds_modes: bool = True
    users_index: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlace:
    """What all snapshots of one workspace share.

    `excluded` are absolute folders that are left out (the state dir), `store` is where indexes are kept, `label` names
    the refs that keep the trees (None: keep nothing), `notes` collects what could not be taken in. `spares_empty`: an
    empty folder stands for the repository that is told to be there, as in a git worktree, which never holds one.
    """

    store: Path
    excluded: tuple[Path, ...] = ()
    label: str | None = None
    limits: Limits = field(default_factory=Limits)
    hashes: FileHashes = field(default_factory=FileHashes)
    notes: list[str] = field(default_factory=list)
    spares_empty: bool = False
