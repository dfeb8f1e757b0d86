"""OTLP/JSON spans with the GenAI semantic conventions: one `invoke_agent` span, an `execute_tool` span for each act.

The lines are what an OTLP receiver takes at `/v1/traces` as `application/json`, and what the collector's file exporter
writes. Ids are the trace's own: a second export gives the same spans. Thoughts, troubles and scores are the root's
events. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tracer.export.steps import TOOLS, Action, Thought, Trouble
from tracer.export.trajectory import ExportedTrace, report_text

__all__ = ["SCHEMA_URL", "otlp_request"]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
_INTERNAL: Final = 1
_OK, _ERROR = 1, 2
_NS: Final = 1_000_000


def otlp_request(trace: ExportedTrace) -> dict[str, Any]:
    """The trace as one `ExportTraceServiceRequest` in OTLP's JSON encoding."""
    root_id = _span_id(trace.trace_id)
    spans = [_root(trace, root_id)]
    spans += [_act(trace, item, root_id) for item in trace.steps.items if isinstance(item, Action)]
    scope = {"name": "pm-orchestrator.capture", "version": "1.0"}
    resource = {"attributes": _attributes({"service.name": "pm-orchestrator", "pm.repo_id": trace.repo.repo_id})}
    scoped = {"scope": scope, "spans": spans, "schemaUrl": SCHEMA_URL}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped], "schemaUrl": SCHEMA_URL}]}


def _root(trace: ExportedTrace, root_id: str) -> dict[str, Any]:
    items = trace.steps.items
    start = min([trace.created_at_ms, *(item.ts_ms for item in items)])
    ends = [item.end_ms if isinstance(item, Action) else item.ts_ms for item in items]
    about = {f"pm.{key}": value for key, value in trace.about().items() if key not in {"trace_id", "repo_id"}}
    about["pm.consent"] = orjson.dumps(about["pm.consent"], option=orjson.OPT_SORT_KEYS).decode()
    asked = [{"role": "user", "parts": [{"type": "text", "content": report_text(trace.task)}]}]
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": trace.developer.developer_id,
        "gen_ai.conversation.id": trace.trace_id,
        "gen_ai.input.messages": orjson.dumps(asked).decode(),
        **about,
    }
    thoughts = [thought for item in items if isinstance(item, Action) for thought in item.thoughts]
    events = [_thought(thought) for thought in [*thoughts, *trace.steps.after]]
    events += [_trouble(item) for item in items if isinstance(item, Trouble)]
    events += _scores(trace)
    return {
        "traceId": _trace_id(trace.trace_id),
        "spanId": root_id,
        "name": f"invoke_agent {trace.developer.developer_id}",
        "kind": _INTERNAL,
        "startTimeUnixNano": str(start * _NS),
        "endTimeUnixNano": str(max([start, trace.finalized_at_ms or start, *ends]) * _NS),
        "attributes": _attributes(attributes),
        "events": sorted(events, key=lambda event: int(event["timeUnixNano"])),
        "status": {},
    }


def _act(trace: ExportedTrace, action: Action, root_id: str) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": action.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": TOOLS[action.tool],
        "gen_ai.tool.call.id": action.event_id,
        "gen_ai.tool.call.arguments": orjson.dumps(action.arguments).decode(),
        "gen_ai.tool.call.result": action.result,
        "error.type": "failed" if action.ok is False else None,
        "pm.seq": action.seq,
        "pm.actor": action.actor,
    }
    return {
        "traceId": _trace_id(trace.trace_id),
        "spanId": _span_id(action.event_id),
        "parentSpanId": root_id,
        "name": f"execute_tool {action.tool}",
        "kind": _INTERNAL,
        "startTimeUnixNano": str(action.ts_ms * _NS),
        "endTimeUnixNano": str(max(action.end_ms, action.ts_ms) * _NS),
        "attributes": _attributes(attributes),
        "events": [],
        "status": {} if action.ok is None else {"code": _OK if action.ok else _ERROR},
    }


def _thought(thought: Thought) -> dict[str, Any]:
    attributes = {"pm.kind": thought.kind, "pm.seq": thought.seq, "pm.text": thought.text}
    return {"timeUnixNano": str(thought.ts_ms * _NS), "name": "pm.thought", "attributes": _attributes(attributes)}


def _trouble(trouble: Trouble) -> dict[str, Any]:
    attributes = {"exception.message": trouble.text, "pm.seq": trouble.seq}
    return {"timeUnixNano": str(trouble.ts_ms * _NS), "name": "exception", "attributes": _attributes(attributes)}


def _scores(trace: ExportedTrace) -> list[dict[str, Any]]:
    """The judge's scores as evaluation results (0 to 5)."""
    if trace.qa is None or trace.qa.judge is None:
        return []
    judge, at_ms = trace.qa.judge, trace.finalized_at_ms or trace.created_at_ms
    scores = {**judge.scores.model_dump(), "overall": judge.overall}
    return [
        {
            "timeUnixNano": str(at_ms * _NS),
            "name": "gen_ai.evaluation.result",
            "attributes": _attributes({"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": float(score)}),
        }
        for name, score in scores.items()
        if score is not None
    ]


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value)}


def _trace_id(trace_id: str) -> str:
    return trace_id.replace("-", "").lower()


def _span_id(event_id: str) -> str:
    return hashlib.sha256(event_id.encode()).hexdigest()[:16]
