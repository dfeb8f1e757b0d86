"""A trace's blobs as bytes, wherever they lie: small ones in the store's database, others in the blob store."""

from __future__ import annotations

from typing import Protocol

from collector.store.port import TraceStore
from tracer.blobs import blob_id_of
from tracer.errors import NotFoundError, TraceError

__all__ = ["Contents", "StoredContents"]


class Contents(Protocol):
    """Reads blobs by id."""

    async def read(self, blob_id: str) -> bytes:
        """The blob's bytes, checked against its id.

        Raises:
            NotFoundError: no such blob.
            TraceError: it is damaged.

        """
        ...


class StoredContents:
    """The blobs of a collector: `store`'s own, then those of `blobs`."""

    def __init__(self, store: TraceStore, blobs: Contents | None) -> None:
        self._store = store
        self._blobs = blobs

    async def read(self, blob_id: str) -> bytes:
        """See `Contents`."""
        data = await self._store.blob_data(blob_id)
        if data is not None:
            if blob_id_of(data) != blob_id:
                raise TraceError(f"blob {blob_id!r} is damaged", why="its bytes have another sha256")
            return data
        if self._blobs is None:
            raise NotFoundError(f"no blob {blob_id!r}", why="it is not in the collector's database")
        return await self._blobs.read(blob_id)
