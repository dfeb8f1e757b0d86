"""Errors over HTTP: RFC 9457 problem documents with the command line's error codes and next steps.

Every answer of 400 and above has the same shape and media type, whoever raised it; nothing of the inside (paths,
stack, secrets) is in it but what the one error tree says to users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from collector.errors import DeletedError, ForbiddenError, IntakeError, TooLargeError
from service.admission import BusyError
from tracer.errors import ConflictError, LockedError, PmError, RecordError
from tracer.redaction.cuts import clean
from tracer.redaction.leaks import LeakError
from tracer.redaction.redactor import Clean

MEDIA_TYPE: Final = "application/problem+json"
_STATUS: Final[Mapping[str, int]] = {
    "usage": 422,
    "config": 422,
    "credentials": 422,
    "unavailable": 503,
    "limit": 422,
    "not_found": 404,
    "trace": 500,
    "sandbox": 503,
    "internal": 500,
}


class Problem(BaseModel):
    """RFC 9457. `code` is the command line's error code, `next` what to do about it."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: Clean
    next: Clean = Clean("")
    errors: list[dict[str, Any]] = Field(
        default_factory=list, description="what was wrong where: `place`, `rule` and `message`, with `limit` for a 413"
    )


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    next_step: str = "",
    headers: Mapping[str, str] | None = None,
    errors: Sequence[dict[str, Any]] = (),
) -> JSONResponse:
    """What `detail`, `next_step` and `errors` quote of a request or a file goes out without secrets."""
    told = [{name: clean(of) if isinstance(of, str) else of for name, of in each.items()} for each in errors]
    title = HTTPStatus(status).phrase
    problem = Problem(title=title, status=status, code=code, detail=clean(detail), next=clean(next_step), errors=told)
    return JSONResponse(
        problem.model_dump(), status_code=status, media_type=MEDIA_TYPE, headers=dict(headers) if headers else None
    )


def problem_of(error: PmError) -> JSONResponse:
    detail = error.what if not error.why or error.why in error.what else f"{error.what}: {error.why}"
    headers: dict[str, str] = {}
    errors: list[dict[str, Any]] = []
    match error:
        case TooLargeError():
            status = 413
            errors = [{"place": error.place, "rule": error.rule, "message": error.what, "limit": error.limit}]
        case IntakeError():
            status = 422
            errors = [{"place": place, "rule": rule, "message": why} for place, rule, why in error.problems]
        case DeletedError():
            status = 410
        case ForbiddenError():
            status = 403
        case LockedError() | ConflictError() | LeakError():
            status = 409
        case BusyError():
            status = 429
            headers["retry-after"] = str(error.retry_after_s)
        case RecordError():  # not on disk, so not acknowledged: the client keeps it and tries again
            status = 503
            headers["retry-after"] = "5"
        case _:
            status = _STATUS.get(error.code, 500)
            if status == HTTPStatus.SERVICE_UNAVAILABLE:
                headers["retry-after"] = str(getattr(error, "retry_after_s", 5))
    return problem_response(status, error.code, detail, next_step=error.next_step, headers=headers, errors=errors)


def http_problem(error: HTTPException, **headers: str) -> JSONResponse:
    codes = {404: "not_found", 405: "usage", 413: "limit", 429: "limit", 401: "credentials", 403: "credentials"}
    code = codes.get(error.status_code, "usage")
    given = {name.lower(): value for name, value in (error.headers or {}).items()}
    next_step = "pm admin tokens new, where the service runs, makes another" if error.status_code == 401 else ""
    return problem_response(error.status_code, code, str(error.detail), next_step=next_step, headers=given | headers)


def responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {
        code: {
            "description": HTTPStatus(code).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for code in codes
    }


def add_problem_handlers(app: FastAPI) -> None:
    @app.exception_handler(PmError)
    async def on_pm_error(_request: Request, error: PmError) -> JSONResponse:
        return problem_of(error)

    @app.exception_handler(ClientDisconnect)
    async def on_disconnect(_request: Request, _error: ClientDisconnect) -> JSONResponse:
        return problem_response(400, "usage", "the body broke off")  # nobody is there to read it

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return http_problem(error, allow=", ".join(sorted(_methods_of(app, request))))
        return http_problem(error)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        places = [
            {"place": ".".join(str(part) for part in each["loc"]), "rule": each["type"], "message": each["msg"]}
            for each in error.errors()
        ]
        first = places[0] if places else {"place": "request", "message": "invalid"}
        # a body that was not announced as JSON is never parsed, and the rule it breaks says nothing of that
        unparsed = first["place"] == "body" and "json" not in request.headers.get("content-type", "").lower()
        hint = "send it with Content-Type: application/json" if unparsed else ""
        detail = f"{first['place']}: {'not sent as JSON' if hint else first['message']}"
        return problem_response(422, "usage", detail, next_step=hint, errors=places)

    @app.exception_handler(Exception)
    async def on_defect(_request: Request, _error: Exception) -> JSONResponse:
        return problem_response(500, "internal", "a defect of ours; what pm serve printed says more")


def _methods_of(app: FastAPI, request: Request) -> set[str]:
    methods: set[str] = set()
    routes = [
        inner for route in app.routes for inner in getattr(getattr(route, "original_router", None), "routes", [route])
    ]
    for route in routes:
        match, _scope = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= set(getattr(route, "methods", None) or ())
    return methods
