"""The Messages API's side of the scripted model server: server-sent events as Anthropic documents them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.support.model_server import Turn

__all__ = ["error_body", "events", "is_side_request", "speaks", "streams", "whole"]


def speaks(path: str) -> bool:
    return path.startswith("/v1/messages")


def is_side_request(path: str, body: Mapping[str, Any]) -> bool:
    """Titles, token counts and warm-ups that a command line asks for beside the conversation."""
    return "count_tokens" in path or not body.get("tools")


def streams(path: str, body: Mapping[str, Any]) -> bool:
    return bool(body.get("stream"))


def error_body(turn: Turn) -> Mapping[str, Any]:
    return {"type": "error", "error": {"type": turn.error_type, "message": turn.message}}


def _usage(turn: Turn, output: int) -> dict[str, Any]:
    count = turn.usage
    return {
        "input_tokens": count["input"],
        "cache_creation_input_tokens": count["written"],
        "cache_read_input_tokens": count["cached"],
        "output_tokens": output,
    }


def _blocks(turn: Turn, next_id: Callable[[], int]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if turn.thinking:
        blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": "c2lnbmF0dXJl"})
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    blocks += [
        {"type": "tool_use", "id": f"toolu_{next_id():06d}", "name": call.name, "input": dict(call.arguments)}
        for call in turn.calls
    ]
    return blocks


def _stop(turn: Turn) -> str:
    return turn.stop or ("refusal" if turn.refusal else "tool_use" if turn.calls else "end_turn")


def whole(turn: Turn, body: Mapping[str, Any], next_id: Callable[[], int]) -> Mapping[str, Any]:
    return {
        "id": f"msg_{next_id():06d}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": _blocks(turn, next_id) or [{"type": "text", "text": ""}],
        "stop_reason": _stop(turn),
        "stop_sequence": None,
        "usage": _usage(turn, turn.usage["output"]),
        "input_tokens": turn.usage["input"],
    }


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def events(turn: Turn, body: Mapping[str, Any], next_id: Callable[[], int]) -> Iterator[bytes]:
    head = dict(whole(turn, body, next_id), content=[], stop_reason=None, usage=_usage(turn, 1))
    head.pop("input_tokens")
    yield _event("message_start", message=head)
    if turn.mangled:
        yield b'event: content_block_delta\ndata: {"type": "content_blo\n\n'
        return
    for index, block in enumerate(_blocks(turn, next_id)):
        yield from _block_events(index, block, cut=turn.cut)
        if turn.cut and block["type"] == "text":
            return
    if turn.error_in_stream:
        yield _event("error", error={"type": turn.error_type, "message": turn.message})
        return
    if turn.cut:
        return
    details = {"category": None, "explanation": turn.refusal, "type": "refusal"} if turn.refusal else None
    delta = {"stop_reason": _stop(turn), "stop_sequence": None, "stop_details": details}
    final = _usage(turn, turn.usage["output"])
    if turn.usage["thinking"]:
        final["output_tokens_details"] = {"thinking_tokens": turn.usage["thinking"]}
    yield _event("message_delta", delta=delta, usage=final)
    yield _event("message_stop")


def _pieces(text: str, size: int = 40) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _block_events(index: int, block: Mapping[str, Any], *, cut: bool) -> Iterator[bytes]:
    match block["type"]:
        case "thinking":
            yield _event(
                "content_block_start", index=index, content_block={"type": "thinking", "thinking": "", "signature": ""}
            )
            for piece in _pieces(block["thinking"]):
                yield _event("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": piece})
            delta = {"type": "signature_delta", "signature": block["signature"]}
            yield _event("content_block_delta", index=index, delta=delta)
        case "text":
            yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            pieces = list(_pieces(block["text"]))
            for piece in pieces[: max(len(pieces) // 2, 1)] if cut else pieces:
                yield _event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
            if cut:
                return
        case _:
            yield _event("content_block_start", index=index, content_block={**block, "input": {}})
            for piece in _pieces(json.dumps(block["input"]), 200):
                delta = {"type": "input_json_delta", "partial_json": piece}
                yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)
