"""OpenTelemetry traces of requests and tasks, sent by OTLP over HTTP where `service.otel_endpoint` is set."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from starlette.types import ASGIApp, Receive, Scope, Send

from service.state import StatusNoted, route_of
from tracer.clock import epoch_ms
from tracer.conversation import ConversationTracer
from tracer.errors import ConfigError, PmError
from tracer.facts import Entry, FinalSummary, LlmRequest, LlmResponse, QualityJudgment, UserRequest
from tracer.lookup import resolve_task
from tracer.names import FINAL_STATUSES

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from runner.supervisor import Supervisor
    from tracer.statedir import StateDir

Value = str | int | float | bool | Sequence[str]

_PROVIDERS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "claude": "anthropic",
    "codex": "openai",
    "gemini": "gcp.gemini",
}


class SpanPlan(NamedTuple):
    """A span to be written; times are nanoseconds since 1970-01-01 UTC, `error` is empty where all went well."""

    name: str
    kind: Literal["internal", "client"]
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    events: tuple[tuple[str, int, Mapping[str, Value]], ...]
    error: str


def task_spans(entries: Sequence[Entry], *, since: int = 0) -> tuple[SpanPlan, ...]:
    """The task's own span and those of its calls that were answered in `entries[since:]`; empty where nothing was.

    The first is the parent of the others. A call that was never answered has no span.
    """
    if len(entries) <= since:
        return ()
    requests: dict[tuple[str | None, int | None], LlmRequest] = {}
    calls: list[SpanPlan] = []
    open_calls: dict[tuple[str | None, int | None], int] = {}
    for seq, entry in enumerate(entries):
        key = (entry.subtask_id, entry.iteration_index)
        if isinstance(entry, LlmRequest):
            requests[key] = entry
        elif seq >= since and isinstance(entry, LlmResponse) and key in requests:
            open_calls[key] = len(calls)
            calls.append(_call(requests[key], entry))
        elif seq >= since and isinstance(entry, QualityJudgment) and key in open_calls:
            at = open_calls[key]
            calls[at] = calls[at]._replace(events=(_evaluation(entry),))
    return (_task(entries, since), *calls)


def _task(entries: Sequence[Entry], since: int) -> SpanPlan:
    first, last = entries[0], entries[-1]
    agent = (first.executor_name if isinstance(first, UserRequest) else "") or "agent"
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "pm",
        "gen_ai.conversation.id": first.task_id,
        "gen_ai.provider.name": _PROVIDERS.get(agent, agent),
        "pm.session_id": first.session_id,
    }
    status = last.status if isinstance(last, FinalSummary) else ""
    if isinstance(last, FinalSummary) and status in FINAL_STATUSES:
        attributes |= {"pm.task.status": status, "pm.task.iterations": last.total_iterations or 0, **_spent(last)}
        if last.reason:
            attributes["pm.task.reason"] = last.reason
    error = status if status in {"ERROR", "CANCELLED"} else ""
    name = f"invoke_workflow pm {first.task_id}"
    return SpanPlan(name, "internal", _ns(entries[since]), _ns(last), attributes, (), error)


def _call(request: LlmRequest, response: LlmResponse) -> SpanPlan:
    executor = request.executor or "agent"
    operation = "chat" if executor == "anthropic" else "invoke_agent"
    model, status = response.model or request.model, response.status
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(executor, executor),
        "gen_ai.agent.name": executor,
        "gen_ai.conversation.id": response.task_id,
        "gen_ai.response.finish_reasons": [status],
        "pm.iteration": response.iteration_index or 0,
        **_spent(response),
    }
    if request.model:
        attributes["gen_ai.request.model"] = request.model
    if model:
        attributes["gen_ai.response.model"] = model
    if response.subtask_id:
        attributes["pm.subtask_id"] = response.subtask_id
    error = "" if not response.failed else (response.error.kind if response.error else "") or status
    if error:
        attributes["error.type"] = error
    subject = model if operation == "chat" and model else executor
    return SpanPlan(f"{operation} {subject}", "client", _ns(request), _ns(response), attributes, (), error)


def _evaluation(judged: QualityJudgment) -> tuple[str, int, Mapping[str, Value]]:
    told: dict[str, Value] = {
        "gen_ai.evaluation.name": "quality gate",
        "gen_ai.evaluation.score.label": judged.judgment,
        "pm.criteria_failed": [result.id for result in judged.criteria_results if not result.passed],
    }
    return ("gen_ai.evaluation.result", _ns(judged), told)


def _spent(fact: LlmResponse | FinalSummary) -> dict[str, Value]:
    counts = fact.usage.counts if fact.usage else {}
    found: dict[str, Value] = {
        f"gen_ai.usage.{name}": counts[name] for name in ("input_tokens", "output_tokens") if name in counts
    }
    return found if fact.cost_usd is None else {**found, "pm.cost_usd": float(fact.cost_usd)}


def _ns(entry: Entry) -> int:
    """The fact's time; a damaged one counts as the beginning of time."""
    return (epoch_ms(entry.timestamp) or 0) * 1_000_000


_LOOK_S: Final = 1.0
_TIMEOUT_S: Final = 5


class Telemetry:
    """One exporter and its tracer."""

    def __init__(self, endpoint: str, *, version: str = "") -> None:
        """`endpoint` is the receiver's base address, such as `http://127.0.0.1:4318`."""
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
