"""What every route shares: state directory, supervisor, counters, route names, shutdown."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from fastapi import Request
from starlette.types import Message, Scope, Send

from collector.collector import Collector
from collector.qa.profiles import AllowLists
from runner.core.request import Request as TaskRequest
from runner.executors.executor_port import Live
from runner.supervisor import Supervisor
from service.admission import Admission
from service.schemas import NewTask
from service.security import RateLimit
from tracer.redaction.engine import ProjectRedactor, build_redactor
from tracer.statedir import StateDir

ROUTE: Final = "pm.route"
"""The key of the scope under which the ingest lane says its route."""


_DOING: Final = 200  # characters of a call
_TASKS: Final = 100


class StatusNoted:
    """A `send` that passes everything on; `status` is that of the answer, 500 as long as there is none."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 500

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


def route_of(scope: Scope) -> str:
    """`/api/tasks/{task_id}`; `other` for what no route took."""
    known = scope.get(ROUTE)
    if isinstance(known, str):
        return known
    return str(getattr(scope.get("route"), "path", "other"))


@dataclass(slots=True)
class Counters:
    """Totals since the start."""

    events_accepted: int = 0
    events_duplicate: int = 0
    event_bytes: int = 0
    batches: int = 0

    def appended(self, accepted: int, duplicates: int, size: int) -> None:
        self.events_accepted += accepted
        self.events_duplicate += duplicates
        self.event_bytes += size
        self.batches += 1


@dataclass(slots=True)
class Doing:
    """What a running task's agent does now, as live updates tell: never recorded, gone with this process."""

    calls: int = 0
    last: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    tokens: int | None = None


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class ServiceState:
    """Shared by all requests of one application. `task_request` completes a body with the configured defaults.

    `allowed` is what a profile may ask for without an operator's approval.
    """

    state_dir: StateDir
    supervisor: Supervisor
    task_request: Callable[[NewTask], TaskRequest]
    collector: Collector
    admission: Admission
    allowed: AllowLists
    counters: Counters = field(default_factory=Counters)
    failures: RateLimit = field(default_factory=lambda: RateLimit(per_second=20, burst=100))
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    doing: dict[str, Doing] = field(default_factory=dict)

    def saw(self, update: Live) -> None:
        """Keep what a live update tells for the page of its task."""
        doing = self.doing.setdefault(update.task_id, Doing())
        if update.kind == "tool_started":
            doing.calls += 1
            doing.last.append(f"{update.tool} {update.text}"[:_DOING])
        elif update.usage is not None:
            doing.tokens = (update.usage.input_tokens or 0) + (update.usage.output_tokens or 0)
        while len(self.doing) > _TASKS:
            del self.doing[next(iter(self.doing))]

    def redactor(self, **options: Any) -> ProjectRedactor:
        """The redactor of this project with what the settings add; `options` go to `build_redactor`."""
        given = {"environ": os.environ, "project_root": self.state_dir.project, **self.supervisor.redaction._asdict()}
        return build_redactor(state_dir=self.state_dir.root, **given, **options)

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
    return cast("ServiceState", request.app.state.service)
