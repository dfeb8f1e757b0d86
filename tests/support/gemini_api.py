"""The Gemini API's side of the scripted model server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.support.model_server import Turn

__all__ = ["error_body", "events", "is_side_request", "speaks", "streams", "whole"]


def speaks(path: str) -> bool:
    return "enerateContent" in path or "countTokens" in path


def is_side_request(path: str, body: Mapping[str, Any]) -> bool:
    return "treamGenerateContent" not in path


def streams(path: str, body: Mapping[str, Any]) -> bool:
    return "treamGenerateContent" in path


def error_body(turn: Turn) -> Mapping[str, Any]:
    return {"error": {"code": turn.status, "message": turn.message, "status": turn.error_type.upper()}}


def _usage(turn: Turn) -> dict[str, Any]:
    count = turn.usage
    prompt = count["input"] + count["cached"]
    spoken = count["output"] - count["thinking"]
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": spoken,
        "thoughtsTokenCount": count["thinking"],
        "cachedContentTokenCount": count["cached"],
        "totalTokenCount": prompt + count["output"],
    }


def _parts(turn: Turn) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if turn.thinking:
        parts.append({"text": turn.thinking, "thought": True})
    if turn.text:
        parts.append({"text": turn.text})
    parts += [{"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in turn.calls]
    return parts


def whole(turn: Turn, body: Mapping[str, Any], next_id: Callable[[], int]) -> Mapping[str, Any]:
    candidate = {
        "content": {"role": "model", "parts": _parts(turn) or [{"text": ""}]},
        "finishReason": turn.stop or "STOP",
        "index": 0,
    }
    return {"candidates": [candidate], "usageMetadata": _usage(turn), "totalTokens": 1, "responseId": f"r{next_id()}"}


def events(turn: Turn, body: Mapping[str, Any], next_id: Callable[[], int]) -> Iterator[bytes]:
    reply = dict(whole(turn, body, next_id))
    parts = _parts(turn)
    for part in parts[:-1]:
        candidate = {"content": {"role": "model", "parts": [part]}, "index": 0}
        yield f"data: {json.dumps({'candidates': [candidate]})}\r\n\r\n".encode()
    if turn.cut:
        return
    reply["candidates"] = [{**reply["candidates"][0], "content": {"role": "model", "parts": parts[-1:]}}]
    yield f"data: {json.dumps(reply)}\r\n\r\n".encode()
