"""The collector: every operation on captured traces that HTTP, the command line and the worker use, one method each.

An acknowledged write is durable. A trace's mode and consent apply before anything is stored; no error repeats what
was sent. Small batches that arrive together are prepared in one pass. Errors: `collector.errors`, `tracer.errors`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from collector.config import IN_DATABASE, CollectorSettings
from collector.errors import DeletedError, ForbiddenError, IntakeError, TooLargeError, no_consent, unknown_blob
from collector.final.document import document_chunks, shown_qa, shown_row
from collector.intake.metadata import (
    HELD,
    LOOK,
    PreparedTrace,
    checked_type,
    looks_binary,
    parse_end,
    prepare_blob,
    prepare_create,
    prepare_end,
    prepare_upload,
)
from collector.intake.parse import parse_events
from collector.intake.prepare import Asked, IntakeRules, PreparedBatch, prepare_one, prepare_together, tombstone
from collector.intake.redact_code import TraceMap
from collector.intake.redactors import CaptureRedactors
from collector.intake.strict_json import BODY
from collector.store.blobs import CollectorBlobs, Garbage, StoredContents, collect_garbage
from collector.store.port import AppendResult, AuditRow, BlobRow, NewBlob, QaFact, StoredEvent, TraceRow, TraceStore
from collector.tokens import ADMIN, Access, Right, Tokens, draw_token, hash_token
from tracer.clock import monotonic, new_id, now_epoch_ms
from tracer.errors import ConflictError, NotFoundError, PmError, RecordError
from tracer.redaction.engine import ProjectRedactor


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


_AT_ONCE: Final = 256 * 1024  # bytes prepared in one pass: the loop does nothing else in the meantime


class _Waiting(NamedTuple):
    asked: Asked
    size: int
    done: asyncio.Future[PreparedBatch]


class Together:
    """See the module."""

    def __init__(self, redactors: CaptureRedactors) -> None:
        self._redactors = redactors
        self._waiting: list[_Waiting] = []

    async def prepare(self, asked: Asked, *, size: int, alone: bool) -> PreparedBatch:
        """The batch as it is stored; `size` is that of what was sent, `alone` that no other is under way."""
        if alone and not self._waiting:
            return prepare_one(asked, redactors=self._redactors)
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._prepare_waiting)
        done: asyncio.Future[PreparedBatch] = loop.create_future()
        self._waiting.append(_Waiting(asked, size, done))
        return await done

    def _prepare_waiting(self) -> None:
        taken: list[_Waiting] = []
        size = 0
        for each in self._waiting:
            if taken and size + each.size > _AT_ONCE:
                break
            taken.append(each)
            size += each.size
        del self._waiting[: len(taken)]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._prepare_waiting)
        self._settle([each for each in taken if not each.done.done()])

    def _settle(self, taken: Sequence[_Waiting]) -> None:
        try:
            outcomes = prepare_together([each.asked for each in taken], redactors=self._redactors)
        except Exception as error:  # noqa: BLE001 # a boundary of the loop: every error goes to its caller
            if len(taken) > 1:
                for each in taken:  # so that only the one at fault fails
                    self._settle([each])
            else:
                taken[0].done.set_exception(error)
            return
        for each, outcome in zip(taken, outcomes, strict=True):
            if isinstance(outcome, PmError):
                each.done.set_exception(outcome)
            else:
                each.done.set_result(outcome)


_BELIEVED_S: Final = 10.0
_KNOWN_TRACES: Final = 10_000
_OPEN_MAPS: Final = 64  # of at most 8 MB each; a trace whose map is gone goes on with hashes that cannot be checked
_IN_LOOP: Final = 256 * 1024  # a batch below this is prepared in the event loop: a thread would cost more than it frees
_MOST_EVENTS: Final = 1000


class Collector:
    """The collector over its store and blobs. `due` is set whenever a trace's checks become due; a worker clears it."""

    def __init__(
        self, *, store: TraceStore, blobs: CollectorBlobs, redactor: ProjectRedactor, settings: CollectorSettings
    ) -> None:
        self.store = store
        self.blobs = blobs
        self.settings = settings
        self.tokens = Tokens(store)
        self.contents = StoredContents(store, blobs)
        self.due = asyncio.Event()
        self._redactor = redactor
        self._redactors = self.redactors = CaptureRedactors(redactor)
        self._key = redactor.parts.key
        # An upload without a trace: text is redacted, and what cannot be waits for a trace that may have it.
        self._waiting = IntakeRules(store_raw_code=True, key=self._key, limits=settings.limits)
        self._known: OrderedDict[str, tuple[IntakeRules, float]] = OrderedDict()
        self._maps: OrderedDict[str, TraceMap] = OrderedDict()
        self._together = Together(self._redactors)
        self._appending = 0

    # -- writing

    async def create(self, sent: bytes | Mapping[str, Any], *, access: Access = ADMIN) -> Created:
        """Open a trace; with a `trace_id` of the caller's own the call may be repeated, and gives a further key.

        A token held to a developer says whose trace it is, whatever id was sent.
        Raises ForbiddenError: `access` is held to another project.
        """
        raw = sent if isinstance(sent, bytes) else orjson.dumps(sent)
        asked = prepare_create(raw, key=self._key, redactors=self._redactors, developer=access.developer)
        trace_id = asked.trace_id or new_id()
        if not access.opens(trace_id, asked.metadata):
            why = f"the new trace is of the project {asked.metadata['repo']['repo_id']}"
            raise ForbiddenError(f"this token is held to {access.held_to}", why=why, next_step=access.another)
        row = TraceRow(trace_id=trace_id, created_at_ms=now_epoch_ms(), metadata=asked.metadata)
        token = draw_token("ingest")
        # From the look at the bundle to its belonging to the trace, nothing is collected.
        async with self.store.blob_gate() if asked.bundle_blob_id else nullcontext():
            bundle = await self._bundle(asked)
            fresh = await self.store.create_trace(row, ingest_key_hash=hash_token(token), identity=asked.identity)
            if bundle is not None:
                await self.store.put_blob_row(bundle, trace_id=trace_id, submitted_id=asked.bundle_blob_id)
        return Created(trace_id, token, not fresh)

    async def _bundle(self, asked: PreparedTrace) -> BlobRow | None:
        """The git bundle that a new trace names: there, and allowed to be."""
        if asked.bundle_blob_id is None:
            return None
        place = "repo.bundle_blob_id"
        if not asked.metadata["developer"]["consent_flags"]["store_raw_code"]:
            raise IntakeError(
                "a bundle needs the developer's consent",
                place=place,
                rule="consent",
                why="it holds code that cannot be redacted, and store_raw_code is false",
                next_step="ask for consent, or leave the bundle out",
            )
        row = await self.store.get_blob_row(asked.bundle_blob_id)
        if row is None:
            raise unknown_blob(place)
        return row

    async def append(self, trace_id: str, sent: bytes | Sequence[Any]) -> AppendResult:
        """Append a batch of events, all or nothing, durable on return; see `TraceStore.append_events`."""
        self._appending += 1
        try:
            return await self._appended(trace_id, sent)
        finally:
            self._appending -= 1

    async def _appended(self, trace_id: str, sent: bytes | Sequence[Any]) -> AppendResult:
        rules = await self._rules(trace_id)
        received_ms = now_epoch_ms()
        size = len(sent) if isinstance(sent, bytes) else _IN_LOOP
        if size < _IN_LOOP:
            parsed = parse_events(sent, key=rules.key, limits=rules.limits)
        else:
            parsed = await asyncio.to_thread(parse_events, sent, key=rules.key, limits=rules.limits)
        references = parsed.references
        resolved = await self.store.resolve_blobs(trace_id, references) if references else {}
        asked = Asked(parsed, rules, resolved, self._map(trace_id) if rules.redacting else None)
        if size < _IN_LOOP:
            batch = await self._together.prepare(asked, size=size, alone=self._appending == 1)
        else:
            batch = await asyncio.to_thread(prepare_one, asked, redactors=self._redactors)
        skew = None if batch.sent_at_ms is None else batch.sent_at_ms - received_ms
        large = any(blob.byte_len > IN_DATABASE for blob in batch.blobs)
        async with self.store.blob_gate() if large else nullcontext():
            result = await self.store.append_events(
                trace_id,
                batch.events,
                [await self._placed(blob) for blob in batch.blobs] if large else batch.blobs,
                references=batch.references,
                skew_ms=skew,
                limits=self.settings.limits.trace,
            )
        # A batch is thousands of objects: the loop lets them go when its sender has the answer.
        asyncio.get_running_loop().call_soon([parsed, asked, batch].clear)
        return result

    async def finalize(self, trace_id: str, sent: bytes | Mapping[str, Any] | None = None) -> TraceRow:
        """Close the trace for events and make its quality checks due; harmless when repeated."""
        rules = await self._rules(trace_id)
        raw = b"" if sent is None else sent if isinstance(sent, bytes) else orjson.dumps(sent)
        asked = parse_end(raw)
        resolved = await self.store.resolve_blobs(trace_id, asked.references) if asked.references else {}
        end = prepare_end(asked, rules=rules, redactors=self._redactors, resolved=resolved)
        async with self.store.blob_gate():
            row = await self.store.finalize(
                trace_id,
                final_state=end.final_state,
                at_ms=now_epoch_ms(),
                blobs=[await self._placed(blob) for blob in end.blobs],
                references=end.references,
            )
        self._maps.pop(trace_id, None)  # it holds secrets, and no patch comes any more
        self.due.set()
        return row

    async def put_blob(
        self,
        file: BinaryIO,
        *,
        submitted_id: str,
        byte_length: int,
        content_type: str = "application/octet-stream",
        trace_id: str | None = None,
    ) -> BlobRow:
        """Store an upload whose bytes hash to `submitted_id`; with `trace_id` it belongs to that trace.

        Text is redacted unless the trace is raw; events may name the blob by `submitted_id` or the stored id. Without a
        trace it waits to be named for a day. `IntakeError`: content that cannot be checked or redacted.
        """
        content_type = checked_type(content_type)
        rules = self._waiting if trace_id is None else await self._rules(trace_id)
        limit = rules.limits.blob_bytes
        if byte_length > limit:
            raise TooLargeError("the blob is too large", place=BODY, rule="blob_bytes", limit=limit)
        file.seek(0)
        if byte_length > HELD:  # a bundle: stored as it is, in bounded memory
            if rules.redacting and not looks_binary(file.read(LOOK)):
                raise TooLargeError("the text is too large", place=BODY, rule="text_bytes", limit=HELD)
            if rules.redacting and not rules.store_raw_code:
                raise no_consent("content that is no text cannot be redacted", BODY)
            async with self.store.blob_gate():
                blob_id = await self.blobs.put_file(file)
                as_sent = {"applied": False, "rules": []}
                row = BlobRow(blob_id, self.blobs.get_uri(blob_id), content_type, byte_length, as_sent)
                await self.store.put_blob_row(row, trace_id=trace_id, submitted_id=submitted_id)
            return row
        blob = await asyncio.to_thread(
            prepare_upload, file.read(), content_type=content_type, rules=rules, redactors=self._redactors
        )
        return await self._kept(blob, trace_id, submitted_id)

    async def keep_result(
        self, trace_id: str, data: bytes, *, content_type: str = "text/plain", from_program: bool = False
    ) -> str:
        """Store a blob made by a quality check, redacted by the trace's mode; its id.

        Program output (`from_program`) is replaced by a tombstone without consent to terminal output.
        """
        rules = await self._rules(trace_id)
        if from_program and not rules.store_terminal_output:
            content_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
            blob = tombstone(
                reason="store_terminal_output", content_id=content_id, byte_length=len(data), key=rules.key
            )
        else:
            text = data.decode("utf-8", "replace").replace("\0", "\ufffd").encode()  # bytes need not be text
            blob = await asyncio.to_thread(
                prepare_blob, text, content_type=content_type, rules=rules, redactors=self._redactors
            )
        return (await self._kept(blob, trace_id)).blob_id

    async def _kept(self, blob: NewBlob, trace_id: str | None, submitted_id: str | None = None) -> BlobRow:
        """Store a prepared blob of its own; what is noted of it."""
        async with self.store.blob_gate():
            placed = await self._placed(blob)
            uri = placed.storage_uri or f"db:{blob.blob_id}"
            row = BlobRow(blob.blob_id, uri, blob.content_type, blob.byte_len, blob.redaction)
            await self.store.put_blob_row(row, trace_id=trace_id, submitted_id=submitted_id, data=placed.data)
        return row

    async def _placed(self, blob: NewBlob) -> NewBlob:
        """`blob` with its bytes in the blob store where they are too long for the database; call it inside the gate."""
        if blob.data is None or blob.byte_len <= IN_DATABASE:
            return blob
        await self.blobs.put_bytes(blob.data)
        return blob._replace(data=None, storage_uri=self.blobs.get_uri(blob.blob_id))

    async def request_qa(self, trace_id: str) -> str:
        """Make the checks of a finalized trace (else ConflictError) due again; the status it has now."""
        row = await self.row(trace_id)
        if row.status == "open":
            raise ConflictError(
                f"trace {trace_id!r} is open", why="checks look at the whole of it", next_step="finalize it first"
            )
        if row.status in {"complete", "qa_failed"}:
            # The fact comes first: with it every step has new inputs, so none takes an old result for its own.
            await self.store.append_qa_fact(trace_id, QaFact("requested", new_id(), now_epoch_ms(), {}))
            await self.store.set_status(trace_id, "finalized", expected={"complete", "qa_failed"})
        self.due.set()
        return (await self.row(trace_id)).status

    async def delete(self, trace_id: str) -> bool:
        """Delete a trace on request: all but its id and the time; False where it was deleted before."""
        self._known.pop(trace_id, None)
        self._maps.pop(trace_id, None)
        if await self.store.get_trace(trace_id) is None:
            raise _no_trace(trace_id)
        return await self.store.delete_trace(trace_id, now_epoch_ms())

    async def erase(self, trace_id: str) -> bool:
        """Delete a trace and everything that only it holds, now; False where it was deleted before."""
        deleted = await self.delete(trace_id)
        await self.remove_released()
        return deleted

    async def remove_released(self) -> None:
        """Remove the contents that traces have just let go of."""
        await collect_garbage(self.store, self.blobs, leftovers=False)
        await self.store.scrub()

    async def narrow(self, trace_id: str, metadata: dict[str, Any], *, released: Collection[str]) -> None:
        """As `TraceStore.narrow_trace`; what comes to an open trace from now on goes by the new consent."""
        await self.store.narrow_trace(trace_id, metadata, released=released)
        self._known.pop(trace_id, None)

    async def collect_garbage(self, *, grace_ms: int | None = None) -> Garbage:
        """Remove blobs that no trace holds and nothing has touched for a day (or `grace_ms`)."""
        return await collect_garbage(self.store, self.blobs, grace_ms=grace_ms)

    # -- rights

    async def allow(self, access: Access, right: Right, trace_id: str | None = None, *, subject: str = "") -> None:
        """Let a call through; it is written down, as is a refused one; appends and metrics are not.

        Who creates notes the new id; of a trace that never was there is nothing to write down.

        Raises ForbiddenError: the role has no such right, or the trace is not among those of `access`.
        """
        try:
            access.check_right(right, trace_id)
            if access.is_bound and trace_id is not None:
                row = None if access.trace_id is not None else await self.store.get_trace(trace_id)
                if row is None or row.status != "deleted":  # of a deleted one nobody knows whose it was
                    access.check_opens(trace_id, row.metadata if row is not None else {})
        except ForbiddenError:
            await self.note(f"{right} refused", trace_id or subject, access=access)
            raise
        if right in {"append", "create", "measure"}:
            return
        if trace_id is None or access.trace_id is not None or await self.store.get_trace(trace_id) is not None:
            await self.note(right, trace_id or subject, access=access)

    async def note(self, action: str, subject: str, *, access: Access = ADMIN) -> None:
        """Write down for the operator who did what to which trace, blob or set."""
        role = "key" if access.trace_id is not None else access.role
        try:
            await self.store.add_audit(AuditRow(now_epoch_ms(), access.token_id, role, action, subject))
        except RecordError as error:  # who only reads has sent nothing: say what is written then
            what = f"the collector could not note this {action} in its audit"
            raise RecordError(what, why=error.why, next_step=error.next_step) from error

    # -- reading

    async def row(self, trace_id: str) -> TraceRow:
        """The trace; NotFoundError where there is none, `DeletedError` where it was deleted."""
        row = await self.store.get_trace(trace_id)
        if row is None:
            raise _no_trace(trace_id)
        if row.status == "deleted":
            raise DeletedError(trace_id, row.deleted_at_ms or 0)
        return row

    async def metadata(self, trace_id: str) -> dict[str, Any]:
        """Everything but events and blobs, as the metadata view shows it. Raises as `row`."""
        row = await self.row(trace_id)
        shown = shown_row(row)
        shown["ingestion"]["gaps"] = [list(gap) for gap in await self.store.gaps(trace_id)]
        shown["qa"] = shown_qa(await self.store.qa_facts(trace_id))
        return shown

    async def listing(
        self, *, after: str | None = None, limit: int = 100, status: str | None = None, qa: bool = True
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Traces, newest first, and the cursor of the following page; without `qa`, that is left to `qa_of`."""
        rows = await self.store.list_traces(after=after, limit=limit + 1, status=status)
        shown = [shown_row(row) for row in rows[:limit]]
        for each in shown if qa else ():
            each["qa"] = await self.qa_of(each["trace_id"])
        return shown, rows[limit - 1].trace_id if len(rows) > limit else None

    async def qa_of(self, trace_id: str) -> dict[str, Any] | None:
        """The part `qa` of a trace's document."""
        return shown_qa(await self.store.qa_facts(trace_id))

    async def full(self, trace_id: str, *, inline: bool = False) -> AsyncIterator[bytes]:
        """The whole document in pieces; raises as `row` before the first one."""
        await self.row(trace_id)
        return document_chunks(trace_id, store=self.store, contents=self.contents, inline=inline, name_itself=True)

    async def events_page(self, trace_id: str, *, after: int = 0, limit: int = _MOST_EVENTS) -> EventsPage:
        """Up to `limit` events with seq beyond `after`. Raises as `row`."""
        row = await self.row(trace_id)
        events = await self.store.read_events(trace_id, after=after, limit=limit)
        last = events[-1].seq if events else after
        return EventsPage(events, last if events and last < row.seq_last else None, row.seq_last)

    async def open_blob(self, blob_id: str, *, trace_id: str | None = None) -> OpenBlob:
        """A blob to read, checked; with `trace_id` only one of that trace (else NotFoundError)."""
        if trace_id is not None:
            row = (await self.store.resolve_blobs(trace_id, [blob_id])).get(blob_id)
        else:
            row = await self.store.get_blob_row(blob_id)
        if row is None:
            raise NotFoundError(f"no blob {blob_id!r}")
        return OpenBlob(row, await self.contents.open(row.blob_id))

    def _map(self, trace_id: str) -> TraceMap:
        """The map by which patches and snapshots of an open trace are redacted alike."""
        known = self._maps.get(trace_id)
        if known is None:
            known = self._maps[trace_id] = TraceMap(self._redactor)
            if len(self._maps) > _OPEN_MAPS:
                self._maps.popitem(last=False)
        self._maps.move_to_end(trace_id)
        return known

    async def _rules(self, trace_id: str) -> IntakeRules:
        """The rules of a trace, remembered for a while: another server may have narrowed its consent."""
        known, until = self._known.get(trace_id, (None, 0.0))
        if known is None or monotonic() > until:
            row = await self.row(trace_id)
            known = IntakeRules.of(row.metadata, key=self._key, limits=self.settings.limits)
            self._known[trace_id] = (known, monotonic() + _BELIEVED_S)
            if len(self._known) > _KNOWN_TRACES:
                self._known.popitem(last=False)
        return known


def _no_trace(trace_id: str) -> NotFoundError:
    return NotFoundError(f"no trace {trace_id!r}", next_step="GET /traces lists them")
