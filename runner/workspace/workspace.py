"""The workspace port: `baseline` before the agent is asked, `changes` after it answered (invariant 8).

A base is `git:<tree>` where the folder belongs to a git repository and `manifest:sha256:…` elsewhere or where git
cannot be used (a note says so). Both stay comparable whatever the agent does to the repository. Nothing of the user's
is written but objects and refs under `refs/pm-orchestrator/`. By git there are three ways: the full tree, only the
paths that may differ, or our own index where the repository is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.workspace.changes import Blobs, Change, Changes, ComparisonError, Limits, Side, safe_text
from runner.workspace.git.entries import Entry, Overlay, put_few, read_entries, small_index, tree_of
from runner.workspace.git.look import ABSENT, Look, forced, look_at, write_tree
from runner.workspace.git.pointers import FileHashes, is_note, is_pointer, media_of, read_side, same_content
from runner.workspace.git.repository import (
    Git,
    GitError,
    GitStopped,
    RawEntry,
    Stopper,
    file_stamp,
    find_repository,
    parse_raw,
    scratch_repository,
    stoppable,
)
from runner.workspace.git.snapshot import Snapshot, SnapshotMaker, SnapshotPlace
from runner.workspace.state_guard import StateGuard, Undone
from tracer.clock import now_epoch_ms
from tracer.errors import RecordError, UsageError

if TYPE_CHECKING:
    from runner.workspace.manifest import Manifest

_INDEXES_KEPT = 8
_LEFT_MS = 24 * 3600 * 1000
_GITLINK = "160000"
_SYMLINK = "120000"
_MOST_NAMED = 2000  # paths on a command line


def open_workspace(path: Path | str, *, state_dir: Path, blobs: Blobs, limits: Limits | None = None) -> Workspace:
    """The workspace at `path`.

    Raises:
        UsageError: it is not a folder.

    """
    folder = Path(os.path.realpath(path))
    if not folder.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder", next_step="name an existing folder as workspace")
    return Workspace(folder, state_dir=Path(os.path.realpath(state_dir)), blobs=blobs, limits=limits or Limits())


def _own_output(folder: Path) -> list[Path]:
    """The files that our own output goes to (`pm run … > run.log`): they change without an agent."""
    found = []
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or a system that does not tell
            path = Path(f"/dev/fd/{descriptor}").readlink()
            if path.is_relative_to(folder) and stat.S_ISREG(os.fstat(descriptor).st_mode):
                found.append(path)
    return found


class Workspace:
    """One folder that agents work in. `notes` says in sentences what the last baseline could not take in."""

    def __init__(self, folder: Path, *, state_dir: Path, blobs: Blobs, limits: Limits) -> None:
        self.folder = folder
        self._state_dir = state_dir
        self._blobs = blobs
        self._limits = limits
        self._excluded = (state_dir, folder / ".pdd" / "agentic-traces", *_own_output(folder))
        self._store = state_dir / "control" / "workspace"
        self._hashes = FileHashes()
        self._indexes: dict[str, tuple[Snapshot, tuple[int, ...] | None]] = {}
        self._manifests: dict[str, Manifest] = {}
        self._guard = StateGuard(state_dir)
        self._base_notes: dict[str, tuple[str, ...]] = {}
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

    def _baseline(self, label: str, stopper: Stopper) -> str:
        base = self._recorded(label, stopper)
        self._base_notes[base] = self.notes
        try:
            self._guard.take(base)
        except OSError as error:
            raise self._unwritable(error) from error
        return base

    def _unwritable(self, error: OSError) -> RecordError:
        return RecordError(
            f"the state directory {str(self._state_dir)!r} cannot be written",
            why=error,
            next_step="free space, change its owner, or name another one with --state-dir",
        )

    def _stopped(self, error: GitStopped) -> ComparisonError:
        return ComparisonError(f"the comparison of {str(self.folder)!r} was stopped", why=str(error))

    def _recorded(self, label: str, stopper: Stopper) -> str:
        notes: list[str] = []
        try:
            git = self._repository(stopper)
            if git is not None:
                place = self._place(label, notes)
                made = SnapshotMaker(git, self.folder, place=place).make(light=True)
                self._remember(made, git)
                self.notes = tuple(notes)
                return f"git:{made.tree}"
        except GitStopped as error:
            raise self._stopped(error) from error
        except (GitError, OSError) as error:
            notes.append(f"git cannot be used here ({error}); files are compared by a list of their own")
        from runner.workspace.manifest import take_manifest  # 2 ms, only where git cannot be used

        earlier = next(reversed(self._manifests.values()), None)
        try:
            blob_id, manifest = take_manifest(
                os.fsencode(self.folder),
                excluded=self._excluded_names(),
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
        return replace(changes, notes=tuple(dict.fromkeys((*changes.notes, *self._base_notes.get(base, ())))))

    def _git_changes(self, tree: str, stopper: Stopper, undone: Undone, notes: list[str]) -> Changes:
        try:
            git = self._repository(stopper)
            found = self._compared(git, tree, notes) if git is not None else None
            if found is None:
                found = _compare_without_repository(tree, self.folder, place=self._place(None, notes), stopper=stopper)
        except (GitError, OSError) as error:
            raise ComparisonError(
                f"the workspace {str(self.folder)!r} cannot be compared with its baseline git:{tree}",
                why=str(error),
                next_step="repair the repository (`git fsck`), then `pm resume`",
            ) from error
        return Changes.of(found.changes, diff=found.diff, protected=undone.names, notes=(*notes, *found.notes))

    def _compared(self, git: Git, tree: str, notes: list[str]) -> _TreeChanges | None:
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
        return _compare_trees(git, tree, made.tree, folder=self.folder, limits=self._limits)

    def _manifest_changes(self, blob_id: str, undone: Undone, notes: list[str]) -> Changes:
        from runner.workspace.manifest import compare_with_disk, read_manifest

        base = self._manifests.get(blob_id) or read_manifest(self._blobs, blob_id)
        self._manifests[blob_id] = base
        changes, diff = compare_with_disk(
            base,
            os.fsencode(self.folder),
            excluded=self._excluded_names(),
            blobs=self._blobs,
            limits=self._limits,
            notes=notes,
        )
        return Changes.of(changes, diff=diff, protected=undone.names, notes=tuple(notes))

    def _repository(self, stopper: Stopper) -> Git | None:
        """The repository to compare by; None where there is none, or where it ignores the workspace altogether."""
        git = find_repository(self.folder, stopper=stopper)
        return None if git is None or git.ignores(self.folder) else git

    def _place(self, label: str | None, notes: list[str]) -> SnapshotPlace:
        return SnapshotPlace(
            store=self._store,
            excluded=self._excluded,
            label=label,
            limits=self._limits,
            hashes=self._hashes,
            notes=notes,
        )

    def _excluded_names(self) -> frozenset[bytes]:
        return frozenset(os.fsencode(path) for path in self._excluded)

    def _remember(self, made: Snapshot, git: Git) -> None:
        """Keep the index beside its tree, and in memory how it looks: a changed one is not trusted."""
        kept = _index_of(self._store, made.tree)
        _keep_index(made, kept, git)
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


class _TreeChanges(NamedTuple):
    changes: list[Change]
    diff: bytes
    notes: list[str]


class _Budget:
    """How many bytes of content may still be read."""

    def __init__(self, limits: Limits) -> None:
        self.file = limits.file
        self.left = limits.total
        self.diff = limits.diff

    def take(self, content: bytes) -> Side:
        room = min(self.file, self.left)
        kept = content[:room]
        self.left -= len(kept)
        return Side(kept, cut=len(content) > room)

    def cut(self, diff: bytes) -> bytes:
        kept = diff[: max(self.diff, 0)]
        self.diff -= len(kept)
        if len(kept) < len(diff):
            kept += b"\n# %d bytes of this diff are left out\n" % (len(diff) - len(kept))
        return kept


def _compare_trees(git: Git, base: str, now: str | None, *, folder: Path, limits: Limits) -> _TreeChanges:
    """Everything that differs from tree `base` to tree `now`, or to git's index; `folder` is where they are on disk."""
    return _compare(git, base, now, folder=folder, prefix=b"", budget=_Budget(limits))


def _compare(git: Git, base: str, now: str | None, *, folder: Path, prefix: bytes, budget: _Budget) -> _TreeChanges:
    result = _TreeChanges([], b"", [])
    if base == now:
        return result
    with ThreadPoolExecutor(1) as pool:
        whole = pool.submit(_diff, git, base, now, prefix=prefix)
        entries = parse_raw(_ask(git, base, now, "-z", "--raw", "--no-abbrev"))
        plain = [entry for entry in entries if _GITLINK not in entry.modes]
        result.changes.extend(_changes(git, plain, folder=folder, prefix=prefix, budget=budget))
    diff = whole.result()
    if result.changes and len(result.changes) < len(plain) < _MOST_NAMED:  # some pointers' files are what they were
        changed = [change.path.removeprefix(prefix) for change in result.changes]
        diff = _diff(git, base, now, only=changed, prefix=prefix)
    diff = budget.cut(diff) if result.changes else b""
    for entry in entries:
        if _GITLINK in entry.modes:
            inner = _nested(git, entry, folder=folder, prefix=prefix, budget=budget)
            result.changes.extend(inner.changes)
            result.notes.extend(inner.notes)
            diff += inner.diff
    return result._replace(diff=diff)


def _changes(git: Git, entries: list[RawEntry], *, folder: Path, prefix: bytes, budget: _Budget) -> list[Change]:
    wanted = {
        blob
        for entry in entries
        for mode, blob in zip(entry.modes, entry.ids, strict=True)
        if mode not in {ABSENT, _SYMLINK}
    }
    contents = _contents(git, wanted, budget)
    changes = []
    for entry in entries:
        old, new = (contents.get(blob) for blob in entry.ids)
        if old is not None and is_pointer(old) and ABSENT not in entry.modes:
            whole = new if new is not None else git.run("cat-file", "blob", entry.ids[1])
            if entry.modes[0] == entry.modes[1] and same_content(old, whole):
                continue
        if new is not None and is_note(new) and _is_as_recorded(git, entry, folder):
            continue
        before, after = (
            None if mode == ABSENT else _side(content, budget, mode)
            for mode, content in zip(entry.modes, (old, new), strict=True)
        )
        if before is not None and old is not None:
            if is_note(old):
                before = Side(b"", cut=True)
            elif is_pointer(old):
                before = media_of(old, git.git_dir, limit=budget.file)
        if after is not None and new is not None and is_note(new):
            after = _from_disk(folder / os.fsdecode(entry.path), budget)
        changes.append(Change(prefix + entry.path, before, after))
    return changes


def _is_as_recorded(git: Git, entry: RawEntry, folder: Path) -> bool:
    """Whether a file that a note stands for holds what git had: a large one that was only touched."""
    if entry.modes[0] != entry.modes[1]:
        return False
    path = folder / os.fsdecode(entry.path)
    said = git.run("hash-object", f"--path={path.relative_to(git.top)}", "--", str(path), ok_codes=(0, 128))
    return said.strip() == entry.ids[0].encode()


def _side(content: bytes | None, budget: _Budget, mode: str) -> Side:
    if mode == _SYMLINK:
        return Side(b"")  # what a link points to is compared where it stands, if it is ours at all
    return Side(b"", cut=True) if content is None else budget.take(content)


def _from_disk(path: Path, budget: _Budget) -> Side:
    room = min(budget.file, budget.left)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            content = file.read(room)
    except OSError:
        content = b""
    budget.left -= len(content)
    return Side(content, cut=True)


def _contents(git: Git, wanted: set[str], budget: _Budget) -> dict[str, bytes]:
    """The blobs that fit the budget; others are too large, or not there."""
    if not wanted:
        return {}
    asked = "".join(f"{blob}\n" for blob in sorted(wanted)).encode()
    fitting, left = [], budget.left
    for line in git.run("cat-file", "--batch-check", stdin=asked).decode("ascii", "replace").splitlines():
        blob, kind, *size = line.split(" ")
        if kind == "blob" and int(size[0]) <= left and int(size[0]) <= 4 * budget.file:
            fitting.append(blob)
            left -= int(size[0])
    raw = git.run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in fitting).encode())
    contents, at = {}, 0
    for blob in fitting:
        end = raw.index(b"\n", at)
        size_of = int(raw[at:end].split(b" ")[2])
        contents[blob] = raw[end + 1 : end + 1 + size_of]
        at = end + 1 + size_of + 1
    return contents


def _diff(git: Git, base: str, now: str | None, *, only: Iterable[bytes] = (), prefix: bytes) -> bytes:
    where = os.fsdecode(prefix)
    return _ask(
        *(git, base, now, "-p", "--no-ext-diff", "--no-textconv", "--full-index", "--no-color"),
        *("--ignore-submodules=all", f"--src-prefix=a/{where}", f"--dst-prefix=b/{where}"),
        only=only,
    )


def _ask(git: Git, base: str, now: str | None, *options: str, only: Iterable[bytes] = ()) -> bytes:
    """What git says of the difference from tree `base` to tree `now`, or to its index."""
    command = ("diff-index", "--cached") if now is None else ("diff-tree", "-r")
    operands = (base,) if now is None else (base, now)
    return git.run(*command, "--no-renames", *options, *operands, "--", *map(os.fsdecode, only))


def _nested(git: Git, entry: RawEntry, *, folder: Path, prefix: bytes, budget: _Budget) -> _TreeChanges:
    """What changed inside a nested repository; one that came or went is all added or all deleted."""
    inner = folder / os.fsdecode(entry.path)
    path = prefix + entry.path
    try:
        repository = find_repository(inner, stopper=git.stopper) if inner.is_dir() else None
        if repository is None or repository.top != inner:
            return _unknown(entry, path, "it is not there any more")
        empty = repository.line("mktree")
        before, after = (
            f"{blob}^{{tree}}" if mode == _GITLINK else empty for mode, blob in zip(entry.modes, entry.ids, strict=True)
        )
        return _compare(repository, before, after, folder=inner, prefix=path + b"/", budget=budget)
    except GitStopped:
        raise
    except GitError as error:
        return _unknown(entry, path, str(error))


def _unknown(entry: RawEntry, path: bytes, why: str) -> _TreeChanges:
    note = f"the repository inside {safe_text(path)} changed but cannot be compared: {why}"
    before, after = (None if mode == ABSENT else Side(b"", cut=True) for mode in entry.modes)
    return _TreeChanges([Change(path, before, after)], b"", [note])


def _quick_changes(git: Git, folder: Path, known: Snapshot, *, place: SnapshotPlace) -> _TreeChanges | None:
    """What differs between `known` and the disk; None: not this way."""
    maker = SnapshotMaker(git, folder, place=place)
    try:
        index = git.with_index(known.index_file)
        look = look_at(index, maker.scope.pathspec, is_plain=True)
        if look.hidden or any(path.endswith(b"/") for path in look.others):
            return None
        paths = {entry.path for entry in look.changed} | look.others | known.overlay.keys()
        if file_stamp(git.git_dir / "index") != known.users_index:
            paths |= forced(index, maker.scope.pathspec)
        found = maker.sorter.sort_out(git, paths, careful=False)
        if not any(found):
            return _TreeChanges([], b"", []) if git.has(known.tree) else None
        base = _entries_of(look, known.overlay, maker)
        brief = git.in_passing()  # the baseline holds what has to last
        with small_index(brief, place.store) as now:
            with ThreadPoolExecutor(1) as pool:
                start = len(maker.scope.prefix)
                then = {path[start:]: entry for path, entry in base.items()}
                before = pool.submit(tree_of, brief, then, length=len(known.tree))
                put_few(now, base, found)
                after = write_tree(now, maker.scope) if start else None
            return _compare_trees(now, before.result(), after, folder=folder, limits=place.limits)
    except GitStopped:
        raise
    except GitError:  # files come and go, or cannot be read: the longer way says what it is
        return None


def _entries_of(look: Look, overlay: Overlay, maker: SnapshotMaker) -> dict[bytes, Entry]:
    changed = {entry.path: entry for entry in look.changed}
    known: dict[bytes, Entry | None] = {
        path: None if entry.modes[0] == ABSENT else Entry(entry.modes[0].encode(), entry.ids[0].encode())
        for path, entry in changed.items()
    }
    known |= overlay
    return {path: entry for path, entry in known.items() if entry is not None and not maker.scope.is_excluded(path)}


def _index_of(store: Path, tree: str) -> Path:
    return store / f"base-{tree}.index"


def _keep_index(made: Snapshot, kept: Path, git: Git) -> None:
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


def _compare_without_repository(tree: str, folder: Path, *, place: SnapshotPlace, stopper: Stopper) -> _TreeChanges:
    """What differs between the baseline `tree`, whose index lies in the place's store, and the disk."""
    index = _index_of(place.store, tree)
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
    return _TreeChanges(changes, b"", [note])


def _overlay_of(record: dict[str, Any]) -> Overlay:
    return {
        os.fsencode(path): None if entry is None else Entry(*(part.encode("ascii") for part in entry))
        for path, entry in record.get("differing", {}).items()
    }


def _read(path: Path, limit: int) -> Side:
    if path.is_symlink():
        return Side(b"")
    return read_side(path, limit) or Side(b"", cut=True)
