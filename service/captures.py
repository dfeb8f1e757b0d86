"""The collector's endpoints (contracts 8, seed 002): access, bodies read with a limit, answers, routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Literal, TypeVar

import orjson
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.types import Receive, Scope

from collector.collector import Collector, OpenBlob
from collector.errors import ForbiddenError, IntakeError
from collector.final.consent import Flag, revocations, withdraw
from collector.handover.export_filter import check_stated
from collector.handover.sets import choose
from collector.intake.parse import validated
from collector.intake.strict_json import parse_json
from collector.qa.pipeline import assign_profile, note_alternatives
from collector.qa.profiles import check_given
from collector.tokens import ADMIN, Access, for_right
from service.bodies import announced_length, read_body, uploaded
from service.problems import responses
from service.security import KNOWN, first_headers
from service.state import ServiceState, state_of
from tracer.capture.document import BlobRedaction, ConsentFlags, TraceDocument
from tracer.capture.wire import AppendEvents, CreateTrace, FinalizeTrace, QaProfile
from tracer.clock import now_epoch_ms
from tracer.errors import PmError

_SCHEME: Final = "bearer "
_Model = TypeVar("_Model", bound=BaseModel)


async def access_of(request: Request) -> Access:
    """What the request's credentials open.

    Raises HTTPException: 401 without usable ones, 429 after too many that were worthless.
    """
    return await access_in(request.scope, state_of(request))


async def access_in(scope: Scope, state: ServiceState) -> Access:
    """As `access_of`, for a request that is still its ASGI scope."""
    if scope.get(KNOWN):
        return ADMIN
    given = first_headers(scope).get(b"authorization", b"").decode("latin-1")
    why = "this needs an admin token or the trace's ingest key, as Authorization: Bearer"
    if given[: len(_SCHEME)].lower() == _SCHEME:
        token = given[len(_SCHEME) :].strip()
        access = await state.collector.tokens.access(token)
        if access is not None:
            return access
        wait = state.failures.take()
        if wait:
            raise HTTPException(429, "too many unknown tokens", headers={"retry-after": str(max(1, round(wait)))})
        why = await state.collector.tokens.refusal(token)
    raise HTTPException(401, why, headers={"www-authenticate": "Bearer"})


Status = Literal["open", "finalized", "qa_running", "complete", "qa_failed"]


class CreatedTrace(BaseModel):
    """A new trace; the ingest key is shown here and never again."""

    trace_id: str
    ingest_key: str


class Appended(BaseModel):
    """What became of a batch: `gaps` are the runs of seq [from, to] that it skipped; all of it is on disk."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"accepted": 2, "duplicates": 0, "seq_last": 2, "gaps": []}]}
    )

    accepted: int
    duplicates: int
    seq_last: int
    gaps: list[list[int]]


class TraceState(BaseModel):
    """Where a trace stands."""

    trace_id: str
    status: Status


class TraceMetadata(TraceState):
    """A trace without its events; `ingestion.seq_last` is the durable high-water mark."""

    trace_version: str
    created_at_ms: int
    finalized_at_ms: int | None
    repo: dict[str, Any]
    task: dict[str, Any]
    developer: dict[str, Any]
    environment: dict[str, Any]
    ingestion: dict[str, Any]
    store: str
    qa_profile: str | dict[str, Any] | None
    event_count: int
    byte_count: int
    final_state: dict[str, Any] | None
    qa: dict[str, Any] | None


By = Annotated[
    Literal["approved", "lists"] | None,
    Field(
        description="how the profile named counts: `approved` (by an operator), or as far as the server's `lists` "
        "(qa.commands, qa.images, qa.build_commands) allow it: what they do not waits for an operator's approval"
    ),
]


class CheckState(TraceState):
    """Where a trace stands whose checks were asked for."""

    profile: By = None


class CheckedMany(BaseModel):
    """The traces whose checks were asked for."""

    trace_ids: list[str]
    profile: By = None


class CheckBy(BaseModel):
    """How a trace is tested from now on; as before where nothing is said."""

    model_config = ConfigDict(extra="forbid")

    profile: Literal["repository", "recorded"] | QaProfile | None = None


class CheckAgain(CheckBy):
    """Also `alternatives`: other right fixes that its tests must accept too, diffs of the base by name."""

    alternatives: dict[str, str] = Field(default_factory=dict, max_length=20)


class Withdrawal(BaseModel):
    """What is no longer consented to."""

    model_config = ConfigDict(extra="forbid")

    withdraw: list[Flag] = Field(min_length=1)


class Revocations(BaseModel):
    """The list that stands beside a set's manifest, as of now."""

    revocations_version: Literal[1] = 1
    made_at_ms: int
    revocations: list[dict[str, Any]]


class CheckMany(CheckBy):
    """Which traces: a condition as `pm capture export --where` takes it; `true` for every one."""

    where: str


class TracePage(BaseModel):
    """A page of traces, newest first; `next` is the cursor of the following page, null on the last one."""

    traces: list[TraceMetadata]
    next: str | None


class EventPage(BaseModel):
    """Events with seq beyond `after`, in order; `next` is the `after` of the following page, null on the last one."""

    events: list[dict[str, Any]]
    next: int | None
    seq_last: int


class BlobStored(BaseModel):
    """A stored blob. Redaction gives it another id than what was sent; the trace's events may use either."""

    blob_id: str
    submitted_id: str
    content_type: str
    byte_length: int
    redaction: BlobRedaction = Field(description="whether it was redacted, and by which rules")


router = APIRouter(tags=["captures"])

_MODELS: Final = (CreateTrace, AppendEvents, FinalizeTrace, Withdrawal, CheckAgain, CheckMany, TraceDocument)
_UUID: Final = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_PIECE: Final = 1 << 20
_UPLOADS: Final = 64 << 10  # an upload is spooled to disk: it counts for little memory
EXAMPLE_ID: Final = "3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a10"

TraceId = Annotated[str, Path(pattern=_UUID, examples=[EXAMPLE_ID]), AfterValidator(str.lower)]
BlobId = Annotated[str, Path(pattern=r"^(sha256:)?[0-9a-f]{64}$", examples=["sha256:" + "0" * 64])]
Someone = Annotated[Access, Depends(access_of)]


def _named(model: str) -> str:
    """Where the OpenAPI holds a model: under a name of its own, since tasks have a TraceDocument too."""
    return f"#/components/schemas/Capture{model}"


def body_schemas() -> dict[str, Any]:
    """The components of the OpenAPI that bodies read raw refer to."""
    found: dict[str, Any] = {}
    for model in _MODELS:
        whole = model.model_json_schema(ref_template=_named("{model}"))
        found |= {f"Capture{name}": inner for name, inner in whole.pop("$defs", {}).items()}
        found[f"Capture{model.__name__}"] = whole
    return found


def _body(model: type[Any], example: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    content = {"schema": {"$ref": _named(model.__name__)}, "example": example}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


_CREATE: Final[dict[str, Any]] = {
    "repo": {"repo_id": "shop-api", "commit_base": "0123456789abcdef0123456789abcdef01234567"},
    "task": {"bug_report": {"title": "Order total is wrong", "description": "Two items are charged as one."}},
    "developer": {"developer_id": "dev-17", "consent_flags": {"store_terminal_output": True}},
    "environment": {"os": "linux", "language": ["python"]},
    "ingestion": {"mode": "incremental", "client_session_id": "session-17"},
}
_APPEND: Final[dict[str, Any]] = {
    "events": [
        {
            "event_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "seq": 1,
            "ts_ms": 1_774_000_000_000,
            "type": "thought",
            "actor": {"kind": "human"},
            "payload": {"kind": "hypothesis", "content": "total() returns the price of the first item"},
        }
    ]
}
_FINALIZE: Final[dict[str, Any]] = {"final_state": {"pr": {"title": "Add up all items"}}}
_WITHDRAW: Final[dict[str, Any]] = {"withdraw": ["store_terminal_output"]}
_CHECK: Final[dict[str, Any]] = {"profile": "recorded"}
_CHECK_MANY: Final[dict[str, Any]] = {"where": "qa.final_passed", "profile": "recorded"}


@router.post(
    "/traces",
    status_code=201,
    responses=responses(401, 403, 409, 413, 422, 429, 503),
    openapi_extra=_body(CreateTrace, _CREATE),
)
async def create(request: Request, access: Someone) -> CreatedTrace:
    """Open a trace. With a `trace_id` of your own the call may be repeated; every answer holds a fresh ingest key."""
    collector = _collector(request)
    await collector.allow(access, "create")
    try:
        created = await collector.create(await _small_body(request), access=access)
    except PmError as error:
        await collector.note("create refused", error.what, access=access)
        raise
    await collector.note("create", created.trace_id, access=access)
    return CreatedTrace(trace_id=created.trace_id, ingest_key=created.ingest_key)


@router.get("/traces", responses=responses(401, 403, 422, 429, 503))
async def listing(
    request: Request,
    access: Someone,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    after: Annotated[str | None, Query(pattern=_UUID)] = None,
    status: Literal["open", "finalized", "qa_running", "complete", "qa_failed"] | None = None,
) -> TracePage:
    """The traces, newest first. A token that is held to a developer or project sees its own: pages may be short."""
    await _collector(request).allow(access, "list")
    rows, following = await _collector(request).listing(after=after, limit=limit, status=status)
    rows = [row for row in rows if access.opens(row["trace_id"], row)]
    return TracePage(traces=[TraceMetadata.model_validate(row) for row in rows], next=following)


@router.post(
    "/traces/{trace_id}/events",
    response_model=Appended,
    responses=responses(401, 403, 404, 409, 410, 413, 422, 429, 503),
    openapi_extra=_body(AppendEvents, _APPEND),
)
async def append(request: Request, trace_id: TraceId, access: Someone) -> Response:
    """Append a batch, all or nothing; answered when it is on disk. Sending it again is harmless."""
    body = await append_events(request.scope, request.receive, trace_id, access=access, state=state_of(request))
    return Response(body, media_type="application/json")


async def append_events(scope: Scope, receive: Receive, trace_id: str, *, access: Access, state: ServiceState) -> bytes:
    """What `append` does; the ingest lane calls it without the framework's work around it."""
    collector = state.collector
    await collector.allow(access, "append", trace_id.lower())
    limit = collector.settings.limits.batch_bytes
    length = announced_length(scope)
    with state.admission.admitted(limit if length is None else min(length, limit)):
        raw = await read_body(scope, receive, limit=limit)
        result = await collector.append(trace_id, raw)
    state.counters.appended(result.accepted, result.duplicates, len(raw))
    return b'{"accepted":%d,"duplicates":%d,"seq_last":%d,"gaps":%s}' % (
        result.accepted,
        result.duplicates,
        result.seq_last,
        orjson.dumps(result.gaps),
    )


@router.post(
    "/traces/{trace_id}/finalize",
    status_code=202,
    responses=responses(401, 403, 404, 409, 410, 413, 422, 429, 503),
    openapi_extra=_body(FinalizeTrace, _FINALIZE, required=False),
)
async def finalize(request: Request, trace_id: TraceId, access: Someone) -> TraceState:
    """Close the trace for events; its checks (tests, judge) begin. Sending it again is harmless."""
    await _collector(request).allow(access, "append", trace_id)
    row = await _collector(request).finalize(trace_id, await _small_body(request))
    return TraceState(trace_id=row.trace_id, status=row.status)  # type: ignore[arg-type]  # never a deleted one


_FULL: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The whole trace, or its metadata",
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        {"$ref": _named("TraceDocument")},
                        {"$ref": "#/components/schemas/TraceMetadata"},
                    ]
                }
            }
        },
    }
}


@router.get("/traces/{trace_id}", responses=_FULL | responses(401, 403, 404, 410, 422, 429, 503), response_model=None)
async def read(
    request: Request,
    trace_id: TraceId,
    access: Someone,
    view: Literal["full", "metadata"] = "full",
    blobs: Literal["ref", "inline"] = "ref",
) -> Response:
    """The trace: `view=metadata` leaves out events, `blobs=inline` puts small blobs in (of a lost one `lost:ID`)."""
    collector = _collector(request)
    await collector.allow(access, "read", trace_id)
    if view == "metadata":
        return JSONResponse(await collector.metadata(trace_id))
    pieces = await collector.full(trace_id, inline=blobs == "inline")
    return StreamingResponse(pieces, media_type="application/json")


@router.get(
    "/traces/{trace_id}/events",
    response_model=EventPage,
    responses=responses(401, 403, 404, 410, 422, 429, 503),
)
async def events(
    request: Request,
    trace_id: TraceId,
    access: Someone,
    after: Annotated[int, Query(ge=0, le=2**53 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """A page of events in the order of seq, as stored."""
    await _collector(request).allow(access, "read", trace_id)
    page = await _collector(request).events_page(trace_id, after=after, limit=limit)
    told = orjson.dumps({"next": page.next_after, "seq_last": page.seq_last})
    listed = b",".join(event.body for event in page.events)
    return Response(b'{"events":[' + listed + b"]," + told[1:], media_type="application/json")


@router.post(
    "/traces/{trace_id}/consent",
    responses=responses(401, 403, 404, 410, 413, 422, 429, 503),
    openapi_extra=_body(Withdrawal, _WITHDRAW),
)
async def withdraw_consent(request: Request, trace_id: TraceId, access: Someone) -> ConsentFlags:
    """Take consent back: what it covered is removed now and leaves no more. What is consented to afterwards."""
    await _collector(request).allow(access, "withdraw", trace_id)
    asked = await _said(request, Withdrawal)
    left = await withdraw(_collector(request), trace_id, asked.withdraw)
    return ConsentFlags(**{name: bool(value) for name, value in left.items()})


@router.get("/revocations", responses=responses(401, 403, 429, 503))
async def revoked(request: Request, access: Someone) -> Revocations:
    """Traces that were deleted or whose consent was narrowed, for who has sets that hold them."""
    await _collector(request).allow(access, "list")
    if access.is_bound:
        raise ForbiddenError(
            "this token is held to some traces, and the list is of all",
            next_step="a token with the role exporter, reviewer or operator may, where it is held to no developer or "
            "project: on the collector, pm admin tokens new --role exporter",
        )
    found = await revocations(_collector(request).store)
    return Revocations(made_at_ms=now_epoch_ms(), revocations=found)


@router.delete(
    "/traces/{trace_id}", status_code=204, response_class=Response, responses=responses(401, 403, 404, 422, 429, 503)
)
async def delete(
    request: Request,
    trace_id: TraceId,
    access: Someone,
    erase: Annotated[Literal["now"] | None, Query(description="answer when its contents are gone too")] = None,
) -> Response:
    """Delete the trace on request; only its id and the time stay. Sending it again is harmless."""
    await _collector(request).allow(access, "delete", trace_id)
    collector = _collector(request)
    await (collector.erase(trace_id) if erase else collector.delete(trace_id))
    return Response(status_code=204)


@router.post(
    "/traces/{trace_id}/qa",
    status_code=202,
    responses=responses(401, 403, 404, 409, 410, 413, 422, 429, 503),
    openapi_extra=_body(CheckAgain, _CHECK, required=False),
)
async def check_again(request: Request, trace_id: TraceId, access: Someone) -> CheckState:
    """Run the checks of a finalized trace again, by another profile if one is given; an operator's is approved.

    A profile that is given, and needs an operator's approval, is refused (403).
    """
    await _collector(request).allow(access, "check", trace_id)
    asked = await _said(request, CheckAgain)
    by = _profile_by(request, access, asked)
    if asked.alternatives:
        given = {name: text.encode() for name, text in asked.alternatives.items()}
        await note_alternatives(_collector(request), trace_id, given)
    status: Any = await _checked(request, trace_id, access, asked)
    return CheckState(trace_id=trace_id, status=status, profile=by)


@router.post(
    "/traces/qa",
    status_code=202,
    responses=responses(401, 403, 413, 422, 429, 503),
    openapi_extra=_body(CheckMany, _CHECK_MANY),
)
async def check_many(request: Request, access: Someone) -> CheckedMany:
    """Run the checks again of every finalized trace that fulfils a condition and that the token opens: `trace_ids`."""
    await _collector(request).allow(access, "list")
    asked = await _said(request, CheckMany)
    by = _profile_by(request, access, asked)
    store = _collector(request).store
    chosen, _ = await choose(check_stated(asked.where), store)
    opened = [row for each in chosen if (row := await store.get_trace(each)) and access.opens(each, row.metadata)]
    for row in opened:
        await _collector(request).allow(access, "check", row.trace_id)
        await _checked(request, row.trace_id, access, asked)
    return CheckedMany(trace_ids=[row.trace_id for row in opened], profile=by)


def _profile_by(request: Request, access: Access, asked: CheckBy) -> By:
    """How the profile that was asked for counts. Raises as `check_given`."""
    says = asked.profile is not None or (isinstance(asked, CheckAgain) and asked.alternatives)
    if says and access.trace_id is not None:
        raise ForbiddenError("an ingest key may not say how its own trace is tested", next_step=for_right("check"))
    if asked.profile is None:
        return None
    if not isinstance(asked.profile, str):
        check_given(_given(asked.profile), state_of(request).allowed, approved=access.is_operator)
    return "approved" if access.is_operator else "lists"


async def _checked(request: Request, trace_id: str, access: Access, asked: CheckBy) -> str:
    collector = _collector(request)
    if asked.profile is not None:
        given = asked.profile if isinstance(asked.profile, str) else _given(asked.profile)
        await assign_profile(collector, trace_id, given, approved=access.is_operator)
    return await collector.request_qa(trace_id)


def _given(profile: QaProfile) -> dict[str, Any]:
    return profile.model_dump(exclude_none=True)


@router.put(
    "/blobs/{blob_id}",
    status_code=201,
    responses=responses(401, 403, 404, 410, 413, 422, 429, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
)
async def put_blob(
    request: Request,
    blob_id: BlobId,
    access: Someone,
    trace: Annotated[str | None, Query(pattern=_UUID, description="the trace it is for; an ingest key knows")] = None,
) -> BlobStored:
    """Upload bytes under their SHA-256. Text is redacted unless the trace is raw, and then has another `blob_id`."""
    trace_id = access.trace_id or (trace.lower() if trace else None)
    # Before its trace there is the bundle of its base.
    await _collector(request).allow(access, "create" if trace_id is None else "append", trace_id, subject=blob_id)
    collector, state = _collector(request), state_of(request)
    kind = request.headers.get("content-type", "application/octet-stream")
    limit = collector.settings.limits.blob_bytes
    with state.admission.admitted(_UPLOADS):
        async with uploaded(request.scope, request.receive, limit=limit) as upload:
            if upload.sha256 != blob_id.removeprefix("sha256:"):
                raise IntakeError(
                    "the body has another SHA-256 than its name",
                    place="body",
                    rule="sha256",
                    why=f"it is sha256:{upload.sha256}",
                    next_step="send the bytes again, or name them by their hash",
                )
            row: Any = await collector.put_blob(
                upload.file,
                submitted_id=f"sha256:{upload.sha256}",
                byte_length=upload.byte_length,
                content_type=kind,
                trace_id=trace_id,
            )
    return BlobStored(
        blob_id=row.blob_id,
        submitted_id=f"sha256:{upload.sha256}",
        content_type=row.content_type,
        byte_length=row.byte_len,
        redaction=row.redaction,
    )


_BYTES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The stored bytes",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("application/octet-stream", "text/plain", "application/json", "application/gzip")
        },
    }
}


@router.get(
    "/blobs/{blob_id}",
    response_class=StreamingResponse,
    responses=_BYTES | responses(401, 403, 404, 422, 429, 500, 503),
)
async def get_blob(
    request: Request,
    blob_id: BlobId,
    access: Someone,
    trace: Annotated[str | None, Query(pattern=_UUID, description="the trace whose blob it is")] = None,
) -> Response:
    """The stored bytes of a blob, checked; an ingest key reads the blobs of its trace."""
    name = "sha256:" + blob_id.removeprefix("sha256:")
    trace_id = access.trace_id or (trace.lower() if trace else None)
    await _collector(request).allow(access, "read", trace_id, subject=name)
    found = await _collector(request).open_blob(name, trace_id=trace_id)
    headers = {
        "content-length": str(found.row.byte_len),
        "content-disposition": f'attachment; filename="{name[7:19]}"',
        "etag": f'"{found.row.blob_id}"',
    }
    return StreamingResponse(_pieces(found), media_type=found.row.content_type, headers=headers)


async def _pieces(found: OpenBlob) -> AsyncIterator[bytes]:
    with found.file as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


async def _small_body(request: Request) -> bytes:
    limit = _collector(request).settings.limits.batch_bytes
    with state_of(request).admission.admitted(min(announced_length(request.scope) or limit, limit)):
        return await read_body(request.scope, request.receive, limit=limit)


async def _said(request: Request, model: type[_Model]) -> _Model:
    """The body as the model, whatever content type it bears; an empty one is an empty object."""
    raw = await _small_body(request)
    return validated(model, parse_json(raw) if raw.strip() else {})


def _collector(request: Request) -> Collector:
    return state_of(request).collector
