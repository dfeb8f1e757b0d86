"""The collector's blob port: content-addressed bytes in a directory (the default) or an S3-compatible bucket.

A blob appears whole or not at all, is never changed, and every read is checked against its name. Which blobs may go is
not known here: uploads and collection are kept apart by the trace store's gate (`collector.store.port`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from tracer.blobs import DirectoryBlobs
from tracer.errors import ConfigError, RecordError

__all__ = ["CHUNK", "BlobInfo", "CollectorBlobs", "FolderBlobs", "open_blobs"]

CHUNK: Final = 1 << 20
_BATCH: Final = 500


class BlobInfo(NamedTuple):
    """A stored blob: its id, length in bytes, and when it was put last (milliseconds, UTC)."""

    blob_id: str
    byte_length: int
    put_ms: int


class CollectorBlobs(Protocol):
    """The blob port (contracts 8), asynchronous because a bucket is far away.

    Every method may raise RecordError or TraceError (a directory), or UnavailableError (a bucket).
    """

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

    async def put_bytes(self, data: bytes) -> str:
        """Store `data` durably; its id."""
        return await asyncio.to_thread(self.files.put_bytes, data)

    async def put_file(self, file: BinaryIO) -> str:
        """Store what `file` holds from its start; its id."""
        file.seek(0)
        return await asyncio.to_thread(self.files.put_chunks, iter(lambda: file.read(CHUNK), b""))

    def get_uri(self, blob_id: str) -> str:
        """The blob's `file:` URI."""
        return self.files.get_uri(blob_id)

    async def open(self, blob_id: str) -> BinaryIO:
        """The blob as a checked file at its start."""
        return await asyncio.to_thread(self.files.open, blob_id)

    async def read(self, blob_id: str) -> bytes:
        """The blob's bytes, checked."""
        return await asyncio.to_thread(self.files.read, blob_id)

    async def stored(self) -> AsyncIterator[BlobInfo]:
        """Every stored blob, in no order."""
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
                f"cannot delete blobs in {str(self.files.root)!r}",
                why=error.strerror or str(error),
                next_step="make the folder writable",
            ) from error
        return freed


def open_blobs(place: str, *, default: Path, environ: Mapping[str, str]) -> CollectorBlobs:
    """The blob store at `place`: a directory, an `s3://bucket/prefix` URL, or `default` where it is empty.

    A bucket's region, keys and endpoint come from the usual `AWS_…` variables of `environ`.

    Raises:
        ConfigError: `place` is neither, or the obstore package is missing.

    """
    if "://" not in place:
        return FolderBlobs(Path(place).expanduser() if place else default)
    try:
        from collector.blobs_s3 import open_bucket  # obstore: 25 ms, for bucket users alone
    except ModuleNotFoundError as error:
        raise ConfigError(
            "collector.blobs names a bucket", why=str(error), next_step="pip install 'pm-orchestrator[s3]'"
        ) from error
    return open_bucket(place, environ=environ)
