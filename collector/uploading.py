"""Blobs on their way in: prepared by the intake, put where their size sends them, noted inside the store's gate."""

from __future__ import annotations

import asyncio
import hashlib
from typing import BinaryIO, NamedTuple

from collector.blobs import CollectorBlobs
from collector.errors import IntakeError, TooLargeError
from collector.intake import IntakeRules, tombstone
from collector.intake_json import BODY
from collector.intake_metadata import prepare_blob
from collector.limits import IN_DATABASE
from collector.redacting import CaptureRedactors
from collector.store.port import BlobRow, NewBlob, TraceStore
from collector.uploads import HELD, LOOK, looks_binary, prepare_upload

__all__ = ["StoredBlob", "Upload", "Uploads", "row_of"]


class Upload(NamedTuple):
    """What came: its bytes were found to be `submitted_id`."""

    file: BinaryIO
    submitted_id: str
    byte_length: int
    content_type: str
    trace_id: str | None


class StoredBlob(NamedTuple):
    """A stored blob, and the id of what was sent: redaction makes them differ."""

    row: BlobRow
    submitted_id: str


def row_of(blob: NewBlob) -> BlobRow:
    """What is noted of a blob whose bytes are placed."""
    uri = blob.storage_uri or f"db:{blob.blob_id}"
    return BlobRow(blob.blob_id, uri, blob.content_type, blob.byte_len, blob.redaction)


class Uploads:
    """The way in to one store and its blobs."""

    def __init__(self, store: TraceStore, blobs: CollectorBlobs, redactors: CaptureRedactors) -> None:
        self._store = store
        self._blobs = blobs
        self._redactors = redactors

    async def put(self, upload: Upload, rules: IntakeRules) -> StoredBlob:
        """Store an upload by `rules`; raises as `Collector.put_blob`."""
        limit = rules.limits.blob_bytes
        if upload.byte_length > limit:
            raise TooLargeError("the blob is too large", place=BODY, rule="blob_bytes", limit=limit)
        upload.file.seek(0)
        if upload.byte_length > HELD:
            return await self._put_long(upload, rules)
        data = upload.file.read()
        blob = await asyncio.to_thread(
            prepare_upload, data, content_type=upload.content_type, rules=rules, redactors=self._redactors
        )
        async with self._store.blob_gate():
            blob = await self.placed(blob)
            row = row_of(blob)
            await self._store.put_blob_row(
                row, trace_id=upload.trace_id, submitted_id=upload.submitted_id, data=blob.data
            )
        return StoredBlob(row, upload.submitted_id)

    async def put_result(
        self, data: bytes, content_type: str, trace_id: str, rules: IntakeRules, *, from_program: bool
    ) -> str:
        """Store what a check made; its blob id. See `Collector.keep_result`."""
        text = data.decode("utf-8", "replace").replace("\0", "\ufffd").encode()  # a program's bytes need not be text
        if from_program and not rules.store_terminal_output:
            content_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
            blob = tombstone(
                reason="store_terminal_output", content_id=content_id, byte_length=len(data), key=rules.key
            )
        else:
            blob = await asyncio.to_thread(
                prepare_blob, text, content_type=content_type, rules=rules, redactors=self._redactors
            )
        async with self._store.blob_gate():
            blob = await self.placed(blob)
            await self._store.put_blob_row(row_of(blob), trace_id=trace_id, data=blob.data)
        return blob.blob_id

    async def _put_long(self, upload: Upload, rules: IntakeRules) -> StoredBlob:
        """Store a long binary upload (a bundle) as it is, in bounded memory."""
        if rules.redacting:
            if not looks_binary(upload.file.read(LOOK)):
                raise TooLargeError("the text is too large", place=BODY, rule="text_bytes", limit=HELD)
            if not rules.store_raw_code:
                raise IntakeError(
                    "content that is no text cannot be redacted",
                    place=BODY,
                    rule="consent",
                    why="developer.consent_flags.store_raw_code is false",
                )
        async with self._store.blob_gate():
            blob_id = await self._blobs.put_file(upload.file)
            uri = self._blobs.get_uri(blob_id)
            row = BlobRow(blob_id, uri, upload.content_type, upload.byte_length, {"applied": False, "rules": []})
            await self._store.put_blob_row(row, trace_id=upload.trace_id, submitted_id=upload.submitted_id)
        return StoredBlob(row, upload.submitted_id)

    async def placed(self, blob: NewBlob) -> NewBlob:
        """`blob` with its bytes in the blob store where they are too long for the database; call it inside the gate."""
        if blob.data is None or blob.byte_len <= IN_DATABASE:
            return blob
        await self._blobs.put_bytes(blob.data)
        return blob._replace(data=None, storage_uri=self._blobs.get_uri(blob.blob_id))
