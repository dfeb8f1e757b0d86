"""ATIF, the Agent Trajectory Interchange Format (version 1.8; schema and models: Harbor, Apache-2.0).

The developer stands where the agent stands: thoughts are `reasoning_content`, acts are tool calls, outcomes are
observations. No model was called, so there are no metrics and `llm_call_count` is left out, as the format asks of steps
that have reasoning. Steps stand in the order of the record, and none is dated before the one before it. Pure.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from tracer.clock import from_epoch_ms
from tracer.export.pieces import Later, Many, Piece, pieces_of
from tracer.export.steps import Action, ExportedTrace, Thought, Trouble, report_text, tool_definitions

ATIF_VERSION: Final = "ATIF-v1.8"


def atif_pieces(trace: ExportedTrace) -> AsyncGenerator[Piece]:
    """The trace as one ATIF document."""
    total = latest_ms = 0

    async def steps() -> AsyncIterator[dict[str, Any]]:
        nonlocal total, latest_ms
        async for ts_ms, step in _steps(trace):
            total += 1
            latest_ms = max(latest_ms, ts_ms)  # a clock was corrected, or the event came late
            yield {"step_id": total, "timestamp": from_epoch_ms(latest_ms), **step}

    return pieces_of({
        "schema_version": ATIF_VERSION,
        "session_id": trace.trace_id,
        "trajectory_id": trace.trace_id,
        "agent": {
            "name": trace.developer.developer_id,
            "version": "1.0",
            "tool_definitions": tool_definitions(),
            "extra": {"experience_level": trace.developer.experience_level},
        },
        "steps": Many(steps()),
        "notes": "A recorded session of a developer: reasoning is what was written down, tool calls are what was done.",
        "final_metrics": Later(lambda: {"total_steps": total}),
        "extra": Later(trace.about),
    })  # fmt: skip


async def _steps(trace: ExportedTrace) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    """Each step with the time that its event has, in the order of the record."""
    began_ms = await trace.steps.began()
    yield trace.created_at_ms if began_ms is None else began_ms, _step("user", report_text(trace.task))
    async for item in trace.steps:
        yield item.ts_ms, _step("system", item.text) if isinstance(item, Trouble) else _acted(item)
    if trace.steps.after:
        last = trace.steps.after[-1]
        yield last.ts_ms, {**_step("agent", ""), "reasoning_content": _joined(trace.steps.after)}


def _step(source: str, message: str) -> dict[str, Any]:
    return {"source": source, "message": message}


def _acted(action: Action) -> dict[str, Any]:
    step = _step("agent", "")
    if action.thoughts:
        step["reasoning_content"] = _joined(action.thoughts)
    step["tool_calls"] = [
        {"tool_call_id": action.event_id, "function_name": action.tool, "arguments": action.arguments}
    ]
    if action.result is not None:
        result: dict[str, Any] = {"source_call_id": action.event_id, "content": action.result}
        told = {"ok": action.ok, "truncated": action.cut or None, "duration_ms": action.end_ms - action.ts_ms}
        result["extra"] = {key: value for key, value in told.items() if value is not None}
        step["observation"] = {"results": [result]}
    step["extra"] = {"seq": action.seq, "actor": action.actor}
    return step


def _joined(thoughts: tuple[Thought, ...]) -> str:
    return "\n\n".join(f"[{thought.kind}] {thought.text}" for thought in thoughts)
