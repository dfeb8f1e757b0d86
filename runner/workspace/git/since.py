"""What differs between a commit and the disk, or git's index, whoever changed it: for `pm gate`.

It stands beside `Workspace`, whose baselines and guards take a task: this one is to cost next to nothing.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from runner.workspace.changes import Changes, Limits
from runner.workspace.git.compare import compare_trees
from runner.workspace.git.pointers import FileHashes
from runner.workspace.git.repository import GitError, find_repository
from runner.workspace.git.snapshot import SnapshotMaker, SnapshotPlace
from tracer.durable import ensure_folder, replace
from tracer.errors import UsageError
from tracer.statedir import user_state_folder

_MISSING = (0, 1, 128)


class Since(NamedTuple):
    """A change against a commit: its base, the tree that is there now, and what differs."""

    base: str
    tree: str
    changes: Changes


class Tree:
    """The folder as git sees it. Everything blocks; UsageError where git cannot do what is asked."""

    def __init__(self, folder: Path, *, state_dir: Path) -> None:
        self._folder = Path(os.path.realpath(folder))
        self._notes: list[str] = []
        with _readable():
            git = find_repository(self._folder)
        if git is None:
            raise UsageError(f"{str(folder)!r} is in no git repository", next_step="git init")
        self._git = git
        state_dir = Path(os.path.realpath(state_dir))
        self._store = state_dir / "control" / "workspace"
        place = SnapshotPlace(self._store, left_out(self._folder, state_dir), Limits(), FileHashes(), self._notes)
        self._maker = SnapshotMaker(git, self._folder, place=place)

    def now(self, *, staged: bool = False) -> str:
        """The tree of the disk, or of the index."""
        with _readable():
            if staged:
                return self._maker.staged(os.environ.get("GIT_INDEX_FILE"))  # git commit --all, in its hooks
            made = self._maker.make()
            made.index_file.unlink(missing_ok=True)
            return made.tree

    def at(self, revision: str) -> str:
        """The tree of the folder as `revision` holds it; an empty one before the first commit."""
        with _readable():
            return self._tree_at(revision)

    def since(self, revision: str | None, *, staged: bool = False) -> Since:
        """What differs from `revision`; before the first commit, and from None, that is all there is."""
        with _readable():
            base = self._tree_at(revision) if revision is not None else self._git.line("mktree")
            now = self.now(staged=staged)
            found = compare_trees(self._git, base, now, folder=self._folder, limits=Limits())
        changes = Changes.of(found.changes, diff=found.diff, protected=(), notes=(*self._notes, *found.notes))
        return Since(f"git:{base}", now, changes)

    def names_at(self, revision: str) -> list[str]:
        """The files at the top of the folder and in its usual folders of tests, as `revision` holds them."""
        with _readable():
            tree = self._tree_at(revision)
            folders = {"": tree, "tests/": self._parsed(f"{tree}:tests"), "test/": self._parsed(f"{tree}:test")}
            listed = {
                start: self._git.run("ls-tree", "-z", "--name-only", one) for start, one in folders.items() if one
            }
        return [start + os.fsdecode(name) for start, said in listed.items() for name in said.split(b"\0") if name]

    def text_at(self, revision: str, path: Path) -> bytes | None:
        """A file of the repository as `revision` holds it; None where it holds none."""
        if not self.holds(path):
            return None
        with _readable():
            blob = self._parsed(f"{revision}:{path.relative_to(os.path.realpath(self._git.top)).as_posix()}")
            return self._git.run("cat-file", "blob", blob) if blob else None

    def holds(self, path: Path) -> bool:
        """Whether `path` lies in the repository."""
        return path.is_relative_to(os.path.realpath(self._git.top))

    def _tree_at(self, revision: str) -> str:
        found = self._parsed(f"{revision}^{{tree}}")
        if not found and (revision != "HEAD" or self._parsed("HEAD")):
            shallow = (self._git.git_dir / "shallow").exists()
            raise UsageError(
                f"git knows no {revision!r}", next_step="git fetch --unshallow" if shallow else "git branch -a"
            )
        where = os.fsdecode(self._maker.scope.prefix).rstrip("/")
        if found and where:
            found = self._parsed(f"{found}:{where}")
        return found or self._git.line("mktree")

    def _parsed(self, name: str) -> str:
        said = self._git.run("rev-parse", "-q", "--verify", "--end-of-options", name, ok_codes=_MISSING)
        return said.decode().strip()


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (GitError, OSError) as error:
        raise UsageError(
            "the change cannot be read", why=str(error).strip(), next_step="git status, then again"
        ) from error


def left_out(folder: Path, state_dir: Path) -> tuple[Path, ...]:
    """What belongs to no change: our own records, and where our own output goes (`pm run … > run.log`)."""
    found = [state_dir, folder / ".pdd" / "agentic-traces", *_outputs(folder)]
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or a system that does not tell
            path = Path(f"/dev/fd/{descriptor}").readlink()
            if path.is_relative_to(folder) and stat.S_ISREG(os.fstat(descriptor).st_mode):
                found.append(path)
    return tuple(found)


def note_output(path: Path) -> None:
    """Remember that pm wrote the file `path` for its user: as long as it stays as it is, it belongs to no change.

    That is kept in the user's state folder: an agent in its sandbox cannot have its own work passed by.
    """
    path = Path(os.path.realpath(path))
    with suppress(OSError):
        if path.is_file():
            kept = _kept_outputs()
            ensure_folder(kept.parent)
            replace(kept, json.dumps({str(one): _digest(one) for one in {*_outputs(Path("/")), path}}).encode())


def _outputs(folder: Path) -> list[Path]:
    """The files in `folder` that pm wrote for its user, as far as they are as it wrote them."""
    try:
        known = json.loads(_kept_outputs().read_bytes())
    except (OSError, ValueError):
        return []
    paths = {Path(name): digest for name, digest in known.items()} if isinstance(known, dict) else {}
    return [path for path, digest in paths.items() if path.is_relative_to(folder) and _digest(path) == digest != ""]


def _kept_outputs() -> Path:
    return user_state_folder(os.environ) / "outputs.json"


def _digest(path: Path) -> str:
    from hashlib import sha256  # 4 ms, only where pm wrote something

    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
