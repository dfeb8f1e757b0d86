"""How much is taken at once: limits of fields, batches and traces, and what is kept where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from collector.store.port import TraceLimits

# Blobs up to this size are kept in the database and commit with their events: a file each would cost a sync each.
IN_DATABASE: Final = 64 * 1024
# A payload string beyond this many characters becomes a blob; its beginning stays in the field.
SPILL: Final = 32 * 1024
MAX_DEPTH: Final = 32
# Beyond this a number is no longer what was written once it has been read as a double.
MAX_NUMBER: Final = 2**63


@dataclass(frozen=True, kw_only=True)
class IntakeLimits:
    """Limits of one request. Sizes are bytes of UTF-8."""

    inline_bytes: int = 16 << 20
    """The content of one blob sent inline."""
    blob_bytes: int = 256 << 20
    """One uploaded blob."""
    batch_bytes: int = 32 << 20
    """The body of one request."""
    batch_events: int = 10_000
    trace: TraceLimits = field(default_factory=TraceLimits)
