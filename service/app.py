"""The HTTP application: task API, live events, health; one gate in front, problem documents behind every error.

`create_app` binds it to one supervisor. Starting and stopping (uvicorn, signals) is `service.server`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from collector.collector import Collector
from runner.supervisor import Supervisor
from runner.task import TaskRequest
from service import captures_api, page_captures, page_insights, pages, tasks
from service.admission import Admission
from service.ingest_lane import IngestLane
from service.problems import Problem, add_problem_handlers, responses
from service.schemas import Health, NewTask
from service.security import Gate, OneTimeCodes
from service.state import ServiceState, state_of
from tracer.errors import ConfigError, UnavailableError
from tracer.statedir import StateDir

if TYPE_CHECKING:
    from service.telemetry import Telemetry

__all__ = ["create_app"]

_WAITING_BATCHES: Final = 8  # so many bodies of the largest size may be held at once


def create_app(
    *,
    state_dir: StateDir,
    supervisor: Supervisor,
    task_request: Callable[[NewTask], TaskRequest],
    collector: Callable[[], AbstractAsyncContextManager[Collector]],
    token: str,
    codes: OneTimeCodes | None = None,
    version: str = "",
    hosts: Iterable[str] = (),
    metrics: bool = False,
    otel_endpoint: str = "",
) -> FastAPI:
    """The application over `supervisor`, which it enters and leaves with its own lifetime, as what `collector` opens.

    `codes` let a browser in once at `/login?code=…`; `hosts` are further names this service answers to, beside
    loopback. `metrics` offers /metrics, `otel_endpoint` is where OpenTelemetry traces go.

    Raises:
        ConfigError: `otel_endpoint` is no address.

    """
    telemetry = _telemetry(otel_endpoint, version) if otel_endpoint else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with supervisor, collector() as opened:
            limits = opened.settings
            app.state.service = ServiceState(
                state_dir=state_dir,
                supervisor=supervisor,
                task_request=task_request,
                collector=opened,
                admission=Admission(calls=limits.waiting, size=_WAITING_BATCHES * limits.limits.batch_bytes),
            )
            async with telemetry.watching(state_dir, supervisor) if telemetry else nullcontext():
                yield
                app.state.service.closing.set()

    app = FastAPI(
        title="PM Orchestrator",
        version=version,
        summary="Tasks put to coding agents, judged, and recorded.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    add_problem_handlers(app)
    app.include_router(tasks.router)
    app.include_router(captures_api.router)
    app.include_router(pages.router)
    app.include_router(page_insights.router)
    app.include_router(page_captures.router)

    @app.get("/healthz", tags=["health"], responses=responses(403, 429))
    async def healthz() -> Health:
        """The process is alive."""
        return Health(status="ok")

    @app.get("/readyz", tags=["health"], responses=responses(403, 429, 503))
    async def readyz(request: Request) -> Health:
        """The state directory and the collector's store can be used."""
        state = state_of(request)
        await state.collector.store.pending_traces(limit=1)
        place = state.state_dir
        if not await asyncio.to_thread(place.traces.is_dir):
            raise UnavailableError("the state directory is not there", next_step="pm doctor")
        return Health(status="ok")

    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.add_middleware(IngestLane)
    if telemetry is not None:
        from service.telemetry import Traced

        app.add_middleware(Traced, telemetry=telemetry)
    app.add_middleware(Gate, token=token, codes=codes or OneTimeCodes(), hosts=tuple(hosts))
    if metrics:
        _offer_metrics(app)  # outermost: what the gate refuses is counted too
    return app


def _telemetry(endpoint: str, version: str) -> Telemetry:
    try:
        from service.telemetry import Telemetry  # opentelemetry: 200 ms and requests, for those who ask for it
    except ModuleNotFoundError as error:
        raise _not_installed("service.otel_endpoint", error) from error
    return Telemetry(endpoint, version=version)


def _offer_metrics(app: FastAPI) -> None:
    try:
        from service.metrics import Measured, Metrics  # prometheus_client: 40 ms, for those who ask for it
    except ModuleNotFoundError as error:
        raise _not_installed("service.metrics", error) from error
    kept = Metrics()
    text: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

    @app.get("/metrics", tags=["health"], response_class=Response, responses={**text, **responses(401, 403, 429, 503)})
    async def metrics(request: Request) -> Response:
        """What this process did and does, for Prometheus."""
        return await kept.answer(request)

    app.add_middleware(Measured, metrics=kept)


def _not_installed(setting: str, error: ModuleNotFoundError) -> ConfigError:
    return ConfigError(
        f"{setting} needs a package that is not installed",
        why=str(error),
        next_step="pip install 'pm-orchestrator[telemetry]'",
    )


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made true: errors are problem documents, the bearer token is the security scheme."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas |= captures_api.body_schemas()
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
