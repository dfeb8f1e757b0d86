# ruff: noqa: E501 - lines of a trace stand as they are
"""What the tracer's tests share: the seed's sample, made into files where a test wants them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracer.redaction.redactor import Redacted
from tracer.statedir import StateDir

__all__ = ["SEED_LINES", "NoRedactor", "fact", "with_traces"]

SEED_LINES = b"""\
{"timestamp":"2025-01-23T10:30:00.000Z","event":"USER_REQUEST","session_id":"sess-1","task_id":"task-001","data":{"prompt":"Implement login feature"}}
{"timestamp":"2025-01-23T10:30:00.100Z","event":"SYSTEM_RULES","session_id":"sess-1","task_id":"task-001","data":{"rules":"## Mandatory Rules\\n..."}}
{"timestamp":"2025-01-23T10:30:01.000Z","event":"LLM_REQUEST","session_id":"sess-1","task_id":"task-001","iteration_index":0,"data":{"prompt":"..."}}
{"timestamp":"2025-01-23T10:30:05.000Z","event":"LLM_RESPONSE","session_id":"sess-1","task_id":"task-001","iteration_index":0,"data":{"output":"TODO: implement this","status":"COMPLETE"}}
{"timestamp":"2025-01-23T10:30:05.100Z","event":"QUALITY_JUDGMENT","session_id":"sess-1","task_id":"task-001","iteration_index":0,"data":{"judgment":"REJECT","criteria_results":[{"id":"Q2","name":"No TODO/FIXME","passed":false,"reason":"TODO found"}]}}
{"timestamp":"2025-01-23T10:30:05.200Z","event":"REJECTION_DETAILS","session_id":"sess-1","task_id":"task-001","iteration_index":0,"data":{"criteria_failed":["Q2"],"modification_prompt":"Fix: Remove TODO markers..."}}
{"timestamp":"2025-01-23T10:30:06.000Z","event":"LLM_REQUEST","session_id":"sess-1","task_id":"task-001","iteration_index":1,"data":{"prompt":"..."}}
{"timestamp":"2025-01-23T10:30:10.000Z","event":"LLM_RESPONSE","session_id":"sess-1","task_id":"task-001","iteration_index":1,"data":{"output":"Fully implemented","status":"COMPLETE"}}
{"timestamp":"2025-01-23T10:30:10.100Z","event":"QUALITY_JUDGMENT","session_id":"sess-1","task_id":"task-001","iteration_index":1,"data":{"judgment":"PASS","criteria_results":[]}}
{"timestamp":"2025-01-23T10:30:10.200Z","event":"FINAL_SUMMARY","session_id":"sess-1","task_id":"task-001","data":{"status":"COMPLETE","total_iterations":2,"files_modified":["src/login.ts"]}}
"""


class NoRedactor:
    """Leaves everything as it is, for tests whose subject is not redaction."""

    def redact_text(self, text: str) -> tuple[str, Mapping[str, int]]:
        return text, {}

    def redact_value(self, value: Any) -> Redacted:
        return Redacted(value, {})


def fact(
    event: str, data: Mapping[str, Any], index: int | None = None, *, task: str = "task-001", **more: Any
) -> bytes:
    """One line, as the tracer writes it."""
    fields = {"timestamp": "2025-01-23T10:30:00.000Z", "event": event, "session_id": "s", "task_id": task, **more}
    if index is not None:
        fields["iteration_index"] = index
    return json.dumps({**fields, "data": data}, separators=(",", ":")).encode() + b"\n"


def with_traces(root: Path, *ids: str, stamp: str = "2025-01-23T10-30-00", lines: bytes = SEED_LINES) -> StateDir:
    """A state dir that holds the seed's sample under each of `ids`."""
    state_dir = StateDir(root)
    state_dir.ensure()
    for one in ids:
        (state_dir.traces / f"conversation-{one}-{stamp}.jsonl").write_bytes(lines.replace(b"task-001", one.encode()))
    return state_dir
