"""Blobs that no trace holds: found, and removed without ever touching one that is referenced or was just uploaded.

Rows are forgotten and bytes deleted inside the store's exclusive gate, which uploads share: what an upload has just
found in place cannot vanish under it. Bytes without a row, left by a crash between the two, go when they are old.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collector.blobs import CollectorBlobs
from collector.store.port import TraceStore
from tracer.clock import now_epoch_ms

__all__ = ["GRACE_MS", "Garbage", "collect_garbage"]

GRACE_MS: Final = 24 * 3_600_000
_BATCH: Final = 100


class Garbage(NamedTuple):
    """What was removed: blobs that had a row, files that had none, and the bytes of both."""

    blobs: int
    leftovers: int
    freed: int


async def collect_garbage(store: TraceStore, blobs: CollectorBlobs, *, grace_ms: int | None = None) -> Garbage:
    """Remove blobs that no trace holds and nothing has touched for `grace_ms` (a day).

    Uploads wait while a batch of 100 is removed. A crash half-way leaves at most bytes without a row.
    """
    before_ms = now_epoch_ms() - (GRACE_MS if grace_ms is None else grace_ms)
    removed = freed = 0
    while True:
        async with store.blob_gate(exclusive=True):
            rows = await store.take_garbage(before_ms=before_ms, limit=_BATCH)
            kept_outside = [row.blob_id for row in rows if not row.storage_uri.startswith("db:")]
            freed += sum(row.byte_len for row in rows if row.storage_uri.startswith("db:"))
            freed += await blobs.delete(kept_outside)
        removed += len(rows)
        if len(rows) < _BATCH:
            break
    leftovers = [info.blob_id async for info in blobs.stored() if info.put_ms < before_ms]
    left = 0
    for start in range(0, len(leftovers), _BATCH):
        async with store.blob_gate(exclusive=True):
            batch = leftovers[start : start + _BATCH]
            nameless = [blob_id for blob_id in batch if await store.get_blob_row(blob_id) is None]
            freed += await blobs.delete(nameless)
            left += len(nameless)
    return Garbage(removed, left, freed)
