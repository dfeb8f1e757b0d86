"""The final document as it is handed on: readable blobs inline, everything that may not leave named but not held.

Written piece by piece, as the other formats are.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import orjson

from collector.contents import Contents
from collector.materialize import document_frame, event_pages, inlined
from collector.store.port import TraceRow, TraceStore
from tracer.capture.canonical import canonical_json
from tracer.capture.document import BlobEntry, Developer, FinalState, Qa
from tracer.export.pieces import Many, Piece, pieces_of

__all__ = ["inline_text", "readable_document"]

_PAGE: Final = 1000
_OUTPUTS: Final = {"terminal_output": "chunk_blob_id", "test_run": "report_blob_id"}


async def readable_document(row: TraceRow, *, store: TraceStore, contents: Contents) -> AsyncGenerator[Piece]:
    """The pieces of the document. Raises as `collector.materialize.document_chunks`."""
    consent = Developer.model_validate(row.metadata["developer"]).consent_flags
    held_back: frozenset[bytes] = frozenset()
    if not consent.store_terminal_output:
        held_back = await _outputs(row, store)
    frame = await document_frame(row, store, name_itself=True)
    if not consent.allow_llm_judge:
        _without_scores(frame)
    members = {name: orjson.loads(canonical_json(value)) for name, value in frame.items()}
    members["artifacts"] = {"blobs": Many(_blobs(row, store, contents, held_back))}
    members["events"] = Many(_events(row, store))
    async for piece in pieces_of({name: members[name] for name in sorted(members)}):
        yield piece


async def _events(row: TraceRow, store: TraceStore) -> AsyncIterator[Any]:
    async for page in event_pages(row, store):
        for body in page:
            yield orjson.loads(body)


async def _blobs(
    row: TraceRow, store: TraceStore, contents: Contents, held_back: frozenset[bytes]
) -> AsyncIterator[Any]:
    after = ""
    while rows := await store.blob_rows(row.trace_id, after=after, limit=_PAGE):
        after = rows[-1].blob_id
        for blob in rows:
            entry = await inlined(blob, None if _short(blob.blob_id) in held_back else contents)
            yield orjson.loads(canonical_json(_readable(entry)))


def _readable(entry: BlobEntry) -> BlobEntry:
    """Name, but do not hold, what the audit cannot look into: bundles, archives and other binary content."""
    data = _inline_bytes(entry.storage_uri)
    try:
        readable = data is None or b"\0" not in data.decode("utf-8").encode()
    except UnicodeDecodeError:
        readable = False
    return entry if readable else entry.model_copy(update={"storage_uri": f"blob:{entry.blob_id}"})


async def _outputs(row: TraceRow, store: TraceStore) -> frozenset[bytes]:
    """The blobs that hold outputs and test reports."""
    found: set[bytes] = set()
    async for event in _events(row, store):
        blob_id = event["payload"].get(_OUTPUTS.get(event["type"], ""))
        if blob_id is not None:
            found.add(_short(blob_id))
    return frozenset(found)


def _short(blob_id: str) -> bytes:
    return bytes.fromhex(blob_id.removeprefix("sha256:"))


def _without_scores(frame: dict[str, Any]) -> None:
    """Take a judge's scores out; the document is then no longer the stored one and must not name it."""
    qa: Qa | None = frame["qa"]
    judge = qa.judge if qa is not None else None
    if qa is None or judge is None or (judge.overall is None and not any(judge.scores.model_dump().values())):
        return
    frame["qa"] = qa.model_copy(update={"judge": None})
    state: FinalState | None = frame["final_state"]
    if state is not None:
        frame["final_state"] = state.model_copy(update={"final_trace_blob_id": None})


def _inline_bytes(uri: str) -> bytes | None:
    return base64.b64decode(uri.partition(";base64,")[2]) if uri.startswith("data:") else None


def inline_text(uri: str) -> str:
    """The text that a `data:` URI holds; any other URI as it is."""
    data = _inline_bytes(uri)
    return uri if data is None else data.decode("utf-8", "replace")
