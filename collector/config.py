"""The collector's settings as one frozen value (`collector.*`; docs/configuration.md lists them)."""

from __future__ import annotations

from dataclasses import dataclass, field

from collector.intake.limits import IntakeLimits
from collector.store.port import TraceLimits
from tracer.settings.layers import Settings


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
