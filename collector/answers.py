"""What the collector answers with."""

from __future__ import annotations

from typing import BinaryIO, NamedTuple

from collector.store.port import BlobRow, StoredEvent

__all__ = ["Created", "EventsPage", "OpenBlob"]


class Created(NamedTuple):
    """A trace and its ingest key, which is not known again; `existed` for a repeated call."""

    trace_id: str
    ingest_key: str
    existed: bool


class EventsPage(NamedTuple):
    """Events in order; `next_after` continues, None at the end."""

    events: tuple[StoredEvent, ...]
    next_after: int | None
    seq_last: int


class OpenBlob(NamedTuple):
    """A blob to read; the caller closes `file`."""

    row: BlobRow
    file: BinaryIO
