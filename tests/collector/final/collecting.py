"""Sessions sent through the collector's one door, as a client sends them."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from collector.collector import Collector
from collector.final.document import document_chunks
from collector.opening import open_collector
from tests.collector.final.sessions import Session, stable_id
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir


@asynccontextmanager
async def a_collector(folder: Path, **settings: Any) -> AsyncIterator[Collector]:
    state = StateDir(folder / ".pm-orchestrator")
    state.ensure()
    chosen = load_settings(project=state.root, environ={}, flags={})
    environ = {"PM_COLLECTOR_DATABASE": settings["database"]} if "database" in settings else {}
    if environ:
        chosen = load_settings(project=state.root, environ=environ, flags={})
    async with open_collector(state, chosen, environ={}) as collector:
        yield collector


def as_sent(session: Session) -> list[dict[str, Any]]:
    """The events with their texts inline."""
    sent = []
    for event in session.events:
        payload = {key: value for key, value in event["payload"].items() if key != "extra"} | event["payload"]["extra"]
        for name in [name for name in payload if name.endswith("_blob_id") and payload[name] is not None]:
            payload[name.removesuffix("_blob_id")] = session.blobs[payload.pop(name)].decode()
        sent.append({**event, "payload": payload})
    return sent


async def put(collector: Collector, data: bytes, trace_id: str | None = None) -> str:
    from tests.collector.final.sessions import blob_id

    stored = await collector.put_blob(
        io.BytesIO(data), submitted_id=blob_id(data), byte_length=len(data), trace_id=trace_id
    )
    return stored.blob_id


async def collect(collector: Collector, session: Session, *, batch: int = 1000, finalize: bool = True) -> str:
    """Send the session; its trace id."""
    trace_id = stable_id(session.name)
    created = session.create()
    if session.bundle is not None:
        created["repo"]["bundle_blob_id"] = await put(collector, session.blobs[session.bundle])
    ingestion = {"mode": "incremental", "client_session_id": "s-1"}
    await collector.create({"trace_id": trace_id, **created, "ingestion": ingestion, "store": session.store})
    events = as_sent(session)
    for at in range(0, len(events), batch):
        await collector.append(trace_id, events[at : at + batch])
    if finalize:
        state = None
        if session.final_state is not None:
            pr = dict(session.final_state["pr"])
            pr["diff"] = session.blobs[pr.pop("diff_blob_id")].decode()
            state = {"commit_head": session.final_state["commit_head"], "pr": pr}
            if session.final_state["bundle_blob_id"] is not None:
                bundle = session.blobs[session.final_state["bundle_blob_id"]]
                state["bundle_blob_id"] = await put(collector, bundle, trace_id)
        await collector.finalize(trace_id, {"final_state": state})
    return trace_id


async def final_document(trace_id: str, **options: Any) -> bytes:
    """The whole document in memory."""
    return b"".join([piece async for piece in document_chunks(trace_id, **options)])
