"""One task at a time in a folder, across processes and state dirs.

The lock is the kernel's: `flock` on the folder itself, shared on every folder above it, so that a task keeps others out
of what lies above and below. It ends with its holder however that ends. A note in the state dir says who that is.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path

from tracer.statedir import StateDir

_NOTE = "in-folder-"


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

    def holder(self) -> str:
        """The task that has it, as far as this state dir knows; "" where that is none of its tasks."""
        try:
            task_id = self._note.read_text()
        except OSError:
            return ""
        return task_id if task_id == self._task_id or self._state_dir.writer_of(task_id) is not None else ""


def _unit(folder: Path) -> Path:
    """What tasks share as a whole: the repository, else the folder."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
