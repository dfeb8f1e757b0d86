"""What this process has done, counted; `service.metrics` shows it where that is asked for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Counters"]


@dataclass(slots=True)
class Counters:
    """Totals since the start."""

    events_accepted: int = 0
    events_duplicate: int = 0
    event_bytes: int = 0
    batches: int = 0

    def appended(self, accepted: int, duplicates: int, size: int) -> None:
        """Count one batch of `size` bytes."""
        self.events_accepted += accepted
        self.events_duplicate += duplicates
        self.event_bytes += size
        self.batches += 1
