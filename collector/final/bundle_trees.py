"""The trees of a trace's bundles, read with git in a repository of our own: base, final commit, rebuilt tree.

A bundle is untrusted: it is unpacked with checks on, git runs and checks out nothing of it, and no name may leave the
folder. In the base's place its tree alone may stand, redacted, as a diff from nothing. Of a task, the tree that it
began with becomes such a bundle: its repository is only read, and ours borrows its objects. Methods block.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from collector.final.replay import UNKNOWN, Content, FileState
from collector.patches import is_tree_patch, left_out_of_tree
from runner.workspace.git.repository import Git, GitError, Stopper, find_repository, parse_batch, scratch_repository
from tracer.capture.fields import is_git_folder
from tracer.errors import TraceError, UsageError
from tracer.redaction.marks import PLACEHOLDER

_SHA: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
FILE_MODES: Final = ("100644", "100755")
_HEAD: Final = 100
_SHA1_DIGITS: Final = 40
_NOBODY: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "pm"), ("EMAIL", "pm@localhost"), ("DATE", "1970-01-01T00:00:00Z"))
}


def commit_of(git: Git, tree: str, message: str) -> str:
    """A commit of a tree, without any history; of the same tree always the same."""
    return git.run("commit-tree", tree, "-m", message, env=_NOBODY).decode("ascii").strip()


def is_tree_file(file: BinaryIO) -> bool:
    """Whether the base's tree stands there in place of a bundle; the file is at its start again."""
    head = file.read(_HEAD)
    file.seek(0)
    return is_tree_patch(head)


class Entry(NamedTuple):
    """One path of a tree: git's mode and the object's id."""

    mode: str
    object_id: str


class CommitTree:
    """One commit's tree; files have the line ends of its `.gitattributes`, which git looks up in `folder`.

    `made` is the commit that stands for it where its own is not here.
    """

    def __init__(self, git: Git, commit: str, *, folder: Path, made: str = "") -> None:
        self.commit = commit
        self._here = made or commit
        self.tree_id = git.line("rev-parse", "--verify", "--end-of-options", f"{self._here}^{{tree}}")
        listed = git.run("ls-tree", "-r", "-z", self.tree_id)
        self.entries: dict[str, Entry] = {}
        for line in listed.split(b"\0"):
            head, _, path = line.partition(b"\t")
            if path:
                mode, _, object_id = head.decode("ascii").split(" ")
                self.entries[os.fsdecode(path)] = Entry(mode, object_id)
        folder.mkdir(exist_ok=True)
        for name, entry in self.entries.items():
            if entry.mode in FILE_MODES and name.rsplit("/", 1)[-1] == ".gitattributes":
                _put(folder, name, git.run("cat-file", "blob", entry.object_id))
        self.git = git.at(git.git_dir, folder, stopper=git.stopper, mark="")

    def read(self, path: str) -> Content:
        """A file's bytes; None: no file; UNKNOWN: a link or submodule; TraceError: a damaged or hostile bundle."""
        entry = self.entries.get(path)
        if entry is None:
            return None
        if entry.mode not in FILE_MODES:
            return UNKNOWN
        try:
            return self.git.run("cat-file", "--filters", f"{self._here}:{path}")
        except GitError as error:
            raise TraceError(f"{path!r} of commit {self.commit} cannot be read", why=_first_line(error)) from error


class Trees:
    """The repository `git` that holds the bundles' objects, in `folder` (an empty one, the caller's to remove).

    `commit` is the base. Where its tree alone came, redacted, `lacks` says what it is without; `left_out` counts files.
    """

    def __init__(self, folder: Path, *, commit: str) -> None:
        self._folder = folder
        self._base = commit
        self._made = ""
        self._has_base = False
        self.lacks = ""
        self.left_out = 0
        try:
            sha256 = len(commit) != _SHA1_DIGITS
            self.git = scratch_repository(folder / "git", folder, sha256=sha256, stopper=Stopper())
        except GitError as error:
            raise TraceError("git cannot be used", why=str(error), next_step="install git") from error

    def add_bundle(self, bundle: BinaryIO, *, what: str) -> None:
        """Unpack a bundle's objects, or take the base's tree from a diff, and close it."""
        path = self._folder / "bundle"
        try:
            with bundle, path.open("wb") as file:
                shutil.copyfileobj(bundle, file, 1 << 20)
            with path.open("rb") as file:
                alone = is_tree_file(file)
            if alone and not self._has_base:
                self._take_tree(path)
            elif not alone:
                self._unbundle(path)
        except GitError as error:
            raise TraceError(f"{what} cannot be read", why=_first_line(error)) from error
        finally:
            path.unlink(missing_ok=True)

    def _unbundle(self, path: Path) -> None:
        try:
            self.git.run("bundle", "unbundle", str(path))
        except GitError:  # it stands on commits of a shallow clone, whose history git follows to where it breaks off
            ends = self._ends_of_history()
            if not ends:
                raise
            (self.git.git_dir / "shallow").write_text("".join(f"{end}\n" for end in ends), encoding="ascii")
            self.git.run("bundle", "unbundle", str(path))

    def _ends_of_history(self) -> list[str]:
        """The commits whose parents are not here."""
        listed = self.git.run("cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
        commits = [line[7:] for line in listed.split(b"\n") if line.startswith(b"commit ")]
        said = parse_batch(self.git.run("cat-file", "--batch", stdin=b"".join(each + b"\n" for each in commits)))
        here = set(commits)
        heads = (data.partition(b"\n\n")[0].split(b"\n") for data in said)
        parents = ({line[7:] for line in head if line.startswith(b"parent ")} for head in heads)
        return [each.decode("ascii") for each, of in zip(commits, parents, strict=True) if not of <= here]

    @property
    def is_tree_alone(self) -> bool:
        """Whether the base is a redacted tree without its commit."""
        return bool(self._made)

    def _take_tree(self, path: Path) -> None:
        git = self.git.with_index(self._folder / "base-index")
        git.run("read-tree", "--empty")
        git.run("apply", "--cached", "--whitespace=nowarn", str(path))
        self._made = commit_of(git, git.line("write-tree"), "The base, redacted")
        data = path.read_bytes()
        marks, self.left_out = len(PLACEHOLDER.findall(data)), left_out_of_tree(data)
        if marks or self.left_out:
            self.lacks = f"the base came as its tree alone (placeholders: {marks}, files left out: {self.left_out})"

    def commit(self, sha: str, *, what: str) -> CommitTree:
        """The tree of a commit."""
        if _SHA.fullmatch(sha) is None:
            raise TraceError(f"{sha!r} is no commit id")
        try:
            made = self._made if sha == self._base else ""
            tree = CommitTree(self.git, sha, folder=self._folder / sha, made=made)
        except GitError as error:
            raise TraceError(f"{what} {sha} is not in the bundle", why=_first_line(error)) from error
        self._has_base = self._has_base or sha == self._base
        return tree

    def rebuilt(self, base: CommitTree, files: Mapping[str, FileState]) -> str | None:
        """The id of `base`'s tree with the replayed files in it; None while one of them is not known."""
        if any(not (isinstance(state.content, bytes) or state.content is None) for state in files.values()):
            return None
        git = base.git.with_index(self._folder / "index")
        gone, lines = [], []
        try:
            git.run("read-tree", base.tree_id)
            for path, state in files.items():
                if isinstance(state.content, bytes):
                    written = git.run("hash-object", "-w", "--stdin", f"--path={path}", stdin=state.content)
                    lines.append(f"{_mode(base, path, state)} {os.fsdecode(written).strip()}\t{path}")
                elif path in base.entries:
                    gone.append(f"0 {'0' * len(base.tree_id)}\t{path}")
            lines = gone + lines  # a folder may stand where a file was
            git.run("update-index", "-z", "--index-info", stdin=b"".join(os.fsencode(line) + b"\0" for line in lines))
            return git.line("write-tree")
        except GitError as error:
            raise TraceError("the final tree cannot be put together", why=_first_line(error)) from error

    def write_out(self, base: CommitTree | None, files: Mapping[str, FileState], target: Path) -> int:
        """Write the rebuilt tree into the new folder `target`; how many files. Links and submodules are left out."""
        try:
            target.mkdir(parents=True, exist_ok=True)
            if any(target.iterdir()):
                raise UsageError(f"{str(target)!r} is not empty", next_step="name a new folder")
            return sum(_put(target, path, content) for path, content in _all_files(base, files))
        except OSError as error:
            raise UsageError(f"{str(target)!r} cannot be written", why=str(error)) from error


def _first_line(error: GitError) -> str:
    return (str(error).splitlines() or [""])[0]


def _mode(base: CommitTree, path: str, state: FileState) -> str:
    if state.mode in FILE_MODES:
        return state.mode
    entry = base.entries.get(path)
    return entry.mode if entry is not None else FILE_MODES[0]


def _all_files(base: CommitTree | None, files: Mapping[str, FileState]) -> list[tuple[str, bytes]]:
    found: dict[str, bytes] = {}
    for path in base.entries if base is not None else ():
        content = base.read(path) if base is not None and path not in files else None
        if isinstance(content, bytes):
            found[path] = content
    found |= {path: state.content for path, state in files.items() if isinstance(state.content, bytes)}
    return sorted(found.items())


def _put(target: Path, path: str, content: bytes) -> int:
    names = path.split("/")
    if path.startswith("/") or any(name in {"", ".", ".."} or is_git_folder(name) for name in names):
        return 0
    file = target.joinpath(*names)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return 1


_TREE: Final = "git:"


class TaskBase:
    """A base tree: `commit` names it, `content` answers its files, `bundle` holds it."""

    def __init__(self, git: Git, folder: Path, tree: str) -> None:
        self._git = git
        self._folder = folder
        self._tree = tree
        self.commit = commit_of(git, tree, "The state that the task began with")

    def content(self, path: str) -> Content:
        """A file of the tree: its bytes, None where there is none, Unknown for a link or a submodule."""
        said = self._git.run("ls-tree", "-z", self._tree, "--", path)
        if not said:
            return None
        mode, _, object_id = said.partition(b"\t")[0].decode("ascii").split(" ")
        return self._git.run("cat-file", "blob", object_id) if mode in FILE_MODES else UNKNOWN

    def bundle(self) -> bytes:
        """A bundle of the commit, without any history."""
        path = self._folder / "base.bundle"
        self._git.run("update-ref", "refs/heads/base", self.commit)
        self._git.run("bundle", "create", "-q", str(path), "refs/heads/base")
        data = path.read_bytes()
        path.unlink()
        return data


def task_base(workspace: Path, base: str | None, folder: Path) -> TaskBase | None:
    """The base recorded as `git:<tree>` or `git:<tree>@<state>`, None where there is none.

    `folder` is empty, and the caller removes it.
    """
    if base is None or not base.startswith(_TREE) or not workspace.is_dir():
        return None
    tree = base.removeprefix(_TREE).partition("@")[0]  # behind it stands how the repository was
    try:
        theirs = find_repository(workspace)
        if theirs is None or not theirs.has(tree):
            return None
        objects = Path(theirs.line("rev-parse", "--path-format=absolute", "--git-path", "objects"))
        ours = Trees(folder, commit=tree).git
        alternates = folder / "git" / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        alternates.write_text(f"{objects}\n", encoding="utf-8", errors="surrogateescape")
        return TaskBase(ours, folder, tree)
    except GitError as error:
        raise TraceError("the tree that the task began with cannot be read", why=str(error)) from error
