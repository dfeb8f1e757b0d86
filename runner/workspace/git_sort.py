"""What has to be done to an index for paths to be as they lie on disk: taken out, read, or put in as an entry.

A file too large to keep, or unreadable, stands there as a short note of its size and hash.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from runner.workspace.git import Git, GitError, GitStopped, find_repository
from runner.workspace.git_entries import Found
from runner.workspace.git_place import SnapshotPlace
from runner.workspace.git_scope import Scope
from runner.workspace.model import safe_text
from runner.workspace.notes import note_for

__all__ = ["Sorter"]


class Sorter:
    """Looks at paths in `scope`; `nested` gives the id for a repository inside, None where git cannot read it."""

    def __init__(
        self, git: Git, scope: Scope, *, place: SnapshotPlace, nested: Callable[[bytes], bytes | None]
    ) -> None:
        self.repository = git
        self.scope = scope
        self.place = place
        self._nested = nested

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
            too_large = facts.st_size > self.place.limits.stored
            if too_large or (careful and not os.access(absolute, os.R_OK)):
                text = note_for(absolute, facts, self.place.hashes)
                blob = self.repository.run("hash-object", "-w", "--stdin", stdin=text).strip()
                mode = b"100755" if facts.st_mode & stat.S_IXUSR else b"100644"
                found.entries.append(b"%s %s\t%s" % (mode, blob, path))
                if not too_large:
                    self.place.notes.append(f"{safe_text(path)} cannot be read; only its size and time are compared")
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
            self.place.notes.append(f"{safe_text(path)} is a repository that git cannot read: {error}")
            return
        for name in {name for name in names if name and not name.endswith(b"/")}:
            self._sort_out_file(path + name, found, careful=careful)


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
