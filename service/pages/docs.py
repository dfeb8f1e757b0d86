"""The API as a page, and problems as pages for those who asked for one."""

from __future__ import annotations

from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.pages.task import Page, render
from service.problems import MEDIA_TYPE
from service.security import first_headers
from tracer.redaction.redactor import Clean

router = APIRouter(include_in_schema=False)

_BOUNDS: Final = {"minimum": "from", "maximum": "to", "default": "default"}
_METHODS: Final = ("get", "post", "put", "delete")


@router.get("/docs")
async def docs(request: Request) -> Page:
    document = request.app.openapi()
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method in (each for each in _METHODS if each in operations):
            operation = operations[method]
            for tag in operation.get("tags", ["other"]):
                tags.setdefault(tag, []).append({"method": method.upper(), "path": path, **_told(operation)})
    return Page(render("docs.html", title=document["info"]["title"], tags=tags))


def _told(operation: dict[str, Any]) -> dict[str, Any]:
    """What the page says of an operation."""
    content = operation.get("requestBody", {}).get("content", {})
    return {
        "id": operation["operationId"],
        "summary": operation.get("summary", ""),
        "description": operation.get("description", ""),
        "parameters": [
            {
                "name": one["name"],
                "place": one["in"],
                "required": one.get("required", False),
                "schema": _type(one.get("schema", {})),
            }
            for one in operation.get("parameters", ())
        ],
        "bodies": [(kind, _schema(body.get("schema", {}))) for kind, body in content.items()],
        "responses": [(code, each.get("description", "")) for code, each in operation["responses"].items()],
    }


def _type(schema: dict[str, Any]) -> str:
    """A parameter's schema in a line: `integer, from 1, to 1000, default 100`."""
    kinds = []
    for each in schema.get("anyOf", [schema]):
        values = each.get("enum", [each["const"]] if "const" in each else [])
        if each.get("type") == "array":
            kinds.append(f"list of {_type(each['items'])}")
        elif each.get("type") != "null":
            kinds.append(" | ".join(map(str, values)) or str(each.get("type", "any")))
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if schema.get(key) is not None]
    return ", ".join([" or ".join(kinds), *bounds])


def _schema(schema: dict[str, Any]) -> str:
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode() if schema else ""


class HtmlProblems:
    """ASGI middleware: a problem document becomes a page where the request's Accept names HTML."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; hold a problem document until it is whole."""
        if scope["type"] != "http" or b"text/html" not in first_headers(scope).get(b"accept", b""):
            await self._app(scope, receive, send)
            return
        started: Message | None = None
        held = b""

        async def sending(message: Message) -> None:
            nonlocal started, held
            if message["type"] == "http.response.start":
                kind = next((value for name, value in message["headers"] if name.lower() == b"content-type"), b"")
                if kind.startswith(MEDIA_TYPE.encode()):
                    started = message
                    return
            if started is None:
                await send(message)
                return
            held += message.get("body", b"")
            if not message.get("more_body"):
                page = _problem_page(orjson.loads(held)).encode()
                kept = [
                    each for each in started["headers"] if each[0].lower() not in {b"content-type", b"content-length"}
                ]
                more = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(page)).encode())]
                await send({**started, "headers": [*kept, *more]})
                await send({**message, "body": page if scope["method"] != "HEAD" else b""})

        await self._app(scope, receive, sending)


def _problem_page(problem: dict[str, Any]) -> Clean:
    detail = problem["detail"]
    return render(
        "problem.html",
        heading=f"{problem['status']} {problem['title']}",
        message=detail[:1].upper() + detail[1:],
        next_step=problem["next"],
    )
