"""A started program with everything it started, found and ended as one.

Members are the leader's session and process group, all descendants of a member, and whatever carries the leader's mark
in its environment (so `setsid` and double forks do not hide a child). What also clears its environment escapes a
plain run; only the sandbox's process namespace holds it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import NamedTuple

from runner.processes.process_table import ProcessEntry, marked, send_signal, snapshot
from tracer.clock import monotonic

_KILL_ROUNDS_PAUSE_S = 0.02
_KILL_LIMIT_S = 5.0
_UNCLEAR_PAUSE_S = 0.002
_UNCLEAR_LIMIT_S = 1.0


class ProcessTree(NamedTuple):
    """How to find a tree again. `leader` None: by mark alone (its number may be another program's by now)."""

    mark: str
    leader: int | None
    start: str


class _Seen(NamedTuple):
    """`unclear` may be members: nobody can tell while they become another program, which takes them a moment."""

    members: list[ProcessEntry]
    unclear: frozenset[ProcessEntry]


def tree_members(tree: ProcessTree) -> list[ProcessEntry]:
    """The living members, in no order. The leader's own number counts only while we have not reaped it.

    May wait up to 1 s for a program that is just being started.
    """
    search = _Search(tree)
    give_up = monotonic() + _UNCLEAR_LIMIT_S
    while search.go_on() and not search.members and monotonic() < give_up:
        time.sleep(_UNCLEAR_PAUSE_S)
    return search.members


class _Search:
    """Looks again and again until the members are known; what is unclear in the first look is followed, no more."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._unclear: frozenset[tuple[int, str]] | None = None
        self.members: list[ProcessEntry] = []

    def go_on(self) -> bool:
        """Look once more; whether there are members, or may be."""
        self.members, seen = _look(self._tree)
        unclear = frozenset((entry.pid, entry.start) for entry in seen)  # its parent may end meanwhile
        # On a busy machine somebody always starts something: each look would find another one to wait for.
        self._unclear = unclear if self.members or self._unclear is None else self._unclear & unclear
        return bool(self.members or self._unclear)


def _look(tree: ProcessTree) -> _Seen:
    table = snapshot()
    oldest = int(tree.start) if tree.start.isdigit() else 0
    young = {pid: entry for pid, entry in table.items() if not entry.start.isdigit() or int(entry.start) >= oldest}
    members = {
        pid
        for pid, entry in young.items()
        if tree.leader is not None and tree.leader in {pid, entry.group, entry.session}
    }
    carrying = marked(young.keys() - members, tree.mark)
    members |= carrying.found
    while more := {pid for pid, entry in young.items() if entry.parent in members and pid not in members}:
        members |= more
    return _Seen([young[pid] for pid in members], frozenset(young[pid] for pid in carrying.unclear - members))


async def end_tree(tree: ProcessTree, *, grace_s: float) -> bool:
    """Ask all members to end, wait up to `grace_s` seconds, then kill until none is left.

    Returns False when something could not be killed within 5 s (another user's process, an uninterruptible wait).
    """
    search = _Search(tree)
    if grace_s > 0:
        search.go_on()
        for entry in search.members:
            send_signal(entry, signal.SIGTERM)
        await wait_until_empty(tree, limit_s=grace_s)
        search = _Search(tree)
    give_up = monotonic() + _KILL_LIMIT_S
    while search.go_on():
        for entry in search.members:
            send_signal(entry, signal.SIGKILL)
        if monotonic() > give_up:
            return not search.members
        await asyncio.sleep(_KILL_ROUNDS_PAUSE_S)
    return True


async def wait_until_empty(tree: ProcessTree, *, limit_s: float) -> bool:
    """Whether the tree ended by itself within `limit_s` seconds."""
    deadline = monotonic() + limit_s
    pause = 0.005
    search = _Search(tree)
    while search.go_on():
        if monotonic() >= deadline:
            return False
        await asyncio.sleep(min(pause, max(deadline - monotonic(), 0)))
        pause = min(pause * 2, 0.1)
    return True
