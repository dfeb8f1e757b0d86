"""The HTTP application: task API, live events, health; one gate in front, problem documents behind every error.

`create_app` binds it to one supervisor. Starting and stopping (uvicorn, signals) is `service.server`'s.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp

from collector.collector import Collector
from collector.qa.profiles import AllowLists
from runner.core.request import Request as TaskRequest
from runner.executors.executor_port import Live
from runner.supervisor import Supervisor
from service import captures, tasks
from service.admission import Admission
from service.ingest import LaneApp
from service.pages import capture, compare, docs, exports, insights, labels, lists, review, sessions, task, trace
from service.pages.docs import HtmlProblems
from service.problems import Problem, add_problem_handlers, responses
from service.schemas import Health, NewTask
from service.security import Gate, Session
from service.server import AccessLog
from service.state import ServiceState, state_of
from tracer.errors import UnavailableError, needs_extra
from tracer.statedir import StateDir

if TYPE_CHECKING:
    from service.telemetry import Telemetry

_TITLE: Final = "PM Orchestrator"
_SUMMARY: Final = "Tasks put to coding agents, judged, and recorded; captured bug-fix sessions, proved and scored."
_NOTHING: Final = AllowLists(images=(), commands=())
_WAITING_BATCHES: Final = 8  # so many bodies of the largest size may be held at once


health = APIRouter(tags=["health"])


_LEAST_ROOM: Final = 64 << 20


@health.get("/healthz", responses=responses(403, 429))
async def healthz() -> Health:
    """The process is alive."""
    return Health(status="ok")


@health.get("/readyz", responses=responses(403, 429, 503))
async def readyz(request: Request) -> Health:
    """The state directory, the collector's database and the place of its blobs can be used."""
    state = state_of(request)
    await state.collector.store.pending_traces(limit=1)
    await state.collector.blobs.check()
    if not await asyncio.to_thread(state.state_dir.traces.is_dir):
        raise UnavailableError("the state directory is not there", next_step="pm doctor")
    disk = await asyncio.to_thread(os.statvfs, state.state_dir.root)
    if disk.f_flag & os.ST_RDONLY:
        raise UnavailableError("the disk is read-only", why=str(state.state_dir.root), next_step="mount it writable")
    room = disk.f_bavail * disk.f_frsize
    if room < _LEAST_ROOM:
        raise UnavailableError(
            f"the disk is nearly full: {room >> 20} MiB free, {_LEAST_ROOM >> 20} MiB are kept for what is under way",
            why=f"{state.state_dir.root}; writes are taken until nothing is free",
            next_step="free space there, or pm admin prune tasks, blobs, uploads",
        )
    return Health(status="ok")


def create_app(
    *,
    state_dir: StateDir,
    supervisor: Supervisor,
    task_request: Callable[[NewTask], TaskRequest],
    collector: Callable[[], AbstractAsyncContextManager[Collector]],
    token: str,
    allowed: AllowLists = _NOTHING,
    token_file: Path | None = None,
    version: str = "",
    hosts: Iterable[str] = (),
    metrics: bool = False,
    otel_endpoint: str = "",
    access_log: Path | None = None,
) -> FastAPI:
    """The application over `supervisor`, which it enters and leaves with its own lifetime, as what `collector` opens.

    `allowed` is what a profile may ask for without an operator. `hosts` are further names this service answers to,
    beside loopback. `metrics` offers /metrics, `otel_endpoint` is where OpenTelemetry traces go, `access_log` the file
    that tells of each request.

    Raises ConfigError: `otel_endpoint` is no address, or the extra `telemetry` is wanted and not installed.
    """
    telemetry = _telemetry(otel_endpoint, version) if otel_endpoint else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with supervisor, collector() as opened:
            state = app.state.service = ServiceState(
                state_dir=state_dir,
                supervisor=supervisor,
                task_request=task_request,
                collector=opened,
                admission=Admission(
                    calls=opened.settings.waiting, size=_WAITING_BATCHES * opened.settings.limits.batch_bytes
                ),
                allowed=allowed,
            )
            shown = supervisor.live

            def live(update: Live) -> None:
                state.saw(update)
                shown(update)

            supervisor.live = live
            async with telemetry.watching(state_dir, supervisor) if telemetry else nullcontext():
                yield
                state.closing.set()

    app = LaneApp(title=_TITLE, version=version, summary=_SUMMARY, lifespan=lifespan, docs_url=None, redoc_url=None)
    add_problem_handlers(app)
    for router in (
        tasks.router,
        captures.router,
        health,
        lists.router,
        task.router,
        trace.router,
        review.router,
        insights.router,
        sessions.router,
        exports.router,
        compare.router,
        capture.router,
        docs.router,
        labels.router,
    ):
        app.include_router(router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    if telemetry is not None:
        _add(app, telemetry.middleware, telemetry=telemetry)
    app.state.session = Session(token, file=token_file)
    _add(app, Gate, session=app.state.session, hosts=tuple(hosts))
    _add(app, HtmlProblems)
    if access_log is not None:
        _add(app, AccessLog, path=access_log)
    if metrics:
        _offer_metrics(app)  # outermost: what the gate refuses is counted too
    return app


def _add(app: LaneApp, middleware: Callable[..., ASGIApp], **options: Any) -> None:
    """Put `middleware` around all that is there, on both ways."""
    app.add_middleware(middleware, **options)
    app.lane = middleware(app.lane, **options)


def _telemetry(endpoint: str, version: str) -> Telemetry:
    with needs_extra("telemetry", wanted_by="service.otel_endpoint"):
        from service.telemetry import Telemetry  # opentelemetry: 200 ms and requests, for those who ask for it
    return Telemetry(endpoint, version=version)


def _offer_metrics(app: LaneApp) -> None:
    with needs_extra("telemetry", wanted_by="service.metrics"):
        from service.metrics import Measured, Metrics  # prometheus_client: 40 ms, for those who ask for it
    kept = Metrics()
    text: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

    @app.get("/metrics", tags=["health"], response_class=Response, responses={**text, **responses(401, 403, 429, 503)})
    async def metrics(request: Request, access: captures.Someone) -> Response:
        """What this process did and does, for Prometheus."""
        await state_of(request).collector.allow(access, "measure", subject="/metrics")
        return await kept.answer(request)

    _add(app, Measured, metrics=kept)


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made true: errors are problem documents, the bearer token is the security scheme."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas |= captures.body_schemas()
    schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "the serve token; for /traces and /blobs also an admin token or the trace's ingest key",
        }
    }
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path not in {"/healthz", "/readyz"}:
                operation["security"] = [{"bearer": []}]
    app.openapi_schema = document
    return document
