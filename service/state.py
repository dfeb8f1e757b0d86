"""What every route shares: the state directory, the supervisor, and the moment of shutting down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar, cast

from fastapi import Request

from collector.collector import Collector
from runner.supervisor import Supervisor
from runner.task import TaskRequest
from service.admission import Admission
from service.counters import Counters
from service.schemas import NewTask
from service.security import RateLimit
from tracer.statedir import StateDir

__all__ = ["ServiceState", "state_of"]

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class ServiceState:
    """Shared by all requests of one application. `task_request` completes a body with the configured defaults."""

    state_dir: StateDir
    supervisor: Supervisor
    task_request: Callable[[NewTask], TaskRequest]
    collector: Collector
    admission: Admission
    counters: Counters = field(default_factory=Counters)
    failures: RateLimit = field(default_factory=lambda: RateLimit(per_second=20, burst=100))
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_shutdown(self, source: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """The items of `source` until the service shuts down: an open stream would hold the server for ever."""
        closing = asyncio.create_task(self.closing.wait())
        try:
            while not self.closing.is_set():
                upcoming = asyncio.ensure_future(anext(source))
                try:
                    await asyncio.wait({upcoming, closing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not upcoming.done():
                        upcoming.cancel()
                        with suppress(asyncio.CancelledError, StopAsyncIteration):
                            await upcoming
                if upcoming.cancelled():
                    return
                try:
                    item = upcoming.result()
                except StopAsyncIteration:
                    return
                yield item
        finally:
            closing.cancel()
            await source.aclose()


def state_of(request: Request) -> ServiceState:
    """The application's shared state."""
    return cast("ServiceState", request.app.state.service)
