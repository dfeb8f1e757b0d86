"""The collector's settings as one frozen value (`collector.*`; docs/configuration.md lists them), and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from collector.store.port import TraceLimits
from tracer.settings.layers import Settings

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


@dataclass(frozen=True, kw_only=True)
class CollectorSettings:
    """`database` and `blobs` empty: in the state directory. Sizes are bytes; `waiting` counts requests."""

    database: str = ""
    blobs: str = ""
    limits: IntakeLimits = field(default_factory=IntakeLimits)
    waiting: int = 512


def collector_settings(settings: Settings) -> CollectorSettings:
    """The settings in force."""
    return CollectorSettings(
        database=settings.get("collector.database") or "",
        blobs=settings.get("collector.blobs") or "",
        limits=IntakeLimits(
            inline_bytes=settings.get("collector.max_field_bytes"),
            batch_bytes=settings.get("collector.max_batch_bytes"),
            batch_events=settings.get("collector.max_batch_events"),
            blob_bytes=settings.get("collector.max_blob_bytes"),
            trace=TraceLimits(
                events=settings.get("collector.max_trace_events"), size=settings.get("collector.max_trace_bytes")
            ),
        ),
        waiting=settings.get("collector.waiting"),
    )
