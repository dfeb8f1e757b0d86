"""Reads what a line is from its first bytes, so that a line of 2 MB costs as much as one of 200 bytes.

The canonical orders of keys that our own writers use are matched byte for byte up to the body; a line written in
another order is decoded where it is small enough. A key inside a string cannot match: its quotes are escaped there.
"""

from __future__ import annotations

import re
from calendar import timegm
from typing import Any, Final, cast

import orjson

from tracer.rows.model import NO_GROUP, Family, Group, Head

__all__ = ["HEAD_BYTES", "epoch_ms", "group_at", "head_of", "head_of_fields", "load_object"]

HEAD_BYTES: Final = 4096
_STRING: Final = rb'"((?:[^"\\\x00-\x1f]|\\.)*)"'
_CONVERSATION: Final = re.compile(
    rb'\{"timestamp":'
    + _STRING
    + rb',"event":'
    + _STRING
    + rb',"session_id":'
    + _STRING
    + rb',"task_id":'
    + _STRING
    + rb'(?:,"subtask_id":'
    + _STRING
    + rb')?(?:,"iteration_index":(\d{1,9}))?,"data":\{'
)
_TRACEPACK: Final = re.compile(
    rb'\{"timestamp":'
    + _STRING
    + rb',"event":'
    + _STRING
    + rb',"session_id":'
    + _STRING
    + rb'(?:,"task_id":(?:'
    + _STRING
    + rb'|null))?(?:,"from_state":(?:'
    + _STRING
    + rb'|null))?(?:,"to_state":(?:'
    + _STRING
    + rb'|null))?,"data":\{'
)
_AGENTIC: Final = re.compile(rb'\{"type":"(meta|thought|message|tool|error)","ts":' + _STRING + rb",")
_CAPTURE: Final = re.compile(rb'\{"event_id":' + _STRING + rb',"seq":\d+,"ts_ms":(\d{1,17}),"type":' + _STRING + rb",")
_PACK_EVENTS: Final = frozenset({
    "SESSION_START", "SESSION_END", "TASK_START", "TASK_STATE_CHANGE", "TASK_END", "EXECUTOR_CALL", "EXECUTOR_RESULT",
    "VERIFICATION_START", "VERIFICATION_RESULT", "ERROR", "WARNING",
})  # fmt: skip
_AGENTIC_TYPES: Final = frozenset({"meta", "thought", "message", "tool", "error"})
_ISO: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)?")


def head_of(head: bytes) -> Head | None:
    """What `head`, the first bytes of a line, tells; None where it is not in one of our writers' orders."""
    if found := _CONVERSATION.match(head):
        time, event, _session, _task, subtask, iteration = found.groups()
        group = Group(None if subtask is None else _text(subtask), None if iteration is None else int(iteration))
        name = _text(event)
        family: Family = "tracepack" if name in _PACK_EVENTS else "conversation"
        return Head(family, name, _text(time), group, found.end() - 1)
    if found := _TRACEPACK.match(head):
        return Head("tracepack", _text(found.group(2)), _text(found.group(1)), NO_GROUP, found.end() - 1)
    if found := _AGENTIC.match(head):
        return Head("agentic", _text(found.group(1)), _text(found.group(2)), NO_GROUP, found.end() - 1)
    if found := _CAPTURE.match(head):
        return Head("capture", _text(found.group(3)), _text(found.group(2)), NO_GROUP, found.end() - 1)
    return None


def group_at(buffer: bytes, start: int) -> Group | None:
    """The group of the line that starts at `start` of `buffer`; None where the first bytes do not tell."""
    found = _CONVERSATION.match(buffer, start)
    if found is None:
        return None
    subtask, iteration = found.group(5), found.group(6)
    if subtask is None and iteration is None:
        return NO_GROUP
    return Group(None if subtask is None else _text(subtask), None if iteration is None else int(iteration))


def head_of_fields(fields: dict[str, Any]) -> Head:
    """What a decoded line of any shape is; `other` where no family fits."""
    event, kind = fields.get("event"), fields.get("type")
    if isinstance(event, str) and isinstance(fields.get("timestamp"), str):
        subtask, iteration = fields.get("subtask_id"), fields.get("iteration_index")
        group = Group(
            subtask if isinstance(subtask, str) else None,
            iteration if type(iteration) is int and iteration >= 0 else None,
        )
        pack = event in _PACK_EVENTS or "to_state" in fields
        return Head("tracepack" if pack else "conversation", event, cast("str", fields["timestamp"]), group, 0)
    if isinstance(kind, str):
        if "event_id" in fields or "ts_ms" in fields:
            return Head("capture", kind, str(fields.get("ts_ms", "")), NO_GROUP, 0)
        if kind in _AGENTIC_TYPES:
            return Head("agentic", kind, str(fields.get("ts", "")), NO_GROUP, 0)
    name = next((fields[key] for key in ("event", "type", "kind", "name") if isinstance(fields.get(key), str)), "JSON")
    return Head("other", name, str(fields.get("timestamp") or fields.get("ts") or ""), NO_GROUP, 0)


def load_object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The JSON object in `line`, or None with the reason."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return None, f"not JSON: {error}"
    if not isinstance(value, dict):
        return None, f"not a JSON object but a {type(value).__name__}"
    return value, ""


def epoch_ms(time: str) -> int | None:
    """Milliseconds since 1970 of a stored time (ISO text taken as UTC, or digits); None where it is neither."""
    if time.isdecimal():
        return int(time) if len(time) <= 17 else None
    found = _ISO.fullmatch(time)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    fraction = (found.group(7) or "").ljust(3, "0")[:3]
    return timegm((year, month, day, hour, minute, second)) * 1000 + int(fraction)


def _text(escaped: bytes) -> str:
    if b"\\" not in escaped:
        return escaped.decode("utf-8", "replace")
    try:
        return cast("str", orjson.loads(b'"' + escaped + b'"'))
    except orjson.JSONDecodeError:
        return escaped.decode("utf-8", "replace")
