"""The machine's process table, read as plain values: `/proc` on Linux, `ps` elsewhere.

A process is named by its id and its start time together, so that an id that was used again is never taken for the
process that had it before. A mark in the environment of what we start finds its children even after `setsid`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARK = "PM_ORCHESTRATOR_PROCESS"
_PROC = Path("/proc")
# Fields of /proc/PID/stat, counted from the state, and bits of its flags (proc(5), linux/sched.h).
_FLAGS, _ENV_START = 6, 47
_EXITING, _KERNEL_THREAD = 0x4, 0x200000


class ProcessEntry(NamedTuple):
    """One living process; `start` is opaque text that differs between two holders of the same id."""

    pid: int
    parent: int
    group: int
    session: int
    start: str


class Marked(NamedTuple):
    """Which processes carry a mark, and of which it cannot be told: they are just becoming another program."""

    found: set[int]
    unclear: set[int]


def uses_proc() -> bool:
    """Whether `/proc` can be read as Linux has it."""
    return sys.platform == "linux" and (_PROC / "self" / "stat").exists()


def boot_id() -> str:
    """What tells one boot of this machine from the next; empty where unknown."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def snapshot() -> dict[int, ProcessEntry]:
    """All living processes by id; zombies are left out, nothing can be done to them."""
    if not uses_proc():
        return _snapshot_from_ps()
    found: dict[int, ProcessEntry] = {}
    for name in os.listdir(_PROC):  # noqa: PTH208 - 300 Path objects a scan would double its cost
        if name.isdigit() and (entry := _entry_from_proc(int(name))) is not None:
            found[entry.pid] = entry
    return found


def entry_of(pid: int) -> ProcessEntry | None:
    """The living process with this id, if there is one."""
    return _entry_from_proc(pid) if uses_proc() else _snapshot_from_ps().get(pid)


def start_of(pid: int) -> str:
    """When the process with this id began; empty where there is none."""
    entry = entry_of(pid)
    return entry.start if entry is not None else ""


def still_runs(pid: int, start: str, *, boot: str) -> bool:
    """Whether the process that had this id and start time, in that boot of the machine, is still there."""
    return boot == boot_id() and bool(start) and start_of(pid) == start


def _entry_from_proc(pid: int) -> ProcessEntry | None:
    fields = _fields_from_proc(pid)
    if not fields or fields[0] in {b"Z", b"X"}:
        return None
    return ProcessEntry(pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[19].decode("ascii"))


def _fields_from_proc(pid: int) -> list[bytes]:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return []
    return text[text.rindex(b")") + 2 :].split()  # the name before it may hold spaces and brackets


def _snapshot_from_ps() -> dict[int, ProcessEntry]:
    found: dict[int, ProcessEntry] = {}
    for line in _ps("-A", "-o", "pid=,ppid=,pgid=,stat=,lstart="):
        fields = line.split(None, 4)
        if len(fields) == 5 and not fields[3].startswith("Z"):
            pid, parent, group = int(fields[0]), int(fields[1]), int(fields[2])
            found[pid] = ProcessEntry(pid, parent, group, group, fields[4].strip())
    return found


def _ps(*arguments: str) -> list[str]:
    env = {"LC_ALL": "C", "PATH": os.defpath}
    done = subprocess.run(["ps", *arguments], capture_output=True, text=True, errors="replace", env=env, check=False)
    return done.stdout.splitlines()


def marked(pids: Iterable[int], mark: str) -> Marked:
    """Those of `pids` whose environment carries `mark`; processes of other users cannot be read and are left out."""
    needle = f"{MARK}={mark}"
    if not uses_proc():
        return Marked(_marked_from_ps(set(pids), needle), set())
    found, unclear = set(), set()
    for pid in pids:
        with suppress(OSError):
            environment = _environment(pid)
            if not environment and _is_between_programs(pid):
                unclear.add(pid)
            elif needle.encode() in (environment or _environment(pid)).split(b"\0"):
                found.add(pid)
    return Marked(found, unclear)


def _environment(pid: int) -> bytes:
    return (_PROC / str(pid) / "environ").read_bytes()


def _is_between_programs(pid: int) -> bool:
    """Whether it is in the middle of `exec`: the old program's memory is gone, the new one has no environment yet."""
    fields = _fields_from_proc(pid)
    if len(fields) <= _ENV_START or fields[0] in {b"Z", b"X"}:
        return False
    return fields[_ENV_START] == b"0" and not int(fields[_FLAGS]) & (_EXITING | _KERNEL_THREAD)


def _marked_from_ps(pids: set[int], needle: str) -> set[int]:
    environments = ("-E", "-ww", "-A") if sys.platform == "darwin" else ("axeww",)
    found = set()
    for line in _ps(*environments, "-o", "pid=,command="):
        pid, _, command = line.strip().partition(" ")
        if pid.isdigit() and int(pid) in pids and needle in command.split():
            found.add(int(pid))
    return found


def send_signal(entry: ProcessEntry, number: signal.Signals) -> None:
    """Signal exactly this process: where its id has passed to another one, nothing happens."""
    with suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open") or not uses_proc():
            if entry_of(entry.pid) == entry:
                os.kill(entry.pid, number)
            return
        handle = os.pidfd_open(entry.pid)
        try:
            now = _entry_from_proc(entry.pid)
            if now is not None and now.start == entry.start:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
