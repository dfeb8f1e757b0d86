"""The final document of a trace: one JSON, the same bytes from every store; and the metadata view.

It is written in pages, so memory does not grow with the trace. Keys ascend; `storage_uri` is `blob:<id>` (or, inline, a
`data:` URI of the small ones); it never names itself, so that its hash can be its name.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from collector.final.qa_facts import fold_qa
from collector.store.blobs import CollectorBlobs, Contents
from collector.store.port import BlobRow, QaFact, StoredEvent, TraceRow, TraceStore
from tracer.capture.canonical import canonical_json
from tracer.capture.document import (
    TRACE_VERSION,
    BlobEntry,
    BlobRedaction,
    Developer,
    Environment,
    FinalState,
    Ingestion,
    Repo,
    Task,
)
from tracer.capture.events import Event
from tracer.errors import NotFoundError, TraceError


def shown_row(row: TraceRow) -> dict[str, Any]:
    """A stored trace as its metadata view, without gaps and checks."""
    given = row.metadata
    return {
        "trace_version": TRACE_VERSION,
        "trace_id": row.trace_id,
        "status": row.status,
        "created_at_ms": row.created_at_ms,
        "finalized_at_ms": row.finalized_at_ms,
        "repo": given["repo"],
        "task": given["task"],
        "developer": given["developer"],
        "environment": given["environment"],
        "ingestion": {
            **given["ingestion"],
            "seq_last": row.seq_last,
            "clock_skew_ms_est": row.clock_skew_ms,
            "store": given.get("store", "redacted"),
        },
        "store": given.get("store", "redacted"),
        "qa_profile": given.get("qa_profile"),
        "event_count": row.event_count,
        "byte_count": row.byte_count,
        "final_state": None
        if row.final_state is None and row.final_blob_id is None
        else {**(row.final_state or {}), "final_trace_blob_id": row.final_blob_id},
        "qa": None,
    }


def shown_qa(facts: Sequence[QaFact]) -> dict[str, Any] | None:
    """What the checks came to so far; None where there were none."""
    found = fold_qa(facts)
    return None if found is None else found.model_dump(mode="json")


INLINE_LIMIT: Final = 512 * 1024
"""Blobs of at most so many bytes are put into the document where it is asked for; longer ones stay by reference."""
BEGINNING: Final = b'{"artifacts":{"blobs":['
"""What every document begins with."""
DOCUMENT_TYPE: Final = "application/json"
_PAGE: Final = 1000
_EVENT: Final[TypeAdapter[Event]] = TypeAdapter(Event)
_SPOOL: Final = 8 << 20
_CHUNK: Final = 1 << 20


class FinalDocument(NamedTuple):
    """The stored document: its blob (the sha256 of its bytes) and its length in bytes."""

    blob_id: str
    byte_length: int


async def document_chunks(
    trace_id: str,
    *,
    store: TraceStore,
    contents: Contents | None = None,
    inline: bool = False,
    name_itself: bool = False,
) -> AsyncIterator[bytes]:
    """The document, piece by piece; of an open trace, what was durable when it began.

    `inline` needs `contents`. `name_itself` adds the stored document's id as `final_state.final_trace_blob_id`: the
    readers' view, whose bytes are not the stored document's. TraceError: something stored is damaged.
    """
    row = await stored_row(trace_id, store)
    frame = await document_frame(row, store, name_itself=name_itself)
    yield BEGINNING
    async for piece in _joined(_blob_pages(row, store, contents if inline else None)):
        yield piece
    yield b"]}"
    for name in sorted([*frame, "events"]):
        yield b',"%s":' % name.encode()
        if name != "events":
            yield canonical_json(frame[name])
            continue
        yield b"["
        async for piece in _joined(event_pages(row, store)):
            yield piece
        yield b"]"
    yield b"}"


async def stored_row(trace_id: str, store: TraceStore) -> TraceRow:
    """The trace; a `NotFoundError` where there is none, or it was deleted."""
    row = await store.get_trace(trace_id)
    if row is None or row.status == "deleted":
        raise NotFoundError(f"no trace {trace_id!r}", why="" if row is None else "it was deleted")
    return row


async def document_frame(row: TraceRow, store: TraceStore, *, name_itself: bool) -> dict[str, Any]:
    """Every member of the document but `artifacts` and `events`. Raises as `document_chunks`."""
    return {
        "created_at_ms": row.created_at_ms,
        "developer": Developer.model_validate(row.metadata["developer"]),
        "environment": Environment.model_validate(row.metadata["environment"]),
        "final_state": _final_state(row, name_itself=name_itself),
        "finalized_at_ms": row.finalized_at_ms,
        "ingestion": await _ingestion(row, store),
        "qa": fold_qa(await store.qa_facts(row.trace_id)),
        "repo": Repo.model_validate(row.metadata["repo"]),
        "task": Task.model_validate(row.metadata["task"]),
        "trace_id": row.trace_id,
        "trace_version": TRACE_VERSION,
    }


async def materialize(trace_id: str, *, store: TraceStore, blobs: CollectorBlobs) -> FinalDocument:
    """Write the document, by reference, as a blob, and note it as the trace's final one; idempotent."""
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as file:
        held = bytearray()
        async for piece in document_chunks(trace_id, store=store):
            held += piece
            if len(held) >= _CHUNK:
                file.write(held)
                held.clear()
        file.write(held)
        length = file.tell()
        async with store.blob_gate():
            blob_id = await blobs.put_file(file)  # type: ignore[arg-type]  # a spooled file has every method of BinaryIO
            redaction = {"applied": False, "rules": []}
            row = BlobRow(blob_id, blobs.get_uri(blob_id), DOCUMENT_TYPE, length, redaction)
            await store.put_blob_row(row, trace_id=trace_id)
            await store.set_final_document(trace_id, blob_id)
    return FinalDocument(blob_id, length)


async def _joined(pages: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
    first = True
    async for page in pages:
        if page:
            yield (b"" if first else b",") + b",".join(page)
            first = False


async def _blob_pages(row: TraceRow, store: TraceStore, contents: Contents | None) -> AsyncIterator[list[bytes]]:
    after = ""
    while rows := await store.blob_rows(row.trace_id, after=after, limit=_PAGE):
        after = rows[-1].blob_id
        if contents is None:
            yield [canonical_json(_entry(blob)) for blob in rows]
            continue
        for blob in rows:  # one by one: inlined ones are large
            try:
                entry = await inlined(blob, contents)
            except (NotFoundError, TraceError):  # the answer is half sent: it tells what is lost, and goes on
                entry = _entry(blob, f"lost:{blob.blob_id}")
            yield [canonical_json(entry)]


def _entry(blob: BlobRow, uri: str = "") -> BlobEntry:
    return BlobEntry(
        blob_id=blob.blob_id,
        content_type=blob.content_type,  # type: ignore[arg-type]  # validated: one of the schema's four
        byte_length=blob.byte_len,
        storage_uri=uri or f"blob:{blob.blob_id}",
        redaction=BlobRedaction.model_validate(blob.redaction),
    )


async def inlined(blob: BlobRow, contents: Contents | None) -> BlobEntry:
    """The blob as the document names it, in it if it is small and `contents` given. Raises as `document_chunks`."""
    if contents is None or blob.byte_len > INLINE_LIMIT:
        return _entry(blob)
    data = base64.b64encode(await contents.read(blob.blob_id)).decode("ascii")
    return _entry(blob, f"data:{blob.content_type};base64,{data}")


async def event_pages(row: TraceRow, store: TraceStore) -> AsyncIterator[list[bytes]]:
    """The events as canonical JSON, in pages; none that came after `row` was read."""
    after = 0
    while after < row.seq_last:
        page: tuple[StoredEvent, ...] = await store.read_events(row.trace_id, after=after, limit=_PAGE)
        if not page:
            return
        after = page[-1].seq
        yield [event.body for event in page if event.seq <= row.seq_last]


async def events_of(row: TraceRow, store: TraceStore) -> AsyncIterator[Event]:
    """The events, as models; none that came after `row` was read."""
    async for page in event_pages(row, store):
        for body in page:
            try:
                yield _EVENT.validate_json(body)
            except ValidationError as error:
                raise TraceError(
                    f"an event of {row.trace_id!r} does not follow the schema", why=str(error.errors()[0]["msg"])
                ) from error


def _final_state(row: TraceRow, *, name_itself: bool) -> FinalState | None:
    state = None if row.final_state is None else FinalState.model_validate(row.final_state)
    if name_itself and row.final_blob_id is not None:
        return (state or FinalState()).model_copy(update={"final_trace_blob_id": row.final_blob_id})
    return None if state is None else state.model_copy(update={"final_trace_blob_id": None})


async def _ingestion(row: TraceRow, store: TraceStore) -> Ingestion:
    sent = row.metadata["ingestion"]
    told = {
        "seq_last": row.seq_last,
        "clock_skew_ms_est": row.clock_skew_ms,
        "store": row.metadata.get("store") or "redacted",
        "gaps": [list(gap) for gap in await store.gaps(row.trace_id)],
    }
    return Ingestion.model_validate({**sent, **told})
