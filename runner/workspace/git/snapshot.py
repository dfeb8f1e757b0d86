"""The disk as a git tree, written through an index of our own; nested repositories included.

The index starts as a copy of the user's or of an earlier snapshot, so only what changed since is read. Untracked
files are included, ignored ones left out; a file too large to keep stands in the tree as a note of its size and
hash.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from runner.workspace.changes import LEFT_OUT, Limits, safe_text
from runner.workspace.git.entries import Found, put, put_lines, remove, small_index
from runner.workspace.git.pointers import FileHashes, note_for
from runner.workspace.git.repository import (
    Beside,
    Git,
    GitError,
    GitStopped,
    RawEntry,
    file_stamp,
    find_repository,
    listed,
    parse_raw,
)
from tracer.clock import now_epoch_ms, short_token

_OTHERS = ("ls-files", "-z", "--others", "--exclude-standard", *(f"--exclude={name}" for name in LEFT_OUT))
_CHANGED = ("diff-files", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=all")
_UNUSUAL = re.compile(rb"\0(?!H 1[02]|\Z)")  # anything but a file or link without flags: 100644, 100755, 120000


class Scope:
    """The workspace `folder` in the working tree `top`, without the folders `excluded`. Paths start from the top.

    `prefix` is the folder with a slash behind it, empty at the top; `pathspec` are arguments that hold git to it.
    """

    def __init__(self, top: Path, folder: Path, *, excluded: Iterable[Path]) -> None:
        self._top = os.fsencode(top)
        self.prefix = os.fsencode(folder.relative_to(top)) + b"/" if folder != top else b""
        self.pathspec = ["--", os.fsdecode(self.prefix)] if self.prefix else []
        self._excluded = tuple(
            os.fsencode(path.relative_to(top)) + b"/" for path in excluded if path.is_relative_to(top) and path != top
        )

    def absolute(self, path: bytes) -> bytes:
        """Where the path is on disk."""
        return self._top + b"/" + path

    def is_excluded(self, path: bytes) -> bool:
        """Whether the path is left out of every snapshot."""
        return (path + b"/").startswith(self._excluded) if self._excluded else False


def write_tree(git: Git, scope: Scope) -> str:
    """The tree of the workspace's folder in git's index."""
    if not scope.prefix:
        return git.line("write-tree", "--missing-ok")
    if not git.run("ls-files", "-z", *scope.pathspec):
        return git.line("mktree")
    return git.line("write-tree", "--missing-ok", f"--prefix={os.fsdecode(scope.prefix)}")


def walk(git: Git, pathspec: Iterable[str]) -> set[bytes]:
    """The files that git's index does not know and no rule ignores; a nested repository ends in a slash."""
    return set(git.run(*_OTHERS, *pathspec).split(b"\0")) - {b""}


class Look(NamedTuple):
    """What differs between an index and the disk; `is_plain`: no submodules, conflicts or flags that hide changes.

    `hidden` are known files that git passes over.
    """

    changed: list[RawEntry]
    others: set[bytes]
    is_plain: bool
    hidden: set[bytes]


def look_at(git: Git, scope: Sequence[str], *, is_plain: bool = False) -> Look:
    """What differs between git's index and the disk; `is_plain`: the index is known to be plain."""
    complaints: list[bytes] = []
    with Beside() as beside:
        changed = beside.start(git.run, *_CHANGED, *scope, complaints=complaints)
        others = beside.start(walk, git, scope)
        is_plain = is_plain or _is_plain(git, scope)
    entries = parse_raw(changed())
    return Look(entries, others(), is_plain, _unseen(git, scope) if complaints else set())


def forced(git: Git, scope: Sequence[str]) -> set[bytes]:
    """Ignored files that the user's index knows all the same (`git add -f`) and git's own index does not."""
    ask = ("ls-files", "-z", "--cached", "--ignored", "--exclude-standard", *scope)
    try:
        known = set(git.with_index(git.git_dir / "index").run(*ask).split(b"\0")) - {b""}
    except GitStopped:
        raise
    except GitError:
        return set()
    return known - set(git.run(*ask).split(b"\0")) if known else known


def _is_plain(git: Git, scope: Sequence[str]) -> bool:
    """Whether git lists nothing unusual; an index with a part in another file, which may go, is never plain."""
    if any(git.git_dir.glob("sharedindex.*")):
        return False
    return _UNUSUAL.search(b"\0" + git.run("ls-files", "-z", "-v", "-s", *scope)) is None


def _unseen(git: Git, scope: Sequence[str]) -> set[bytes]:
    """Known files that git cannot ask after and only complains of: in a closed folder, behind a link in a circle."""
    top = os.fsencode(git.top)
    known = git.run("ls-files", "-z", *scope).split(b"\0")
    return {path for path in known if path and not _can_be_asked_after(top + b"/" + path)}


def _can_be_asked_after(path: bytes) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):  # git tells of these
        pass
    except OSError:
        return False
    return True


class Snapshot(NamedTuple):
    """A tree of the workspace and the index that goes with it; `plain`: without submodules or special flags.

    `heeds_modes`: it mattered what is executable. `users_index` is the stamp of the user's index.
    """

    tree: str
    index_file: Path
    plain: bool
    heeds_modes: bool = True
    users_index: tuple[int, ...] | None = None


class SnapshotPlace(NamedTuple):
    """What all snapshots of one workspace share.

    `excluded` are absolute folders that are left out (the state dir), `store` is where indexes are kept, `label` names
    the refs that keep the trees (None: keep nothing), `notes` collects what could not be taken in. `spares_empty`: an
    empty folder stands for the repository that is told to be there, as in a git worktree, which never holds one.
    """

    store: Path
    excluded: tuple[Path, ...]
    limits: Limits
    hashes: FileHashes
    notes: list[str]
    label: str | None = None
    spares_empty: bool = False


_TIMES = re.compile(rb"^  ctime: (\d+):\d+\n  mtime: (\d+):", re.MULTILINE)
_LAG_MS = 20  # by which the times of files may be behind the clock


def let_settle(git: Git) -> None:
    """Return once no file can change within the second that git's index knows as its change time: in 1 s at most."""
    now_ms = now_epoch_ms()
    seconds = {(now_ms - _LAG_MS) // 1000, now_ms // 1000}
    content = b"" if git.index is None else git.index.read_bytes()
    # Nearly always none of the times is in the index, and this is a matter of microseconds.
    if git.index is None or not any((second & 0xFFFFFFFF).to_bytes(4, "big") in content for second in seconds):
        return
    written = int(git.index.stat().st_mtime)
    times = ((int(changed), int(modified)) for changed, modified in _TIMES.findall(git.run("ls-files", "--debug")))
    if any(changed in seconds and modified < written for changed, modified in times):
        time.sleep((1000 - now_ms % 1000 + _LAG_MS) / 1000)


_ATTEMPTS = 3
_MOST_NESTED = 8
_FLAGGED = re.compile(rb"(?:\A|\0)([a-zS]) \d+ [0-9a-f]+ \d\t([^\0]+)")
_GITLINKS = re.compile(rb"(?:\A|\0)[A-Za-z?] 160000 ([0-9a-f]+) \d\t([^\0]+)")


class SnapshotMaker:
    """Makes snapshots of `folder`, the top of a repository or a folder below it."""

    def __init__(self, git: Git, folder: Path, *, place: SnapshotPlace, depth: int = 0) -> None:
        self._repository = git
        self._place = place
        self._depth = depth
        self._plain = False
        self.scope = Scope(git.top, folder, excluded=place.excluded)

    def staged(self, index: str | None = None) -> str:
        """The tree of the user's index (or of another: git's for this commit) as it is; GitError where it is none."""
        with small_index(self._repository, self._place.store) as git:
            self._start(git, cast("Path", git.index), start=None, tree=None, index=index)
            return write_tree(git, self.scope)

    def make(self, *, start: Snapshot | None = None, tree: str | None = None) -> Snapshot:
        """Snapshot the disk as it is now and keep it under the place's label.

        `start` is an earlier snapshot with its index; `tree` is one without, whose files stay in view even where git
        ignores them by now. Without either the user's index is the start.
        """
        self._place.store.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = self._place.store / f"snapshot-{short_token(16)}.index"
        git = self._repository.with_index(own)
        is_ours = start is not None or tree is not None
        stamp = file_stamp(git.git_dir / "index")
        try:
            try:
                self._start(git, own, start=start, tree=tree)
                made = self._update(git, is_ours=is_ours)
                self._keep(git, made)
            except GitStopped:
                raise
            except GitError as error:  # the index or its tree may be damaged: a tree is the next best start
                own.unlink(missing_ok=True)
                self._start_afresh(git, tree)
                made = self._update(git, is_ours=is_ours)
                self._keep(git, made)
                self._place.notes.append(f"git's index could not be used ({error}); the comparison read every file")
            if self._place.label is not None:
                let_settle(git)
        except BaseException:
            own.unlink(missing_ok=True)
            raise
        finally:
            Path(f"{own}.lock").unlink(missing_ok=True)
        return Snapshot(made, own, self._plain, git.heeds_modes, stamp)

    def _start(
        self, git: Git, own: Path, *, start: Snapshot | None, tree: str | None, index: str | None = None
    ) -> None:
        if start is not None:
            _copy(start.index_file, own)  # with its time: git tells by it which entries it must read again
            return
        try:
            _copy(Path(index or git.git_dir / "index"), own)
        except FileNotFoundError:  # nothing was ever added
            self._start_afresh(git, tree)
            return
        if tree is not None:
            git.run("read-tree", "--reset", self._wrapped(git, tree))
        elif self.scope.prefix:  # a conflict outside of the workspace would keep a tree from being written
            unmerged = git.run("ls-files", "--unmerged", "-z").split(b"\0")
            outside = {entry.split(b"\t", 1)[1] for entry in unmerged if entry}
            outside = {path for path in outside if not path.startswith(self.scope.prefix)}
            remove(git, outside)

    def _start_afresh(self, git: Git, tree: str | None) -> None:
        git.run("read-tree", "--empty")
        with suppress(GitError):  # no commit yet: everything is untracked
            git.run("read-tree", self._wrapped(git, tree) if tree is not None else "HEAD")

    def _wrapped(self, git: Git, tree: str) -> str:
        """The tree of the whole repository in which the workspace's folder has the tree `tree`."""
        for name in reversed(self.scope.prefix.split(b"/")[:-1]):
            tree = git.run("mktree", "-z", stdin=b"040000 tree %s\t%s\0" % (tree.encode(), name)).decode().strip()
        return tree

    def _update(self, git: Git, *, is_ours: bool) -> str:
        """Bring the index up to the disk and write its tree."""
        for attempt in range(_ATTEMPTS):
            try:
                self._take_in(git, is_ours=is_ours, careful=attempt > 0)
                break
            except GitStopped:
                raise
            except GitError:  # files come and go while we look
                if attempt == _ATTEMPTS - 1:
                    raise
        return write_tree(git, self.scope)

    def _take_in(self, git: Git, *, is_ours: bool, careful: bool) -> None:
        look = look_at(git, self.scope.pathspec)
        self._plain = look.is_plain
        gitlinks: dict[bytes, str] = {}
        entries: list[bytes] = []
        if not look.is_plain:
            known = git.run("ls-files", "-z", "-v", "-s", *self.scope.pathspec)
            self._clear_flags(git, known)
            gitlinks = {path: commit.decode() for commit, path in _GITLINKS.findall(known)}
            entries, dropped = self._follow_gitlinks(gitlinks, is_ours=is_ours)
            remove(git, dropped)
            look = look_at(git, self.scope.pathspec, is_plain=True)
        paths = {entry.path for entry in look.changed} | look.others | look.hidden
        if is_ours:
            paths |= forced(git, self.scope.pathspec)
        found = self.sort_out(git, paths - gitlinks.keys(), careful=careful)
        self._plain = self._plain and not any(entry.startswith(b"160000 ") for entry in found.entries)
        put(git, found)
        put_lines(git, entries)

    def sort_out(self, git: Git, paths: Iterable[bytes], *, careful: bool) -> Found:
        """What has to be done to the index for `paths` to be as they are on disk."""
        found = Found([], [], [])
        folders = {b"": True}
        for path in sorted(paths):
            if self.scope.is_excluded(path):
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
            here = (self.scope.absolute(b"/".join(steps[:count])) for count in range(1, len(steps) + 1))
            known[parent] = all(_is_folder(folder) for folder in here)
        return known[parent]

    def _sort_out_file(self, path: bytes, found: Found, *, careful: bool) -> None:
        absolute = self.scope.absolute(path)
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
            repository = find_repository(Path(os.fsdecode(self.scope.absolute(folder))), stopper=git.stopper)
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

    def _clear_flags(self, git: Git, known: bytes) -> None:
        """Flags by which the user's index asks git not to look must not hide what an agent did."""
        flagged = _FLAGGED.findall(known)
        assumed = [path for tag, path in flagged if tag != b"S"]
        skipped = [path for tag, path in flagged if tag in b"Ss" and os.path.lexists(self.scope.absolute(path))]
        if assumed:
            git.run("update-index", "-z", "--no-assume-unchanged", "--stdin", stdin=listed(assumed))
        if skipped:
            git.run("update-index", "-z", "--no-skip-worktree", "--stdin", stdin=listed(skipped))

    def _follow_gitlinks(self, gitlinks: Mapping[bytes, str], *, is_ours: bool) -> tuple[list[bytes], list[bytes]]:
        """Entries for submodules as they are on disk, and submodules that are none any more."""
        entries, dropped = [], []
        for path, commit in gitlinks.items():
            if self.scope.is_excluded(path):
                continue
            nested = self._nested(path, base=commit if is_ours else None)
            if nested is not None:
                entries.append(b"160000 %s\t%s" % (nested, path))
            elif not (self._place.spares_empty and _is_empty_folder(self.scope.absolute(path))):
                dropped.append(path)  # the commit stands for files that are not there
        return entries, dropped

    def _nested(self, path: bytes, *, base: str | None = None) -> bytes | None:
        """The id that stands for the nested repository at `path`; None where there is none that git can read."""
        folder = Path(os.fsdecode(self.scope.absolute(path)))
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
            head = git.run("rev-parse", "--quiet", "--verify", "HEAD", ok_codes=(0, 1, 128)).decode("ascii").split()
            return git.commit_tree(made.tree, *head, message="snapshot").encode()
        except GitStopped:
            raise
        except GitError as error:
            self._place.notes.append(f"{safe_text(path)} is a repository that git cannot read: {error}")
            return None

    def _keep(self, git: Git, tree: str) -> None:
        if self._place.label is None:
            return
        kept = git.commit_tree(tree, message="snapshot") if self._depth else tree
        git.run("update-ref", f"refs/pm-orchestrator/{self._place.label}/{tree}", kept)


def _copy(source: Path, target: Path) -> None:
    """A copy with the times of the file; `shutil` takes 2 ms to load."""
    with source.open("rb") as file:
        facts = os.fstat(file.fileno())
        target.write_bytes(file.read())
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))


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
