"""The state directory of a project: where every record lives, who may make it, and how task numbers are given out.

Folders are 0700, hold their own `.gitignore` and are made on `ensure`, never by looking. `allot_task_id` gives every
caller another id, across processes and after crashes: a kernel lock around a counter that is never behind the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tracer.durable import ensure_folder, ignored_folder, replace
from tracer.errors import ConfigError, RecordError, TraceError, told_as
from tracer.lock import FileLock, Holder, holder_of

AS_ITS_OWNER: Final = "run pm as the user who owns it, or name another state directory with --state-dir"
STATE_DIR_NAME: Final = ".pm-orchestrator"
_ALLOT_PATIENCE_S: Final = 30.0  # its holders keep it for milliseconds
_IGNORE_ALL: Final = b"*\n"
_IGNORE_STATE: Final = b"*\n!config.toml\n!rules.md\n!qa.toml\n"
_TRACE_NAME: Final = re.compile(r"conversation-(.+)-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)(?:_([1-9]\d*))?\.jsonl")
_TASK_NUMBER: Final = re.compile(r"task-(\d+)")
_VALID_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class TraceName(NamedTuple):
    """What a trace's file name says. `order` sorts a task's files, oldest first, whatever the clock did."""

    task_id: str
    stamp: str
    number: int

    @property
    def order(self) -> tuple[str, int]:
        """The sort key among files of one task."""
        return (self.stamp, self.number)

    def file_name(self) -> str:
        """`conversation-<task_id>-<stamp>[_<number>].jsonl`."""
        suffix = f"_{self.number}" if self.number > 1 else ""
        return f"conversation-{self.task_id}-{self.stamp}{suffix}.jsonl"


def parse_trace_name(name: str) -> TraceName | None:
    """The parts of a conversation trace's file name; None for any other file."""
    match = _TRACE_NAME.fullmatch(name)
    return TraceName(match[1], match[2], int(match[3] or 1)) if match else None


def valid_id(text: str) -> bool:
    """Whether `text` can be a task or session id: letters, digits, `.`, `_`, `-`; at most 100, so it is a file name."""
    return _VALID_ID.fullmatch(text) is not None


def user_state_folder(environ: Mapping[str, str]) -> Path:
    """Where pm keeps what belongs to the user and to no project; relative where the user has no home."""
    base = environ.get("XDG_STATE_HOME")
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - Path.home raises where there is none
    return (Path(base) if base else home / ".local" / "state") / "pm-orchestrator"


def folder_sha256(folder: str | os.PathLike[str]) -> str:
    """The hash of a folder's real path: it tells folders of one name apart."""
    from hashlib import sha256  # 4 ms

    return sha256(os.fsencode(os.path.realpath(folder))).hexdigest()


class StateDir:
    """The folder `root` (usually `<project>/.pm-orchestrator`) and the names within it. Making one touches nothing."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.project = self.root.parent  # the folder that holds the state dir
        self.traces = self.root / "traces"  # conversation traces
        self.tracepack = self.root / "tracepack"  # session transition logs
        self.blobs = self.root / "blobs"  # the content-addressed store
        self.catalog = self.root / "catalog.sqlite"  # the catalogue's database: a projection, safe to delete
        self.labels = self.root / "labels.jsonl"  # what people say of tasks, sessions and captures
        self.locks = self.root / "locks"  # one lock file per task that is being written now
        self.control = self.root / "control"  # requests to the process that runs a task (stop), and its processes
        self.config = self.root / "config.toml"  # the project's configuration file
        self.rules = self.root / "rules.md"  # the project's mandatory rules
        self.task_counter = self.root / "task-counter"  # the highest task number given out

    def __fspath__(self) -> str:
        return os.fspath(self.root)

    @classmethod
    def find(cls, start: Path) -> StateDir:
        """The nearest state dir of this user from `start` up to the repository's root, else the one to be made there.

        Outside of a repository only `start` counts: above it nothing says whose project a folder belongs to.

        Raises `ConfigError` (the one at the root belongs to another user).
        """
        start = Path(start).absolute()
        top = next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
        for folder in (start, *start.parents):
            place = folder / STATE_DIR_NAME
            owner = place.stat().st_uid if place.is_dir() else None
            if owner == os.geteuid():
                return cls(place)
            if folder == top:
                break
        if owner is not None:
            raise ConfigError(
                f"the state directory {str(place)!r} belongs to user {_user_name(owner)!r}",
                why="settings and records are taken over from nobody else",
                next_step="name another one with --state-dir, or run pm as its owner",
            )
        return cls(place)

    @property
    def agentic_traces(self) -> Path:
        """Distilled native sessions; in `.pdd/agentic-traces` where the project has a `.pdd`."""
        pdd = self.project / ".pdd"
        return pdd / "agentic-traces" if pdd.is_dir() else self.root / "agentic-traces"

    @property
    def copies(self) -> Path | None:
        """Second copies of the records that are being written: outside the project, where agents do not work."""
        return self._outside("records")

    @property
    def second_blobs(self) -> Path | None:
        """Second links of the blobs that tasks have stored, likewise."""
        return self._outside("blobs")

    @property
    def guard(self) -> Path | None:
        """Second links of the records that nobody writes, and what a task found of the state dir, likewise."""
        return self._outside("guard")

    def _outside(self, kind: str) -> Path | None:
        user = user_state_folder(os.environ)
        if not user.is_absolute():
            return None
        place = Path(os.path.realpath(self.root))
        return user / kind / f"{place.parent.name}-{folder_sha256(place)[:12]}"

    def ensure(self) -> StateDir:
        """Make the folders (0700) and their `.gitignore`; existing ones stay as they are."""
        try:
            own = (self.traces, self.tracepack, self.agentic_traces, self.blobs, self.locks, self.control)
            for folder in (self.root, *own):
                ensure_folder(folder)
            ignored_folder(self.root, _IGNORE_STATE)
            if self.agentic_traces.parent != self.root:
                ignored_folder(self.agentic_traces, _IGNORE_ALL)
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def _unwritable(self, error: OSError) -> RecordError:
        why = error.strerror or str(error)
        try:
            owner = self.root.stat().st_uid
        except OSError:
            owner = os.getuid()
        if owner != os.getuid():
            why += f"; it belongs to user {_user_name(owner)!r}"
        return RecordError(
            f"the state directory {str(self.root)!r} cannot be written",
            why=why,
            next_step="free space, change its owner, or name another one with --state-dir",
        )

    def task_lock(self, task_id: str) -> Path:
        """The lock of whoever writes `task_id`'s record."""
        return self.locks / f"{task_id}.lock"

    def writer_of(self, task_id: str) -> Holder | None:
        """The process that writes `task_id`'s record now, or None."""
        return holder_of(self.task_lock(task_id))

    def tell_writer(self, task_id: str, name: str, text: str = "") -> bool:
        """Leave a word for the process that runs `task_id`, there whole or not at all; False if no process does."""
        if self.writer_of(task_id) is None:
            return False
        try:
            self.control.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace(self.control / name, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise RecordError(
                f"cannot reach the process that runs {task_id}",
                why=str(error),
                next_step="check the rights of the state directory",
            ) from error
        return True

    def writers(self) -> dict[str, Holder]:
        """Every task that is being written now, and by whom."""
        try:
            names = os.listdir(self.locks)  # noqa: PTH208 - names are all that is needed
        except OSError:
            return {}
        ids = sorted(name.removesuffix(".lock") for name in names if name.endswith(".lock") and name != "allot.lock")
        return {task_id: holder for task_id in ids if (holder := self.writer_of(task_id)) is not None}

    def trace_names(self) -> list[str]:
        """The file names of all conversation traces, in no order; empty where there is no state dir yet."""
        names: list[str] = []
        with (
            told_as(TraceError, f"cannot read {str(self.traces)!r}", next_step=AS_ITS_OWNER),
            suppress(FileNotFoundError),
        ):
            names = os.listdir(self.traces)  # noqa: PTH208 - ten thousand names without ten thousand Path objects
        return [name for name in names if name.startswith("conversation-") and name.endswith(".jsonl")]

    def allot_task_id(self) -> str:
        """A fresh task id (`task-001`, `task-002`, …) that no other call in any process gets."""
        self.ensure()
        try:
            lock = FileLock(self.locks / "allot.lock")
            with lock.acquire(what="the task counter", patience_s=_ALLOT_PATIENCE_S):
                number = max(self._counter(), self._highest_in_files()) + 1
                replace(self.task_counter, f"{number}\n".encode())
        except OSError as error:
            raise self._unwritable(error) from error
        return f"task-{number:03d}"

    def _counter(self) -> int:
        try:
            return int(self.task_counter.read_bytes())
        except (FileNotFoundError, ValueError):
            return 0

    def _highest_in_files(self) -> int:
        names = filter(None, map(parse_trace_name, self.trace_names()))
        numbers = filter(None, (_TASK_NUMBER.fullmatch(name.task_id) for name in names))
        return max((int(number[1]) for number in numbers), default=0)


def _user_name(user_id: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
