"""Chat rows for supervised fine-tuning: one conversation a line, in the message format of the OpenAI chat API.

The bug report is the user's message, each act an assistant message with one tool call and the thoughts that led to it;
its outcome is the tool's message. Consumers that train on acts alone drop `content`. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from tracer.export.steps import TOOLS, Action, Trouble
from tracer.export.trajectory import ExportedTrace, report_text

__all__ = ["SYSTEM_PROMPT", "chat_row"]

SYSTEM_PROMPT: Final = (
    "You fix a bug in a software repository. Say what you suspect before you act, look at the evidence, change as "
    "little as needed, and show by tests that the change works."
)
_NO_OUTPUT: Final = "(no output recorded)"


def chat_row(trace: ExportedTrace) -> dict[str, Any]:
    """The trace as one row: `messages`, `tools`, and what it is under `metadata`."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": report_text(trace.task)},
    ]
    for item in trace.steps.items:
        if isinstance(item, Trouble):
            messages.append({"role": "user", "content": item.text})
        else:
            messages += _acted(item)
    if trace.steps.after:
        messages.append({"role": "assistant", "content": "\n\n".join(thought.text for thought in trace.steps.after)})
    return {
        "messages": messages,
        "tools": [_tool(name, meaning) for name, meaning in TOOLS.items()],
        "metadata": trace.about(),
    }


def _acted(action: Action) -> list[dict[str, Any]]:
    said = "\n\n".join(thought.text for thought in action.thoughts)
    call = {
        "id": action.event_id,
        "type": "function",
        "function": {"name": action.tool, "arguments": orjson.dumps(action.arguments).decode()},
    }
    return [
        {"role": "assistant", "content": said or None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": action.event_id, "content": action.result or _NO_OUTPUT},
    ]


def _tool(name: str, meaning: str) -> dict[str, Any]:
    parameters = {"type": "object", "additionalProperties": True}
    return {"type": "function", "function": {"name": name, "description": meaning, "parameters": parameters}}
