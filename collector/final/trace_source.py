"""Where a trace to verify comes from: a collector's store, or a final document in a file; both give the same."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, Protocol

import orjson
from pydantic import ValidationError

from collector.final.document import events_of, stored_row
from collector.store.blobs import Contents
from collector.store.port import TraceRow, TraceStore
from tracer.blobs import blob_id_of
from tracer.capture.document import FinalState, Repo, TraceDocument
from tracer.capture.events import Event
from tracer.errors import NotFoundError, TraceError

_DATA: Final = ";base64,"


class Source(Protocol):
    """A trace to verify."""

    trace_id: str
    repo: Repo
    final_state: FinalState | None
    keeps_contents: ClassVar[bool]
    """Whether every blob that it lists is to be here: one that is not was lost."""

    def events(self) -> AsyncIterator[Event]:
        """All events in order of seq. Raises `TraceError` for one that does not follow the schema."""
        ...

    async def blob_ids(self) -> Sequence[str]:
        """All blobs of the trace, whatever they are for."""
        ...

    async def read(self, blob_id: str) -> bytes | None:
        """A blob's bytes, checked; None where it is not here. Raises `TraceError` where it is damaged."""
        ...

    async def file(self, blob_id: str) -> BinaryIO | None:
        """As `read`, as a file that the caller closes: bundles are not held in memory."""
        ...


class StoreSource:
    """A trace in a collector's store; made by `open`."""

    keeps_contents: ClassVar[bool] = True

    def __init__(self, row: TraceRow, store: TraceStore, contents: Contents) -> None:
        self._row = row
        self._store = store
        self._contents = contents
        self.trace_id = row.trace_id
        self.repo = Repo.model_validate(row.metadata["repo"])
        self.final_state = None if row.final_state is None else FinalState.model_validate(row.final_state)

    @classmethod
    async def open(cls, trace_id: str, *, store: TraceStore, contents: Contents) -> StoreSource:
        """The trace `trace_id`; a `NotFoundError` where there is none, or it was deleted."""
        return cls(await stored_row(trace_id, store), store, contents)

    def events(self) -> AsyncIterator[Event]:
        return events_of(self._row, self._store)

    async def blob_ids(self) -> Sequence[str]:
        return [row.blob_id for row in await self._store.blob_rows(self.trace_id)]

    async def read(self, blob_id: str) -> bytes | None:
        try:
            return await self._contents.read(blob_id)
        except NotFoundError:
            return None

    async def file(self, blob_id: str) -> BinaryIO | None:
        try:
            return await self._contents.open(blob_id)
        except NotFoundError:
            return None


class DocumentSource:
    """A trace in a final document, already parsed; blobs are inline (`data:`) or in `contents`."""

    keeps_contents: ClassVar[bool] = False

    def __init__(self, document: TraceDocument, contents: Contents | None) -> None:
        self._document = document
        self._contents = contents
        self.trace_id = document.trace_id
        self.repo = document.repo
        self.final_state = document.final_state
        blobs = document.artifacts.blobs
        self._inline = {blob.blob_id: blob.storage_uri for blob in blobs if blob.storage_uri.startswith("data:")}

    async def events(self) -> AsyncIterator[Event]:
        for event in self._document.events:
            yield event

    async def blob_ids(self) -> Sequence[str]:
        return [blob.blob_id for blob in self._document.artifacts.blobs]

    async def read(self, blob_id: str) -> bytes | None:
        uri = self._inline.get(blob_id)
        if uri is None:
            try:
                return await self._contents.read(blob_id) if self._contents is not None else None
            except NotFoundError:
                return None
        try:
            data = base64.b64decode(uri.partition(_DATA)[2], validate=True)
        except binascii.Error as error:
            raise TraceError(f"blob {blob_id!r} is damaged", why="its inline content is no base64") from error
        if blob_id_of(data) != blob_id:
            raise TraceError(f"blob {blob_id!r} is damaged", why="its inline bytes have another sha256")
        return data

    async def file(self, blob_id: str) -> BinaryIO | None:
        if blob_id in self._inline or self._contents is None:
            data = await self.read(blob_id)
            return None if data is None else io.BytesIO(data)
        try:
            return await self._contents.open(blob_id)
        except NotFoundError:
            return None


def load_document(path: Path) -> tuple[dict[str, Any], TraceDocument]:
    """The final document in a file, as plain JSON and as models; TraceError where it is none, with the place."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"{str(path)!r} cannot be read", why=error) from error
    try:
        plain = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise TraceError(f"{str(path)!r} is no JSON", why=str(error)) from error
    try:
        return plain, TraceDocument.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise TraceError(
            f"{str(path)!r} is no final document of a captured session",
            why=f"{place}: {first['msg']} ({error.error_count()} in all)",
            next_step="the schema is printed by: pm schema trace",
        ) from error
