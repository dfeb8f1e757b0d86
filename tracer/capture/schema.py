"""The published JSON Schema of the final document (`pm schema trace`), made from the models."""

from __future__ import annotations

from typing import Any, Final

from tracer.capture.document import TRACE_VERSION, TraceDocument

__all__ = ["SCHEMA_ID", "trace_schema"]

SCHEMA_ID: Final = f"urn:pm-orchestrator:capture-trace:{TRACE_VERSION}"


def trace_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every final document validates against."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **TraceDocument.model_json_schema(mode="serialization"),
    }
