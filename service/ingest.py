"""The short way for the one hot request: appending events, without routing, dependencies and response models.

Access, limits, intake and commit are what the documented route does too: both end in `append_events`. The gate, traces
and metrics stand before it as before everything (`service.app`); only the framework's own layers are left out.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from service.captures import access_in, append_events
from service.problems import http_problem, problem_of
from service.security import COMPLETE
from service.state import ROUTE
from tracer.errors import PmError

_PATH: Final = re.compile(r"/traces/([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})/events")
_TRACE: Final = "pm.trace"
# Policies for pages mean nothing to the program that reads a count: each header costs as much as finding the token.
_HEADERS: Final = [(b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff")]


class LaneApp(FastAPI):
    """An application whose appends go to `lane`; everything else takes the framework's way."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.lane: ASGIApp = ingest_lane

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if match is None:
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        scope[ROUTE] = "/traces/{trace_id}/events"
        scope[_TRACE] = match[1].lower()
        await self.lane(scope, receive, send)


async def ingest_lane(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer an append that `LaneApp` found."""
    state = scope["app"].state.service
    try:
        access = await access_in(scope, state)
        body = await append_events(scope, receive, scope[_TRACE], access=access, state=state)
    except PmError as error:
        answer: Response = problem_of(error)
    except HTTPException as error:
        answer = http_problem(error)
    except ClientDisconnect:
        return
    else:
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers, COMPLETE: True})
        await send({"type": "http.response.body", "body": body})
        return
    await answer(scope, receive, send)
