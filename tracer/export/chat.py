"""Chat rows for supervised fine-tuning: one conversation a line, in the message format of the OpenAI chat API.

The bug report is the user's message, each act an assistant message with one tool call and the thoughts that led to it;
its outcome is the tool's message. Consumers that train on acts alone drop `content`. Pure.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import orjson

from tracer.export.pieces import Later, Many, Piece, pieces_of
from tracer.export.steps import Action, ExportedTrace, Trouble, report_text, tool_definitions

SYSTEM_PROMPT: Final = (
    "You fix a bug in a software repository. Say what you suspect before you act, look at the evidence, change as "
    "little as needed, and show by tests that the change works."
)
_DONE: Final = {
    "edit_file": "applied",
    "commit": "committed",
    "open_pull_request": "opened",
    "run_command": "(no output)",
}


def chat_pieces(trace: ExportedTrace) -> AsyncGenerator[Piece]:
    """The trace as one row: `messages`, `tools`, and what it is under `metadata`."""
    return pieces_of({
        "messages": Many(_messages(trace)),
        "tools": tool_definitions(),
        "metadata": Later(trace.about),
    })  # fmt: skip


async def _messages(trace: ExportedTrace) -> AsyncIterator[dict[str, Any]]:
    yield {"role": "system", "content": SYSTEM_PROMPT}
    yield {"role": "user", "content": report_text(trace.task)}
    async for item in trace.steps:
        if isinstance(item, Trouble):
            yield {"role": "user", "content": item.text}
        else:
            for message in _acted(item):
                yield message
    if trace.steps.after:
        yield {"role": "assistant", "content": "\n\n".join(thought.text for thought in trace.steps.after)}


def _acted(action: Action) -> list[dict[str, Any]]:
    said = "\n\n".join(thought.text for thought in action.thoughts)
    call = {
        "id": action.event_id,
        "type": "function",
        "function": {"name": action.tool, "arguments": orjson.dumps(action.arguments).decode()},
    }
    return [
        {"role": "assistant", "content": said or None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": action.event_id, "content": action.result or _DONE.get(action.tool, "done")},
    ]
