"""Isolation by git: a worktree and branch for each subtask, merged inside the object store.

All state is in refs under `refs/pm-orchestrator/<task>/chunk/`. Commits are deterministic, so a call repeated after
a kill finds its own result. The user's index, branch and hooks are never touched; their files change in `apply`
only.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from runner.isolation.isolation_port import Conflict, ConflictPlace, Merged
from runner.processes.process_table import send_signal
from runner.processes.tree import ProcessTree, tree_members
from runner.workspace.changes import ComparisonError, Limits, safe_text
from runner.workspace.git.pointers import FileHashes, copy_media, keep_pointers
from runner.workspace.git.put_files import Stamps, entry_side, put_files, stamp
from runner.workspace.git.refs import USERS_COMMIT, common_dir, name_in_repository
from runner.workspace.git.repository import (
    Git,
    GitError,
    RawEntry,
    Stopper,
    file_stamp,
    find_repository,
    git_version,
    parse_raw,
    stoppable,
)
from runner.workspace.git.snapshot import Snapshot, SnapshotMaker, SnapshotPlace
from tracer.clock import monotonic
from tracer.errors import UsageError
from tracer.redaction.cuts import beginning

_HUNK = re.compile(rb"^<<<<<<< [^\n]*\n.*?^>>>>>>> [^\n]*$", re.DOTALL | re.MULTILINE)
_MOST_HUNK_BYTES = 8000


def merge_commits(git: Git, ours: str, theirs: str) -> str | Conflict:
    """The tree that joins both, or where they do not agree.

    Raises:
        GitError: git is older than 2.38, or an object is missing.

    """
    out = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs, ok_codes=(0, 1))
    tree, *rest = out.split(b"\0")
    if not re.fullmatch(rb"[0-9a-f]{40,64}", tree):
        raise GitError(f"git merge-tree said {beginning(os.fsdecode(out), 200)!r}")
    end = rest.index(b"") if b"" in rest else len(rest)  # then come the messages
    paths, messages = rest[:end], rest[end + 1 :]
    if not paths and not any(message.startswith(b"CONFLICT") for message in messages):
        return tree.decode()
    named = dict.fromkeys(paths)
    return Conflict(places=tuple(ConflictPlace(path=safe_text(path), hunks=_hunks(git, tree, path)) for path in named))


def _hunks(git: Git, tree: bytes, path: bytes) -> str:
    kind = git.run("ls-tree", "-z", tree.decode(), "--", path.decode("utf-8", "surrogateescape"))
    if b" blob " not in kind:
        return ""
    content = git.run("cat-file", "blob", kind.split(b"\t", 1)[0].split(b" ")[2].decode())
    if b"\0" in content[:8000]:
        return ""
    text = b"\n".join(_HUNK.findall(content))
    return text[:_MOST_HUNK_BYTES].decode("utf-8", "replace")


def changed_paths(git: Git, before: str, after: str) -> tuple[str, ...]:
    """The paths that differ between two trees or commits."""
    return tuple(safe_text(entry.path) for entry in _differing(git, before, after))


def _differing(git: Git, before: str, after: str) -> list[RawEntry]:
    return parse_raw(git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after))


_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock$))*")
_PATIENCE_S = 10.0
_ATTEMPTS = 5


class TaskNames:
    """Folders, branches and refs of one task; `own` is what it is called in the repository (see `within`)."""

    def __init__(self, task_id: str, folder: Path) -> None:
        if _ID.fullmatch(task_id) is None:
            raise UsageError(f"{task_id!r} cannot name branches", next_step="use letters, digits, '.', '_' and '-'")
        self.task_id = task_id
        self.own = task_id
        self.folder = folder
        self.mark = "worktrees-" + hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]

    def within(self, git: Git) -> TaskNames:
        """The names in this repository."""
        named = TaskNames(self.task_id, self.folder)
        named.own = name_in_repository(git, self.task_id, state_dir=self.folder.parent.parent)
        return named

    def ref(self, name: str) -> str:
        """The full name of one of the task's refs."""
        return f"refs/pm-orchestrator/{self.own}/chunk/{name}"

    def folder_of(self, subtask_id: str) -> Path:
        """Where the subtask works; the last part is unique in the repository, git names its own folder after it."""
        if _ID.fullmatch(subtask_id) is None:
            raise UsageError(f"{subtask_id!r} cannot name a folder", next_step="use letters, digits, '.', '_' and '-'")
        return self.folder / f"{self.own}--{subtask_id}"

    def branch_of(self, subtask_id: str) -> str:
        """The subtask's branch."""
        return f"pm/{self.own}/{subtask_id}"

    def read(self, git: Git, name: str) -> str | None:
        """What a ref points to; None where there is none."""
        said = git.run("rev-parse", "--quiet", "--verify", self.ref(name), ok_codes=(0, 1, 128))
        return said.decode().strip() or None

    def write(self, git: Git, values: Mapping[str, str | None]) -> None:
        """Set refs together or not at all; None deletes."""
        lines = [
            f"update {self.ref(name)} {value}\n" if value is not None else f"delete {self.ref(name)}\n"
            for name, value in values.items()
        ]
        _change_refs(git, self, "".join(lines))


def _change_refs(git: Git, names: TaskNames, lines: str) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            git.run("update-ref", "--stdin", stdin=lines.encode())
        except GitError as error:
            if ".lock" not in str(error) or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(0.05 * (attempt + 1))
            _remove_own_locks(git, names)
        else:
            return


def _remove_own_locks(git: Git, names: TaskNames) -> None:
    """Locks on the task's own refs: only the holder of the task writes these, and that is us."""
    common = common_dir(git)
    for root in (f"refs/pm-orchestrator/{names.own}", f"refs/heads/pm/{names.own}"):
        for lock in (common / root).rglob("*.lock"):
            lock.unlink(missing_ok=True)


def end_leftovers(names: TaskNames) -> None:
    """End git commands of a killed process that still work on the task, and wait: git takes its locks away itself."""
    give_up = monotonic() + _PATIENCE_S
    while running := tree_members(ProcessTree(names.mark, None, "")):
        for entry in running:
            send_signal(entry, signal.SIGTERM if monotonic() < give_up else signal.SIGKILL)
        time.sleep(0.02)


def admin_folder(git: Git, folder: Path) -> Path:
    """Git's own folder of the worktree at `folder`: named after it, and its name is unique in the repository."""
    return common_dir(git) / "worktrees" / folder.name


def discard(git: Git, names: TaskNames, subtask_id: str) -> None:
    """Remove the subtask's worktree and branch, whole or half made."""
    ref = f"refs/heads/{names.branch_of(subtask_id)}"
    if remove_worktree(git, names.folder_of(subtask_id)) or (common_dir(git) / ref).exists():  # packed ones are no new
        with suppress(GitError):
            _change_refs(git, names, f"delete {ref}\n")


def remove_worktree(git: Git, folder: Path) -> bool:
    """Remove a worktree, whole or half made; whether there was anything."""
    admin = admin_folder(git, folder)
    there = admin.exists() or folder.exists()
    shutil.rmtree(admin, ignore_errors=True)  # by hand: git refuses half made ones
    shutil.rmtree(folder, ignore_errors=True)
    return there


def remove_all(git: Git, names: TaskNames, *, keep_results: bool = False) -> None:
    """Remove everything of the task's isolation; its folder goes last, so that a kill leaves a sign of what is left.

    `keep_results`: the refs that say what is merged stay.
    """
    _remove_worktrees(git, names)
    _remove_own_locks(git, names)
    patterns = [f"refs/heads/pm/{names.own}/"]
    patterns.append(names.ref("start/") if keep_results else names.ref(""))
    refs = git.run("for-each-ref", "--format=%(refname)", *patterns).decode().split()
    if refs:
        _change_refs(git, names, "".join(f"delete {ref}\n" for ref in refs))
    shutil.rmtree(names.folder, ignore_errors=True)
    with suppress(OSError):
        names.folder.parent.rmdir()


def _remove_worktrees(git: Git, names: TaskNames) -> None:
    """Git's own folders of the task's worktrees. Done by hand: git refuses half made ones."""
    with suppress(OSError):
        for admin in (common_dir(git) / "worktrees").iterdir():
            if _belongs(admin, names):
                shutil.rmtree(admin, ignore_errors=True)


def _belongs(admin: Path, names: TaskNames) -> bool:
    try:
        place = Path((admin / "gitdir").read_text(encoding="utf-8").strip()).parent
    except OSError:  # half made or half removed: the name tells, it begins with the task's
        return admin.name.startswith(f"{names.own}--")
    return place.is_relative_to(names.folder)


_T = TypeVar("_T")
_WHOLE = "whole"
_EVERYTHING = Limits(stored=1 << 62)  # a working tree must hold real files, however large


def why_not_parallel(workspace: Path) -> str:
    """Why subtasks in this folder must run one after another; empty where they need not. Blocks some milliseconds."""
    try:
        git = find_repository(Path(os.path.realpath(workspace)))
        if git is None:
            return "the workspace is not in a git repository"
        if git_version() < (2, 38):
            return "git is older than 2.38 and cannot merge without touching files"
        index = git.git_dir / "index"
        known = git.with_index(index).run("ls-files", "-s", "-z") if index.exists() else b""
        if re.search(rb"(?:\A|\0)160000 ", known):
            return "the repository has submodules, which git worktrees do not share"
        if git.ignores(Path(os.path.realpath(workspace))):
            return "git ignores this folder, so a worktree would not hold its files"
    except GitError as error:
        return f"git cannot be used here: {error}"
    return ""


class GitWorktrees:
    """The isolation of one task. One process at a time: whoever holds the task's lock.

    Args:
        workspace: the user's folder, the top of a repository or below it.
        state_dir: worktrees live in `worktrees/<task>/` in it.
        task_id: names folders, branches (`pm/<task>/<subtask>`) and refs.
        link_ignored: ignored folders (e.g. `node_modules`) that every worktree gets a link to.

    """

    parallel = True
    why = ""

    def __init__(self, workspace: Path, *, state_dir: Path, task_id: str, link_ignored: Sequence[str] = ()) -> None:
        self._workspace = Path(os.path.realpath(workspace))
        self._state_dir = Path(os.path.realpath(state_dir))
        self._names = TaskNames(task_id, self._state_dir / "worktrees" / task_id)
        self._store = self._names.folder / "indexes"
        self._link_ignored = tuple(link_ignored)
        self._lock = asyncio.Lock()  # worktrees are made and results joined by one caller at a time
        self._repository: Git | None = None
        self._known: dict[str, str] = {}  # the refs as this process wrote or read them
        self._order: list[str] | None = None
        self._whole: Path | None = None
        # Of fresh worktrees: what nobody touched need not be reset.
        self._indexes: dict[str, tuple[int, ...] | None] = {}

    async def begin(self, *, branch: str = "") -> str:
        if branch:
            await self._call(lambda git: _free_branch(git, branch))
        return await self._call(self._begin)

    async def open(self, subtask_id: str, *, fresh: bool = False) -> Path:
        return await self._call(lambda git: self._open(git, subtask_id, fresh=fresh))

    async def merge(self, subtask_id: str) -> Merged | Conflict:
        """Merge what lies in the subtask's folder into the common result; its folder is removed on success."""
        if subtask_id in await self.merged():
            return await self._call(lambda git: self._merged_before(git, subtask_id))
        delivered = await self._call(lambda git: self._deliver(git, subtask_id), alone=False)
        return await self._call(lambda git: self._join(git, subtask_id, delivered))

    async def merged(self) -> tuple[str, ...]:
        return await self._call(self._merged)

    async def whole(self) -> Path:
        if self._whole is None:
            self._whole = await self._call(lambda git: self._open(git, _WHOLE, fresh=True))
        return self._whole

    async def apply(self, *, branch: str = "") -> Merged | Conflict:
        return await self._call(lambda git: self._to_branch(git, branch) if branch else self._to_files(git))

    async def close(self, *, keep_results: bool = False) -> None:
        await self._call(lambda git: self._close(git, keep_results=keep_results))

    async def _call(self, work: Callable[[Git], _T], *, alone: bool = True) -> _T:
        async with self._lock if alone else contextlib.nullcontext():
            return await stoppable(partial(self._run, work))

    def _run(self, work: Callable[[Git], _T], stopper: Stopper) -> _T:
        try:
            if self._repository is None:
                found = find_repository(self._workspace, stopper=stopper)
                if found is None:
                    raise GitError("the workspace is not in a git repository")
                self._names = self._names.within(found)
                end_leftovers(self._names)
                self._repository = found.at(found.git_dir, found.top, stopper=stopper, mark=self._names.mark)
            git = self._repository
            return work(git.at(git.git_dir, git.top, stopper=stopper, mark=self._names.mark))
        except GitError as error:
            raise ComparisonError(
                f"the subtasks of {self._names.task_id!r} cannot be kept apart in {str(self._workspace)!r}",
                why=str(error),
                next_step="repair the repository (`git fsck`), then `pm resume`, or run with --chunk never",
            ) from error

    def _begin(self, git: Git) -> str:
        known = self._read(git, "base")
        if known is not None:
            return known
        made = self._snapshot(git, git.top, excluded=(self._state_dir,))
        made.index_file.unlink(missing_ok=True)
        head = git.run("rev-parse", "--quiet", "--verify", "HEAD^{commit}", ok_codes=(0, 1, 128)).decode().strip()
        if head and git.line("rev-parse", f"{head}^{{tree}}") == made.tree:
            base = head
        else:
            message = f"Work in progress when {self._names.task_id} began"
            base = git.commit_tree(made.tree, *([head] if head else []), message=message)
        self._write(git, {"base": base, "integration": base, **({"user": head} if head else {})})
        return base

    def _open(self, git: Git, subtask_id: str, *, fresh: bool = False) -> Path:
        folder = self._names.folder_of(subtask_id)
        known = self._read(git, f"start/{subtask_id}")
        if fresh or known is None or not (folder / ".git").exists():
            # The start is written last: a folder without one may be half made.
            start = known if known is not None and not fresh else self._needed(git, "integration")
            if known is not None:
                self._write(git, {f"start/{subtask_id}": None})
            discard(git, self._names, subtask_id)
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            branch = self._names.branch_of(subtask_id)
            git.run("worktree", "add", "-q", "-f", "-B", branch, str(folder), start, chosen_index=False)
            if self._has_media(git):
                copy_media(git, start, git.top, folder)
            self._link(git, folder)
            if (users := self._read(git, "user")) is not None:
                self._inside(git, folder).run("update-ref", USERS_COMMIT, users)
            self._write(git, {f"start/{subtask_id}": start})
            self._indexes[subtask_id] = file_stamp(admin_folder(git, folder) / "index")
        return folder / self._workspace.relative_to(git.top)

    def _inside(self, git: Git, folder: Path) -> Git:
        return git.at(admin_folder(git, folder), folder, stopper=git.stopper, mark=self._names.mark)

    @staticmethod
    def _has_media(git: Git) -> bool:
        return (common_dir(git) / "lfs").exists()

    def _link(self, git: Git, folder: Path) -> None:
        for name in self._link_ignored:
            source, target = git.top / name, folder / name
            if source.exists() and target.parent.is_dir() and not os.path.lexists(target):
                target.symlink_to(source)

    def _deliver(self, git: Git, subtask_id: str) -> str:
        """What lies in the subtask's folder, as a commit on its start."""
        start = self._needed(git, f"start/{subtask_id}")
        folder = self._names.folder_of(subtask_id)
        admin = admin_folder(git, folder)
        if not (folder / ".git").exists() or not admin.is_dir():
            raise GitError(f"the working tree of {subtask_id!r} is not there any more")
        inner = self._inside(git, folder)
        excluded = (folder / self._state_dir.name, *(folder / name for name in self._link_ignored))
        untouched = self._indexes.get(subtask_id) == file_stamp(admin / "index")
        made = self._snapshot(inner, folder, excluded=excluded, tree=None if untouched else start)
        made.index_file.unlink(missing_ok=True)
        tree = keep_pointers(git, start, made.tree, store=self._store) if self._has_media(git) else made.tree
        return git.commit_tree(tree, start, message=f"Result of {subtask_id}")

    def _join(self, git: Git, subtask_id: str, delivered: str) -> Merged | Conflict:
        integration = self._needed(git, "integration")
        joined = merge_commits(git, integration, delivered)
        if isinstance(joined, Conflict):
            return joined
        result = git.commit_tree(joined, integration, delivered, message=f"Merge {subtask_id}")
        self._write(git, {f"result/{subtask_id}": delivered, "integration": result})
        self._whole = None
        if self._order is not None:
            self._order.append(subtask_id)
        remove_worktree(git, self._names.folder_of(subtask_id))
        return Merged(result=result, paths=changed_paths(git, integration, result))

    def _merged_before(self, git: Git, subtask_id: str) -> Merged:
        """What an earlier call, or an earlier process, merged."""
        delivered = self._read(git, f"result/{subtask_id}")
        paths = changed_paths(git, f"{delivered}^", delivered) if delivered is not None else ()
        return Merged(result=self._needed(git, "integration"), paths=paths)

    def _merged(self, git: Git) -> tuple[str, ...]:
        if self._order is None:
            span = f"{self._needed(git, 'base')}..{self._needed(git, 'integration')}"
            subjects = git.run("log", "--first-parent", "--reverse", "--format=%s", span).decode().splitlines()
            self._order = [subject.removeprefix("Merge ") for subject in subjects]
        return tuple(self._order)

    def _close(self, git: Git, *, keep_results: bool) -> None:
        remove_all(git, self._names, keep_results=keep_results)
        self._known.clear()
        self._indexes.clear()
        self._order = self._whole = None

    def _to_branch(self, git: Git, branch: str) -> Merged:
        base, result = self._needed(git, "base"), self._needed(git, "integration")
        commit = git.commit_tree(f"{result}^{{tree}}", base, message=f"Result of {self._names.task_id}")
        ref = _free_branch(git, branch, but=commit)
        git.run("update-ref", ref, commit)
        return Merged(result=commit, paths=changed_paths(git, base, commit))

    def _to_files(self, git: Git) -> Merged | Conflict:
        base, result = self._needed(git, "base"), self._needed(git, "integration")
        if (begun := self._read(git, "handing")) is not None:  # one that was killed is finished first: merged halfway,
            changes = _differing(git, f"{begun}^", begun)  # what moved would look deleted
            now, stamps = self._files_now(git, base, changes)
            touched = {one.path for one in _differing(git, f"{begun}^", now)}
            self._put(git, [one for one in changes if one.path not in touched], stamps)
            self._write(git, {"handing": None})
        now, stamps = self._files_now(git, base, _differing(git, base, result))
        joined = merge_commits(git, now, result)
        if isinstance(joined, Conflict):
            return joined
        changes, in_the_way = _differing(git, now, joined), _in_the_way(git, now, joined)
        if changes and not in_the_way:
            self._write(git, {"handing": git.commit_tree(joined, now, message="What the user's files shall be")})
            in_the_way = self._put(git, changes, stamps)
            self._write(git, {"handing": None})
        if in_the_way:
            return Conflict(places=tuple(ConflictPlace(path=path) for path in in_the_way))
        return Merged(result=joined, paths=tuple(safe_text(one.path) for one in changes))

    def _files_now(self, git: Git, base: str, changes: Sequence[RawEntry]) -> tuple[str, Stamps]:
        """The user's files as a commit on `base`, and the stamps, taken before, of those that are to change."""
        stamps = {name: stamp(git.top / name) for name in (os.fsdecode(one.path) for one in changes)}
        made = self._snapshot(git, git.top, excluded=(self._state_dir,), tree=base)
        made.index_file.unlink(missing_ok=True)
        tree = keep_pointers(git, base, made.tree, store=self._store)
        return git.commit_tree(tree, base, message="The user's files now"), stamps

    def _put(self, git: Git, changes: Sequence[RawEntry], stamps: Stamps) -> list[str]:
        wanted = {os.fsdecode(one.path): entry_side(one.modes[1], one.ids[1]) for one in changes}
        for name in wanted.keys() - stamps.keys():  # of a file that the user renamed
            stamps[name] = stamp(git.top / name)
        return put_files(git, git.top, wanted, stamps, start="", store=self._store)

    def _snapshot(self, git: Git, folder: Path, *, excluded: tuple[Path, ...], tree: str | None = None) -> Snapshot:
        place = SnapshotPlace(self._store, excluded, _EVERYTHING, FileHashes(), [], spares_empty=True)
        return SnapshotMaker(git, folder, place=place).make(tree=tree)

    def _read(self, git: Git, name: str) -> str | None:
        if name not in self._known and (found := self._names.read(git, name)) is not None:
            self._known[name] = found
        return self._known.get(name)

    def _write(self, git: Git, values: Mapping[str, str | None]) -> None:
        self._names.write(git, values)
        for name, value in values.items():
            self._known.pop(name, None)
            if value is not None:
                self._known[name] = value

    def _needed(self, git: Git, name: str) -> str:
        known = self._read(git, name)
        if known is None:
            raise GitError(f"the ref {self._names.ref(name)} is not there any more")
        return known


def _free_branch(git: Git, branch: str, *, but: str = "") -> str:
    """The full name of a branch that is not there yet, or is what we made of it before (`but`)."""
    try:
        git.run("check-ref-format", "--branch", branch)
    except GitError as error:
        raise UsageError(f"{branch!r} cannot be a branch", why=str(error), next_step="choose another name") from error
    ref = f"refs/heads/{branch}"
    there = git.run("rev-parse", "--quiet", "--verify", ref, ok_codes=(0, 1, 128)).decode().strip()
    if there and there != but:
        raise UsageError(f"the branch {branch!r} exists already", next_step="choose another name")
    return ref


def _in_the_way(git: Git, now: str, then: str) -> list[str]:
    """Paths that are to be added and exist already: ignored files of the user, which nobody may overwrite."""
    raw = git.run("diff-tree", "-r", "-z", "--name-only", "--diff-filter=A", "--no-renames", now, then)
    paths = [os.fsdecode(path) for path in raw.split(b"\0") if path]
    return [path for path in paths if os.path.lexists(git.top / path) and not (git.top / path).is_dir()]
