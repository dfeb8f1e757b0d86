"""A program and all its descendants, for the sandbox without a container: the memory they hold, and their end."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from runner.processes.table import ProcessEntry, entry_of, send_signal, snapshot
from tracer.clock import monotonic

__all__ = ["end_below", "memory_below"]

_END_LIMIT_S: Final = 20.0
_PAUSE_S: Final = 0.02
_AT_ONCE: Final = 100


def memory_below(pid: int) -> int:
    """Bytes that belong to `pid` and its descendants alone; pages shared with files are not counted."""
    return sum(_own_bytes(entry.pid) for entry in _members(pid))


async def end_below(pid: int) -> None:
    """Kill `pid`, the first process of a process namespace's keeper, and wait until all below it are gone.

    The kernel ends the rest of a namespace with its first process, however many there are; that takes a moment.
    """
    members = await asyncio.to_thread(_members, pid)
    members.sort(key=lambda entry: (entry.pid != pid, len(entry.start), entry.start))
    give_up = monotonic() + _END_LIMIT_S
    while members and monotonic() < give_up:
        for entry in members[:_AT_ONCE]:  # the oldest first: the keeper, then the namespace's first process
            send_signal(entry, signal.SIGKILL)
        await asyncio.sleep(_PAUSE_S)
        members = [entry for entry in members if entry.pid != pid and _lives(entry)]


def _lives(entry: ProcessEntry) -> bool:
    now = entry_of(entry.pid)
    return now is not None and now.start == entry.start


def _members(pid: int) -> list[ProcessEntry]:
    table = snapshot()
    members = {pid}
    while more := {entry.pid for entry in table.values() if entry.parent in members and entry.pid not in members}:
        members |= more
    return [table[member] for member in members if member in table]


def _own_bytes(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_bytes().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0
