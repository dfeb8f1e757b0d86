"""Runs git safely: plumbing commands only, in a repository found from a folder.

Hooks, filters, file system monitors, external diffs, network and prompts are off; the user's index, HEAD and stash
are never written. A running call can be ended from another thread.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, ParamSpec, Self, TypeVar

from runner.processes.environment import command_environment
from runner.processes.probe import run_probe
from runner.processes.process_table import MARK
from tracer.clock import monotonic

_T = TypeVar("_T")
_P = ParamSpec("_P")


class Beside:
    """Work in threads beside this one; the block is left when all of it has ended. `concurrent.futures` loads 10 ms."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ended: object) -> None:
        for thread in self._threads:
            thread.join()

    def start(self, work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> Callable[[], _T]:
        """Start `work`; what is returned waits for its end and gives its result, or raises what it raised."""
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(work(*given, **named))
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                errors.append(error)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

        def result() -> _T:
            thread.join()
            if errors:
                raise errors[0]
            return results[0]

        return result


class Stopper:
    """Ends whatever git call is running, and every later one; each may take `limit_s` seconds."""

    def __init__(self, *, limit_s: float = 900.0) -> None:
        self.limit_s = limit_s
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.stopped = False

    def stop(self) -> None:
        """End running calls; callable from any thread."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                end_process(process)

    def enter(self, process: subprocess.Popen[bytes]) -> None:
        """Take note of a running call."""
        with self._lock:
            self._running.add(process)
            if self.stopped:
                end_process(process)

    def leave(self, process: subprocess.Popen[bytes]) -> None:
        """Forget a call that has ended."""
        with self._lock:
            self._running.discard(process)


def end_process(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> None:
    """Ask the process and those it started to end."""
    with suppress(ProcessLookupError, PermissionError):  # git takes its lock files away when it is asked to end
        os.killpg(process.pid, number)


async def stoppable(work: Callable[[Stopper], _T]) -> _T:
    """Run `work` in a thread; a cancellation ends its git calls and waits for it."""
    import asyncio  # 50 ms, which `pm gate --fast` does without

    stopper = Stopper()
    running = asyncio.ensure_future(asyncio.to_thread(work, stopper))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stopper.stop()
        await asyncio.wait([running])
        running.exception()  # that it was stopped is no news to whoever stopped it
        raise


def file_stamp(path: Path) -> tuple[int, ...] | None:
    """What changes with a file, None without one; the change time cannot be set back by a program."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


FIXED = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.preloadIndex": "true",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.ignoreStat": "false",
    "core.safecrlf": "false",
    "core.quotePath": "false",
    "core.looseCompression": "1",
    "core.fsync": "objects,reference",
    "core.fsyncMethod": "batch",
    "core.alternateRefsCommand": "false",
    "core.bare": "false",
    "index.sparse": "false",
    "diff.ignoreSubmodules": "all",
    "diff.renames": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "merge.conflictStyle": "merge",
    "merge.renormalize": "false",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "advice.addEmbeddedRepo": "false",
}
if sys.platform == "linux":  # elsewhere such a name may lead into `.git`; here a file of that name has to be compared
    FIXED |= {"core.protectHFS": "false", "core.protectNTFS": "false"}
READING = {"core.symlinks": "true"}  # for commands that read files: or a file could pass for the link it replaced
_CASE, _MODES = "core.ignorecase", "core.filemode"
ASK_SETTINGS = ("config", "-z", "--get-regexp", r"^(filter|merge)\..*\.|^core\.(ignorecase|filemode)$")
_OFF = frozenset({"false", "no", "off", "0"})


class RepositorySettings(NamedTuple):
    """What we need to know of a repository's settings: kind and name of every filter and merge program.

    `ignores_case`: it is set whether names differ by case; `heeds_modes`: it matters that a file is executable.
    """

    drivers: tuple[tuple[str, str], ...]
    ignores_case: bool
    heeds_modes: bool


def settings_in(said: bytes) -> RepositorySettings:
    """What `git config` answered to `ASK_SETTINGS`."""
    pairs = [(key, value) for key, _, value in (pair.partition("\n") for pair in os.fsdecode(said).split("\0")) if key]
    modes = [value for key, value in pairs if key == _MODES]
    keys = [key.split(".", 1) for key, _ in pairs if key not in {_CASE, _MODES}]
    if any(len(key) == 1 for key in keys):
        raise GitError("git answered with what is no setting")
    drivers = {(kind, rest.rsplit(".", 1)[0]) for kind, rest in keys}
    heeds_modes = not modes or modes[-1].lower() not in _OFF
    return RepositorySettings(tuple(sorted(drivers)), any(key == _CASE for key, _ in pairs), heeds_modes)


def tells_case_apart(top: Path) -> bool:
    """Whether `a` and `A` are two files here, as far as `.git` tells."""
    try:
        known = (top / ".git").lstat()
        other = (top / ".GIT").lstat()
    except FileNotFoundError:
        return os.path.lexists(top / ".git")
    except OSError:
        return False
    return (known.st_dev, known.st_ino) != (other.st_dev, other.st_ino)


_READING_COMMANDS = frozenset({"diff-files", "update-index"})
_FIXED_PERSON = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "pm"), ("EMAIL", "pm@localhost"), ("DATE", "@946684800 +0000"))
}
_PLACES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"}
)
_NO_INDEX = "no-such-index"  # some commands read the index without need, and the user's may be damaged
_NOT_TAKEN = re.compile(rb"^Ignoring path (.*)$", re.MULTILINE)  # all that git says; it ends as if all were well
_GRACE_S = 5.0
_VERSION_LIMIT_S = 20.0


class GitError(Exception):
    """git failed or is not there; the text is what it said."""


class GitStopped(GitError):  # noqa: N818 - it names what happened, not a fault
    """We stopped it: the comparison was cancelled or took longer than 15 minutes."""


ABSENT = "000000"  # the mode of what is not there


class RawEntry(NamedTuple):
    """One line of git's raw diff format: modes and ids on both sides."""

    path: bytes
    modes: tuple[str, str]
    ids: tuple[str, str]


def parse_raw(output: bytes) -> list[RawEntry]:
    """The entries of `--raw -z` output without renames."""
    parts = output.split(b"\0")
    entries = []
    try:
        for head, path in zip(parts[0::2], parts[1::2], strict=False):
            before_mode, after_mode, before_id, after_id, _ = head.decode("ascii").lstrip(":").split(" ")
            entries.append(RawEntry(path, (before_mode, after_mode), (before_id, after_id)))
    except ValueError as error:
        raise GitError("git answered with what is no list of changes") from error
    return entries


def parse_batch(output: bytes) -> Iterator[bytes]:
    """The contents in what `cat-file --batch` answered, in their order; all of them were there."""
    at = 0
    while at < len(output):
        begin = output.index(b"\n", at) + 1
        end = begin + int(output[at : begin - 1].rsplit(b" ", 1)[1])
        yield output[begin:end]
        at = end + 1


def listed(items: Iterable[bytes]) -> bytes:
    """Input for a command that takes NUL-ended items."""
    return b"".join(item + b"\0" for item in items)


class Git:
    """One repository seen from one working folder. Methods block; `stop` from another thread ends a running call.

    Args:
        git_dir: the repository's own folder, as `rev-parse --absolute-git-dir` names it.
        top: top of the working tree.
        mark: what the commands carry in their environment, to be found again after a kill of ours.

    """

    def __init__(
        self,
        git_dir: Path,
        top: Path,
        *,
        stopper: Stopper | None = None,
        mark: str = "",
    ) -> None:
        self._mark = mark
        self.git_dir = git_dir
        self.top = top
        self.index: Path | None = None  # what the commands use instead of the user's
        self.stopper = stopper if stopper is not None else Stopper()
        self._known_settings: RepositorySettings | None = None
        self._more_settings: Mapping[str, str] = {}

    def at(self, git_dir: Path, top: Path, *, stopper: Stopper, mark: str) -> Git:
        """The same repository seen from another of its working folders, without asking for its settings again."""
        other = Git(git_dir, top, stopper=stopper, mark=mark)
        other._known_settings = self._settings()
        return other

    def with_index(self, index: Path | None) -> Git:
        """The same repository with another index."""
        other = self._like({})
        other.index = index
        return other

    def in_passing(self) -> Git:
        """The same for objects that need not outlast a loss of power: they are sent to the disk but not waited for."""
        return self._like({"core.fsyncMethod": "writeout-only"})

    def heeding_modes(self) -> Git:
        """The same where it matters that a file is executable, whatever the settings say by now."""
        return self._like({"core.fileMode": "true"})

    def _like(self, settings: Mapping[str, str]) -> Git:
        self._settings()  # asked for once, for the copies as well
        other = object.__new__(Git)
        other.__dict__ |= self.__dict__
        other._more_settings = {**self._more_settings, **settings}
        return other

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        ok_codes: Iterable[int] = (0,),
        chosen_index: bool = True,
        complaints: list[bytes] | None = None,
    ) -> bytes:
        """Standard output of `git <arguments>`; `chosen_index` False lets a command choose its index itself.

        `complaints` takes what it says beside.

        Raises:
            GitError: it ended with another code than `ok_codes`, or left a file out because of its name.
            GitStopped: `stop` was called, or the time limit passed.

        """
        settings = {**FIXED, **self._more_settings, "safe.directory": str(self.top)}
        if git_version() < (2, 36):
            settings["core.fsyncObjectFiles"] = "true"  # the newer name is not known there, this one warned of here
        for kind, name in self._settings().drivers:
            if kind == "filter":
                settings |= {f"filter.{name}.{part}": "" for part in ("clean", "smudge", "process")}
                settings[f"filter.{name}.required"] = "false"
            else:
                settings[f"merge.{name}.driver"] = "false"  # a file it would merge is a conflict
        if arguments[0] in _READING_COMMANDS:
            settings |= READING
        if self._settings().ignores_case and tells_case_apart(self.top):
            settings["core.ignoreCase"] = "false"  # or a file could pass for another one
        index = {"GIT_INDEX_FILE": str(self.index or self.git_dir / _NO_INDEX)} if chosen_index else {}
        return _run(
            ["--git-dir", str(self.git_dir), "--work-tree", str(self.top), *arguments],
            cwd=self.top,
            settings=settings,
            env={**index, MARK: self._mark, **(env or {})},
            stdin=stdin,
            stopper=self.stopper,
            ok_codes=ok_codes,
            complaints=complaints,
        )

    def as_user(self, *arguments: str, index: Path, stdin: bytes = b"") -> bytes:
        """Standard output of `git <arguments>` as the user would run it: with their settings, hooks and signing.

        Raises:
            GitError: it ended with another code than 0.

        """
        mine = {name: value for name, value in os.environ.items() if name not in _PLACES}
        command = ["git", "--git-dir", str(self.git_dir), "--work-tree", str(self.top), *arguments]
        env = {**mine, "GIT_INDEX_FILE": str(index)}
        try:
            done = subprocess.run(command, cwd=self.top, env=env, input=stdin, capture_output=True, check=False)
        except OSError as error:
            raise GitError(f"git could not be started: {error.strerror}") from error
        if done.returncode:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            raise GitError(said or f"git ended with code {done.returncode}")
        return done.stdout

    @property
    def heeds_modes(self) -> bool:
        """Whether the settings say that it matters when a file is executable."""
        return self._settings().heeds_modes

    def line(self, *arguments: str) -> str:
        """The output as one line of text."""
        return os.fsdecode(self.run(*arguments).rstrip(b"\n"))

    def commit_tree(self, tree: str, *parents: str, message: str) -> str:
        """A commit of `tree` that is the same whoever makes it and whenever."""
        named = [part for parent in parents for part in ("-p", parent)]
        return self.run("commit-tree", tree, *named, "-m", message, env=_FIXED_PERSON).decode().strip()

    def ignores(self, folder: Path) -> bool:
        """Whether the repository leaves the whole folder out: a build folder, or a home folder that git ignores."""
        if folder == self.top:
            return False
        said = self.run(
            *("check-ignore", "--no-index", "-z", "--stdin"),
            stdin=b"./" + os.fsencode(folder.relative_to(self.top)),
            env={"GIT_LITERAL_PATHSPECS": "0"},  # this command refuses the setting
            ok_codes=(0, 1),
        )
        return bool(said)

    def has(self, tree: str) -> bool:
        """Whether the repository still holds this tree."""
        return self.run("cat-file", "-t", tree, ok_codes=(0, 128)).strip() == b"tree"

    def _settings(self) -> RepositorySettings:
        if self._known_settings is None:
            said = _run(
                ["--git-dir", str(self.git_dir), *ASK_SETTINGS],
                cwd=self.top,
                settings={"safe.directory": str(self.top)},
                stopper=self.stopper,
                ok_codes=(0, 1),
            )
            self._known_settings = settings_in(said)
        return self._known_settings


def find_repository(folder: Path, *, stopper: Stopper | None = None) -> Git | None:
    """The repository whose working tree holds `folder`; None where there is none.

    The top is where `.git` stands, whatever `core.worktree` says.

    Raises:
        GitError: git is missing, or there is a repository that it cannot read; of some the next command says so.

    """
    stopper = stopper or Stopper()
    for top in (folder, *folder.parents):
        if not os.path.lexists(top / ".git"):
            continue
        ask = partial(
            _run,
            cwd=top,
            settings={"safe.directory": "*", "core.fsmonitor": "false"},
            env={"GIT_CEILING_DIRECTORIES": str(top.parent)},
            stopper=stopper,
        )
        try:
            with Beside() as beside:
                settings = beside.start(ask, list(ASK_SETTINGS), ok_codes=(0, 1))
                git_dir = os.fsdecode(ask(["rev-parse", "--absolute-git-dir"]).rstrip(b"\n"))
                if not os.path.isdir(git_dir):  # noqa: PTH112 - it raises nothing, whatever git has said
                    raise GitError("git answered with what is no folder")
        except GitError as error:
            if "not a git repository" in str(error) and not (top / ".git").is_file():
                continue  # an empty or foreign folder of that name
            raise
        found = Git(Path(git_dir), top, stopper=stopper)
        found._known_settings = settings_in(settings())  # noqa: SLF001 - asked for beside, to save a command's time
        return found
    return None


def listed_files(folder: Path, *, limit_s: float = 60.0) -> list[str] | None:
    """Tracked and new files below `folder` that git does not ignore, from there; None: no repository git can read."""
    folder = Path(os.path.realpath(folder))
    try:
        git = find_repository(folder, stopper=Stopper(limit_s=limit_s))
        if git is None:
            return None
        below = [] if folder == git.top else ["--", str(folder.relative_to(git.top))]
        index = git.with_index(git.git_dir / "index")
        found = index.run("ls-files", "-z", "--cached", "--others", "--exclude-standard", *below)
    except GitError:
        return None
    start = len(os.fsencode(folder.relative_to(git.top))) + 1 if below else 0
    return [os.fsdecode(path[start:]) for path in found.split(b"\0") if path]


def scratch_repository(git_dir: Path, top: Path, *, sha256: bool, stopper: Stopper) -> Git:
    """A new empty repository at `git_dir` with the working folder `top`."""
    form = f"--object-format={'sha256' if sha256 else 'sha1'}"
    _run(["init", "-q", "--bare", form, "--template=", str(git_dir)], cwd=top, stopper=stopper)
    return Git(git_dir, top, stopper=stopper)


@lru_cache(maxsize=1)
def git_version() -> tuple[int, int]:
    """Major and minor number of the installed git; (0, 0) where there is none."""
    with suppress(OSError, ValueError):
        said = run_probe(["git", "--version"], limit_s=_VERSION_LIMIT_S).stdout.decode("ascii", "replace").split()
        major, minor = said[2].split(".")[:2] if len(said) > 2 else ("0", "0")
        return int(major), int(minor)
    return (0, 0)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    fixed = {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_LITERAL_PATHSPECS": "1",
    }
    return {**_inherited(tuple(os.environ.items())), **fixed, **extra}


@lru_cache(maxsize=1)
def _inherited(environment: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """What git may know of our environment: chosen once, as a comparison asks git a dozen times."""
    chosen = command_environment(dict(environment))
    return {name: value for name, value in chosen.items() if not name.startswith("GIT_")}


def _run(
    arguments: list[str],
    *,
    cwd: Path,
    stopper: Stopper,
    settings: Mapping[str, str] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
    stdin: bytes = b"",
    ok_codes: Iterable[int] = (0,),
    complaints: list[bytes] | None = None,
) -> bytes:
    counted = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        counted |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    since = monotonic()
    try:
        process = subprocess.Popen(
            ["git", *arguments],
            cwd=cwd,
            env=_environment({**counted, **env}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise GitError(f"git could not be started: {error.strerror}") from error
    stopper.enter(process)
    try:
        out, err = process.communicate(stdin, timeout=stopper.limit_s)
    except subprocess.TimeoutExpired as error:
        end_process(process)
        try:
            process.communicate(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            end_process(process, signal.SIGKILL)
            process.communicate()
        raise GitStopped(f"git {arguments[0]} did not end within {monotonic() - since:.0f} s") from error
    finally:
        stopper.leave(process)
    if stopper.stopped:
        raise GitStopped("the comparison was cancelled")
    if process.returncode not in ok_codes:
        raise GitError(err.decode("utf-8", "replace").strip() or f"git ended with code {process.returncode}")
    if (left_out := _NOT_TAKEN.search(err)) is not None:
        raise GitError(f"git takes no file of the name {left_out[1].decode('utf-8', 'backslashreplace')!r}")
    if complaints is not None:
        complaints += err.splitlines()
    return out
