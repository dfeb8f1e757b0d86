"""The part of a repository that is compared, and the search for untracked files in it.

Folders whose change time is as it was are not walked again; where the file system does not keep change times, all
are.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runner.workspace.git.repository import (
    Git,
    GitError,
    GitStopped,
    listed,
)
from tracer.clock import short_token


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


_OTHERS = ("ls-files", "-z", "--others", "--exclude-standard")
_DOTS = re.compile(rb"(?:\A|/)\.{0,2}/")  # a name that is none: it would count as a folder more
_MOST_LISTED = 500
_MOST_AGAIN = 100
_Stamp = tuple[int, ...] | None


class Watched(NamedTuple):
    """How everything was on which it depends what a walk over the folders finds.

    `folders` have a slash behind them, the top is the empty name; None: not trusted. `rules` are absolute paths of
    files with rules of what to ignore, None: there is none. `settings` are what git's settings say of them. `others`
    are the unknown files that were found.
    """

    folders: Mapping[bytes, _Stamp]
    rules: Mapping[bytes, _Stamp]
    settings: tuple[tuple[str, str], ...]
    others: frozenset[bytes] = frozenset()


class _NotWatchable(Exception):  # noqa: N818 - it names what was found, not a fault
    """The folders have to be walked again in any case."""


def walk(git: Git, pathspec: Iterable[str], *, started: Callable[[], None] | None = None) -> set[bytes]:
    """The files that git's index does not know and no rule ignores; a nested repository ends in a slash."""
    return set(git.run(*_OTHERS, *pathspec, started=started).split(b"\0")) - {b""}


def walk_again(git: Git, scope: Scope, watched: Watched) -> set[bytes]:
    """What a walk finds now; only what changed since it was watched is walked."""
    if git.ignore_settings != watched.settings or any(_stamp(path) != was for path, was in watched.rules.items()):
        return walk(git, scope.pathspec)
    moved = {path for path, was in watched.folders.items() if was is None or _stamp(_on_disk(scope, path)) != was}
    if not moved:
        return set(watched.others)
    if b"" in moved or len(moved) > _MOST_AGAIN:
        return walk(git, scope.pathspec)
    elsewhere = {path for path in watched.others if not path.startswith(tuple(moved))}
    return elsewhere | walk(git, ["--", *map(os.fsdecode, sorted(moved))])


class Start(NamedTuple):
    """When a walk began, by the file system `device`: what changed later is not trusted to be as the walk saw it."""

    device: int
    before_ns: int

    @classmethod
    def of(cls, made: Path, *, clock_ns: int) -> Start:
        """From a file that was made just before; `clock_ns` is how exact the file system's times may be.

        Raises:
            OSError: the file is not there.

        """
        facts = made.lstat()
        return cls(facts.st_dev, facts.st_ctime_ns - clock_ns)

    def has_seen(self, facts: os.stat_result) -> bool:
        """Whether a change since would be told by the change time."""
        return facts.st_dev == self.device and facts.st_ctime_ns < self.before_ns


def watch(git: Git, scope: Scope, hints: Iterable[bytes], *, start: Start) -> Watched | None:
    """How all folders of the repository are, to be told later whether they changed; None: this will not be known.

    `start` is of a walk over them that is not over, or began just now. `hints` are folders that there may be.
    """
    if scope.prefix or git.index is None or not _keeps_change_times(git.index.parent):
        return None
    try:
        rules = _outer_rules(git, start)
        folders: dict[bytes, _Stamp] = {}
        for path, facts in _folders(git, scope, hints).items():
            folders[path] = _stamp_of(facts) if start.has_seen(facts) else None
            rule = scope.absolute(path) + b".gitignore"
            if (found := _lstat(rule)) is not None:
                rules[rule] = _stamp_of_rule(found, start)
    except GitStopped:
        raise
    except (_NotWatchable, GitError, OSError):
        return None
    return Watched(folders, rules, git.ignore_settings)


def _keeps_change_times(store: Path) -> bool:
    """Whether the change time of a folder of ours stays when its time of modification is set back."""
    probe = store / f"changed-{short_token(16)}"
    try:
        os.utime(store, ns=(0, 0))
        set_back = store.stat()
        probe.touch()
        moved = store.stat()
        probe.unlink()
    except OSError:
        return False
    return set_back.st_mtime_ns == 0 < set_back.st_ctime_ns <= moved.st_ctime_ns and moved.st_mtime_ns > 0


def _folders(git: Git, scope: Scope, hints: Iterable[bytes]) -> dict[bytes, os.stat_result]:
    """Every folder that a walk can come to, and some more."""
    asked = {b"", *(path for path in hints if _DOTS.search(path) is None)}
    there = {path: facts for path in asked if (facts := _lstat(_on_disk(scope, path))) and _is_folder(facts)}
    named = {(_parent(path), facts.st_dev, facts.st_ino) for path, facts in there.items() if path}
    inner = Counter(parent for parent, _, _ in named)  # one folder can have several names where case does not count
    unsure = [path for path, facts in there.items() if not path or facts.st_nlink - 2 != inner[path]]
    if len(unsure) > _MOST_LISTED:
        raise _NotWatchable
    strangers = {path for folder in unsure for path in _listed(scope, folder, there[folder])} - there.keys()
    pending = list(strangers - _ignored(git, strangers))
    most = len(there) + _MOST_LISTED
    while pending:
        path = pending.pop()
        if (facts := _lstat(_on_disk(scope, path))) is not None:
            there[path] = facts
            pending += _listed(scope, path, facts)
        if len(there) + len(pending) > most:
            raise _NotWatchable
    return there


def _parent(folder: bytes) -> bytes:
    return folder[: folder.rfind(b"/", 0, -1) + 1]


def _listed(scope: Scope, folder: bytes, facts: os.stat_result) -> set[bytes]:
    """The folders in a folder that are neither git's own nor left out.

    Raises:
        _NotWatchable: a repository of its own may come to be here, or the links do not tell how many folders there are.

    """
    with os.scandir(_on_disk(scope, folder)) as inside:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in inside]
    found = {name for name, is_folder in entries if is_folder}
    if len(found) != facts.st_nlink - 2 or (folder and (b".git", False) in entries) or (folder and b".git" in found):
        raise _NotWatchable
    return {folder + name + b"/" for name in found if name != b".git" and not scope.is_excluded(folder + name)}


def _ignored(git: Git, folders: Iterable[bytes]) -> set[bytes]:
    """Those that a rule ignores: whatever is in them is ignored as well."""
    asked = {b"./" + folder.rstrip(b"/"): folder for folder in folders}
    if not asked:
        return set()
    said = git.run(
        *("check-ignore", "--no-index", "-z", "--stdin"),
        stdin=listed(asked),
        env={"GIT_LITERAL_PATHSPECS": "0"},  # this command refuses the setting
        ok_codes=(0, 1),
    )
    return {asked[path] for path in said.split(b"\0") if path}


def _outer_rules(git: Git, start: Start) -> dict[bytes, _Stamp]:
    """The stamps of the files with rules that stand outside of the working tree."""
    named = [value for key, value in git.ignore_settings if key == "core.excludesfile"]
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config", "git", "ignore")
    try:
        personal = Path(named[-1] if named else usual).expanduser()
    except RuntimeError as error:  # nobody's home is known
        raise _NotWatchable from error
    common = git.git_dir
    with suppress(OSError):
        common = git.git_dir / os.fsdecode((git.git_dir / "commondir").read_bytes().rstrip(b"\n"))
    if not personal.is_absolute():
        raise _NotWatchable
    paths = [os.fsencode(path) for path in (personal, git.git_dir / "info" / "exclude", common / "info" / "exclude")]
    return {path: None if (found := _lstat(path)) is None else _stamp_of_rule(found, start) for path in paths}


def _on_disk(scope: Scope, folder: bytes) -> bytes:
    """Where the folder is; without its slash, which would lead through a link."""
    return scope.absolute(folder[:-1])


def _is_folder(facts: os.stat_result) -> bool:
    return stat.S_ISDIR(facts.st_mode)


def _lstat(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _stamp(path: bytes) -> _Stamp:
    try:
        return _stamp_of(os.lstat(path))
    except OSError:
        return None


def _stamp_of(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_dev, facts.st_ino, facts.st_mode, facts.st_mtime_ns, facts.st_ctime_ns)


def _stamp_of_rule(facts: os.stat_result, start: Start) -> _Stamp:
    if not (stat.S_ISREG(facts.st_mode) and start.has_seen(facts)):
        raise _NotWatchable
    return _stamp_of(facts)
