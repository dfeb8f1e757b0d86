"""Temporary folders that name their owner, so that what a killed process left is removed by the next one."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from runner.processes.table import entry_of

__all__ = ["remove_stale", "scratch_folder"]

_NAME: Final = re.compile(r"pm-qa-(\d+)-(\d+)-(\w+)-.*")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder, mode 0700, removed at the end; those of dead owners are removed first."""
    remove_stale()
    with tempfile.TemporaryDirectory(prefix=f"pm-qa-{_namespace()}-{os.getpid()}-{_start(os.getpid())}-") as folder:
        yield Path(folder)


def remove_stale() -> int:
    """Remove the folders of owners that live no more; how many. Owners in other process namespaces are not ours."""
    removed = 0
    with suppress(OSError):
        for path in Path(tempfile.gettempdir()).iterdir():
            named = _NAME.fullmatch(path.name)
            if named is None or named[1] != _namespace() or path.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            if _start(int(named[2])) != named[3]:
                shutil.rmtree(path, ignore_errors=True)
                removed += 1
    return removed


def _start(pid: int) -> str:
    """When the process began, as letters and digits; empty where there is no such process."""
    entry = entry_of(pid)
    return "" if entry is None else re.sub(r"\W", "", entry.start) or "0"


def _namespace() -> str:
    with suppress(OSError):
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid")) or "0"  # noqa: PTH115 - no file stands behind it
    return "0"
