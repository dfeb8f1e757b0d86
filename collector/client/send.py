"""Sends a spool to its collector: creates the trace, puts the blobs, appends what is missing, finalizes.

Every step may be repeated from the server's high-water mark, so a kill or a lost reply costs only sending again.
A batch that is too large is halved. One sender at a time (LockedError).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from collector.client.api import CollectorClient, TooLargeError, UnknownBlobError
from collector.client.events import IN_BATCH, without
from collector.client.spool import Line, Spool
from collector.patches import is_tree_patch
from collector.store.plan import named_blobs
from tracer.blobs import DirectoryBlobs
from tracer.errors import ConflictError, CredentialsError, NotFoundError, TraceError, UsageError
from tracer.lock import FileLock

_BATCH_EVENTS: Final = 200
_BATCH_BYTES: Final = 1 << 20
_COVERING: Final = {"code": "store_raw_code", "output": "store_terminal_output"}
"""The consent that covers what a sender sends, each by the name that people use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """What one call of `send_spool` did."""

    accepted: int = 0
    duplicates: int = 0
    seq_last: int = 0
    finalized: bool = False
    blobs: int = 0
    gaps: tuple[tuple[int, int], ...] = ()


async def send_spool(spool: Spool, client: CollectorClient, *, final: bool = True) -> Sending:
    """Send what the server does not have yet; with `final`, finalize a spool that was closed."""
    lock = FileLock(spool.folder / "send.lock")
    lock.acquire(what="the sending of this capture", patience_s=10.0)
    try:
        return await _Sender(spool, client).send(final=final)
    finally:
        lock.release()


class _Sender:
    def __init__(self, spool: Spool, client: CollectorClient) -> None:
        self._spool = spool
        self._client = client
        self._accepted = self._duplicates = self._blobs = 0
        self._gaps: list[tuple[int, int]] = []
        self._put: set[str] = set()
        self._withdrawn: list[str] = []

    async def send(self, *, final: bool) -> Sending:
        spool = self._spool
        closing = spool.final if final else None  # looked at first: what is appended later is not finalized away
        spool.bind(self._client.address)
        if spool.sent.deleted:
            raise NotFoundError(
                f"this capture was deleted at {self._client.address}",
                why="on request from here",
                next_step=f"pm record discard {spool.trace_id[:8]} deletes what is here",
            )
        await self._create()
        await self._go_on_where_the_server_is()
        lines = (Line(line.seq, self._consented(line.raw)) for line in spool.lines(after=spool.sent.seq))
        for batch in _batches(lines):
            await self._append(batch)
        if closing is not None and not spool.sent.finalized:
            state = self._end(closing.get("final_state"))
            await self._put_blobs(state, key=self._key)
            await self._client.finalize(spool.trace_id, state, key=self._key)
            spool.note_sent(finalized=True)
        sent = spool.sent
        return Sending(
            accepted=self._accepted,
            duplicates=self._duplicates,
            seq_last=sent.seq,
            finalized=sent.finalized,
            blobs=self._blobs,
            gaps=tuple(self._gaps),
        )

    @property
    def _key(self) -> str:
        return self._spool.ingest_key or self._client.token

    async def _create(self) -> None:
        spool = self._spool
        if spool.sent.created:
            return
        if not self._client.token:
            raise CredentialsError(
                "no key for the collector",
                why="a new trace needs a contributor's token, which whoever runs the collector gives you",
                next_step="PM_CAPTURE_TOKEN=…   or   --token-file FILE",
            )
        request = spool.header.get("request")
        if not isinstance(request, dict):
            raise TraceError("the capture's header holds no request", next_step="pm capture new starts another")
        body = {**request, "trace_id": spool.trace_id}
        try:
            answer = await self._client.create(body)
        except UnknownBlobError:  # the bundle leaves when all else of the trace is accepted, and not before
            await self._put_blobs(request, key=self._client.token)
            answer = await self._client.create(body)
        if isinstance(answer.get("ingest_key"), str) and answer["ingest_key"]:
            spool.keep_key(answer["ingest_key"])
        spool.update_header(server=self._client.address)
        spool.note_sent(created=True)

    async def _go_on_where_the_server_is(self) -> None:
        """Take the server's mark: a reply that was lost is not waited for, a server that was restored is refilled."""
        trace_id = self._spool.trace_id
        try:
            metadata = await self._client.metadata(trace_id, key=self._key)
        except CredentialsError:
            with suppress(CredentialsError):  # NotFoundError: the trace was deleted, and its key with it
                await self._client.metadata(trace_id, key=self._client.token)
            raise
        flags = (metadata.get("developer") or {}).get("consent_flags") or {}
        self._withdrawn = [word for word, flag in _COVERING.items() if flags.get(flag) is False]
        ingestion = metadata.get("ingestion")
        mark = ingestion.get("seq_last") if isinstance(ingestion, dict) else None
        if isinstance(mark, int):
            self._spool.note_sent(seq=mark)
        if metadata.get("status") not in {None, "open"}:
            if next(self._spool.lines(after=self._spool.sent.seq), None) is not None:
                raise ConflictError(
                    "the trace is finalized, and this spool holds events that it lacks",
                    why=f"the collector has events up to seq {self._spool.sent.seq}",
                    next_step="pm capture new starts another trace",
                )
            self._spool.note_sent(finalized=True)

    def _consented(self, raw: bytes) -> bytes:
        """An event as far as consent goes there: it may have been withdrawn since the recording began."""
        return without(raw, self._withdrawn, set()) if self._withdrawn else raw

    def _end(self, state: Any) -> Any:
        """The final state; without consent to code no bundle of the commits, which the collector would not take."""
        bundle = state.get("bundle_blob_id") if isinstance(state, dict) else None
        if "code" not in self._withdrawn or not bundle or not holds(self._spool.blobs, bundle):
            return state
        return state if is_tree_patch(self._spool.blobs.read(bundle)) else {**state, "bundle_blob_id": None}

    async def _append(self, batch: list[Line]) -> None:
        for line in batch:
            if b"_blob_id" in line.raw:
                await self._put_blobs(orjson.loads(line.raw), key=self._key)
        try:
            answer = await self._client.append(self._spool.trace_id, [line.raw for line in batch], key=self._key)
        except UsageError as error:  # it names a place in the batch, which nobody but us has seen
            if (named := IN_BATCH.search(error.why)) and int(named[1]) < len(batch):
                error.why += f" (seq {batch[int(named[1])].seq} of this capture)"
            raise
        except TooLargeError:
            if len(batch) == 1:
                raise
            middle = len(batch) // 2
            await self._append(batch[:middle])
            await self._append(batch[middle:])
            return
        self._accepted += int(answer.get("accepted") or 0)
        self._duplicates += int(answer.get("duplicates") or 0)
        self._gaps += [(int(gap[0]), int(gap[1])) for gap in answer.get("gaps") or [] if len(gap) == 2]
        self._spool.note_sent(seq=int(answer.get("seq_last") or batch[-1].seq))

    async def _put_blobs(self, value: Any, *, key: str) -> None:
        """Put every blob that `value` names and this spool holds, each once."""
        for blob_id in sorted(named_blobs(value) - self._put):
            if not holds(self._spool.blobs, blob_id):
                continue
            await self._client.put_blob(blob_id, self._spool.blobs.path_of(blob_id), key=key)
            self._put.add(blob_id)
            self._blobs += 1


def holds(blobs: DirectoryBlobs, blob_id: str) -> bool:
    """Whether the blob is here."""
    try:
        return blobs.has(blob_id)
    except UsageError:  # no id at all: the collector says so better
        return False


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Lines in batches of at most 200 events and about 1 MB."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        if batch and (len(batch) >= _BATCH_EVENTS or size + len(line.raw) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line.raw)
    if batch:
        yield batch
