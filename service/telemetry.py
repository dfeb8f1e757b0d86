"""OpenTelemetry traces of requests and tasks, sent by OTLP over HTTP where `service.otel_endpoint` names a receiver.

A receiver that is slow or gone costs nothing but its spans: sending is the SDK's background batch, with a bounded
queue. Tasks are read from their trace files once they rest (GenAI conventions, `service.task_spans`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from starlette.types import ASGIApp, Receive, Scope, Send

from service.routes import StatusNoted, route_of
from service.task_spans import SpanPlan, task_spans
from tracer.conversation import ConversationTracer
from tracer.errors import ConfigError, PmError
from tracer.lookup import resolve_task

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from runner.supervisor import Supervisor
    from tracer.statedir import StateDir

__all__ = ["Telemetry", "Traced"]

_LOOK_S: Final = 1.0
_TIMEOUT_S: Final = 5


class Telemetry:
    """One exporter and its tracer."""

    def __init__(self, endpoint: str, *, version: str = "") -> None:
        """`endpoint` is the receiver's base address, such as `http://127.0.0.1:4318`.

        Raises:
            ConfigError: it is no http address.

        """
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(
                f"{endpoint!r} is no address of an OpenTelemetry receiver", next_step="such as http://127.0.0.1:4318"
            )
        address = endpoint.rstrip("/")
        address = address if address.endswith("/v1/traces") else f"{address}/v1/traces"
        resource = Resource.create({"service.name": "pm-orchestrator", "service.version": version})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address, timeout=_TIMEOUT_S)))
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)
        self.tracer = self._provider.get_tracer("pm-orchestrator", version)
        self.middleware = Traced
        self._sent: dict[str, tuple[str, int]] = {}

    @asynccontextmanager
    async def watching(self, state_dir: StateDir, supervisor: Supervisor) -> AsyncIterator[None]:
        """Send the spans of every task of `supervisor` once it rests, while the block runs; then what is left."""
        watch = asyncio.create_task(self._watch(state_dir, supervisor))
        try:
            yield
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
            await asyncio.to_thread(self._finish, state_dir, supervisor)

    async def _watch(self, state_dir: StateDir, supervisor: Supervisor) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            await asyncio.to_thread(self.send_rested, state_dir, supervisor)

    def _finish(self, state_dir: StateDir, supervisor: Supervisor) -> None:
        self.send_rested(state_dir, supervisor)
        self._provider.force_flush(2_000)
        self._provider.shutdown()

    def send_rested(self, state_dir: StateDir, supervisor: Supervisor) -> None:
        """Send the tasks that rest now, each fact once."""
        for task_id in supervisor.known():
            if supervisor.status(task_id) is None:
                with suppress(PmError):  # a trace that cannot be read has no spans; its task says so itself
                    self._send_task(state_dir, task_id)

    def _send_task(self, state_dir: StateDir, task_id: str) -> None:
        path = resolve_task(state_dir, task_id).path
        entries = ConversationTracer.read_trace(path)
        known, since = self._sent.get(task_id, ("", 0))
        plans = task_spans(entries, since=since if known == path.name else 0)
        self._sent[task_id] = (path.name, len(entries))
        if not plans:
            return
        task, *calls = plans
        root = self._started(task, None)
        for call in calls:
            self._started(call, set_span_in_context(root)).end(call.end_ns)
        root.end(task.end_ns)

    def _started(self, plan: SpanPlan, context: Context | None) -> Span:
        kind = SpanKind.CLIENT if plan.kind == "client" else SpanKind.INTERNAL
        attributes = dict(plan.attributes)
        span = self.tracer.start_span(
            plan.name, context=context, kind=kind, attributes=attributes, start_time=plan.start_ns
        )
        for name, at_ns, told in plan.events:
            span.add_event(name, dict(told), timestamp=at_ns)
        if plan.error:
            span.set_status(Status(StatusCode.ERROR, plan.error))
        return span


class Traced:
    """ASGI middleware: a span for every request, under its route's template; a `traceparent` header is followed."""

    def __init__(self, app: ASGIApp, *, telemetry: Telemetry) -> None:
        self._app = app
        self._tracer = telemetry.tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on within its span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        carried = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        method = scope["method"]
        with self._tracer.start_as_current_span(method, context=extract(carried), kind=SpanKind.SERVER) as span:
            noted = StatusNoted(send)
            try:
                await self._app(scope, receive, noted)
            finally:
                route = route_of(scope)
                span.update_name(f"{method} {route}")
                span.set_attribute("http.request.method", method)
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", noted.status)
                if noted.status >= 500:
                    span.set_attribute("error.type", str(noted.status))
                    span.set_status(Status(StatusCode.ERROR))
