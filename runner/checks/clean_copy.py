"""A tree of the workspace that no agent has had its hands on, and how commands are run in it.

It is laid out from the base's own objects, then gets the change; what git ignores and commands need is read-only.
With bubblewrap a command sees the copy at the workspace's own path, so that paths in editable installs and caches hold;
without it the dependencies are copied beside it (copy-on-write where the disk can), or there is no copy, with a reason.
A file in the state directory says where the copy is until it is removed: `remove_copies` takes what a killed `pm` left.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from runner.gate.criterion import ChangedFile, Place, at
from runner.processes.bubblewrap import bubblewrap_command, probe
from runner.processes.process_table import boot_id, start_of, still_runs
from tracer.clock import short_token
from tracer.errors import PmError

# What tools put beside a project and git ignores: wanted by commands, never part of a change.
USUAL_LINKS = ("node_modules", ".venv", "venv", "vendor", ".bundle", ".yarn", "elm-stuff", "deps")
# What tools write among the packages that they run from: empty there for each run, and thrown away.
_WRITTEN = (".cache", ".vite", ".vite-temp")
_MOST_COPIED = 200 << 20
_MOST_KEPT = 8 << 20  # bytes of a file, in memory, for it to be put back
_LARGEST_IDLE = 1 << 30  # bytes: $TMPDIR may be memory
_PREFIX = "pm-check-"
_FOLDER = Path("control") / "copies"
_OWN_PATHS = (".pth", "_finder.py", "direct_url.json")


class Source(Protocol):
    """The workspace that copies are made of."""

    folder: Path

    async def lay_out(self, base: str, folder: Path, *, changed: Mapping[str, ChangedFile]) -> str:
        """Make in `folder` the workspace as `base` holds it; returns why that cannot be, empty where it is done."""


class NoCleanCopyError(PmError):
    """There is no clean copy to be had here; the message says why, in a few words."""

    code = "no_clean_copy"


class CleanCopy:
    """One copy. `workspace` is where commands see it, `reports` a folder of theirs to write to, outside of it."""

    def __init__(self, tree: Path, source: Path, *, reports: Path, mounted: bool, state_dir: Path) -> None:
        self.tree = tree
        self.reports = reports
        self.mounted = mounted
        self.workspace = source if mounted else self.tree
        self._source = source
        self._links: Sequence[str] = ()
        self._state_dir = state_dir
        self._laid_out: dict[str, tuple[int, ...]] = {}
        self._replaced: dict[str, bytes] = {}

    @classmethod
    def of_folder(cls, folder: Path, *, reports: Path, state_dir: Path) -> CleanCopy:
        """No copy: the folder itself, where none can be had."""
        return cls(folder, folder, reports=reports, mounted=False, state_dir=state_dir)

    def argv(self, command: str | Sequence[str]) -> list[str]:
        """The command line that runs `command` in the copy, whatever the folder it is started in."""
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        if not self.mounted:
            return words
        places: list[str] = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
        if not self._state_dir.is_relative_to(self._source):
            places += ["--ro-bind-try", str(self._state_dir), str(self._state_dir)]
        places += ["--bind", str(self.tree), str(self._source)]
        for name in self._links:
            place = self._source / name
            seen = place.resolve() if place.is_symlink() else place
            places += ["--ro-bind", str(place.resolve()), str(seen)]
            for cache in _WRITTEN:
                if (seen / cache).is_dir():
                    places += ["--tmpfs", str(seen / cache)]
        places += ["--bind", str(self.reports), str(self.reports), "--chdir", str(self._source)]
        places += ["--setenv", "PWD", str(self._source)]  # it names the copy elsewhere, which is the same folder
        return bubblewrap_command(words, options=("--unshare-user", *places), network=True)

    def put(self, changes: Iterable[ChangedFile], *, written: Mapping[str, bytes] | None = None) -> None:
        """Give the copy these changes as the task left them, `written` as it stands there. Blocks."""
        for file in changes:
            self._put_one(file)
        for name, content in (written or {}).items():
            place = self._safe(name)
            self._remember(name, place)
            place.write_bytes(content)

    def _put_one(self, file: ChangedFile) -> None:
        place, origin = self._safe(file.path), self._source / file.path
        self._remember(file.path, place)
        with suppress(FileNotFoundError):
            place.unlink()
        if file.after is None:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o644
        with suppress(OSError):
            facts = origin.lstat()
            mode = stat.S_IMODE(facts.st_mode)
            if stat.S_ISLNK(facts.st_mode):
                place.symlink_to(origin.readlink())
                return
            if file.too_large:
                shutil.copyfile(origin, place, follow_symlinks=False)
                place.chmod(mode)
                return
        place.write_bytes(file.after)
        place.chmod(mode & 0o777 | 0o600)

    def link(self, names: Sequence[str]) -> None:
        """Bring in what git ignores and commands need: `names`, and the usual ones. Blocks."""
        self._links = [name for name in dict.fromkeys((*USUAL_LINKS, *names)) if _can_link(self._source, name)]
        left = _MOST_COPIED
        for name in self._links:
            target = self.tree / name
            if target.is_dir() and any(target.iterdir()):
                continue  # it is kept in the repository
            origin = (self._source / name).resolve()
            if (origin / "vite").is_dir():  # a mount needs its place; vite makes the same one
                for cache in _WRITTEN[1:]:
                    with suppress(OSError):
                        (origin / cache).mkdir(exist_ok=True)
            if self.mounted and (self._source / name).is_symlink():
                with suppress(OSError):
                    target.rmdir()
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(origin)
                continue
            if self.mounted:
                target.mkdir(parents=True, exist_ok=True)
                continue
            with suppress(OSError):
                target.rmdir()
            if not _cloned(origin, target):
                left -= _size(origin, left)
                if left < 0:
                    raise NoCleanCopyError(f"{name} is too large to copy, and there is no bubblewrap to keep it safe")
                shutil.copytree(origin, target, symlinks=True)
            _move_paths(target, str(self._source), str(self.tree))

    def _remember(self, name: str, place: Path) -> None:
        """Keep what stands there as it was laid out, for `restore`."""
        fact = self._laid_out.get(name)
        if fact is not None and name not in self._replaced and stat.S_ISREG(fact[0]) and fact[1] <= _MOST_KEPT:
            with suppress(OSError):
                self._replaced[name] = place.read_bytes()

    def take_stock(self) -> None:
        """Note what tells a change of each file, for `restore`; nothing was put and no command run yet. Blocks."""
        self._laid_out = {name: _fact(entry.stat(follow_symlinks=False)) for name, entry in _entries(self.tree)}

    @property
    def size(self) -> int:
        """Bytes of its files as they were laid out."""
        return sum(fact[1] for fact in self._laid_out.values() if stat.S_ISREG(fact[0]))

    def restore(self) -> bool:
        """Make it what it was when it was laid out; False where that cannot be. Blocks.

        No command can set the time at which a file's facts changed: what it touched is told by that.
        """
        missing = dict(self._laid_out)
        try:
            for name, entry in _entries(self.tree, known=self._laid_out):
                if name not in self._laid_out:
                    _delete(Path(entry.path)) if entry.is_dir(follow_symlinks=False) else Path(entry.path).unlink()
                elif missing[name] == _fact(entry.stat(follow_symlinks=False)):
                    del missing[name]
            for name, fact in missing.items():
                if name not in self._replaced:
                    return False
                place = self.tree / name
                place.unlink(missing_ok=True)
                place.write_bytes(self._replaced.pop(name))
                place.chmod(stat.S_IMODE(fact[0]))
                self._laid_out[name] = _fact(place.lstat())
            shutil.rmtree(self.reports)
            self.reports.mkdir(mode=0o700)
        except OSError:
            return False
        return True

    def _safe(self, name: str) -> Path:
        """Where the file stands in the copy; a link that the task put in the way does not lead out of it."""
        place = self.tree / name
        for folder in reversed(place.relative_to(self.tree).parents[:-1]):
            if (self.tree / folder).is_symlink():
                (self.tree / folder).unlink()
        return place


class Copies:
    """The copies that one task takes. One that was given back is made as it was and given out again.

    Laying out 10,000 files anew takes longer than many a suite. Without bubblewrap it is done each time: there a
    command may leave a process behind, which could reach the next one's copy.
    """

    def __init__(self, source: Source, *, links: Sequence[str], state_dir: Path) -> None:
        self._source = source
        self._links = links
        self._state_dir = state_dir
        self._idle: _Idle | None = None

    @asynccontextmanager
    async def opened(
        self,
        base: str,
        *,
        changed: Iterable[ChangedFile],
        keep: Iterable[ChangedFile] = (),
        written: Mapping[str, bytes] | None = None,
    ) -> AsyncIterator[CleanCopy]:
        """The workspace as `base` holds it with those of its `changed` files as they are now that `keep` lists.

        Raises:
            NoCleanCopyError: none can be made here, with the reason.

        """
        state = base.partition("@")[0]
        async with AsyncExitStack() as stack:
            try:
                copy = await self._given_back(state, stack) or await self._laid_out(base, changed, stack)
                await asyncio.to_thread(copy.put, tuple(keep), written=written)
                await asyncio.to_thread(copy.link, self._links)
            except OSError as error:
                raise NoCleanCopyError(f"no clean copy can be made: {error.strerror or error}") from error
            yield copy
            if copy.mounted and copy.size <= _LARGEST_IDLE and self._idle is None:
                self._idle = _Idle(state, copy, stack.pop_all())

    async def _given_back(self, state: str, stack: AsyncExitStack) -> CleanCopy | None:
        idle = self._idle
        if idle is None or idle.state != state:
            return None
        self._idle = None
        await stack.enter_async_context(idle.folder)
        if await asyncio.to_thread(idle.copy.restore):
            return idle.copy
        await stack.aclose()
        return None

    async def _laid_out(self, base: str, changed: Iterable[ChangedFile], stack: AsyncExitStack) -> CleanCopy:
        mounted = shutil.which("bwrap") is not None and (await asyncio.to_thread(probe)).available
        own = await stack.enter_async_context(scratch_folder(self._state_dir))
        copy = CleanCopy(
            own / "tree", self._source.folder, reports=own / "reports", mounted=mounted, state_dir=self._state_dir
        )
        copy.tree.mkdir(mode=0o700)
        copy.reports.mkdir(mode=0o700)
        why = await self._source.lay_out(base, copy.tree, changed={file.path: file for file in changed})
        if why:
            raise NoCleanCopyError(why)
        if mounted:
            await asyncio.to_thread(copy.take_stock)
        return copy

    async def close(self) -> None:
        """Remove the one that was given back."""
        idle, self._idle = self._idle, None
        if idle is not None:
            with suppress(OSError):  # the next pm removes it
                await idle.folder.aclose()


class _Idle(NamedTuple):
    state: str
    copy: CleanCopy
    folder: AsyncExitStack  # removes it


@asynccontextmanager
async def scratch_folder(state_dir: Path) -> AsyncIterator[Path]:
    """A folder outside the workspace, on record until it is removed.

    Raises:
        NoCleanCopyError: none can be made, with the reason.

    """
    own = Path(tempfile.gettempdir()) / f"{_PREFIX}{os.getpid()}-{short_token()}"
    record = state_dir / _FOLDER / f"{own.name}.json"
    try:
        try:
            await asyncio.to_thread(_put_on_record, record, own)
            own.mkdir(mode=0o700)
        except OSError as error:
            raise NoCleanCopyError(f"no clean copy can be made: {error.strerror or error}") from error
        yield own
    finally:
        await asyncio.to_thread(_remove, own, record)


def _entries(folder: Path, *, known: Container[str] | None = None) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What lies in `folder`, by name from there, a folder before what it holds; not in folders that are not `known`."""
    waiting = [""]
    while waiting:
        within = waiting.pop()
        with os.scandir(folder / within) as entries:
            found = list(entries)
        for entry in found:
            name = f"{within}{entry.name}"
            if entry.is_dir(follow_symlinks=False) and (known is None or name in known):
                waiting.append(f"{name}/")
            yield name, entry


def _fact(facts: os.stat_result) -> tuple[int, ...]:
    if stat.S_ISDIR(facts.st_mode):
        return (facts.st_mode,)
    return facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino


def _can_link(workspace: Path, name: str) -> bool:
    """A folder of the workspace, or a link to one that lies beside it (a worktree's to those of the first one)."""
    place = workspace / name
    if not place.is_dir():
        return False
    real = place.resolve()
    return not workspace.is_relative_to(real) if place.is_symlink() else real.is_relative_to(workspace)


Stamp = Mapping[str, tuple[int, ...]]
_MOST_STAMPED = 300_000
_NAMED = 3
_HEAD = 1 << 16
_CACHES = re.compile(
    r"/(?:\.cache|\.vite|\.vitest|\.pytest_cache)/|/\.(?:package-lock\.json|yarn-integrity|modules\.yaml)$"
)
# New files that run whenever the interpreter or its test runner starts, and what of their text says so.
_AT_START = {
    ".pth": rb"(?m)^import\b",
    "sitecustomize.py": rb"",
    "usercustomize.py": rb"",
    "entry_points.txt": rb"\[pytest11\]",
}


def stamp_of(workspace: Path, links: Sequence[str]) -> Stamp | None:
    """What tells a change of each file that `links` brings into copies, at the cost of a walk; None for too many."""
    found: dict[str, tuple[int, ...]] = {}
    waiting = [name for name in dict.fromkeys((*USUAL_LINKS, *links)) if _can_link(workspace, name)]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(workspace / folder) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                    continue
                fact = entry.stat(follow_symlinks=False)
                # A link to the file made elsewhere, by another project's installation, is no change of it.
                changed_ns = fact.st_ctime_ns if fact.st_nlink == 1 else fact.st_mtime_ns
                found[name] = (fact.st_mode, fact.st_size, fact.st_mtime_ns, changed_ns)
        if len(found) > _MOST_STAMPED:
            return None
    return found


def tampered(before: Stamp, workspace: Path, links: Sequence[str]) -> list[str]:
    """The installed files that were edited or taken away since, and new ones that run whenever tests start.

    A package that was added is none of it.
    """
    after = stamp_of(workspace, links)
    if after is None:
        return []
    edited = [name for name, fact in before.items() if after.get(name) != fact and not _CACHES.search(name)]
    return sorted((*edited, *(name for name in after if name not in before and _starts(workspace / name))))


def changed_packages(before: Stamp, folder: Path, links: Sequence[str]) -> tuple[Place, ...]:
    """What a person is to judge of the installed packages since `before`."""
    touched = tampered(before, folder, links)
    what = f"installed packages were changed: {', '.join(touched[:_NAMED])}"
    what += f" and {len(touched) - _NAMED} more" if len(touched) > _NAMED else ""
    return (at("bought", what, suggestion="install them anew, then run the tests yourself"),) if touched else ()


def _starts(path: Path) -> bool:
    wanted = next((_AT_START[end] for end in _AT_START if path.name.endswith(end)), None)
    try:
        return wanted is not None and re.search(wanted, path.read_bytes()[:_HEAD]) is not None
    except OSError:
        return True


def _cloned(source: Path, target: Path) -> bool:
    """Whether the disk made a copy that shares its blocks."""
    for option in ("--reflink=always", "-c"):
        done = subprocess.run(["cp", "-a", option, str(source), str(target)], capture_output=True, check=False)
        if done.returncode == 0:
            return True
        shutil.rmtree(target, ignore_errors=True)
    return False


def _size(folder: Path, most: int) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(Path(base) / name).st_size
        if total > most:
            break
    return total


def _move_paths(folder: Path, old: str, new: str) -> None:
    """What a virtual environment says of the workspace's path: else the tests would import the workspace's own code."""
    for path in _telling(folder):
        with suppress(OSError, UnicodeDecodeError):
            text = path.read_text(encoding="utf-8")
            if old in text:
                path.write_text(text.replace(old, new), encoding="utf-8")


def _telling(folder: Path) -> Iterator[Path]:
    if not (folder / "pyvenv.cfg").is_file():
        return
    yield from (path for path in (folder / "bin").iterdir() if path.is_file() and not path.is_symlink())
    for base, folders, names in os.walk(folder / "lib"):
        if Path(base).name == "site-packages":
            folders[:] = [name for name in folders if name.endswith(".dist-info")]
        yield from (Path(base) / name for name in names if name.endswith(_OWN_PATHS))


def _put_on_record(record: Path, own: Path) -> None:
    facts = {"path": str(own), "boot": boot_id(), "owner": os.getpid(), "start": start_of(os.getpid())}
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record.write_text(json.dumps(facts), encoding="utf-8")


def _remove(own: Path, record: Path) -> None:
    _delete(own)
    record.unlink(missing_ok=True)


def _delete(folder: Path) -> None:
    """Remove a copy, also where the tests took the rights away from its folders."""

    def retry(_function: object, path: str, _error: object) -> None:
        with suppress(OSError):
            Path(path).parent.chmod(0o700)
            Path(path).chmod(0o700)
            os.unlink(path) if not Path(path).is_dir() else shutil.rmtree(path, ignore_errors=True)  # noqa: PTH108

    shutil.rmtree(folder, onerror=retry)


def remove_copies(state_dir: Path) -> None:
    """Remove the copies of processes that no longer live. Costs one look at a folder where there is none."""
    for record in (state_dir / _FOLDER).glob("*.json"):
        try:
            facts = json.loads(record.read_bytes())
            own, alive = Path(str(facts["path"])), still_runs(facts["owner"], facts["start"], boot=facts["boot"])
        except (OSError, ValueError, KeyError, TypeError):
            record.unlink(missing_ok=True)
            continue
        if alive:
            continue
        if (
            own.name.startswith(_PREFIX)
            and own.is_dir()
            and not own.is_symlink()
            and own.owner() == Path.home().owner()
        ):
            _delete(own)
        record.unlink(missing_ok=True)
