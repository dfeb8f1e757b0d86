"""The embedded worker: an asyncio task that takes finalized traces from the store itself and runs their checks.

The store's rows are the queue: what is pending is looked up at the start, after every nudge and every few seconds, so
nothing is lost by a crash at any point. One process per lock file works; another waits and takes over when it ends.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from collector.worker_attempt import MOST_STARTS, Attempt, Checks, WorkStore, attempt_checks, delay_after
from tracer import clock
from tracer.errors import LockedError, PmError
from tracer.lock import FileLock

__all__ = ["EmbeddedWorker"]

_LOG: Final = logging.getLogger("pm.worker")


class EmbeddedWorker:
    """Runs `checks` on pending traces, at most `parallel` at once; cancel `run` to end it."""

    def __init__(
        self,
        *,
        store: WorkStore,
        checks: Checks,
        lock_file: Path | None = None,
        parallel: int = 1,
        poll_s: float = 2.0,
        most_starts: int = MOST_STARTS,
        first_delay_s: float = 5.0,
        due: asyncio.Event | None = None,
    ) -> None:
        """`due` is set by whoever makes checks due (`Collector.due`); the worker clears it."""
        self._store = store
        self._checks = checks
        self._lock = FileLock(lock_file) if lock_file is not None else None
        self._parallel = parallel
        self._poll_s = poll_s
        self._most_starts = most_starts
        self._factor = first_delay_s / delay_after(1)
        self._nudged = due or asyncio.Event()
        self._running: set[str] = set()
        self._not_before: dict[str, float] = {}

    def nudge(self) -> None:
        """Look at once: a trace was finalized, or its checks were asked for again."""
        self._nudged.set()

    @property
    def running(self) -> frozenset[str]:
        """The traces being checked now."""
        return frozenset(self._running)

    async def run(self) -> None:
        """Work until cancelled; trouble with the store is logged and tried again."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    if await self._may_work():
                        await self._look(group)
                    await self._rest()
        finally:
            if self._lock is not None and self._lock.held:
                self._lock.release()

    async def _may_work(self) -> bool:
        if self._lock is None or self._lock.held:
            return True
        try:
            await asyncio.to_thread(self._lock.acquire, what="the quality checks of this project")
        except LockedError:
            return False
        except PmError:
            _LOG.exception("the worker's lock cannot be taken")
            return False
        return True

    async def _look(self, group: asyncio.TaskGroup) -> None:
        if len(self._running) >= self._parallel:
            return
        try:
            pending = await self._store.pending_traces()
        except PmError:
            _LOG.exception("pending traces cannot be looked up")
            return
        now = clock.monotonic()
        self._not_before = {trace_id: due for trace_id, due in self._not_before.items() if due > now}
        for trace_id in pending:
            if len(self._running) >= self._parallel:
                return
            if trace_id not in self._running and trace_id not in self._not_before:
                self._running.add(trace_id)
                group.create_task(self._work(trace_id), name=f"checks of {trace_id}")

    async def _work(self, trace_id: str) -> None:
        try:
            attempt = await attempt_checks(
                trace_id,
                store=self._store,
                checks=self._checks,
                most_starts=self._most_starts,
                delay=lambda starts: delay_after(starts) * self._factor,
            )
        except PmError as error:  # the store itself: nothing could be noted, so the next look decides
            _LOG.exception("the checks of trace %s could not be noted", trace_id)
            attempt = Attempt("again", self._poll_s, str(error))
        finally:
            self._running.discard(trace_id)
            self._nudged.set()
        if attempt.outcome == "again":
            self._not_before[trace_id] = clock.monotonic() + attempt.delay_s

    async def _rest(self) -> None:
        due = min(self._not_before.values(), default=float("inf")) - clock.monotonic()
        try:
            async with asyncio.timeout(max(min(self._poll_s, due), 0.0)):
                await self._nudged.wait()
        except TimeoutError:
            return
        self._nudged.clear()
