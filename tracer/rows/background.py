"""The thread that indexes, follows and filters a `RowFile` while a view shows it.

It works in short steps with pauses as long as the work, so that the thread with the keyboard is never starved; at rest
it looks at the file ten times a second. `version` grows with every change that a view could show. Stopping joins it.
"""

from __future__ import annotations

from threading import Event, Thread
from typing import Final

from tracer.clock import monotonic
from tracer.filters import Filter
from tracer.rows.digest import Digest
from tracer.rows.file import RowFile
from tracer.rows.search import FilterScan

__all__ = ["Background"]

_POLL_S: Final = 0.1
_STEP_S: Final = 0.004


class Background:
    """Keeps `file` indexed, `scan` and `digest` complete until `stop`."""

    def __init__(self, file: RowFile) -> None:
        self.file = file
        self.version = 0
        self.scan: FilterScan | None = None
        self.digest = Digest(file)
        self._stop = Event()
        self._wake = Event()
        self._thread = Thread(target=self._work, name="trace-rows", daemon=True)

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; safe before `start` and twice."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def filter(self, wanted: Filter) -> FilterScan | None:
        """Look for facts that fit `wanted` from now on (an empty filter ends the looking)."""
        self.scan = FilterScan(self.file, wanted) if wanted else None
        self.version += 1
        self._wake.set()
        return self.scan

    def _work(self) -> None:
        while not self._stop.is_set():
            began = monotonic()
            busy = self._steps(began + _STEP_S)
            if busy:
                self.version += 1
                self._stop.wait(min(monotonic() - began, 0.02))
                continue
            self._wake.wait(_POLL_S)
            self._wake.clear()
            if self.file.poll():
                self.version += 1

    def _steps(self, until: float) -> bool:
        busy = False
        while monotonic() < until and not self._stop.is_set():
            scan = self.scan
            more = self.file.index_some(1 << 18)
            more = (scan is not None and scan.step(16)) or more
            more = more or self.digest.step(16)
            busy = busy or more
            if not more:
                break
        return busy
