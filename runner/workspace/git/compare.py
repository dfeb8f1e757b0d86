"""Two trees of git compared: which files differ, their contents within the limits, and git's own diff of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from runner.workspace.changes import Change, Limits, Side, safe_text
from runner.workspace.git.pointers import is_note, is_pointer, media_of, same_content
from runner.workspace.git.repository import (
    ABSENT,
    Beside,
    Git,
    GitError,
    GitStopped,
    RawEntry,
    find_repository,
    parse_batch,
    parse_raw,
)

GITLINK = "160000"
_SYMLINK = "120000"
_MOST_NAMED = 2000  # paths on a command line


class TreeChanges(NamedTuple):
    """What differs, git's diff of it, sentences on what could not be compared, and git's entries of what differs.

    A nested repository has an entry of its own, with its HEADs for ids, none on a side that is not known; those of its
    files follow, and what they held is in the outer repository too.
    """

    changes: list[Change]
    diff: bytes
    notes: list[str]
    entries: list[RawEntry]


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


def compare_trees(git: Git, base: str, now: str | None, *, folder: Path, limits: Limits) -> TreeChanges:
    """Everything that differs from tree `base` to tree `now`, or to git's index; `folder` is where they are on disk."""
    return _compare(git, base, now, folder=folder, prefix=b"", budget=_Budget(limits))


def _compare(git: Git, base: str, now: str | None, *, folder: Path, prefix: bytes, budget: _Budget) -> TreeChanges:
    result = TreeChanges([], b"", [], [])
    if base == now:
        return result
    with Beside() as beside:
        whole = beside.start(_diff, git, base, now, prefix=prefix)
        entries = parse_raw(_ask(git, base, now, "-z", "--raw", "--no-abbrev"))
        plain = [entry for entry in entries if GITLINK not in entry.modes]
        for entry, change in _changes(git, plain, folder=folder, prefix=prefix, budget=budget):
            result.changes.append(change)
            result.entries.append(entry)
    diff = whole()
    if result.changes and len(result.changes) < len(plain) < _MOST_NAMED:  # some pointers' files are what they were
        changed = [change.path.removeprefix(prefix) for change in result.changes]
        diff = _diff(git, base, now, only=changed, prefix=prefix)
    diff = budget.cut(diff) if result.changes else b""
    for entry in entries:
        if GITLINK in entry.modes:
            inner = _nested(git, entry, folder=folder, prefix=prefix, budget=budget)
            result.changes.extend(inner.changes)
            result.entries.extend(inner.entries)
            result.notes.extend(inner.notes)
            diff += inner.diff
    return result._replace(diff=diff)


def _changes(
    git: Git, entries: list[RawEntry], *, folder: Path, prefix: bytes, budget: _Budget
) -> Iterator[tuple[RawEntry, Change]]:
    wanted = {
        blob
        for entry in entries
        for mode, blob in zip(entry.modes, entry.ids, strict=True)
        if mode not in {ABSENT, _SYMLINK}
    }
    contents = read_blobs(git, wanted, most=budget.left, largest=4 * budget.file)
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
        yield entry, Change(prefix + entry.path, before, after)


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


def read_blobs(git: Git, wanted: Iterable[str], *, most: int, largest: int) -> dict[str, bytes]:
    """The blobs of at most `largest` bytes that fit into `most` together; others are too large, or not there."""
    asked = "".join(f"{blob}\n" for blob in sorted(wanted)).encode()
    if not asked:
        return {}
    fitting, left = [], most
    for line in git.run("cat-file", "--batch-check", stdin=asked).decode("ascii", "replace").splitlines():
        blob, kind, *size = line.split(" ")
        if kind == "blob" and int(size[0]) <= min(left, largest):
            fitting.append(blob)
            left -= int(size[0])
    raw = git.run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in fitting).encode())
    return dict(zip(fitting, parse_batch(raw), strict=True))


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
        sides = list(zip(entry.modes, entry.ids, strict=True))
        before, after = (f"{blob}^{{tree}}" if mode == GITLINK else empty for mode, blob in sides)
        found = _compare(repository, before, after, folder=inner, prefix=path + b"/", budget=budget)
        held = {one for each in found.entries for one in zip(each.modes, each.ids, strict=True)}
        blobs = sorted(blob for mode, blob in held if mode not in {ABSENT, GITLINK})
        if blobs:
            asked = "".join(f"{blob}\n" for blob in blobs).encode()
            git.run("unpack-objects", "-q", stdin=repository.run("pack-objects", "-q", "--stdout", stdin=asked))
        heads = ("" if mode != GITLINK else repository.line("show", "-s", "--format=%P", blob) for mode, blob in sides)
        files = [each._replace(path=entry.path + b"/" + each.path) for each in found.entries]
        return found._replace(entries=[entry._replace(ids=(next(heads), next(heads))), *files])
    except GitStopped:
        raise
    except GitError as error:
        return _unknown(entry, path, str(error))


def _unknown(entry: RawEntry, path: bytes, why: str) -> TreeChanges:
    note = f"the repository inside {safe_text(path)} changed but cannot be compared: {why}"
    before, after = (None if mode == ABSENT else Side(b"", cut=True) for mode in entry.modes)
    lost = entry._replace(modes=(entry.modes[0], ABSENT))
    return TreeChanges([Change(path, before, after)], b"", [note], [lost])
