"""The user's repository as it was before the agent: what happened to it since, and a copy to put it back from.

A state holds HEAD, refs, settings, hooks and the stash's list by value, the index by a link. Objects are kept by hard
links, outside the workspace where its file system allows: a repository that is deleted can come back. Nothing here
writes into the repository but `restore_folder`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runner.gate.criterion import Harm, HarmKind
from runner.workspace.git.refs import common_dir
from runner.workspace.git.repository import Git, GitError, Stopper
from tracer.clock import now_epoch_ms
from tracer.statedir import user_state_folder

_OURS = ("refs/pm-orchestrator/", "refs/heads/pm/", "refs/remotes/", "refs/prefetch/")
_STASH, _STASH_LOG = "refs/stash", "logs/refs/stash"
_FILES = ("config", "config.worktree", "info/exclude", "info/attributes", _STASH_LOG)
_LARGEST = 4 << 20
_LINKED = frozenset({"objects", "lfs"})  # folders of files that git never changes
_GRACE_MS = 14 * 24 * 3600 * 1000
_TICK_NS = 20_000_000  # by which the time of a folder may be behind
_INDEXES_KEPT = 64
_SHOWN = 12  # digits of an id


class GitState(NamedTuple):
    """A repository at one time. `head` is a ref, or a commit where HEAD is detached.

    `files` holds mode and content (base64) of settings, hooks and the stash's list by their names in `common`.
    `pointer` is the text of `.git` where that is a file. `index_id` names the link to the index, if there is one.
    `committed`, of a worktree of ours: the commit that the user's own HEAD stood for.
    """

    top: str
    git_dir: str
    common: str
    head: str
    refs: Mapping[str, str]
    files: Mapping[str, tuple[int, str]]
    pointer: str = ""
    index_id: str = ""
    committed: str = ""

    @property
    def commit(self) -> str:
        """The commit that HEAD stands for; "" before the first one."""
        return self.refs.get(self.head, "") if self.head.startswith("refs/") else self.head or self.committed

    def encoded(self) -> bytes:
        """As it is kept."""
        return json.dumps(self._asdict(), sort_keys=True).encode("ascii")

    @classmethod
    def decoded(cls, data: bytes) -> GitState:
        """What `encoded` gave. ValueError, KeyError, TypeError for anything else."""
        fields = json.loads(data)
        files = {str(name): (int(mode), str(content)) for name, (mode, content) in fields.pop("files").items()}
        return cls(files=files, **fields)


def read_state(git: Git) -> GitState:
    """The repository as it is now. GitError, OSError where it cannot be read."""
    common = common_dir(git)
    head = (git.git_dir / "HEAD").read_text(encoding="utf-8", errors="surrogateescape").strip()
    pointer = git.top / ".git"
    return GitState(
        top=str(git.top),
        git_dir=str(git.git_dir),
        common=str(common),
        head=head.removeprefix("ref: "),
        refs=dict(sorted(_refs(git, common))),
        files=dict(sorted(_files(common))),
        pointer=pointer.read_text(encoding="utf-8", errors="surrogateescape") if pointer.is_file() else "",
        index_id=_index_id(git.git_dir / "index"),
    )


def _refs(git: Git, common: Path) -> Iterator[tuple[str, str]]:
    """The user's refs, read from the files: asking git would cost as much as the rest of a comparison."""
    if (common / "reftable").is_dir():
        listed = git.run("for-each-ref", "--format=%(objectname) %(refname)").decode("utf-8", "surrogateescape")
        pairs = [line.split(" ", 1) for line in listed.splitlines()]
    else:
        pairs = [*_packed(common), *_loose(common / "refs")]
    for value, name in pairs:
        if not name.startswith(_OURS):
            yield name, value


def _packed(common: Path) -> Iterator[list[str]]:
    with suppress(FileNotFoundError):
        for line in (common / "packed-refs").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            if line[:1] not in {"#", "^", ""}:
                yield line.split(" ", 1)


def _loose(root: Path) -> Iterator[list[str]]:
    for folder, folders, names in os.walk(root):
        start = os.path.relpath(folder, root.parent)
        folders[:] = [name for name in folders if not f"{start}/{name}/".startswith(_OURS)]
        for name in names:
            if not name.endswith(".lock"):
                with suppress(OSError):
                    text = Path(folder, name).read_text(encoding="utf-8", errors="surrogateescape")
                    yield [text.strip(), f"{start}/{name}"]


def _files(common: Path) -> Iterator[tuple[str, tuple[int, str]]]:
    hooks: list[str] = []
    with suppress(OSError):
        hooks = [f"hooks/{name}" for name in os.listdir(common / "hooks") if not name.endswith(".sample")]  # noqa: PTH208
    for name in (*_FILES, *hooks):
        if (found := read_kept(common / name)) is not None:
            yield name, found


def read_kept(path: Path) -> tuple[int, str] | None:
    """Mode and content of a file or link; None for anything else, or nothing."""
    with suppress(OSError):
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return facts.st_mode, base64.b64encode(os.fsencode(path.readlink())).decode()
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= _LARGEST:
            return stat.S_IMODE(facts.st_mode) | stat.S_IFREG, base64.b64encode(path.read_bytes()).decode()
    return None


def _index_id(path: Path) -> str:
    """What tells one index from another: the checksum at its end, or its own hash where git leaves that out."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 20))
            end = file.read()
            if any(end):
                return f"{size}-{end.hex()}"
            file.seek(0)
            return f"{size}-{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError:
        return ""


def harm_since(before: GitState, now: GitState | None, git: Git | None) -> tuple[Harm, ...]:
    """What differs from `before`; None: the repository is gone or cannot be read. HEAD is each working tree's own."""
    if git is None or now is None or now.common != before.common:
        return (Harm(kind="repository", what=".git"),)
    head = _head_harm(before, now, git) if before.head and now.git_dir == before.git_dir else ()
    return (*head, *_ref_harm(before, now, git), *_file_harm(before, now))


def _head_harm(before: GitState, now: GitState, git: Git) -> Iterable[Harm]:
    if before.head != now.head and (before.head.startswith("refs/") or now.head.startswith("refs/")):
        yield Harm(kind="head", what="HEAD", before=_short(before.head), after=_short(now.head))
    elif before.commit != now.commit:
        grown = not before.commit or _is_ancestor(git, before.commit, now.commit)
        kind: HarmKind = "commits" if grown and now.commit else "history"
        what = _short(now.head) if now.head.startswith("refs/") else "HEAD"
        yield Harm(kind=kind, what=what, before=before.commit[:_SHOWN], after=now.commit[:_SHOWN])


def _is_ancestor(git: Git, one: str, other: str) -> bool:
    try:
        git.run("merge-base", "--is-ancestor", one, other)
    except GitError:
        return False
    return True


def _committed_in_main(now: GitState, then: str, after: str, git: Git) -> str:
    """The branch of the main working tree, where commits were made there while this one is a linked worktree.

    The log of HEAD there tells: one who moves the branch from a linked worktree does not write to it.
    """
    if now.git_dir == now.common or not _is_ancestor(git, then, after):
        return ""
    with suppress(OSError, IndexError):
        last = Path(now.common, "logs", "HEAD").read_bytes().splitlines()[-1].split()
        head = Path(now.common, "HEAD").read_text(encoding="utf-8", errors="surrogateescape").strip()
        return head.removeprefix("ref: ") if last[1] == after.encode() else ""
    return ""


def _ref_harm(before: GitState, now: GitState, git: Git) -> Iterable[Harm]:
    current = before.head if before.head == now.head else ""
    for name in sorted(before.refs.keys() | now.refs.keys()):
        then, after = before.refs.get(name, ""), now.refs.get(name, "")
        if then != after and name not in {current, _committed_in_main(now, then, after, git)}:
            kind: HarmKind = "stash" if name == _STASH else "ref"
            yield Harm(kind=kind, what=_short(name), before=then[:_SHOWN], after=after[:_SHOWN])
    logs = (before.files.get(_STASH_LOG), now.files.get(_STASH_LOG))
    if logs[0] != logs[1] and before.refs.get(_STASH) == now.refs.get(_STASH):  # an older entry was dropped
        yield Harm(kind="stash", what="stash")


def _file_harm(before: GitState, now: GitState) -> Iterable[Harm]:
    for name in sorted(before.files.keys() | now.files.keys()):
        then, after = before.files.get(name), now.files.get(name)
        if then != after and name != _STASH_LOG:
            done = "created" if then is None else "deleted" if after is None else "changed"
            yield Harm(kind="hook" if name.startswith("hooks/") else "config", what=f".git/{name}", after=done)


def _short(name: str) -> str:
    for start in ("refs/heads/", "refs/tags/", "refs/"):
        if name.startswith(start):
            return name.removeprefix(start)
    return name[:_SHOWN]


def kept_folder(common: Path, *, state_dir: Path) -> Path:
    """Where the copy of a repository lies: below the user's state folder, or in the state dir where links need it."""
    name = f"{common.parent.name}-{hashlib.sha256(os.fsencode(common)).hexdigest()[:12]}"
    place = user_state_folder(os.environ) / "repositories" / name
    if place.is_absolute() and _device(place) == _device(common):
        return place
    return state_dir / "control" / "repositories" / name


def kept_copy(state: GitState, *, state_dir: Path, stopper: Stopper | None = None) -> Git | None:
    """The kept copy of a repository, where there is one."""
    copy = kept_folder(Path(state.common), state_dir=state_dir) / "git"
    return Git(copy, Path(state.top), stopper=stopper) if (copy / "HEAD").exists() else None


def _device(path: Path) -> int:
    for one in (path, *path.parents):
        with suppress(OSError):
            return one.stat().st_dev
    return -1


def keep(state: GitState, *, state_dir: Path) -> None:
    """Bring the copy of the repository up to it. OSError where it cannot be made."""
    folder = kept_folder(Path(state.common), state_dir=state_dir)
    (folder / "indexes").mkdir(mode=0o700, parents=True, exist_ok=True)
    if state.index_id and not (kept := folder / "indexes" / state.index_id).exists():
        with suppress(FileNotFoundError, FileExistsError):
            os.link(Path(state.git_dir) / "index", kept)  # git never changes an index: it puts another in its place
        known = sorted((folder / "indexes").iterdir(), key=lambda path: path.lstat().st_ctime_ns, reverse=True)
        for old in known[_INDEXES_KEPT:]:
            old.unlink(missing_ok=True)
    if not state.pointer:  # else the repository lies elsewhere, and only the pointer to it is in the agent's way
        mirror(state.common, str(folder / "git"), linked=False)


def mirror(source: str, target: str, *, linked: bool) -> None:
    """Make `target` what `source` is, by links where `linked`; what went from `source` stays for 14 days."""
    facts = os.lstat(source)
    if not os.path.lexists(target):
        Path(target).mkdir(mode=0o700, parents=True)
    elif linked and os.lstat(target).st_mtime_ns == facts.st_mtime_ns:
        return
    with os.scandir(source) as inside:
        entries = list(inside)
    deeper = False
    for entry in entries:
        place = f"{target}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            deeper = True
            mirror(entry.path, place, linked=linked or entry.name in _LINKED)
        elif not entry.name.endswith(".lock") and not entry.name.startswith("tmp_"):
            with suppress(FileNotFoundError):  # git has put another in its place
                # An index is large, and git puts another in its place instead of changing it.
                _mirror_file(entry, place, linked=linked or entry.name == "index")
    _forget(target, {entry.name for entry in entries})
    if linked and not deeper and facts.st_mtime_ns < now_epoch_ms() * 1_000_000 - _TICK_NS:
        os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # nothing came or went: no need to look again


def _mirror_file(entry: os.DirEntry[str], place: str, *, linked: bool) -> None:
    facts = entry.stat(follow_symlinks=False)
    try:
        held = os.lstat(place)
    except FileNotFoundError:
        held = None
    if linked and stat.S_ISREG(facts.st_mode):
        if held is not None and entry.name == "index" and held.st_ino != facts.st_ino:
            Path(place).unlink()
            held = None
        if held is None:
            with suppress(FileExistsError):  # another task keeps the same repository
                os.link(entry.path, place)
        return
    if held is not None:
        if (held.st_size, held.st_mtime_ns, held.st_mode) == (facts.st_size, facts.st_mtime_ns, facts.st_mode):
            return
        Path(place).unlink()
    if stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode):
        shutil.copy2(entry.path, place, follow_symlinks=False)


def _forget(target: str, present: set[str]) -> None:
    with os.scandir(target) as inside:
        gone = [entry for entry in inside if entry.name not in present]
    for entry in gone:
        changed_ms = entry.stat(follow_symlinks=False).st_ctime_ns // 1_000_000  # its other name went then
        if changed_ms < now_epoch_ms() - _GRACE_MS:
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else Path(entry.path).unlink()


def restore_folder(state: GitState, *, state_dir: Path) -> str:
    """Bring back the repository's folder and lost objects from the copy; what cannot be restored, "" for nothing."""
    top = Path(state.top)
    if state.pointer:
        if not os.path.lexists(top / ".git"):
            (top / ".git").write_text(state.pointer, encoding="utf-8", errors="surrogateescape")
        return "" if Path(state.git_dir).is_dir() else f"{state.git_dir} is gone, and no copy of it was kept"
    copy, common = kept_folder(Path(state.common), state_dir=state_dir) / "git", Path(state.common)
    if not (copy / "HEAD").exists():
        lost = not (common / "HEAD").exists()
        return f"{state.common} is gone, and there is no copy of it: its history is lost" if lost else ""
    if (common / "HEAD").exists():
        for name in _LINKED:
            if (copy / name).is_dir():
                _bring_back(copy / name, common / name, linked=True)
        return ""
    aside = top / ".git.pm-undo"
    shutil.rmtree(aside, ignore_errors=True)  # of an undo that was killed
    _bring_back(copy, aside, linked=False)
    if os.path.lexists(common):
        common.rename(top / f".git.before-undo-{now_epoch_ms()}")
    aside.rename(common)
    return ""


def _bring_back(source: Path, target: Path, *, linked: bool) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with os.scandir(source) as inside:
        for entry in inside:
            place = target / entry.name
            if entry.is_dir(follow_symlinks=False):
                _bring_back(Path(entry.path), place, linked=linked or entry.name in _LINKED)
            elif not os.path.lexists(place):
                if linked and not entry.is_symlink():
                    os.link(entry.path, place)
                else:
                    shutil.copy2(entry.path, place, follow_symlinks=False)
