"""Who may do what in the collector: the serve token and cookie, admin tokens, and ingest keys for one trace."""

from __future__ import annotations

from typing import Final

from fastapi import HTTPException, Request
from starlette.types import Scope

from collector.tokens import ADMIN, Access
from service.security import KNOWN, first_headers
from service.state import ServiceState, state_of

__all__ = ["access_in", "access_of", "admin_only", "opens"]

_SCHEME: Final = "bearer "


async def access_of(request: Request) -> Access:
    """What the request's credentials open.

    Raises:
        HTTPException: 401 without usable ones, 429 after too many that were worthless.

    """
    return await access_in(request.scope, state_of(request))


async def access_in(scope: Scope, state: ServiceState) -> Access:
    """As `access_of`, for a request that is still its ASGI scope."""
    if scope.get(KNOWN):
        return ADMIN
    given = first_headers(scope).get(b"authorization", b"").decode("latin-1")
    if given[: len(_SCHEME)].lower() == _SCHEME:
        access = await state.collector.tokens.access(given[len(_SCHEME) :].strip())
        if access is not None:
            return access
        wait = state.failures.take()
        if wait:
            raise HTTPException(429, "too many unknown tokens", headers={"retry-after": str(max(1, round(wait)))})
    raise HTTPException(
        401, "this needs an admin token or the trace's ingest key", headers={"www-authenticate": "Bearer"}
    )


def admin_only(access: Access) -> None:
    """Refuse an ingest key with 403."""
    if access.trace_id is not None:
        raise HTTPException(403, "this needs an admin token; an ingest key opens its own trace only")


def opens(access: Access, trace_id: str) -> None:
    """Refuse an ingest key of another trace with 403."""
    if not access.opens(trace_id.lower()):
        raise HTTPException(403, "this ingest key belongs to another trace")
