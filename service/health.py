"""Whether the process lives, and whether it can do its work; neither needs a token."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request

from service.problems import responses
from service.schemas import Health
from service.state import state_of
from tracer.errors import UnavailableError

router = APIRouter(tags=["health"])


@router.get("/healthz", responses=responses(403, 429))
async def healthz() -> Health:
    """The process is alive."""
    return Health(status="ok")


@router.get("/readyz", responses=responses(403, 429, 503))
async def readyz(request: Request) -> Health:
    """The state directory and the collector's store can be used."""
    state = state_of(request)
    await state.collector.store.pending_traces(limit=1)
    if not await asyncio.to_thread(state.state_dir.traces.is_dir):
        raise UnavailableError("the state directory is not there", next_step="pm doctor")
    return Health(status="ok")
