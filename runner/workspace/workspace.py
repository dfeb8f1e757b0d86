"""The workspace port: `baseline` before the agent is asked, `changes` after it answered (invariant 8).

A base is `git:<tree>@<blob>` where the folder belongs to a git repository (the blob holds the repository's state; older
bases have none) and `manifest:sha256:…` elsewhere or where git cannot be used (a note says so). Both stay comparable
whatever the agent does to the repository. Nothing of the user's is written but objects and refs under
`refs/pm-orchestrator/`. By git there are three ways: the full tree, only the paths that may differ, or where the
repository is gone its copy, else our own index.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.gate.criterion import ChangedFile, Harm
from runner.workspace.changes import Blobs, Change, Changes, ComparisonError, Limits, Side
from runner.workspace.git.compare import TreeChanges, compare_trees
from runner.workspace.git.entries import merged_tree, put, put_as_known, read_entries, small_index, tree_of
from runner.workspace.git.lost_work import MadeByTasks, lost_work
from runner.workspace.git.pointers import FileHashes, check_out, read_side
from runner.workspace.git.refs import USERS_COMMIT
from runner.workspace.git.repository import (
    ABSENT,
    Beside,
    Git,
    GitError,
    GitStopped,
    Stopper,
    file_stamp,
    find_repository,
    scratch_repository,
    stoppable,
)
from runner.workspace.git.since import left_out
from runner.workspace.git.snapshot import Snapshot, SnapshotMaker, SnapshotPlace, forced, look_at, write_tree
from runner.workspace.git.state import GitState, harm_since, keep, kept_copy, read_state
from runner.workspace.state_guard import StateGuard, Undone
from tracer.clock import now_epoch_ms
from tracer.errors import PmError, RecordError, UsageError

if TYPE_CHECKING:
    from runner.workspace.manifest import Manifest

_INDEXES_KEPT = 8
_LEFT_MS = 24 * 3600 * 1000
_SYMLINK = "120000"


def open_workspace(
    path: Path | str, *, state_dir: Path, blobs: Blobs, limits: Limits | None = None, task_id: str = ""
) -> Workspace:
    """The workspace at `path`; `task_id` tells which task's guard of the state dir is taken up.

    Raises:
        UsageError: it is not a folder.

    """
    folder = Path(os.path.realpath(path))
    if not folder.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder", next_step="name an existing folder as workspace")
    guard = StateGuard(Path(os.path.realpath(state_dir)), task_id=task_id)
    return Workspace(folder, guard=guard, blobs=blobs, limits=limits or Limits())


class Workspace:
    """One folder that agents work in. `notes` says in sentences what the last baseline could not take in."""

    def __init__(self, folder: Path, *, guard: StateGuard, blobs: Blobs, limits: Limits) -> None:
        self.folder = folder
        self._guard, self._state_dir = guard, guard.root
        self._blobs = blobs
        self._limits = limits
        self._excluded = left_out(folder, guard.root)
        self._store = guard.root / "control" / "workspace"
        self._hashes = FileHashes()
        self._indexes: dict[str, tuple[Snapshot, tuple[int, ...] | None]] = {}
        self._manifests: dict[str, Manifest] = {}
        self._base_notes: dict[str, tuple[str, ...]] = {}
        self._states: dict[str, GitState] = {}
        self._is_ours = folder.is_relative_to(guard.root)  # a subtask's: its HEAD and index are no one's
        self.notes: tuple[str, ...] = ()

    async def baseline(self, label: str) -> str:
        """Record the disk as it is; durable when it returns. `label` (e.g. `task-001/0`) names the refs that keep it.

        ComparisonError where the disk cannot be recorded, RecordError where the record cannot be made durable.
        """
        return await stoppable(lambda stopper: self._baseline(_ref_name(label), stopper))

    async def rewritten(self, path: Path) -> None:
        """Tell the guard of the state dir that pm itself has replaced the record `path`."""
        await asyncio.to_thread(self._guard.rewritten, path)

    async def changes(self, base: str) -> Changes:
        """What differs between `base` and the disk now.

        ComparisonError where the base is gone or damaged, or the disk cannot be read.
        """
        return await stoppable(lambda stopper: self._changes(base, stopper))

    async def rebased(self, base: str, *, left: str, now: str, label: str) -> str:
        """`base` with what changed between `left` and `now`; what differs in all three stays as it was in `base`.

        It stays as it is where not all of them are git's, or git cannot merge them.
        """
        return await stoppable(lambda stopper: self._rebased((base, left, now), _ref_name(label), stopper))

    def _rebased(self, bases: tuple[str, str, str], label: str, stopper: Stopper) -> str:
        ours, start, theirs = (one.removeprefix("git:").partition("@")[0] for one in bases)
        git = self._repository(stopper)
        if git is None or not all(one.startswith("git:") for one in bases):
            return bases[0]
        try:
            tree = merged_tree(git, start=start, ours=ours, theirs=theirs, store=self._store)
            git.run("update-ref", f"refs/pm-orchestrator/{label}/{tree}", tree)
        except GitError:
            return bases[0]
        return f"git:{tree}@{bases[2].partition('@')[2]}"

    async def lay_out(self, base: str, folder: Path, *, changed: Mapping[str, ChangedFile]) -> str:
        """Lay out `base` in the empty `folder`; `changed` differs on disk. Returns why not, empty if done.

        ComparisonError where the base cannot be read.
        """
        return await stoppable(lambda stopper: self._lay_out(base, folder, changed, stopper))

    def _lay_out(self, base: str, folder: Path, changed: Mapping[str, ChangedFile], stopper: Stopper) -> str:
        kind, _, name = base.partition(":")
        try:
            if kind == "manifest":
                from runner.workspace.manifest import lay_out_manifest, read_manifest

                manifest = self._manifests.get(name) or read_manifest(self._blobs, name)
                return lay_out_manifest(manifest, self.folder, folder, changed=changed)
            git = self._repository(stopper)
            return check_out(git, name.partition("@")[0], self.folder, folder, changed=changed) if git else "no git"
        except (GitError, OSError) as error:
            mend = "free disk space or run `git fsck`, then `pm resume`"
            raise ComparisonError(f"cannot lay out {base!r}", why=str(error), next_step=mend) from error

    def _baseline(self, label: str, stopper: Stopper) -> str:
        base = self._recorded(label, stopper)
        self._base_notes[base] = self.notes
        try:
            self._guard.take(base, task_id=label.partition("/")[0])
        except OSError as error:
            raise self._unwritable(error) from error
        return base

    def _unwritable(self, error: OSError) -> RecordError:
        return RecordError(
            f"the state directory {str(self._state_dir)!r} cannot be written",
            why=error,
            next_step="free space, change its owner, or name another one with --state-dir",
        )

    def _recorded(self, label: str, stopper: Stopper) -> str:
        notes: list[str] = []
        try:
            git = self._repository(stopper)
            if git is not None:
                place = self._place(label, notes)
                made = SnapshotMaker(git, self.folder, place=place).make()
                self._remember(made, git.top)
                kept = self._keep_state(git, notes)
                self.notes = tuple(notes)
                return f"git:{made.tree}@{kept}"
        except GitStopped as error:
            raise ComparisonError(f"the comparison of {str(self.folder)!r} was stopped", why=str(error)) from error
        except (GitError, OSError) as error:
            notes.append(f"git cannot be used here ({error}); files are compared by a list of their own")
        from runner.workspace.manifest import take_manifest  # 2 ms, only where git cannot be used

        earlier = next(reversed(self._manifests.values()), None)
        try:
            blob_id, manifest = take_manifest(
                os.fsencode(self.folder),
                excluded=frozenset(map(os.fsencode, self._excluded)),
                blobs=self._blobs,
                limits=self._limits,
                earlier=earlier,
                notes=notes,
            )
        except OSError as error:
            raise ComparisonError(
                f"the workspace {str(self.folder)!r} cannot be recorded",
                why=str(error),
                next_step="free disk space or correct the permissions, then `pm resume`",
            ) from error
        self._manifests[blob_id] = manifest
        self.notes = tuple(notes)
        return f"manifest:{blob_id}"

    def _keep_state(self, git: Git, notes: list[str]) -> str:
        """Record how the repository is and keep what brings it back; the blob that holds the state."""
        state = read_state(git)
        if self._is_ours:
            said = git.run("rev-parse", "--quiet", "--verify", USERS_COMMIT, ok_codes=(0, 1, 128))
            state = state._replace(head="", index_id="", pointer="", committed=said.decode().strip())
        else:
            try:
                keep(state, state_dir=self._state_dir)
            except OSError as error:
                notes.append(f"no copy of the repository could be kept ({error}): deleted, it would not come back")
        kept = self._blobs.put_bytes(state.encoded())
        self._states[kept] = state
        return kept

    def _state(self, kept: str) -> GitState | None:
        """A recorded state; None for a base without one, and where the record is gone."""
        if kept and kept not in self._states:
            with suppress(OSError, ValueError, KeyError, TypeError, PmError):
                self._states[kept] = GitState.decoded(self._blobs.read(kept))
        return self._states.get(kept)

    def _changes(self, base: str, stopper: Stopper) -> Changes:
        notes: list[str] = []
        try:
            undone = self._guard.undo(base)
        except OSError as error:
            raise self._unwritable(error) from error
        notes.extend(undone.notes)
        kind, _, name = base.partition(":")
        if kind == "git":
            changes = self._git_changes(name, stopper, undone, notes)
        elif kind == "manifest":
            changes = self._manifest_changes(name, undone, notes)
        else:
            raise ComparisonError(f"{base!r} is not a workspace baseline", next_step="start the task again")
        notes = [*changes.notes, *self._base_notes.get(base, ())]
        return changes._replace(lost=undone.lost, notes=tuple(dict.fromkeys(notes)))

    def _git_changes(self, name: str, stopper: Stopper, undone: Undone, notes: list[str]) -> Changes:
        tree, _, kept = name.partition("@")
        before, made = self._state(kept), MadeByTasks(self._store / "made.json")
        try:
            git = self._repository(stopper)
            found = self._compared(git, tree, notes) if git is not None else None
            by = git
            if found is None:
                by = before and kept_copy(before, state_dir=self._state_dir, stopper=stopper)
            if found is None and by is not None and (found := self._compared(by, tree, notes)) is not None:
                found.notes.append("the repository was removed or lost its objects; the comparison used the copy of it")
                if git is None and self.folder == by.top:
                    found.changes.append(Change(b".git", Side(b"", cut=True), None))
            if found is None:
                place = self._place(None, notes)
                found = _compare_without_repository(tree, self.folder, place=place, stopper=stopper)
            now = None
            if git is not None and by is git:
                with suppress(GitError, OSError):
                    now = read_state(git)
            with Beside() as beside:  # the disk has to confirm what an undo reads
                kept_left = beside.start(self._left, f"git:{name}", found, before, now)
                harm = harm_since(before, now, git) if before is not None else ()
                if before is not None and by is not None:
                    harm = (
                        *harm,
                        *lost_work(by, before, tree, found, made=made.read(), folder=self.folder, limits=self._limits),
                    )
            left = kept_left()
            made.add(found.entries)
        except (GitError, OSError) as error:
            what = f"the workspace {str(self.folder)!r} cannot be compared with its baseline git:{tree}"
            if os.strerror(errno.ENOSPC) in str(error):  # git has words of its own around these
                raise RecordError(what, why=str(error), next_step="free space, then `pm resume`") from error
            raise ComparisonError(
                what,
                why=str(error),
                next_step="repair the repository (`git fsck`), then `pm resume`",
            ) from error
        changes = Changes.of(found.changes, diff=found.diff, protected=undone.names, notes=(*notes, *found.notes))
        unknown = "" if before is not None else "how the repository was before the task is not on record"
        return changes._replace(harm=harm, harm_unknown=unknown, left=left)

    def _left(self, base: str, found: TreeChanges, before: GitState | None, now: GitState | None) -> str | None:
        """The blob of what an undo needs to know: what differs, and the repository as it was left where that moved."""
        moved = before is not None and not self._is_ours and now != before
        if not found.entries and not moved:
            return None
        after = now.encoded().decode("ascii") if moved and now is not None else None
        rows = [[os.fsdecode(entry.path), entry.modes, entry.ids] for entry in found.entries]
        return self._blobs.put_bytes(json.dumps({"base": base, "moved": moved, "after": after, "rows": rows}).encode())

    def _compared(self, git: Git, tree: str, notes: list[str]) -> TreeChanges | None:
        """What changed since `tree`; None: the repository does not hold it any more."""
        place = self._place(None, notes)
        known = self._known_index(tree)
        if known is not None and known.heeds_modes:  # the agent may have changed the setting
            git = git.heeding_modes()
        if known is not None and known.plain:
            quick = _quick_changes(git, self.folder, known, place=place)
            if quick is not None:
                return quick
        if not git.has(tree):
            return None
        made = SnapshotMaker(git, self.folder, place=place).make(start=known, tree=tree)
        made.index_file.unlink(missing_ok=True)
        return compare_trees(git, tree, made.tree, folder=self.folder, limits=self._limits)

    def _manifest_changes(self, blob_id: str, undone: Undone, notes: list[str]) -> Changes:
        from runner.workspace.manifest import compare_with_disk, read_manifest

        base = self._manifests.get(blob_id) or read_manifest(self._blobs, blob_id)
        self._manifests[blob_id] = base
        changes, diff, rows = compare_with_disk(
            base,
            os.fsencode(self.folder),
            excluded=frozenset(map(os.fsencode, self._excluded)),
            blobs=self._blobs,
            limits=self._limits,
            notes=notes,
        )
        made = Changes.of(changes, diff=diff, protected=undone.names, notes=tuple(notes))
        gone = [Harm(kind="deleted", what=file.path) for file in made.files if file.after is None]
        text = json.dumps({"base": f"manifest:{blob_id}", "rows": rows}).encode()
        return made._replace(harm=tuple(gone), left=self._blobs.put_bytes(text) if rows else None)

    def _repository(self, stopper: Stopper) -> Git | None:
        """The repository to compare by; None where there is none, or where it ignores the workspace altogether."""
        git = find_repository(self.folder, stopper=stopper)
        return None if git is None or git.ignores(self.folder) else git

    def _place(self, label: str | None, notes: list[str]) -> SnapshotPlace:
        return SnapshotPlace(self._store, self._excluded, self._limits, self._hashes, notes, label)

    def _remember(self, made: Snapshot, top: Path) -> None:
        """Keep the index and where its paths start from, and in memory how it looks: a changed one is not trusted."""
        kept = _index_of(self._store, made.tree)
        kept.with_suffix(".json").write_text(json.dumps({"top": str(top)}), encoding="utf-8")
        made.index_file.replace(kept)
        self._indexes[made.tree] = (made._replace(index_file=kept), file_stamp(kept))
        # By the time of the last renaming: an index that was not written has the modification time of the user's.
        known = sorted(self._store.glob("base-*.index"), key=lambda path: path.stat().st_ctime_ns, reverse=True)
        for old in known[_INDEXES_KEPT:]:
            old.unlink(missing_ok=True)
            old.with_suffix(".json").unlink(missing_ok=True)
        for left in [*self._store.glob("snapshot-*"), *self._store.glob("changed-*")]:  # of a killed process
            with suppress(OSError):
                if left.stat().st_mtime * 1000 < now_epoch_ms() - _LEFT_MS:
                    left.unlink()

    def _known_index(self, tree: str) -> Snapshot | None:
        """Our index of a baseline, if nobody touched it since."""
        if tree not in self._indexes:
            return None
        made, stamp = self._indexes[tree]
        return made if stamp is not None and file_stamp(made.index_file) == stamp else None


def _ref_name(label: str) -> str:
    """The label as part of a ref that git takes."""
    parts = (re.sub(r"[^A-Za-z0-9_-]+", "-", part).strip("-") for part in label.split("/"))
    return "/".join(part for part in parts if part) or "base"


def _quick_changes(git: Git, folder: Path, known: Snapshot, *, place: SnapshotPlace) -> TreeChanges | None:
    """What differs between `known` and the disk; None: not this way."""
    maker = SnapshotMaker(git, folder, place=place)
    try:
        index = git.with_index(known.index_file)
        with Beside() as beside:  # objects that are gone would be written anew, and nothing would be missed
            held = beside.start(git.has, known.tree)
            look = look_at(index, maker.scope.pathspec, is_plain=True)
        if not held():
            return None
        if look.hidden or any(path.endswith(b"/") for path in look.others):
            return None
        paths = {entry.path for entry in look.changed} | look.others
        if file_stamp(git.git_dir / "index") != known.users_index:
            paths |= forced(index, maker.scope.pathspec)
        found = maker.sort_out(git, paths, careful=False)
        if not any(found):
            return TreeChanges([], b"", [], [])
        base = {
            entry.path: (entry.modes[0], entry.ids[0])
            for entry in look.changed
            if entry.modes[0] != ABSENT and not maker.scope.is_excluded(entry.path)
        }
        brief = git.in_passing()  # the baseline holds what has to last
        with small_index(brief, place.store) as now:
            with Beside() as beside:
                start = len(maker.scope.prefix)
                then = {path[start:]: entry for path, entry in base.items()}
                before = beside.start(tree_of, brief, then, store=place.store)
                put_as_known(now, base)  # by which git reads line ends and modes
                put(now, found)
                after = write_tree(now, maker.scope) if start else None
            return compare_trees(now, before(), after, folder=folder, limits=place.limits)
    except GitStopped:
        raise
    except GitError:  # files come and go, or cannot be read: the longer way says what it is
        return None


def _index_of(store: Path, tree: str) -> Path:
    return store / f"base-{tree}.index"


def _compare_without_repository(tree: str, folder: Path, *, place: SnapshotPlace, stopper: Stopper) -> TreeChanges:
    """What differs between the baseline `tree`, whose index lies in the place's store, and the disk."""
    index = _index_of(place.store, tree)
    try:
        top = Path(json.loads(index.with_suffix(".json").read_text(encoding="utf-8"))["top"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GitError("the repository, or its record of the baseline, is not there any more") from error
    with tempfile.TemporaryDirectory(prefix="pm-compare-") as scratch:
        git = scratch_repository(Path(scratch), top, sha256=len(tree) == 64, stopper=stopper)
        then = read_entries(git.with_index(index))
        made = SnapshotMaker(git, folder, place=place).make(start=Snapshot(tree, index, plain=False))
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
    return TreeChanges(changes, b"", [note], [])


def _read(path: Path, limit: int) -> Side:
    if path.is_symlink():
        return Side(b"")
    return read_side(path, limit) or Side(b"", cut=True)
