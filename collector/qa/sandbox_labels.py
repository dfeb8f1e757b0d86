"""Who started a container and until when it may live, as labels: what finds the ones a killed `pm` left behind.

A container is stale when its owner is known to be dead (same boot, same process namespace, no such process), or when
its deadline has passed: an owner on another machine, or inside another container, cannot be looked at from here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from runner.processes.table import boot_id, entry_of
from tracer.clock import now_epoch_ms

__all__ = ["MARK_LABEL", "is_stale", "labels"]

MARK_LABEL = "pm-orchestrator.qa"
_OWNER, _DEADLINE = "pm-orchestrator.owner", "pm-orchestrator.deadline"


def labels(*, lives_s: float, label: str) -> dict[str, str]:
    """The labels of a container that we start now; `lives_s` bounds every use of it, `label` is shown to people."""
    own = entry_of(os.getpid())
    owner = "/".join((boot_id(), _namespace(), str(os.getpid()), own.start if own else ""))
    return {
        MARK_LABEL: label or "job",
        _OWNER: owner,
        _DEADLINE: str(now_epoch_ms() + int(1000 * lives_s)),
    }


def is_stale(found: Mapping[str, str]) -> bool:
    """Whether the container with these labels has outlived its use."""
    deadline = found.get(_DEADLINE, "")
    if not deadline.isdigit() or int(deadline) < now_epoch_ms():
        return True
    boot, namespace, pid, start = (*found.get(_OWNER, "").split("/"), "", "", "", "")[:4]
    if (boot, namespace) != (boot_id(), _namespace()) or not boot or not pid.isdigit():
        return False
    entry = entry_of(int(pid))
    return entry is None or entry.start != start


def _namespace() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no file stands behind this link
    return ""
