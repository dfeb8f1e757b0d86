"""The disk as a git tree: written through an index of our own, untracked files included, ignored ones left out.

The index starts as a copy of the user's (or of our last one), so only what changed since is read. Nested repositories
and submodules are snapshots of their own, joined by a commit id that depends on nothing but their tree. A file too
large to keep, or unreadable, stands in the tree as a short note of its size and hash.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from runner.workspace.git import Git, GitError, GitStopped, find_repository, listed
from runner.workspace.git_entries import Found, Overlay, lay_over, put, put_few, read_entries, small_index
from runner.workspace.git_look import ABSENT, Look, look_at
from runner.workspace.git_trees import Entry, exchange, read_folders
from runner.workspace.model import Limits, safe_text
from runner.workspace.notes import FileHashes, note_for
from tracer.clock import short_token

__all__ = ["FIXED_PERSON", "Snapshot", "SnapshotMaker", "SnapshotPlace"]

_ATTEMPTS = 3
_MOST_NESTED = 8
_FEW = 500
_FEW_BYTES = 8 << 20
FIXED_PERSON = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "pm"), ("EMAIL", "pm@localhost"), ("DATE", "@946684800 +0000"))
}
_FLAGGED = re.compile(rb"(?:\A|\0)([a-zS]) \d+ [0-9a-f]+ \d\t([^\0]+)")
_GITLINKS = re.compile(rb"(?:\A|\0)[A-Za-z?] 160000 ([0-9a-f]+) \d\t([^\0]+)")


class Snapshot(NamedTuple):
    """A tree of the workspace and the index that goes with it; `plain`: without submodules or special flags.

    `overlay` is where the tree differs from the index: a large one is not written again for a few files.
    """

    tree: str
    index_file: Path
    plain: bool
    overlay: Overlay = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlace:
    """What all snapshots of one workspace share.

    `excluded` are absolute folders that are left out (the state dir), `store` is where indexes are kept, `label` names
    the refs that keep the trees (None: keep nothing), `notes` collects what could not be taken in.
    """

    store: Path
    excluded: tuple[Path, ...] = ()
    label: str | None = None
    limits: Limits = field(default_factory=Limits)
    hashes: FileHashes = field(default_factory=FileHashes)
    notes: list[str] = field(default_factory=list)


class SnapshotMaker:
    """Makes snapshots of `folder`, the top of a repository or a folder below it."""

    def __init__(self, git: Git, folder: Path, *, place: SnapshotPlace, depth: int = 0) -> None:
        self._repository = git
        self._place = place
        self._depth = depth
        self._plain = False
        self._top = os.fsencode(git.top)
        self._prefix = os.fsencode(folder.relative_to(git.top)) + b"/" if folder != git.top else b""
        self.is_below_top = folder != git.top
        self._scope = ["--", os.fsdecode(self._prefix)] if self._prefix else []
        self._excluded = tuple(
            os.fsencode(path.relative_to(git.top)) + b"/"
            for path in place.excluded
            if path.is_relative_to(git.top) and path != git.top
        )

    def make(self, *, start: Snapshot | None = None, tree: str | None = None, light: bool = False) -> Snapshot:
        """Snapshot the disk as it is now and keep it under the place's label.

        `start` is an earlier snapshot with its index; `tree` is one without, whose files stay in view even where git
        ignores them by now. Without either the user's index is the start. `light`: the snapshot may have an overlay.

        Raises:
            GitError: git cannot do it here; nothing is left behind.

        """
        self._place.store.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = self._place.store / f"snapshot-{short_token(16)}.index"
        git = self._repository.with_index(own)
        is_ours = start is not None or tree is not None
        overlay: Overlay = {}
        try:
            try:
                self._start(git, own, start=start, tree=tree)
                quick, look = self._lightly(git, own) if light else (None, None)
                made, overlay = quick or (self._update(git, is_ours=is_ours, look=look), overlay)
            except GitStopped:
                raise
            except GitError as error:  # the index may be damaged: a tree is the next best start, and only a start
                own.unlink(missing_ok=True)
                self._start_afresh(git, tree)
                made = self._update(git, is_ours=is_ours)
                self._place.notes.append(f"git's index could not be used ({error}); the comparison read every file")
            self._keep(git, made)
        except BaseException:
            own.unlink(missing_ok=True)
            raise
        finally:
            Path(f"{own}.lock").unlink(missing_ok=True)
        return Snapshot(made, own, self._plain, overlay)

    def _start(self, git: Git, own: Path, *, start: Snapshot | None, tree: str | None) -> None:
        if start is not None:
            shutil.copy2(start.index_file, own)  # with its time: git tells by it which entries it must read again
            lay_over(git, start.overlay)
            return
        try:
            shutil.copy2(git.git_dir / "index", own)
        except FileNotFoundError:  # nothing was ever added
            self._start_afresh(git, tree)
            return
        if tree is not None:
            git.run("read-tree", "--reset", self._wrapped(git, tree))
        elif self._prefix:  # a conflict outside of the workspace would keep a tree from being written
            unmerged = git.run("ls-files", "--unmerged", "-z").split(b"\0")
            outside = {entry.split(b"\t", 1)[1] for entry in unmerged if entry}
            outside = {path for path in outside if not path.startswith(self._prefix)}
            if outside:
                git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(outside))

    def _start_afresh(self, git: Git, tree: str | None) -> None:
        git.run("read-tree", "--empty")
        with suppress(GitError):  # no commit yet: everything is untracked
            git.run("read-tree", self._wrapped(git, tree) if tree is not None else "HEAD")

    def _wrapped(self, git: Git, tree: str) -> str:
        """The tree of the whole repository in which the workspace's folder has the tree `tree`."""
        for name in reversed(self._prefix.split(b"/")[:-1]):
            tree = git.run("mktree", "-z", stdin=b"040000 tree %s\t%s\0" % (tree.encode(), name)).decode().strip()
        return tree

    def _lightly(self, git: Git, own: Path) -> tuple[tuple[str, Overlay] | None, Look | None]:
        """The tree without a change to the index, which may be large; None: not this way. The look serves another."""
        try:
            with ThreadPoolExecutor(1) as pool:
                indexed = pool.submit(self.write_tree, git)
                look = self.look(git, known_plain=False)
            if not look.is_plain or look.hidden or any(path.endswith(b"/") for path in look.others):
                return None, look
            tree = indexed.result()
            found = self.sort_out(git, {entry.path for entry in look.changed} | look.others, careful=False)
            if any(found) and (own.stat().st_size < self._place.limits.large_index or not self._are_few(found)):
                return None, look
            if any(found):
                tree, overlay = self._exchange(git, tree, look, found)
            else:
                overlay = {}
        except GitStopped:
            raise
        except GitError:  # conflicts, files that come and go: the longer way has an answer to each
            return None, None
        self._plain = True
        return (tree, overlay), look

    def _are_few(self, found: Found) -> bool:
        """Whether it costs little to read them once more at every comparison."""
        if sum(map(len, found)) > _FEW:
            return False
        sizes = 0
        for path in found.added:
            with suppress(OSError):
                sizes += os.lstat(self._absolute(path)).st_size
        return sizes <= _FEW_BYTES

    def _exchange(self, git: Git, tree: str, look: Look, found: Found) -> tuple[str, Overlay]:
        """The tree brought up to what was found, and what was exchanged in it."""
        start = len(self._prefix)
        paths = {entry.path for entry in look.changed} | look.others
        with ThreadPoolExecutor(1) as pool:
            folders = pool.submit(read_folders, git, tree, [path[start:] for path in paths])
            overlay = self._read_few(look, found)
        entries = {path[start:]: entry for path, entry in overlay.items()}
        return exchange(git, folders.result(), entries, length=len(tree)), overlay

    def _read_few(self, look: Look, found: Found) -> Overlay:
        known = {
            entry.path: Entry(entry.modes[0].encode(), entry.ids[0].encode())
            for entry in look.changed
            if entry.modes[0] != ABSENT
        }
        with small_index(self._repository, self._place.store) as small:
            put_few(small, known, found)
            return {**dict.fromkeys(found.removed), **dict.fromkeys(found.added), **read_entries(small)}

    def _update(self, git: Git, *, is_ours: bool, look: Look | None = None) -> str:
        """Bring the index up to the disk and write its tree; `look` is what was seen just now."""
        for attempt in range(_ATTEMPTS):
            try:
                self._take_in(git, is_ours=is_ours, careful=attempt > 0, look=look)
                break
            except GitStopped:
                raise
            except GitError:  # files come and go while we look
                if attempt == _ATTEMPTS - 1:
                    raise
                look = None
        return self.write_tree(git)

    def write_tree(self, git: Git) -> str:
        """The tree of the workspace's folder in git's index."""
        if not self._prefix:
            return git.line("write-tree", "--missing-ok")
        if not git.run("ls-files", "-z", *self._scope):
            return git.line("mktree")
        return git.line("write-tree", "--missing-ok", f"--prefix={os.fsdecode(self._prefix)}")

    def look(self, git: Git, *, known_plain: bool) -> Look:
        """What differs between the index and the disk."""
        return look_at(git, self._scope, known_plain=known_plain)

    def _take_in(self, git: Git, *, is_ours: bool, careful: bool, look: Look | None = None) -> None:
        look = look or self.look(git, known_plain=False)
        self._plain = look.is_plain
        gitlinks: dict[bytes, str] = {}
        entries: list[bytes] = []
        if not look.is_plain:
            known = git.run("ls-files", "-z", "-v", "-s", *self._scope)
            self._clear_flags(git, known)
            gitlinks = {path: commit.decode() for commit, path in _GITLINKS.findall(known)}
            entries, dropped = self._follow_gitlinks(gitlinks, is_ours=is_ours)
            if dropped:
                git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(dropped))
            look = self.look(git, known_plain=True)
        paths = {entry.path for entry in look.changed} | look.others | look.hidden
        found = self.sort_out(git, paths - gitlinks.keys(), careful=careful)
        put(git, found)
        if entries:
            git.run("update-index", "-z", "--replace", "--index-info", stdin=listed(entries))

    def _clear_flags(self, git: Git, known: bytes) -> None:
        """Flags by which the user's index asks git not to look must not hide what an agent did."""
        flagged = _FLAGGED.findall(known)
        assumed = [path for tag, path in flagged if tag != b"S"]
        skipped = [path for tag, path in flagged if tag in b"Ss" and os.path.lexists(self._absolute(path))]
        if assumed:
            git.run("update-index", "-z", "--no-assume-unchanged", "--stdin", stdin=listed(assumed))
        if skipped:
            git.run("update-index", "-z", "--no-skip-worktree", "--stdin", stdin=listed(skipped))

    def _follow_gitlinks(self, gitlinks: Mapping[bytes, str], *, is_ours: bool) -> tuple[list[bytes], list[bytes]]:
        """Entries for submodules as they are on disk, and submodules that are none any more."""
        entries, dropped = [], []
        for path, commit in gitlinks.items():
            if self.is_excluded(path):
                continue
            nested = self._nested(path, base=commit if is_ours else None)
            if nested is not None:
                entries.append(b"160000 %s\t%s" % (nested, path))
            elif not _is_empty_folder(self._absolute(path)):
                dropped.append(path)
        return entries, dropped

    def sort_out(self, git: Git, paths: Iterable[bytes], *, careful: bool) -> Found:
        """What has to be done to the index for `paths` to be as they are on disk."""
        found = Found([], [], [])
        folders = {b"": True}
        for path in sorted(paths):
            if self.is_excluded(path):
                continue
            if not self._is_in_folders(path, folders):
                found.removed.append(path)
                continue
            if path.endswith(b"/"):
                self._sort_out_folder(git, path, found, careful=careful)
            else:
                self._sort_out_file(path, found, careful=careful)
        return found

    def _is_in_folders(self, path: bytes, known: dict[bytes, bool]) -> bool:
        """Whether every folder on the way is one: what is seen through a link does not belong to us."""
        parent = path.rstrip(b"/").rpartition(b"/")[0]
        if parent not in known:
            steps = parent.split(b"/")
            here = (self._absolute(b"/".join(steps[:count])) for count in range(1, len(steps) + 1))
            known[parent] = all(_is_folder(folder) for folder in here)
        return known[parent]

    def _sort_out_file(self, path: bytes, found: Found, *, careful: bool) -> None:
        absolute = self._absolute(path)
        try:
            facts = os.lstat(absolute)
        except OSError:
            found.removed.append(path)
            return
        if stat.S_ISREG(facts.st_mode):
            too_large = facts.st_size > self._place.limits.stored
            if too_large or (careful and not os.access(absolute, os.R_OK)):
                text = note_for(absolute, facts, self._place.hashes)
                blob = self._repository.run("hash-object", "-w", "--stdin", stdin=text).strip()
                mode = b"100755" if facts.st_mode & stat.S_IXUSR else b"100644"
                found.entries.append(b"%s %s\t%s" % (mode, blob, path))
                if not too_large:
                    self._place.notes.append(f"{safe_text(path)} cannot be read; only its size and time are compared")
            else:
                found.added.append(path)
        elif stat.S_ISLNK(facts.st_mode):
            found.added.append(path)
        else:  # a folder, or a thing that has no content: pipe, socket, device
            found.removed.append(path)

    def _sort_out_folder(self, git: Git, path: bytes, found: Found, *, careful: bool) -> None:
        """A repository inside the repository; where the outer one has files of that folder, they stay single files."""
        folder = path.rstrip(b"/")
        inner = None if git.run("ls-files", "-z", "--", os.fsdecode(path)) else self._nested(folder)
        if inner is not None:
            found.entries.append(b"160000 %s\t%s" % (inner, folder))
            return
        try:
            repository = find_repository(Path(os.fsdecode(self._absolute(folder))), stopper=git.stopper)
            if repository is None:
                return
            names = repository.run("ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
        except GitStopped:
            raise
        except GitError as error:
            self._place.notes.append(f"{safe_text(path)} is a repository that git cannot read: {error}")
            return
        for name in {name for name in names if name and not name.endswith(b"/")}:
            self._sort_out_file(path + name, found, careful=careful)

    def _nested(self, path: bytes, *, base: str | None = None) -> bytes | None:
        """The id that stands for the nested repository at `path`; None where there is none that git can read."""
        folder = Path(os.fsdecode(self._absolute(path)))
        if folder.is_symlink() or not os.path.lexists(folder / ".git"):
            return None
        if self._depth >= _MOST_NESTED:
            self._place.notes.append(f"{safe_text(path)} is nested too deeply and was not compared")
            return None
        try:
            git = find_repository(folder, stopper=self._repository.stopper)
            if git is None or git.top != folder:
                return None
            known = base is not None and git.run("cat-file", "-t", base, ok_codes=(0, 128)).strip() == b"commit"
            maker = SnapshotMaker(git, folder, place=self._place, depth=self._depth + 1)
            made = maker.make(tree=base if known else None)
            made.index_file.unlink(missing_ok=True)
            return _fixed_commit(git, made.tree).encode()
        except GitStopped:
            raise
        except GitError as error:
            self._place.notes.append(f"{safe_text(path)} is a repository that git cannot read: {error}")
            return None

    def _keep(self, git: Git, tree: str) -> None:
        if self._place.label is None:
            return
        kept = _fixed_commit(git, tree) if self._depth else tree
        git.run("update-ref", f"refs/pm-orchestrator/{self._place.label}/{tree}", kept)

    def _absolute(self, path: bytes) -> bytes:
        return self._top + b"/" + path

    def is_excluded(self, path: bytes) -> bool:
        """Whether the path is left out of every snapshot."""
        return (path + b"/").startswith(self._excluded) if self._excluded else False


def _fixed_commit(git: Git, tree: str) -> str:
    """A commit of `tree` that is the same whoever makes it and whenever."""
    return git.run("commit-tree", tree, "-m", "snapshot", env=FIXED_PERSON).decode().strip()


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_empty_folder(path: bytes) -> bool:
    try:
        with os.scandir(path) as inside:
            return next(inside, None) is None
    except OSError:
        return False
