"""The store port: what a captured trace is to its store, whichever database holds it.

Every method that writes returns only when the write survives a crash of process and machine; a method that raises has
written nothing. Methods may be called concurrently and from several processes; a cancelled call may still take effect
(sending it again is harmless). Errors: `ConflictError`, `NotFoundError`, `OverloadedError`, `RecordError`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from tracer.redaction.redactor import CleanLine

Status = Literal["open", "finalized", "qa_running", "complete", "qa_failed", "deleted"]
STATUSES: Final[tuple[str, ...]] = ("open", "finalized", "qa_running", "complete", "qa_failed", "deleted")


@dataclass(frozen=True, kw_only=True)
class TraceRow:
    """A trace without its events.

    `metadata` holds the JSON of `repo`, `task`, `developer`, `environment`, `ingestion` (as sent), `store` and
    `qa_profile`; of a deleted trace it is empty. Times are milliseconds since 1970-01-01 UTC on the server's clock.
    """

    trace_id: str
    status: Status = "open"
    created_at_ms: int
    metadata: dict[str, Any]
    finalized_at_ms: int | None = None
    final_state: dict[str, Any] | None = None
    seq_last: int = 0
    """The durable high-water mark."""
    event_count: int = 0
    byte_count: int = 0
    """Bytes of events and of the blobs that came with them."""
    clock_skew_ms: int = 0
    final_blob_id: str | None = None
    """The final document's blob, once it is made."""
    deleted_at_ms: int | None = None


class StoredEvent(NamedTuple):
    """An event as stored; its canonical JSON is in two parts, as the tables hold it."""

    event_id: str
    seq: int
    ts_ms: int
    type: str
    envelope: CleanLine
    """Canonical JSON of `actor` and `context`: `{"actor":…,"context":…}`."""
    payload: CleanLine
    """Canonical JSON of the payload."""
    identity: bytes = b""
    """Keyed hash of the event as it was sent: what makes a repetition a repetition."""

    @property
    def body(self) -> bytes:
        """Canonical JSON of the whole event."""
        return b'%s,"event_id":"%s","payload":%s,"seq":%d,"ts_ms":%d,"type":"%s"}' % (
            self.envelope[:-1],
            self.event_id.encode("ascii"),
            self.payload,
            self.seq,
            self.ts_ms,
            self.type.encode("ascii"),
        )


class BlobRow(NamedTuple):
    """What is known of a blob. `storage_uri` is where its bytes are: `db:<blob_id>` (this store), `file:`, `s3:`."""

    blob_id: str
    storage_uri: str
    content_type: str
    byte_len: int
    redaction: dict[str, Any]
    """`{"applied": bool, "rules": [...]}`."""


class NewBlob(NamedTuple):
    """A blob that comes with events: with `data` it is kept in the database, without it lies at `storage_uri`."""

    blob_id: str
    content_type: str
    byte_len: int
    redaction: dict[str, Any]
    data: bytes | None = None
    storage_uri: str = ""


class QaFact(NamedTuple):
    """A quality check's result. `input_hash` tells one set of inputs from another; `result` is a part of `qa`."""

    step: str
    input_hash: str
    ts_ms: int
    result: dict[str, Any]


class TokenRow(NamedTuple):
    """A token, known by its hash only. `trace_id` is null for one of a person or program, who has a `role`.

    `developer` and `project` (a `repo_id`) hold it to their traces where they are not empty.
    """

    token_id: str
    kind: Literal["admin", "ingest"]
    token_hash: str
    trace_id: str | None = None
    label: str = ""
    created_at_ms: int = 0
    revoked_at_ms: int | None = None
    role: str = "operator"
    developer: str = ""
    project: str = ""
    expires_at_ms: int | None = None


class AuditRow(NamedTuple):
    """Who did what to which trace or blob; `token_id` is empty for the serve token and the command line."""

    at_ms: int
    token_id: str
    role: str
    action: str
    subject: str


class AppendResult(NamedTuple):
    """What became of a batch; `gaps` are the runs of seq [from, to] that this batch skipped."""

    accepted: int
    duplicates: int
    seq_last: int
    gaps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class TraceLimits:
    """How large one trace may become."""

    events: int = 10_000_000
    size: int = 50 << 30
    """Bytes of events and of the blobs that came with them."""


class TraceStore(Protocol):
    """See the module."""

    # -- traces

    async def create_trace(self, row: TraceRow, *, ingest_key_hash: str, identity: bytes = b"") -> bool:
        """Store a new trace and its ingest key; `ConflictError` if the id is taken.

        False: it was there with the same `identity`, and the key is added.
        """
        ...

    async def get_trace(self, trace_id: str) -> TraceRow | None:
        """The trace, deleted ones too (status `deleted`); None where there never was one."""
        ...

    async def list_traces(
        self, *, after: str | None = None, limit: int = 100, status: str | None = None
    ) -> tuple[TraceRow, ...]:
        """Traces, newest first, those behind `after` (a trace id); deleted ones only with `status="deleted"`."""
        ...

    async def finalize(
        self,
        trace_id: str,
        *,
        final_state: dict[str, Any] | None,
        at_ms: int,
        blobs: Sequence[NewBlob] = (),
        references: Collection[str] = (),
    ) -> TraceRow:
        """Close the trace for events; idempotent: the first call's state stays.

        `blobs` and `references` as for `append_events`. Uploaded blobs that nothing names are released.
        """
        ...

    async def set_status(self, trace_id: str, status: Status, *, expected: Collection[str] | None = None) -> bool:
        """Change the status if it is one of `expected` (default: any but `deleted`); whether it did."""
        ...

    async def pending_traces(self, *, limit: int = 1000) -> tuple[str, ...]:
        """Ids of traces whose quality checks are due or under way (`finalized`, `qa_running`), oldest first."""
        ...

    async def set_final_document(self, trace_id: str, blob_id: str) -> None:
        """Note the final document's blob, which must be there, as belonging to the trace."""
        ...

    async def delete_trace(self, trace_id: str, at_ms: int) -> bool:
        """Remove everything of the trace but a tombstone; its blobs become garbage at once.

        False: it was deleted before.
        """
        ...

    async def narrow_trace(self, trace_id: str, metadata: dict[str, Any], *, released: Collection[str]) -> None:
        """Put narrower metadata in the place of a trace's own and take these blobs from it; they become garbage."""
        ...

    async def scrub(self) -> None:
        """Bring what was removed out of the database's own log too, where it is the store's to do."""
        ...

    async def gaps(self, trace_id: str, *, limit: int = 1000) -> tuple[tuple[int, int], ...]:
        """The runs of seq [from, to] that never came, in order."""
        ...

    # -- events

    async def append_events(
        self,
        trace_id: str,
        events: Sequence[StoredEvent],
        blobs: Sequence[NewBlob] = (),
        *,
        references: Collection[str] = (),
        skew_ms: int | None = None,
        limits: TraceLimits | None = None,
    ) -> AppendResult:
        """Append a batch, all or nothing, durable on return.

        An event that is there with the same `identity` is a duplicate and harmless: it changes nothing, but a blob that
        comes with it and is here with other bytes (`db:`) is put right. `references` are blobs that the
        events name and that were stored before; `skew_ms` is one measurement of client clock minus server clock.

        Raises `EventConflictError` (id or seq taken by other content), `ConflictError` (trace not open),
        `NotFoundError` (no such trace, or it was deleted), `IntakeError` (a referenced blob is not here),
        `TooLargeError` (beyond `limits`).
        """
        ...

    async def read_events(self, trace_id: str, *, after: int = 0, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """Events with seq > `after`, in order; `identity` is left empty."""
        ...

    # -- quality checks

    async def append_qa_fact(self, trace_id: str, fact: QaFact) -> bool:
        """Store a result and own its blobs (`*_blob_id`); False: (`step`, `input_hash`) has one, which stays."""
        ...

    async def replace_qa_result(self, trace_id: str, fact: QaFact) -> None:
        """Put `fact.result` in the place of what its (`step`, `input_hash`) left: consent to that was taken back."""
        ...

    async def qa_facts(self, trace_id: str) -> tuple[QaFact, ...]:
        """The trace's results in the order they were stored."""
        ...

    # -- blobs

    async def put_blob_row(
        self, row: BlobRow, *, trace_id: str | None = None, submitted_id: str | None = None, data: bytes | None = None
    ) -> None:
        """Note a blob that is stored (or, with `data`, store it here).

        With `trace_id` it belongs to that trace; with `submitted_id` the trace's events may call it by that name (the
        id of what was sent, before redaction). Without a trace it is garbage until something names it. What is here
        with other bytes than `data` is put right.
        """
        ...

    async def get_blob_row(self, blob_id: str) -> BlobRow | None:
        """What is known of the blob."""
        ...

    async def blob_data(self, blob_id: str) -> bytes | None:
        """The bytes of a blob that is kept in the database (`db:`), else None."""
        ...

    async def resolve_blobs(self, trace_id: str, submitted: Collection[str]) -> dict[str, BlobRow]:
        """The blobs that `trace_id` owns, by the ids it calls them; ids that are not its own are left out."""
        ...

    async def blob_rows(self, trace_id: str, *, after: str = "", limit: int | None = None) -> tuple[BlobRow, ...]:
        """Blobs that events, final state or checks name (not the final document's), by id, with an id > `after`."""
        ...

    async def unnamed_blobs(self, trace_id: str) -> tuple[BlobRow, ...]:
        """Blobs of the trace that nothing names: its final documents, uploads, what a check has yet to name."""
        ...

    async def take_garbage(self, *, before_ms: int, limit: int = 100) -> tuple[BlobRow, ...]:
        """Forget up to `limit` unowned blobs untouched since `before_ms`, in the exclusive `blob_gate`; their rows."""
        ...

    def blob_gate(self, *, exclusive: bool = False) -> AbstractAsyncContextManager[None]:
        """Keeps uploads (shared) and collection (exclusive) apart, across processes.

        Both change bytes and row inside, so that what an upload has just found in place cannot vanish under it.
        """
        ...

    # -- tokens and keys

    async def secret(self, name: str = "identity", fresh: bytes = b"") -> bytes:
        """Bytes that every server on this database shares, kept at the first call: `fresh`, or 32 random ones."""
        ...

    async def add_token(self, token: TokenRow) -> None:
        """Store a token's hash."""
        ...

    async def find_token(self, token_hash: str) -> TokenRow | None:
        """The token, revoked ones too."""
        ...

    async def revoke_token(self, token_id: str, at_ms: int) -> bool:
        """Revoke; False: no such token, or revoked before."""
        ...

    async def list_tokens(self) -> tuple[TokenRow, ...]:
        """All tokens, oldest first."""
        ...

    async def add_audit(self, row: AuditRow) -> None:
        """Append to the audit log, which nothing changes or removes."""
        ...

    async def list_audit(self, *, limit: int) -> tuple[AuditRow, ...]:
        """The newest `limit` rows of the audit log, oldest first."""
        ...

    async def take_lease(self, trace_id: str, holder: str, *, now_ms: int, until_ms: int) -> str:
        """Let `holder` alone make a trace's checks until then, unless another one does; who holds it now."""
        ...

    async def drop_lease(self, trace_id: str, holder: str) -> None:
        """Let go of the trace, if it is still the holder's."""
        ...

    async def close(self) -> None:
        """Finish what is under way and let go of the database."""
        ...
