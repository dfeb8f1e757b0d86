"""Compares a baseline with the disk: changed paths, contents of both sides, unified diff.

Three ways: the full tree, only the paths that may differ, or our own index where the repository is gone.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from runner.workspace.changes import (
    Change,
    Limits,
    Side,
    safe_text,
)
from runner.workspace.git.entries import Entry, Overlay, put_few, read_entries, small_index, tree_of
from runner.workspace.git.look import (
    ABSENT,
    Look,
    forced,
    look_at,
    write_tree,
)
from runner.workspace.git.pointers import is_note, is_pointer, media_of, same_content
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
)
from runner.workspace.git.snapshot import Snapshot, SnapshotMaker, SnapshotPlace

_GITLINK = "160000"
_SYMLINK = "120000"
_ABSENT = "000000"
_MOST_NAMED = 2000  # paths on a command line


class TreeChanges(NamedTuple):
    """What differs between two trees."""

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
        """As much of the diff as there is room for."""
        kept = diff[: max(self.diff, 0)]
        self.diff -= len(kept)
        if len(kept) < len(diff):
            kept += b"\n# %d bytes of this diff are left out\n" % (len(diff) - len(kept))
        return kept


def compare_trees(git: Git, base: str, now: str | None, *, folder: Path, limits: Limits) -> TreeChanges:
    """Everything that differs from tree `base` to tree `now`, or to git's index; `folder` is where they are on disk."""
    return _compare(git, base, now, folder=folder, prefix=b"", budget=_Budget(limits))


def _compare(git: Git, base: str, now: str | None, *, folder: Path, prefix: bytes, budget: _Budget) -> TreeChanges:
    result = TreeChanges([], b"", [])
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
        if mode not in {_ABSENT, _SYMLINK}
    }
    contents = _contents(git, wanted, budget)
    changes = []
    for entry in entries:
        old, new = (contents.get(blob) for blob in entry.ids)
        if old is not None and is_pointer(old) and _ABSENT not in entry.modes:
            whole = new if new is not None else git.run("cat-file", "blob", entry.ids[1])
            if entry.modes[0] == entry.modes[1] and same_content(old, whole):
                continue
        if new is not None and is_note(new) and _is_as_recorded(git, entry, folder):
            continue
        before, after = (
            None if mode == _ABSENT else _side(content, budget, mode)
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
    """Whether a file that a note stands for now holds what git had of it: a large one that was only touched."""
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
    """The blobs that fit the budget; what is missing here is too large, or not in the repository."""
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


def _nested(git: Git, entry: RawEntry, *, folder: Path, prefix: bytes, budget: _Budget) -> TreeChanges:
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


def _unknown(entry: RawEntry, path: bytes, why: str) -> TreeChanges:
    note = f"the repository inside {safe_text(path)} changed but cannot be compared: {why}"
    before, after = (None if mode == _ABSENT else Side(b"", cut=True) for mode in entry.modes)
    return TreeChanges([Change(path, before, after)], b"", [note])


def quick_changes(git: Git, folder: Path, known: Snapshot, *, place: SnapshotPlace) -> TreeChanges | None:
    """What differs between the baseline `known` and the disk; None: not this way."""
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
    """What differs between the baseline `tree`, whose index lies in the place's store, and the disk."""
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
