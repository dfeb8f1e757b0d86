"""The blob port and its folder adapter, reading a trace's blobs, and their garbage collection.

A blob appears whole or not at all, is never changed, and every read is checked against its id. Small blobs live in the
trace store's database. Garbage is removed inside the trace store's exclusive gate, which uploads share.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from collector.store.port import TraceStore
from tracer.blobs import DirectoryBlobs, blob_id_of
from tracer.clock import now_epoch_ms
from tracer.errors import RecordError, TraceError, UnavailableError

CHUNK: Final = 1 << 20
_BATCH: Final = 500


class BlobInfo(NamedTuple):
    """A stored blob: its id, length in bytes, and when it was put last (milliseconds, UTC)."""

    blob_id: str
    byte_length: int
    put_ms: int


class CollectorBlobs(Protocol):
    """The blob port (contracts 8); may raise RecordError or TraceError (a folder), UnavailableError (a bucket)."""

    async def check(self) -> None:
        """Raise what any use would, where the place itself cannot be used (no such bucket, no rights, no answer)."""
        ...

    async def put_bytes(self, data: bytes) -> str:
        """Store `data` durably; its id. Putting the same bytes again is the same."""
        ...

    async def put_file(self, file: BinaryIO) -> str:
        """Store what `file` holds from its start, in bounded memory; its id."""
        ...

    def get_uri(self, blob_id: str) -> str:
        """Where the blob is, for programs outside: `file://…` or `s3://…`."""
        ...

    async def open(self, blob_id: str) -> BinaryIO:
        """The blob as a file at its start, its bytes checked; the caller closes it. Raises NotFoundError."""
        ...

    async def read(self, blob_id: str) -> bytes:
        """The blob's bytes, checked. Raises NotFoundError."""
        ...

    def stored(self) -> AsyncIterator[BlobInfo]:
        """Every stored blob, in no order."""
        ...

    async def delete(self, blob_ids: Iterable[str]) -> int:
        """Remove those of `blob_ids` that are here; the bytes freed."""
        ...


class FolderBlobs:
    """Blobs as files, through `tracer.blobs`; the calls run in threads."""

    def __init__(self, root: Path) -> None:
        self.files = DirectoryBlobs(root)

    async def check(self) -> None:
        root = next(each for each in (self.files.root, *self.files.root.parents) if each.exists())
        if not await asyncio.to_thread(os.access, root, os.W_OK | os.X_OK):
            raise UnavailableError(
                "blobs cannot be kept", why=f"{str(root)!r} cannot be written", next_step="change its owner"
            )

    async def put_bytes(self, data: bytes) -> str:
        return await asyncio.to_thread(self.files.put_bytes, data)

    async def put_file(self, file: BinaryIO) -> str:
        file.seek(0)
        return await asyncio.to_thread(self.files.put_chunks, iter(lambda: file.read(CHUNK), b""))

    def get_uri(self, blob_id: str) -> str:
        return self.files.get_uri(blob_id)

    async def open(self, blob_id: str) -> BinaryIO:
        return await asyncio.to_thread(self.files.open, blob_id)

    async def read(self, blob_id: str) -> bytes:
        return await asyncio.to_thread(self.files.read, blob_id)

    async def stored(self) -> AsyncIterator[BlobInfo]:
        ids = self.files.ids()
        while batch := await asyncio.to_thread(self._described, ids):
            for info in batch:
                yield info

    def _described(self, ids: Iterable[str]) -> list[BlobInfo]:
        found: list[BlobInfo] = []
        for blob_id in ids:
            with contextlib.suppress(FileNotFoundError):
                status = self.files.path_of(blob_id).stat()
                found.append(BlobInfo(blob_id, status.st_size, status.st_mtime_ns // 1_000_000))
            if len(found) == _BATCH:
                break
        return found

    async def delete(self, blob_ids: Iterable[str]) -> int:
        """Remove those that are here; the bytes freed. A cancelled call ends when what it began has ended."""
        removing = asyncio.get_running_loop().run_in_executor(None, self._delete, tuple(blob_ids))
        try:
            return await asyncio.shield(removing)
        except asyncio.CancelledError:
            await asyncio.wait([removing])  # the caller's gate keeps uploads out only until we return
            raise

    def _delete(self, blob_ids: tuple[str, ...]) -> int:
        freed = 0
        if not blob_ids or not self.files.root.is_dir():
            return freed
        try:
            with self.files.sharing(exclusive=True):
                for blob_id in blob_ids:
                    path = self.files.path_of(blob_id)
                    with contextlib.suppress(FileNotFoundError):
                        size = path.stat().st_size
                        path.unlink()
                        freed += size
        except OSError as error:
            raise RecordError(
                f"cannot delete blobs in {str(self.files.root)!r}", why=error, next_step="make the folder writable"
            ) from error
        return freed


class Contents(Protocol):
    """Reads blobs by id."""

    async def read(self, blob_id: str) -> bytes:
        """The blob's bytes, checked against its id: NotFoundError without one, TraceError where it is damaged."""
        ...

    async def open(self, blob_id: str) -> BinaryIO:
        """The blob as a file at its start, checked; the caller closes it. Raises as `read`."""
        ...


class StoredContents:
    """The blobs of a collector: `store`'s own, then those of `blobs`."""

    def __init__(self, store: TraceStore, blobs: Contents) -> None:
        self._store = store
        self._blobs = blobs

    async def read(self, blob_id: str) -> bytes:
        data = await self._held(blob_id)
        return await self._blobs.read(blob_id) if data is None else data

    async def open(self, blob_id: str) -> BinaryIO:
        data = await self._held(blob_id)
        return await self._blobs.open(blob_id) if data is None else io.BytesIO(data)

    async def _held(self, blob_id: str) -> bytes | None:
        """What the database itself holds, checked."""
        data = await self._store.blob_data(blob_id)
        if data is not None and blob_id_of(data) != blob_id:
            raise TraceError(f"blob {blob_id!r} is damaged", why="its bytes have another sha256")
        return data


GRACE_MS: Final = 24 * 3_600_000
_GARBAGE_BATCH: Final = 100


class Garbage(NamedTuple):
    """What was removed: blobs that had a row, files that had none, and the bytes of both."""

    blobs: int
    leftovers: int
    freed: int


async def collect_garbage(
    store: TraceStore, blobs: CollectorBlobs, *, grace_ms: int | None = None, leftovers: bool = True
) -> Garbage:
    """Remove blobs that no trace holds and nothing touched for `grace_ms`, 100 at a time; a crash leaves only bytes.

    Those of a deleted trace wait for nothing. Without `leftovers` no files are looked for that have no row.
    """
    before_ms = now_epoch_ms() - (GRACE_MS if grace_ms is None else grace_ms)
    removed = freed = 0
    while True:
        async with store.blob_gate(exclusive=True):
            rows = await store.take_garbage(before_ms=before_ms, limit=_GARBAGE_BATCH)
            kept_outside = [row.blob_id for row in rows if not row.storage_uri.startswith("db:")]
            freed += sum(row.byte_len for row in rows if row.storage_uri.startswith("db:"))
            freed += await blobs.delete(kept_outside)
        removed += len(rows)
        if len(rows) < _GARBAGE_BATCH:
            break
    nobodys = [info.blob_id async for info in blobs.stored() if info.put_ms < before_ms] if leftovers else []
    left = 0
    for start in range(0, len(nobodys), _GARBAGE_BATCH):
        async with store.blob_gate(exclusive=True):
            batch = nobodys[start : start + _GARBAGE_BATCH]
            nameless = [blob_id for blob_id in batch if await store.get_blob_row(blob_id) is None]
            freed += await blobs.delete(nameless)
            left += len(nameless)
    return Garbage(removed, left, freed)
