"""Prometheus metrics of this process, offered at /metrics behind the token where `service.metrics` is on.

Labels are bounded: a request counts under its route's template, never under its path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.state import ServiceState, StatusNoted, route_of, state_of
from tracer.clock import monotonic

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The registry of one application."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it unannotated
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "pm_http_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "pm_http_request_seconds",
            "From the request's head to the end of the answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )

    async def answer(self, request: Request) -> Response:
        state = state_of(request)
        due = len(await state.collector.store.pending_traces(limit=1000))
        snapshot = _Snapshot(state, due)
        now = CollectorRegistry()
        now.register(snapshot)
        body = generate_latest(self._registry) + generate_latest(now)
        return Response(body, media_type=CONTENT_TYPE_LATEST)


class _Snapshot:
    """What is read off the application when somebody asks."""

    def __init__(self, state: ServiceState, due: int) -> None:
        self._state = state
        self._due = due

    def collect(self) -> Iterator[Metric]:
        state, counters = self._state, self._state.counters
        tasks = GaugeMetricFamily("pm_tasks", "Tasks of this process by status.", labels=["status"])
        for status, count in state.supervisor.counts().items():
            tasks.add_metric([status], count)
        yield tasks
        events = CounterMetricFamily("pm_capture_events", "Captured events by what became of them.", labels=["outcome"])
        events.add_metric(["accepted"], counters.events_accepted)
        events.add_metric(["duplicate"], counters.events_duplicate)
        yield events
        yield CounterMetricFamily("pm_capture_batches", "Batches of events stored.", counters.batches)
        yield CounterMetricFamily("pm_capture_bytes", "Bytes of batches stored.", counters.event_bytes)
        yield GaugeMetricFamily("pm_capture_waiting", "Capture requests under way.", state.admission.calls_now)
        yield GaugeMetricFamily("pm_capture_waiting_bytes", "Their bodies in bytes.", state.admission.size_now)
        yield GaugeMetricFamily("pm_capture_checks_due", "Captures whose checks are due or under way.", self._due)


class Measured:
    """ASGI middleware that counts and times every request."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        noted, started = StatusNoted(send), monotonic()
        try:
            await self._app(scope, receive, noted)
        finally:
            route = route_of(scope)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(method, route, str(noted.status)).inc()
            self._metrics.seconds.labels(route).observe(monotonic() - started)


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
