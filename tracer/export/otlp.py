"""OTLP/JSON spans with the GenAI semantic conventions: one `invoke_agent` span, an `execute_tool` span per action.

Ids are the trace's own: a second export gives the same spans. Thoughts, errors and scores are the root's events. The
root comes first and is known last: actions and events wait in a temporary file meanwhile.
"""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

import orjson

from tracer.export.pieces import Many, Piece, pieces_of
from tracer.export.steps import TOOLS, Action, ExportedTrace, Thought, Trouble, report_text

_IN_MEMORY: Final = 8 << 20


class Aside:
    """JSON values in the order in which they were put."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self._ends = array("q", [0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def put(self, value: Any) -> None:
        """Keep a value; its number is how many came before it."""
        self._file.seek(self._ends[-1])
        self._ends.append(self._ends[-1] + self._file.write(orjson.dumps(value)))

    def get(self, number: int) -> Any:
        """The value of that number."""
        self._file.seek(self._ends[number])
        return orjson.loads(self._file.read(self._ends[number + 1] - self._ends[number]))


SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
_INTERNAL: Final = 1
_OK, _ERROR = 1, 2
_NS: Final = 1_000_000
_THOUGHT, _TROUBLE, _SCORE = range(3)
_KINDS: Final = 3


async def otlp_pieces(trace: ExportedTrace) -> AsyncGenerator[Piece]:
    """The trace as one `ExportTraceServiceRequest` in OTLP's JSON encoding.

    The root span comes first and is known last: acts and events wait on disk meanwhile.
    """
    root_id = _span_id(trace.trace_id)
    with Aside() as acts, Aside() as events:
        seen = await _gone_through(trace, root_id, acts, events)
        root = _root(trace, root_id, seen)

        async def in_time() -> AsyncIterator[dict[str, Any]]:
            for number in sorted(range(len(events)), key=seen.order.__getitem__):
                yield events.get(number)

        async def spans() -> AsyncIterator[dict[str, Any]]:
            yield {**root, "events": Many(in_time()), "status": {}}
            for number in range(len(acts)):
                yield acts.get(number)

        scope = {"name": "pm-orchestrator.capture", "version": "1.0"}
        resource = {"attributes": _attributes({"service.name": "pm-orchestrator", "pm.repo_id": trace.repo.repo_id})}
        scoped = {"scope": scope, "spans": Many(spans()), "schemaUrl": SCHEMA_URL}
        request = {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped], "schemaUrl": SCHEMA_URL}]}
        async for piece in pieces_of(request):
            yield piece


@dataclass(slots=True)
class _Seen:
    """When the session ran, and the place of each of the root's events: its time, then its kind, as one number."""

    start: int
    end: int
    order: array[int] = field(default_factory=lambda: array("q"))


async def _gone_through(trace: ExportedTrace, root_id: str, acts: Aside, events: Aside) -> _Seen:
    """Put every act's span and every event of the root aside."""
    seen = _Seen(trace.created_at_ms, trace.finalized_at_ms or 0)

    def note(kind: int, ts_ms: int, name: str, attributes: Mapping[str, Any]) -> None:
        events.put({"timeUnixNano": str(ts_ms * _NS), "name": name, "attributes": _attributes(attributes)})
        seen.order.append(ts_ms * _KINDS + kind)

    def note_thought(thought: Thought) -> None:
        told = {"pm.kind": thought.kind, "pm.seq": thought.seq, "pm.text": thought.text}
        note(_THOUGHT, thought.ts_ms, "pm.thought", told)

    async for item in trace.steps:
        seen.start = min(seen.start, item.ts_ms)
        if isinstance(item, Trouble):
            seen.end = max(seen.end, item.ts_ms)
            note(_TROUBLE, item.ts_ms, "exception", {"exception.message": item.text, "pm.seq": item.seq})
        else:
            seen.end = max(seen.end, item.end_ms)
            acts.put(_act(trace, item, root_id))
            for thought in item.thoughts:
                note_thought(thought)
    for thought in trace.steps.after:
        note_thought(thought)
    if trace.qa is not None and (judge := trace.qa.judge) is not None:  # its scores, 0 to 5, as evaluation results
        for name, score in {**judge.scores.model_dump(), "overall": judge.overall}.items():
            if score is not None:
                told = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": float(score)}
                at_ms = trace.finalized_at_ms or trace.created_at_ms
                note(_SCORE, at_ms, "gen_ai.evaluation.result", told)
    return seen


def _root(trace: ExportedTrace, root_id: str, seen: _Seen) -> dict[str, Any]:
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
    ids = {"traceId": _trace_id(trace.trace_id), "spanId": root_id}
    return _span(ids, f"invoke_agent {trace.developer.developer_id}", seen.start, seen.end, attributes)


def _span(ids: dict[str, str], name: str, start: int, end: int, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **ids,
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(start * _NS),
        "endTimeUnixNano": str(max(start, end) * _NS),
        "attributes": _attributes(attributes),
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
    ids = {"traceId": _trace_id(trace.trace_id), "spanId": _span_id(action.event_id), "parentSpanId": root_id}
    status = {} if action.ok is None else {"code": _OK if action.ok else _ERROR}
    span = _span(ids, f"execute_tool {action.tool}", action.ts_ms, action.end_ms, attributes)
    return {**span, "events": [], "status": status}


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
