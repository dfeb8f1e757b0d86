"""What a task changed under pm's own state directory: found, undone, named.

Guarded are the hand-written files of the state dir itself (settings, rules, keys) with their content, and the records
of tasks that nobody is writing, by a second link. A record that is being written is put back by its writer, which is
asked here. Nothing is removed before its replacement is there. An undone version of a hand-written file is kept under
`control/undone/`: it may have been the person's.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tracer.clock import short_token
from tracer.durable import unlock_mode
from tracer.journal.record_file import open_records

_GUARDED = ("*.toml", "*.md", ".gitignore", "serve-token", "redaction.key")
# pm makes these at first use, so a new one is no trespass; a changed one is.
_MADE_ON_DEMAND = frozenset({".gitignore", "serve-token", "redaction.key"})
_RECORD_FOLDERS = ("traces", "tracepack", "agentic-traces")
_FOLDERS = (*_RECORD_FOLDERS, "blobs", "locks", "control")
_MOST_LINKS = 500
_LARGEST = 1 << 20
_RECORDS_KEPT = 64


class Guarded(NamedTuple):
    """One hand-written file as it was; of a link or a large file `content` only describes it."""

    mode: int
    content: bytes
    regular: bool = True


class Undone(NamedTuple):
    """What a look found: the names that were changed, and sentences about what could not be put back."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


class StateGuard:
    """Guards one state directory for one task. Blocks; call it from a thread."""

    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir
        self._folder = state_dir / "control" / "guard"
        self._files: dict[str, Guarded] | None = None
        self._records: dict[str, list[int]] = {}
        self._found: list[str] = []
        self._unguarded: set[str] = set()
        self._base = self._task_id = ""

    def take(self, base: str, *, task_id: str = "") -> None:
        """Remember how the state dir is now, before the agent is asked; what was found so far is forgotten."""
        self._base, self._task_id = base, task_id
        self._found = []
        self._unguarded = {name for name in self._names() if (now := _read(self._root / name)) and not now.regular}
        self._files = {
            name: guarded
            for name in self._names()
            if (guarded := _read(self._root / name)) is not None and guarded.regular
        }
        self._records = {name: facts for name, facts in self._list_records() if not self._is_being_written(name)}
        self._link_records()
        self._save()

    def undo(self, base: str) -> Undone:
        """Put back what was changed since `take`, and name everything found since then."""
        if self._files is None and not self._load(base):
            return Undone(())
        notes: list[str] = []
        self._unlock_modes()
        for record in open_records(self._root):
            if record.disturbed():
                self._found.append(self._name_of(Path(record.path)))
        files = self._files or {}
        for name in sorted({*files, *self._names()}):
            if self._put_back(name, files.get(name)):
                self._found.append(name)
        for name, facts in list(self._records.items()):
            if (what := self._restore_record(name, facts)) is not None:
                self._found.append(name)
                notes.extend(what)
        self._save()
        return Undone(tuple(dict.fromkeys(self._found)), tuple(notes))

    def rewritten(self, path: Path) -> None:
        """Pm itself has replaced the record `path` since `take` (a session distilled again): that is no trespass."""
        name = self._name_of(path)
        if name not in self._records:
            return
        with suppress(OSError):
            self._records[name] = _key((self._root / name).lstat())
            self._link_records()
            self._save()

    @staticmethod
    def _name_of(record: Path) -> str:
        return f"{record.parent.name}/{record.name}"  # records stand one folder deep

    def _unlock_modes(self) -> None:
        """Undo what an agent did to the modes of folders that pm writes in, and of what is in those."""
        for name in ("", *_FOLDERS):
            with suppress(FileNotFoundError):
                if _unlock(self._root / name):
                    self._found.append(name or self._root.name)

    def _names(self) -> Iterable[str]:
        with suppress(OSError), os.scandir(self._root) as inside:
            names = [entry.name for entry in inside if not entry.is_dir(follow_symlinks=False)]
            return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in _GUARDED)]
        return []

    def _put_back(self, name: str, was: Guarded | None) -> bool:
        path = self._root / name
        now = _read(path)
        if was is None:
            if now is None or name in self._unguarded or name in _MADE_ON_DEMAND:
                return False
            self._set_aside(path, now)
            path.unlink(missing_ok=True)
            return True
        if now == was:
            return False
        if now is not None:
            self._set_aside(path, now)
        aside = self._root / f".{name}.{short_token()}.new"
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(was.content)
            os.fchmod(file.fileno(), was.mode)
            os.fsync(file.fileno())
        aside.replace(path)
        return True

    def _set_aside(self, path: Path, now: Guarded) -> None:
        folder = self._root / "control" / "undone"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = folder / f"{path.name}-{hashlib.sha256(now.content).hexdigest()[:12]}"
        kept.write_bytes(now.content)
        kept.chmod(0o600)

    def _list_records(self) -> Iterable[tuple[str, list[int]]]:
        """Files of records, newest first: device, number, size, time."""
        found = []
        for folder in _RECORD_FOLDERS:
            with suppress(OSError), os.scandir(self._root / folder) as inside:
                for entry in inside:
                    facts = entry.stat(follow_symlinks=False)
                    # Locks and side files beside the records come and go with pm's own processes.
                    if stat.S_ISREG(facts.st_mode) and entry.name.endswith(".jsonl") and entry.name[0] != ".":
                        found.append((f"{folder}/{entry.name}", _key(facts)))
        return sorted(found, key=lambda item: -item[1][3])

    def _link_records(self) -> None:
        """A second name for the newest records, so that a deleted one can come back."""
        links = self._folder / "links"
        links.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = {}
        for name, (device, number, _, _) in list(self._records.items())[:_MOST_LINKS]:
            wanted[f"{device}-{number}"] = name
        present = set(os.listdir(links))  # noqa: PTH208 - names only
        for gone in present - wanted.keys():
            (links / gone).unlink(missing_ok=True)
        for link in wanted.keys() - present:
            with suppress(OSError):  # no second links on this file system: deletion is then only reported
                os.link(self._root / wanted[link], links / link)

    def _is_being_written(self, name: str) -> bool:
        """Whether it has a writer, who puts it back."""
        if (self._root / f"{name}.lock").exists():  # a session's log
            return True
        stem = name.rpartition("/")[2].removeprefix("conversation-")
        folder = self._root / "locks"
        with suppress(OSError):
            return any(stem.startswith(lock.removesuffix(".lock")) for lock in os.listdir(folder))  # noqa: PTH208
        return False

    def _restore_record(self, name: str, was: list[int]) -> list[str] | None:
        """None where the record is as it was or has grown; else what could not be put back."""
        path = self._root / name
        try:
            facts = path.lstat()
        except OSError:
            facts = None
        if facts is not None and (facts.st_dev, facts.st_ino) == (was[0], was[1]):
            if facts.st_size < was[2] or (facts.st_size == was[2] and facts.st_mtime_ns != was[3]):
                self._records[name] = _key(facts)
                return [f"{name} was overwritten and cannot be put back; `pm trace verify` shows what is left"]
            return None
        link = self._folder / "links" / f"{was[0]}-{was[1]}"
        if facts is not None:
            is_put_back = stat.S_ISREG(facts.st_mode) and _begins_with(path, link)  # by its writer, which has gone on
            if is_put_back or self._is_of_another_task(name):
                self._records[name] = _key(facts)
                return None
        aside = path.with_name(f".{path.name}.{short_token()}.tmp")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.link(link, aside)
            aside.replace(path)
        except OSError:
            del self._records[name]
            return [f"{name} was deleted or replaced and cannot be put back"]
        return []

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
            and name.encode() in (self._root / record).read_bytes()
            for record, facts in self._list_records()
        )

    def _path(self, base: str) -> Path:
        return self._folder / f"{hashlib.sha256(base.encode()).hexdigest()[:32]}.json"

    def _save(self) -> None:
        """For a resume in another process; a person's own task may be killed between the agent and the judge."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = {
            name: [guarded.mode, base64.b64encode(guarded.content).decode()]
            for name, guarded in (self._files or {}).items()
        }
        aside = self._folder / f"record.{short_token()}.new"  # other tasks save theirs in the same folder
        saved = {"files": files, "records": self._records, "found": self._found, "task_id": self._task_id}
        aside.write_text(json.dumps(saved), encoding="utf-8")
        aside.chmod(0o600)
        aside.replace(self._path(self._base))
        kept = sorted(self._folder.glob("*.json"), key=_modified, reverse=True)
        for old in kept[_RECORDS_KEPT:]:
            old.unlink(missing_ok=True)

    def _load(self, base: str) -> bool:
        try:
            record: dict[str, Any] = json.loads(self._path(base).read_bytes())
            self._files = {
                str(name): Guarded(int(mode), base64.b64decode(content))
                for name, (mode, content) in record["files"].items()
            }
            self._records = {str(name): [int(part) for part in facts] for name, facts in record["records"].items()}
            self._found = [str(name) for name in record["found"]]
            self._task_id = str(record.get("task_id", ""))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False
        self._base = base
        return True


def _key(facts: os.stat_result) -> list[int]:
    return [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns]


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
