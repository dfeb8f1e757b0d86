"""The short way for the one hot request: appending events, without routing, dependencies and response models.

Everything before (host, origin) and behind it (access, limits, intake, commit) is what the documented route does too;
both end in `append_events`. Anything unusual falls through to the route.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access import access_of
from service.captures_api import append_events
from service.problems import http_problem, problem_of
from service.routes import ROUTE
from tracer.errors import PmError

__all__ = ["IngestLane"]

_PATH: Final = re.compile(r"/traces/([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})/events")


class IngestLane:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an append here; pass everything else on."""
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if match is None:
            await self._app(scope, receive, send)
            return
        scope[ROUTE] = "/traces/{trace_id}/events"
        request = Request(scope, receive)
        try:
            body = await append_events(request, match[1].lower(), await access_of(request))
        except PmError as error:
            answer: Response = problem_of(error)
        except HTTPException as error:
            answer = http_problem(error)
        except ClientDisconnect:
            return
        else:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await answer(scope, receive, send)
