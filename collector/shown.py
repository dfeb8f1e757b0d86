"""A stored trace as readers see it without its events: the metadata view of contracts 8. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collector.qa_fold import fold_qa
from collector.store.port import QaFact, TraceRow
from tracer.capture.document import TRACE_VERSION

__all__ = ["shown_qa", "shown_row"]


def shown_row(row: TraceRow) -> dict[str, Any]:
    """A stored trace as its metadata view, without gaps and checks."""
    given = row.metadata
    return {
        "trace_version": TRACE_VERSION,
        "trace_id": row.trace_id,
        "status": row.status,
        "created_at_ms": row.created_at_ms,
        "finalized_at_ms": row.finalized_at_ms,
        "repo": given["repo"],
        "task": given["task"],
        "developer": given["developer"],
        "environment": given["environment"],
        "ingestion": {
            **given["ingestion"],
            "seq_last": row.seq_last,
            "clock_skew_ms_est": row.clock_skew_ms,
            "store": given.get("store", "redacted"),
        },
        "store": given.get("store", "redacted"),
        "qa_profile": given.get("qa_profile"),
        "event_count": row.event_count,
        "byte_count": row.byte_count,
        "final_state": None
        if row.final_state is None and row.final_blob_id is None
        else {**(row.final_state or {}), "final_trace_blob_id": row.final_blob_id},
        "qa": None,
    }


def shown_qa(facts: Sequence[QaFact]) -> dict[str, Any] | None:
    """What the checks came to so far; None where there were none."""
    found = fold_qa(facts)
    return None if found is None else found.model_dump(mode="json")
