"""The disk as a git tree: written through an index of our own, untracked files included, ignored ones left out.

The index starts as a copy of the user's (or of our last one), so only what changed since is read. Nested repositories
and submodules are snapshots of their own, joined by a commit id that depends on nothing but their tree. A file too
large to keep, or unreadable, stands in the tree as a short note of its size and hash.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from runner.workspace.git import Git, GitError, GitStopped, find_repository, listed
from runner.workspace.git_entries import lay_over, put
from runner.workspace.git_light import Light, light_tree
from runner.workspace.git_look import Look, forced, index_stamp, look_at, look_at_plain
from runner.workspace.git_place import Snapshot, SnapshotPlace
from runner.workspace.git_scope import Scope, write_tree
from runner.workspace.git_settle import let_settle
from runner.workspace.git_sort import Sorter
from runner.workspace.model import safe_text
from tracer.clock import short_token

__all__ = ["FIXED_PERSON", "SnapshotMaker"]

_ATTEMPTS = 3
_MOST_NESTED = 8
FIXED_PERSON = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "pm"), ("EMAIL", "pm@localhost"), ("DATE", "@946684800 +0000"))
}
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
        self.sorter = Sorter(git, self.scope, place=place, nested=self._nested)

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
        stamp = index_stamp(git)
        try:
            try:
                self._start(git, own, start=start, tree=tree)
                quick, look = light_tree(git, own, self.sorter) if light else (None, None)
                self._plain = quick is not None
                made = quick or Light(self._update(git, is_ours=is_ours, look=look), {})
                self._keep(git, made.tree)
            except GitStopped:
                raise
            except GitError as error:  # the index or its tree may be damaged: a tree is the next best start
                own.unlink(missing_ok=True)
                self._start_afresh(git, tree)
                made = Light(self._update(git, is_ours=is_ours), {})
                self._keep(git, made.tree)
                self._place.notes.append(f"git's index could not be used ({error}); the comparison read every file")
            if self._place.label is not None:
                let_settle(git)
        except BaseException:
            own.unlink(missing_ok=True)
            raise
        finally:
            Path(f"{own}.lock").unlink(missing_ok=True)
        return Snapshot(made.tree, own, self._plain, made.overlay, made.watched, git.heeds_modes, stamp)

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
        elif self.scope.prefix:  # a conflict outside of the workspace would keep a tree from being written
            unmerged = git.run("ls-files", "--unmerged", "-z").split(b"\0")
            outside = {entry.split(b"\t", 1)[1] for entry in unmerged if entry}
            outside = {path for path in outside if not path.startswith(self.scope.prefix)}
            if outside:
                git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(outside))

    def _start_afresh(self, git: Git, tree: str | None) -> None:
        git.run("read-tree", "--empty")
        with suppress(GitError):  # no commit yet: everything is untracked
            git.run("read-tree", self._wrapped(git, tree) if tree is not None else "HEAD")

    def _wrapped(self, git: Git, tree: str) -> str:
        """The tree of the whole repository in which the workspace's folder has the tree `tree`."""
        for name in reversed(self.scope.prefix.split(b"/")[:-1]):
            tree = git.run("mktree", "-z", stdin=b"040000 tree %s\t%s\0" % (tree.encode(), name)).decode().strip()
        return tree

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
        return write_tree(git, self.scope)

    def _take_in(self, git: Git, *, is_ours: bool, careful: bool, look: Look | None = None) -> None:
        look = look or look_at(git, self.scope.pathspec)
        self._plain = look.is_plain
        gitlinks: dict[bytes, str] = {}
        entries: list[bytes] = []
        if not look.is_plain:
            known = git.run("ls-files", "-z", "-v", "-s", *self.scope.pathspec)
            self._clear_flags(git, known)
            gitlinks = {path: commit.decode() for commit, path in _GITLINKS.findall(known)}
            entries, dropped = self._follow_gitlinks(gitlinks, is_ours=is_ours)
            if dropped:
                git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(dropped))
            look = look_at_plain(git, self.scope.pathspec)
        paths = {entry.path for entry in look.changed} | look.others | look.hidden
        if is_ours:
            paths |= forced(git, self.scope.pathspec)
        found = self.sorter.sort_out(git, paths - gitlinks.keys(), careful=careful)
        self._plain = self._plain and not any(entry.startswith(b"160000 ") for entry in found.entries)
        put(git, found)
        if entries:
            git.run("update-index", "-z", "--replace", "--index-info", stdin=listed(entries))

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


def _fixed_commit(git: Git, tree: str) -> str:
    """A commit of `tree` that is the same whoever makes it and whenever."""
    return git.run("commit-tree", tree, "-m", "snapshot", env=FIXED_PERSON).decode().strip()


def _is_empty_folder(path: bytes) -> bool:
    try:
        with os.scandir(path) as inside:
            return next(inside, None) is None
    except OSError:
        return False
