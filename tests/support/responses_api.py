"""The Responses API's side of the scripted model server, as Codex asks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.support.model_server import Turn

__all__ = ["error_body", "events", "is_side_request", "speaks", "streams", "whole"]


def speaks(path: str) -> bool:
    return path.split("?", maxsplit=1)[0].endswith("/responses")


def is_side_request(path: str, body: Mapping[str, Any]) -> bool:
    return False


def streams(path: str, body: Mapping[str, Any]) -> bool:
    return bool(body.get("stream", True))


def error_body(turn: Turn) -> Mapping[str, Any]:
    return {"error": {"type": turn.error_type, "code": turn.error_type, "message": turn.message}}


def _usage(turn: Turn) -> dict[str, Any]:
    count = turn.usage
    prompt = count["input"] + count["cached"]
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": count["cached"]},
        "output_tokens": count["output"],
        "output_tokens_details": {"reasoning_tokens": count["thinking"]},
        "total_tokens": prompt + count["output"],
    }


def _items(turn: Turn, next_id: Callable[[], int]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        items.append({"type": "reasoning", "id": f"rs_{next_id()}", "summary": summary, "encrypted_content": "eA=="})
    for call in turn.calls:
        number = next_id()
        if call.freeform is not None:
            item = {"type": "custom_tool_call", "name": call.name, "input": call.freeform}
        else:
            item = {"type": "function_call", "name": call.name, "arguments": json.dumps(dict(call.arguments))}
        items.append({**item, "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"})
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        items.append({"type": "message", "id": f"msg_{next_id()}", "role": "assistant", "content": content})
    return items


def whole(turn: Turn, body: Mapping[str, Any], next_id: Callable[[], int]) -> Mapping[str, Any]:
    return {
        "id": f"resp_{next_id()}",
        "object": "response",
        "status": "completed",
        "model": body.get("model"),
        "output": _items(turn, next_id),
        "usage": _usage(turn),
    }


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def events(turn: Turn, body: Mapping[str, Any], next_id: Callable[[], int]) -> Iterator[bytes]:
    done = whole(turn, body, next_id)
    yield _event("response.created", response={**done, "status": "in_progress", "output": [], "usage": None})
    for index, item in enumerate(done["output"]):
        yield _event("response.output_item.added", output_index=index, item=item)
        if item["type"] == "message":
            yield _event("response.output_text.delta", output_index=index, item_id=item["id"], delta=turn.text)
        if turn.cut:
            return
        yield _event("response.output_item.done", output_index=index, item=item)
    if turn.cut:
        return
    if turn.error_in_stream:
        error = {"code": turn.error_type, "message": turn.message}
        yield _event("response.failed", response={**done, "status": "failed", "error": error})
        return
    yield _event("response.completed", response=done)
