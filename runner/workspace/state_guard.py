"""What a task changed under pm's own state directory: found, undone, named.

Guarded are the hand-written files of the state dir itself (settings, rules, keys) with their content, and the records
of tasks that nobody is writing, their chains and the blobs, by second links. These and what is known of them lie in the
user's state folder, outside the project: an agent may remove the whole state dir. On another file system the newest are
copied there, and the others have their links in `control/guard`, as all do where there is no such folder. A record that
is being written is put back by its writer, which is asked here. Nothing is removed before its replacement is there.
What was found is saved before it is put back, so a kill between the two hides nothing. An undone version of a
hand-written file is kept under `control/undone/`: it may have been the person's.
"""

from __future__ import annotations

import base64
import errno
import fnmatch
import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tracer.blobs import DirectoryBlobs
from tracer.clock import now_epoch_ms, short_token
from tracer.durable import sync_folder, unlock_mode
from tracer.journal.record_file import open_records
from tracer.statedir import StateDir

_GUARDED = ("*.toml", "*.md", ".gitignore", "serve-token", "redaction.key")
# pm makes these at first use, so a new one is no trespass; a changed one is.
_MADE_ON_DEMAND = frozenset({".gitignore", "serve-token", "redaction.key"})
_RECORD_FOLDERS = ("traces", "tracepack", "agentic-traces")
_FOLDERS = (*_RECORD_FOLDERS, "blobs", "locks", "control")
# Appended to or replaced by any pm at any time: only that they are gone can be told, and they come back as they were.
_LOOSE = ("task-counter", "labels.jsonl", "history.jsonl", "gate.jsonl")
# Made anew from what is put back, or only a memory of what was computed.
_MADE_ANEW = ("catalog.sqlite", "locks", "control", "qa-cache", "reviews")
_HELD_BY_FOLDER = ("worktrees", "control/plain.git")  # pm removes them as well, but never `control`
_MOST_LINKS = 30_000
_MOST_COPIED = 64 << 20
_LARGEST = 1 << 20
_RECORDS_KEPT = 64
_NAMED_LOSSES = 5
_KEPT_MS = 14 * 24 * 3600 * 1000
_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP})


class Guarded(NamedTuple):
    """One hand-written file as it was; of a link or a large file `content` only describes it."""

    mode: int
    content: bytes
    regular: bool = True


class Undone(NamedTuple):
    """What a look found: the names that were changed, those that could not be put back, and sentences about these."""

    names: tuple[str, ...]
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class StateGuard:
    """Guards one state directory for one task. Blocks; call it from a thread."""

    def __init__(self, state_dir: Path, *, task_id: str = "") -> None:
        self.root = state_dir
        self._inside = state_dir / "control" / "guard"
        outside = StateDir(state_dir).guard
        self._folders = (self._inside,) if outside is None else (outside, self._inside)
        self._blobs = DirectoryBlobs(state_dir / "blobs", second=StateDir(state_dir).second_blobs)
        self._files: dict[str, Guarded] | None = None
        self._records: dict[str, list[int]] = {}
        self._blob_folders: dict[str, int] = {}
        self._others: list[str] = []
        self._found: list[str] = []
        self._lost: dict[str, str] = {}
        self._unguarded: set[str] = set()
        self._base, self._task_id = "", task_id

    def take(self, base: str, *, task_id: str = "") -> None:
        """Remember how the state dir is now, before the agent is asked; what was found so far is forgotten."""
        self._inside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._base, self._task_id = base, task_id
        self._found, self._lost = [], {}
        self._unguarded = {name for name in self._names() if (now := _read(self.root / name)) and not now.regular}
        self._files = {
            name: guarded
            for name in self._names()
            if (guarded := _read(self.root / name)) is not None and guarded.regular
        }
        writers = self._writers()
        self._records = {name: facts for name, facts in self._list_records() if not self._is_written(name, writers)}
        self._link_records()
        self._blob_folders = self._blobs.link_all()
        self._others = sorted(self._list_others())
        self._save()

    def undo(self, base: str) -> Undone:
        """Put back what was changed since `take`, and name everything found since then."""
        if self._files is None and not self._load(base):
            return Undone(())
        files, told = self._files or {}, len(self._found)
        others = self._missing_others()
        modes = self._unlock_modes()
        self._found += modes
        for record in open_records(self.root):
            if record.disturbed():
                self._found.append(self._name_of(Path(record.path)))
        changed = [name for name in sorted({*files, *self._names()}) if self._is_changed(name, files.get(name))]
        records = [name for name, facts in self._records.items() if self._is_harmed(name, facts)]
        gone = [name for name in self._blob_folders if not (self._blobs.root / "sha256" / name).is_dir()]
        self._found += [*changed, *records, *(["blobs"] if gone else []), *others]
        if len(self._found) > told:
            self._save()
            for name in changed:
                self._put_back(name, files.get(name))
            for name in records:
                self._restore_record(name, self._records[name])
            for folder in {(self.root / name).parent for name in records}:
                with suppress(OSError):
                    sync_folder(folder)
            self._restore_blobs(gone)
            for name in others:
                self._lost[name] = "deleted"
            self._save()
        names = dict.fromkeys((*self._lost, *self._found))  # what is lost is told first
        return Undone(tuple(names), tuple(self._lost), self._notes())

    def _notes(self) -> tuple[str, ...]:
        told = [f"{name} was {how} and cannot be put back" for name, how in list(self._lost.items())[:_NAMED_LOSSES]]
        if (more := len(self._lost) - len(told)) > 0:
            told.append(f"{more} more records of pm were lost, too")
        return tuple(told)

    def rewritten(self, path: Path) -> None:
        """Pm itself has replaced the record `path` since `take` (a session distilled again): that is no trespass."""
        name = self._name_of(path)
        if name not in self._records:
            return
        with suppress(OSError):
            self._records[name] = _key((self.root / name).lstat())
            self._link_records()
            self._save()

    @staticmethod
    def _name_of(record: Path) -> str:
        return f"{record.parent.name}/{record.name}"  # records stand one folder deep

    def _unlock_modes(self) -> list[str]:
        """Undo what an agent did to the modes of folders that pm writes in, and of what is in those."""
        found = []
        for name in ("", *_FOLDERS):
            with suppress(FileNotFoundError):
                if _unlock(self.root / name):
                    found.append(name or self.root.name)
        return found

    def _names(self) -> Iterable[str]:
        with suppress(OSError), os.scandir(self.root) as inside:
            names = [entry.name for entry in inside if not entry.is_dir(follow_symlinks=False)]
            return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in _GUARDED)]
        return []

    def _is_changed(self, name: str, was: Guarded | None) -> bool:
        now = _read(self.root / name)
        if was is None:
            return now is not None and name not in self._unguarded and name not in _MADE_ON_DEMAND
        return now != was

    def _put_back(self, name: str, was: Guarded | None) -> None:
        path = self.root / name
        if (now := _read(path)) is not None:
            self._set_aside(path, now)
        if was is None:
            path.unlink(missing_ok=True)
            return
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self.root / f".{name}.{short_token()}.new"
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(was.content)
            os.fchmod(file.fileno(), was.mode)
            os.fsync(file.fileno())
        aside.replace(path)

    def _set_aside(self, path: Path, now: Guarded) -> None:
        folder = self.root / "control" / "undone"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = folder / f"{path.name}-{hashlib.sha256(now.content).hexdigest()[:12]}"
        kept.write_bytes(now.content)
        kept.chmod(0o600)

    def _list_records(self) -> Iterable[tuple[str, list[int]]]:
        """Files of records, newest first: device, number, size, time."""
        found = []
        for folder in _RECORD_FOLDERS:
            with suppress(OSError), os.scandir(self.root / folder) as inside:
                for entry in inside:
                    # Locks and side files beside the records come and go with pm's own processes.
                    if entry.name.endswith((".jsonl", ".jsonl.chain")) and entry.name[0] != ".":
                        facts = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(facts.st_mode):
                            found.append((f"{folder}/{entry.name}", _key(facts)))
        for name in _LOOSE:
            with suppress(OSError):
                found.append((name, _key((self.root / name).lstat())))
        return sorted(found, key=lambda item: -item[1][3])

    def _list_others(self) -> Iterable[str]:
        """What of the state dir nothing here can put back (captures, worktrees)."""
        with suppress(OSError), os.scandir(self.root) as inside:
            for entry in inside:
                known = entry.name in _LOOSE or entry.name in _FOLDERS or entry.name.startswith(_MADE_ANEW)
                passing = entry.name[0] == "." or entry.name.endswith((".lock", "-wal", "-shm", "-journal"))
                if not known and not passing and entry.name not in (self._files or {}):
                    yield entry.name
        if (self.root / "control" / "plain.git").is_dir():
            yield "control/plain.git"

    def _missing_others(self) -> list[str]:
        whole = not (self.root / "control").is_dir()
        return [
            name
            for name in self._others
            if (whole or name not in _HELD_BY_FOLDER) and not os.path.lexists(self.root / name)
        ]

    def _link_records(self) -> None:
        """A second name for the newest records, or a copy, so that a deleted one can come back."""
        first, *others = [folder / "links" for folder in self._folders]
        try:
            first.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            if not others:
                raise
            first, *others = others
            first.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = {link for folder in (first, *others) for link in _listed(folder)}
        wanted, room = {}, _MOST_COPIED
        for name, facts in list(self._records.items())[:_MOST_LINKS]:
            if (as_copy := _link_name(facts, copied=True)) in held:
                room -= facts[2]
                wanted[as_copy] = name
                continue
            link = _link_name(facts)
            wanted[link] = name
            if link in held:
                continue
            try:
                os.link(self.root / name, first / link)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    continue
                if facts[2] <= room and _copied(self.root / name, first / as_copy):
                    room -= facts[2]
                    wanted[as_copy] = name
                    continue
                for folder in others:  # deleting the state dir takes it along, deleting records does not
                    with suppress(OSError):
                        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                        os.link(self.root / name, folder / link)
        for folder in (first, *others):
            _forget(folder, set(_listed(folder)) - wanted.keys())

    def _second(self, was: list[int]) -> Path | None:
        """The second link of a record as it was, or its copy."""
        names = (_link_name(was), _link_name(was, copied=True))
        links = (folder / "links" / name for folder in self._folders for name in names)
        return next((link for link in links if os.path.lexists(link)), None)

    def _writers(self) -> list[str]:
        return [f"{lock.removesuffix('.lock')}-" for lock in _listed(self.root / "locks")]

    def _is_written(self, name: str, writers: list[str]) -> bool:
        """Whether it has a writer, who puts it back."""
        record = name.removesuffix(".chain")
        stem = record.rpartition("/")[2].removeprefix("conversation-")
        is_log = record.startswith("tracepack/")  # a session's log has its lock beside it
        return stem.startswith(tuple(writers)) or (is_log and (self.root / f"{record}.lock").exists())

    def _is_harmed(self, name: str, was: list[int]) -> bool:
        """Whether the record is neither as it was nor has grown; one that pm itself has replaced is known from now."""
        path = self.root / name
        try:
            facts = path.lstat()
        except OSError:
            return name not in self._lost
        if name in _LOOSE:
            return False
        if (facts.st_dev, facts.st_ino) == (was[0], was[1]):
            return facts.st_size < was[2] or (facts.st_size == was[2] and facts.st_mtime_ns != was[3])
        second = self._second(was)
        is_put_back = second is not None and stat.S_ISREG(facts.st_mode) and _begins_with(path, second)
        if is_put_back or self._is_of_another_task(name):  # put back here before a kill, or by its writer
            self._records[name] = _key(facts)
            return False
        return name not in self._lost

    def _restore_record(self, name: str, was: list[int]) -> None:
        path, second = self.root / name, self._second(was)
        with suppress(OSError):
            facts = path.lstat()
            is_link = second is not None and second.name == _link_name(was)
            if (facts.st_dev, facts.st_ino) == (was[0], was[1]) and (second is None or is_link):
                self._records[name] = _key(facts)
                self._lost[name] = "overwritten"  # its second link is the same file
                return
        aside = path.with_name(f".{path.name}.{short_token()}.tmp")
        try:
            if second is None:
                raise FileNotFoundError(name)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if second.name != _link_name(was):
                _copy(second, aside)
            else:
                os.link(second, aside)
            aside.replace(path)
            self._records[name] = _key(path.lstat())
        except OSError:
            self._lost[name] = "deleted or replaced"

    def _restore_blobs(self, gone: list[str]) -> None:
        try:
            self._blobs.put_back_folders(gone)
            lost = any(self._blob_folders[name] for name in gone)
        except OSError:
            lost = True
        if lost:
            self._lost["blobs"] = "deleted in part"
        self._blob_folders = {name: count for name, count in self._blob_folders.items() if name not in gone or not lost}

    def _is_of_another_task(self, name: str) -> bool:
        """Whether it is the trace of a session that another task has gone on with since then, by that task's record.

        Those records are guarded too, or put back by who writes them.
        """
        if not name.startswith("agentic-traces/"):
            return False
        own = f"traces/conversation-{self._task_id}-"
        return any(
            record.startswith("traces/conversation-")
            and not record.startswith(own)
            and self._records.get(record) != facts
            and name.encode() in (self.root / record).read_bytes()
            for record, facts in self._list_records()
        )

    def _name(self, task_id: str) -> str:
        """Tasks that begin with the same files have the same base."""
        return f"{hashlib.sha256(self._base.encode()).hexdigest()[:32]}.{task_id}.guard"

    def _save(self) -> None:
        """For a resume in another process; a person's own task may be killed between the agent and the judge."""
        files = {
            name: [guarded.mode, base64.b64encode(guarded.content).decode()]
            for name, guarded in (self._files or {}).items()
        }
        saved = {
            "files": files,
            "records": self._records,
            "blob_folders": self._blob_folders,
            "others": self._others,
            "found": self._found,
            "lost": self._lost,
            "task_id": self._task_id,
        }
        data = zlib.compress(json.dumps(saved, separators=(",", ":")).encode(), level=1)  # of 10,000 tasks 3 MB
        for folder in self._folders[:-1]:
            with suppress(OSError):
                self._write(folder, data)
                return
        self._write(self._inside, data)

    def _write(self, folder: Path, data: bytes) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = folder / f"record.{short_token()}.new"  # other tasks save theirs in the same folder
        aside.write_bytes(data)
        aside.chmod(0o600)
        aside.replace(folder / self._name(self._task_id))
        kept = sorted(folder.glob("*.guard"), key=_modified, reverse=True)
        for old in kept[_RECORDS_KEPT:]:
            old.unlink(missing_ok=True)

    def _load(self, base: str) -> bool:
        self._base = base
        name = self._name(self._task_id or "*")
        found = sorted((path for folder in self._folders for path in folder.glob(name)), key=_modified)
        return any(self._loaded(path) for path in reversed(found))

    def _loaded(self, path: Path) -> bool:
        try:
            record: dict[str, Any] = json.loads(zlib.decompress(path.read_bytes()))
            self._files = {
                str(name): Guarded(int(mode), base64.b64decode(content))
                for name, (mode, content) in record["files"].items()
            }
            self._records = {str(name): [int(part) for part in facts] for name, facts in record["records"].items()}
            self._found = [str(name) for name in record["found"]]
            self._lost = {str(name): str(how) for name, how in record.get("lost", {}).items()}
            self._blob_folders = {str(name): int(count) for name, count in record.get("blob_folders", {}).items()}
            self._others = [str(name) for name in record.get("others", ())]
            self._task_id = str(record.get("task_id", ""))
        except (OSError, zlib.error, ValueError, KeyError, TypeError, AttributeError):
            self._files = None
            return False
        return True


def _key(facts: os.stat_result) -> list[int]:
    return [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns]


def _link_name(facts: list[int], *, copied: bool = False) -> str:
    """A link is the file itself, whatever is added to it; a copy is of one size and time."""
    return "-".join(map(str, facts if copied else facts[:2]))


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return []


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as file, target.open("xb") as copy:
        os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        for piece in iter(lambda: file.read(1 << 20), b""):
            copy.write(piece)


def _copied(source: Path, target: Path) -> bool:
    """Whether the record could be copied; a copy appears whole or not at all."""
    aside = target.with_name(f".{target.name}.{short_token()}.tmp")
    try:
        _copy(source, aside)
        aside.replace(target)
    except OSError:
        with suppress(OSError):
            aside.unlink()
        return False
    return True


def _forget(folder: Path, unwanted: set[str]) -> None:
    """Remove links that have not been needed for long: another task, or one to be resumed, may still want them."""
    for name in unwanted:
        with suppress(OSError):
            link = folder / name
            if link.lstat().st_ctime_ns // 1_000_000 < now_epoch_ms() - _KEPT_MS:
                link.unlink()


def _unlock(path: Path) -> bool:
    if not unlock_mode(path):
        return False
    if path.is_dir():
        for inside in path.iterdir():
            if inside.name != "worktrees" and not inside.is_symlink():  # agents work in those
                _unlock(inside)
    return True


def _begins_with(path: Path, earlier: Path) -> bool:
    """Whether `path` holds all that `earlier` does, and perhaps more."""
    try:
        with path.open("rb") as file, earlier.open("rb") as start:
            return all(file.read(len(piece)) == piece for piece in iter(lambda: start.read(1 << 20), b""))
    except OSError:
        return False


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # another task has cleaned up
        return 0


def _read(path: Path) -> Guarded | None:
    """What is there; None for nothing."""
    try:
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return Guarded(0o777, b"link to " + os.fsencode(path.readlink()), regular=False)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST:
            return Guarded(0, f"{facts.st_size} bytes, time {facts.st_mtime_ns}".encode(), regular=False)
        return Guarded(stat.S_IMODE(facts.st_mode), path.read_bytes())
    except OSError:
        return None
