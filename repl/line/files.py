"""The project's files for `@` completion, without what git ignores; looked up in the background, kept for a while."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from threading import Lock, Thread

from tracer.clock import monotonic

__all__ = ["ProjectFiles"]

_MOST = 20_000
_KEEP_S = 10.0
_GIT_S = 3.0
_SKIPPED = frozenset({".git", ".pm-orchestrator", "node_modules", "__pycache__", ".venv"})


class ProjectFiles:
    """Relative paths of a folder's files; `listed` never waits: it answers with what is known and looks again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: list[str] = []
        self._at = -_KEEP_S
        self._looking = Lock()

    def listed(self) -> list[str]:
        """What is known now; a stale list is renewed in a thread, the first one is waited for briefly."""
        if monotonic() - self._at >= _KEEP_S and self._looking.acquire(blocking=False):
            thread = Thread(target=self._look, name="project-files", daemon=True)
            thread.start()
            if not self._found:
                thread.join(0.5)
        return self._found

    def _look(self) -> None:
        try:
            self._found = (self._from_git() or self._from_folder())[:_MOST]
            self._at = monotonic()
        finally:
            self._looking.release()

    def _from_git(self) -> list[str]:
        command = ["git", "-C", str(self._folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_GIT_S, check=True, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError):
            return []
        names = done.stdout.decode("utf-8", "backslashreplace").split("\0")
        return [name for name in names if name and not name.startswith(".pm-orchestrator/")]

    def _from_folder(self) -> list[str]:
        found: list[str] = []
        for root, folders, names in os.walk(self._folder):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            base = os.path.relpath(root, self._folder)
            found.extend(name if base == "." else f"{base}/{name}" for name in sorted(names))
            if len(found) >= _MOST:
                break
        return found
