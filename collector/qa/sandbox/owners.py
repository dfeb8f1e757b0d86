"""Temporary folders and containers that name their owner, so that what a killed process left is removed."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from runner.processes.process_table import boot_id, start_of
from tracer.clock import now_epoch_ms
from tracer.errors import SandboxError

_Way = TypeVar("_Way")
_Found = TypeVar("_Found")
_NAME: Final = re.compile(r"pm-qa-(\d+)-(\d+)-(\w+)-.*")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder, mode 0700, removed at the end; those of dead owners are removed first."""
    remove_stale()
    with tempfile.TemporaryDirectory(prefix=f"pm-qa-{_namespace()}-{os.getpid()}-{_start(os.getpid())}-") as folder:
        yield Path(folder)


async def first_that_works(
    ways: Iterable[_Way], attempt: Callable[[Path, _Way], Awaitable[_Found]]
) -> tuple[_Way, _Found]:
    """The first way in which the sandbox can run a job with an empty tree, and what `attempt` found.

    Raises:
        SandboxError: none works; the error is the first way's.

    """
    first: SandboxError | None = None
    with scratch_folder() as folder:
        empty = folder / "empty.tar"
        tarfile.open(empty, "w").close()
        for way in ways:
            try:
                return way, await attempt(empty, way)
            except SandboxError as error:
                first = first or error
    raise first or SandboxError("the sandbox could not be tried")


def owner_name() -> str:
    """A name of this process that no other one has, had or will have."""
    return f"{boot_id()}/{_namespace()}/{os.getpid()}/{_start(os.getpid())}"


def is_dead(owner: str) -> bool:
    """Whether the owner, of this machine since it was started, lives no more; of others nobody here can tell."""
    machine, _, rest = owner.partition("/")
    namespace, pid, start, *_ = [*rest.split("/"), "", "", ""]
    here = machine == boot_id() and namespace == _namespace() and pid.isdigit()
    return here and _start(int(pid)) != start


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
    return re.sub(r"\W", "", start_of(pid))


def _namespace() -> str:
    with suppress(OSError):
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid")) or "0"  # noqa: PTH115 - no file stands behind this link
    return "0"


MARK_LABEL = "pm-orchestrator.qa"
_OWNER, _DEADLINE = "pm-orchestrator.owner", "pm-orchestrator.deadline"


def labels(*, lives_s: float, label: str) -> dict[str, str]:
    """The labels of a container that we start now; `lives_s` bounds every use of it, `label` is shown to people."""
    return {MARK_LABEL: label or "job", _OWNER: owner_name(), _DEADLINE: str(now_epoch_ms() + int(1000 * lives_s))}


def is_stale(found: Mapping[str, str]) -> bool:
    """Whether the container with these labels has outlived its use."""
    deadline = found.get(_DEADLINE, "")
    return not deadline.isdigit() or int(deadline) < now_epoch_ms() or is_dead(found.get(_OWNER, ""))
