"""Temporary folders and containers that name their owner, so that what a killed process left is removed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from runner.processes.process_table import boot_id, entry_of
from tracer.clock import now_epoch_ms

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


MARK_LABEL = "pm-orchestrator.qa"
_OWNER, _DEADLINE = "pm-orchestrator.owner", "pm-orchestrator.deadline"


def labels(*, lives_s: float, label: str) -> dict[str, str]:
    """The labels of a container that we start now; `lives_s` bounds every use of it, `label` is shown to people."""
    own = entry_of(os.getpid())
    owner = "/".join((boot_id(), _sandbox_labels_namespace(), str(os.getpid()), own.start if own else ""))
    return {MARK_LABEL: label or "job", _OWNER: owner, _DEADLINE: str(now_epoch_ms() + int(1000 * lives_s))}


def is_stale(found: Mapping[str, str]) -> bool:
    """Whether the container with these labels has outlived its use."""
    deadline = found.get(_DEADLINE, "")
    if not deadline.isdigit() or int(deadline) < now_epoch_ms():
        return True
    boot, namespace, pid, start = (*found.get(_OWNER, "").split("/"), "", "", "", "")[:4]
    if (boot, namespace) != (boot_id(), _sandbox_labels_namespace()) or not boot or not pid.isdigit():
        return False
    entry = entry_of(int(pid))
    return entry is None or entry.start != start


def _sandbox_labels_namespace() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no file stands behind this link
    return ""
