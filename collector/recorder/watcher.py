"""Watches for saved files in a thread; where watches fail (limits, network folders) every prompt looks for itself."""

from __future__ import annotations

import fnmatch
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracer.capture.wire import PROFILE_FILE
from tracer.statedir import STATE_DIR_NAME

# Version control, what tools make for themselves, and what editors write beside a file while they save it.
LEFT_OUT: Final = (
    ".git", ".hg", ".svn", ".jj", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox",
    ".nox", ".venv", "node_modules", ".gradle", ".terraform", ".DS_Store", ".coverage", ".coverage.*",
    "*.pyc", "*.swp", "*.swo", "*.swx", "*~", "4913", ".#*", "#*#", "*.tmp", ".*.tmp.*", ".goutputstream-*", "*.orig",
    STATE_DIR_NAME,
)  # fmt: skip
_DEBOUNCE_MS: Final = 250
_STEP_MS: Final = 50


def left_out_by(patterns: Iterable[str], *, top: Path, state_root: Path) -> Callable[[str], bool]:
    """Whether a path (relative to `top`) is never recorded: a pattern fits one of its names, or the whole of it.

    The repository's own profile is recorded, although it lies in the state directory: captures are tested by it.
    """
    chosen = tuple(patterns)
    wanted = (*LEFT_OUT, *chosen)
    try:
        state = os.path.relpath(os.path.realpath(state_root), os.path.realpath(top))
    except ValueError:
        state = ".."

    def left_out(path: str) -> bool:
        profile = path == PROFILE_FILE
        if not profile and (path == state or path.startswith(state + "/")):
            return True
        names = path.split("/")
        fitting = chosen if profile else wanted
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in fitting for name in (*names, path))

    return left_out


@dataclass(kw_only=True)
class Watcher:
    """Watches the tree `top`. `saved` gets relative paths, in the watcher's thread; `tell` hears why there are none."""

    top: Path
    left_out: Callable[[str], bool]
    saved: Callable[[list[str]], None]
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self._top = os.path.realpath(self.top)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        from watchfiles import watch  # 70 ms, beside the shell's own start

        try:
            for changes in watch(
                self._top,
                watch_filter=lambda _change, path: not self.left_out(os.path.relpath(path, self._top)),
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                rust_timeout=500,
                stop_event=self._stop,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                paths = sorted({os.path.relpath(path, self._top) for _change, path in changes})
                if paths:
                    self.saved(paths)
        except (OSError, RuntimeError) as error:
            self.tell(f"saved files are looked for at every prompt only: {error}")
