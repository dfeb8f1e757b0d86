"""Errors of the collector's door, beside those of `collector.errors`.

NotFoundError
└── DeletedError    the trace was deleted on request; its tombstone says when (HTTP 410)
"""

from __future__ import annotations

from tracer.clock import from_epoch_ms
from tracer.errors import NotFoundError

__all__ = ["DeletedError"]


class DeletedError(NotFoundError):
    """The trace was deleted on request; only its id and the time are left."""

    def __init__(self, trace_id: str, deleted_at_ms: int) -> None:
        super().__init__(f"trace {trace_id!r} was deleted", why=f"on request, at {from_epoch_ms(deleted_at_ms)}")
        self.trace_id = trace_id
        self.deleted_at_ms = deleted_at_ms
