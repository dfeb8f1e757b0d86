"""Waiting until git can tell a later change of a file by its change time.

git compares times in whole seconds. A file whose time of modification is old, as `mv`, `cp -p` and `touch -d` leave it,
and which changed in this very second, could be changed again in the same second, keep size and time, and look as
before. (Of a file that was modified in the second in which the index was written git itself reads the content.)
"""

from __future__ import annotations

import re
import time

from runner.workspace.git import Git
from tracer.clock import now_epoch_ms

__all__ = ["let_settle"]

_TIMES = re.compile(rb"^  ctime: (\d+):\d+\n  mtime: (\d+):", re.MULTILINE)
_LAG_MS = 20  # by which the times of files may be behind the clock


def let_settle(git: Git) -> None:
    """Return once no file can change within the second that git's index knows as its change time: in 1 s at most.

    Raises:
        GitError: the index is damaged.

    """
    now_ms = now_epoch_ms()
    seconds = {(now_ms - _LAG_MS) // 1000, now_ms // 1000}
    if git.index is None or not _may_hold(git.index.read_bytes(), seconds):
        return
    written = int(git.index.stat().st_mtime)
    times = ((int(changed), int(modified)) for changed, modified in _TIMES.findall(git.run("ls-files", "--debug")))
    if any(changed in seconds and modified < written for changed, modified in times):
        time.sleep((1000 - now_ms % 1000 + _LAG_MS) / 1000)


def _may_hold(content: bytes, seconds: set[int]) -> bool:
    """Whether one of the times may be in the index; nearly always none is, and this is a matter of microseconds."""
    return any((second & 0xFFFFFFFF).to_bytes(4, "big") in content for second in seconds)
