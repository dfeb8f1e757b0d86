"""One task at a time in a folder, across processes and state dirs.

The lock is the kernel's: `flock` on the folder itself, shared on every folder above it, so that a task keeps others out
of what lies above and below. It ends with its holder however that ends. A note in the state dir says who that is.

A task may leave the folder before its end: it waits, was stopped, or its process was killed. Whoever of this state dir
takes the folder next records how it found it (`Left`), so that their changes are told from those of the first task.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.durable import replace
from tracer.statedir import StateDir

if TYPE_CHECKING:
    from runner.workspace.workspace import Workspace

_NOTE = "in-folder-"
_LEFT = "left-"


class FolderLease:
    """The sole use of `folder`, or of the repository around it, from `take` to `release`.

    Where the file system has no locks, everybody gets it.
    """

    def __init__(self, folder: Path | str, *, state_dir: StateDir, task_id: str) -> None:
        self.folder = _unit(Path(os.path.realpath(folder)))
        self._state_dir, self._task_id = state_dir, task_id
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        self._note = state_dir.control / f"{_NOTE}{name}"
        self._held: list[int] = []

    def take(self) -> bool:
        """Take it now; False where somebody else has it."""
        if self._held:
            return True
        for place in (*reversed(self.folder.parents), self.folder):
            with suppress(OSError):  # nobody can work in a folder above that cannot be read
                descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
                self._held.append(descriptor)
                try:
                    fcntl.flock(descriptor, (fcntl.LOCK_EX if place == self.folder else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._close()
                    return False
        with suppress(OSError):  # it only tells
            self._note.write_text(self._task_id)
        return True

    def release(self) -> None:
        """Give it back; harmless when it is not held."""
        if self._held:
            try:
                with suppress(OSError):
                    os.unlink(self._note)  # noqa: PTH108 - nothing that a test of kills should count as a write
            finally:
                self._close()

    def _close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)
        self._held = []

    def left_by_others(self) -> list[Left]:
        """The notes of other tasks that are not done with the folder; to be recorded by whoever has taken it."""
        notes = map(_read, sorted(self._state_dir.control.glob(f"{_LEFT}*")))
        return [
            note
            for note in notes
            if note is not None and note.folder == str(self.folder) and not note.left and note.task_id != self._task_id
        ]

    def own(self) -> Left:
        """The task's note; it stands until `done`."""
        return left_by(self._state_dir, self._task_id) or Left(
            self._state_dir.control / f"{_LEFT}{self._task_id}", str(self.folder)
        )

    def done(self) -> None:
        """The task has come to its end: what others change in the folder no longer matters to it."""
        with suppress(OSError):
            os.unlink(self._state_dir.control / f"{_LEFT}{self._task_id}")  # noqa: PTH108 - as in `release`

    def holder(self) -> str:
        """The task that has it, as far as this state dir knows; "" where that is none of its tasks."""
        try:
            task_id = self._note.read_text()
        except OSError:
            return ""
        return task_id if task_id == self._task_id or self._state_dir.writer_of(task_id) is not None else ""


@dataclass(slots=True)
class Left:
    """How a task left a folder that it had not done with: the baseline `left`, empty while nobody else had the folder.

    `bases` are the baselines of the task by which its own are replaced: with what others have changed.
    """

    path: Path
    folder: str
    left: str = ""
    bases: dict[str, str] = field(default_factory=dict)

    @property
    def task_id(self) -> str:
        return self.path.name.removeprefix(_LEFT)

    def write(self) -> None:
        replace(self.path, json.dumps({"folder": self.folder, "left": self.left, "bases": self.bases}).encode())

    async def record(self, workspace: Workspace) -> None:
        self.left = await workspace.baseline(f"{self.task_id}/left")
        self.write()

    async def rebased(self, bases: Iterable[str], workspace: Workspace) -> None:
        """Bring `bases` up to what others have changed since the task left."""
        if self.left:
            now = await workspace.baseline(f"{self.task_id}/left")
            for base in bases:
                known = self.bases.get(base, base)
                self.bases[base] = await workspace.rebased(known, left=self.left, now=now, label=f"{self.task_id}/left")
            self.left = ""


def left_by(state_dir: StateDir, task_id: str) -> Left | None:
    """The note of a task that has worked in a folder and is not done with it."""
    return _read(state_dir.control / f"{_LEFT}{task_id}")


def _read(path: Path) -> Left | None:
    try:
        told = json.loads(path.read_bytes())
        return Left(path, str(told["folder"]), str(told["left"]), dict(told["bases"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _unit(folder: Path) -> Path:
    """What tasks share as a whole: the repository, else the folder."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
