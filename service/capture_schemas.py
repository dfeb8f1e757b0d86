"""The collector API's answers (contracts 8). What is sent is described by `tracer.capture.wire`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tracer.capture.document import BlobRedaction

__all__ = ["Appended", "BlobStored", "CreatedTrace", "EventPage", "TraceMetadata", "TracePage", "TraceState"]

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
