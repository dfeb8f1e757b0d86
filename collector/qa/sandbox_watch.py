"""How much memory a program and all its descendants hold right now, for the sandbox without a memory limit."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from runner.processes.table import snapshot

__all__ = ["memory_below"]


def memory_below(pid: int) -> int:
    """Bytes that belong to `pid` and its descendants alone; pages shared with files are not counted."""
    table = snapshot()
    members = {pid}
    while more := {entry.pid for entry in table.values() if entry.parent in members and entry.pid not in members}:
        members |= more
    return sum(_own_bytes(member) for member in members)


def _own_bytes(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_bytes().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0
