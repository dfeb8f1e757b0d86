"""Ending git in the middle of its work."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress

__all__ = ["Stopper", "end_process"]


class Stopper:
    """Ends whatever git call is running, and every later one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.stopped = False

    def stop(self) -> None:
        """End running calls; callable from any thread."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                end_process(process)

    def enter(self, process: subprocess.Popen[bytes]) -> None:
        """Take note of a running call."""
        with self._lock:
            self._running.add(process)
            if self.stopped:
                end_process(process)

    def leave(self, process: subprocess.Popen[bytes]) -> None:
        """Forget a call that has ended."""
        with self._lock:
            self._running.discard(process)


def end_process(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> None:
    """Ask the process and those it started to end."""
    with suppress(ProcessLookupError, PermissionError):  # git takes its lock files away when it is asked to end
        os.killpg(process.pid, number)
