"""What one line of a trace file is, from its first bytes: its kind, time, group, mark and one-line summary.

The key orders that our own writers use are matched byte for byte, so a line of 2 MB costs as much as one of 200
bytes; a line in another order is decoded where it is small enough. Summaries are recorded text: whoever shows them
escapes them.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, cast

import orjson

from tracer import clock, facts
from tracer.names import BAD_STATUSES, PACK_EVENTS
from tracer.rows.row import NO_GROUP, Family, Group, Head
from tracer.verification import unverified_in, unverified_text

HEAD_BYTES: Final = 4096
_STRING: Final = rb'"((?:[^"\\\x00-\x1f]|\\.)*)"'
_CONVERSATION: Final = re.compile(
    rb'\{"timestamp":%b,"event":%b,"session_id":%b,"task_id":%b'
    rb'(?:,"subtask_id":%b)?(?:,"iteration_index":(\d{1,9}))?,"data":\{' % ((_STRING,) * 5)
)
_TRACEPACK: Final = re.compile(
    rb'\{"timestamp":%b,"event":%b,"session_id":%b'
    rb'(?:,"task_id":(?:%b|null))?(?:,"from_state":(?:%b|null))?(?:,"to_state":(?:%b|null))?,"data":\{'
    % ((_STRING,) * 6)
)
_AGENTIC: Final = re.compile(rb'\{"type":"(meta|thought|message|tool|error)","ts":' + _STRING + rb",")
_CAPTURE: Final = re.compile(rb'\{"event_id":' + _STRING + rb',"seq":\d+,"ts_ms":(\d{1,17}),"type":' + _STRING + rb",")
_AGENTIC_TYPES: Final = frozenset({"meta", "thought", "message", "tool", "error"})


def head_of(head: bytes) -> Head | None:
    """What `head`, the first bytes of a line, tells; None where it is not in one of our writers' orders."""
    if found := _CONVERSATION.match(head):
        name = _text(found.group(2))
        family: Family = "tracepack" if name in PACK_EVENTS else "conversation"
        return Head(family, name, _text(found.group(1)), _group(found), found.end() - 1)
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
    return None if found is None else _group(found)


def _group(found: re.Match[bytes]) -> Group:
    subtask, iteration = found.group(5, 6)
    if subtask is None and iteration is None:
        return NO_GROUP
    return Group(None if subtask is None else _text(subtask), None if iteration is None else int(iteration))


def verdict_mark(judgment: str) -> Mark:
    """The mark of a judgment: passed, rejected, or neither."""
    return "v" if judgment == "PASS" else "x" if judgment == "REJECT" else ""


def head_of_fields(fields: dict[str, Any]) -> Head:
    """What a decoded line of any shape is; `other` where no family fits."""
    event, kind = fields.get("event"), fields.get("type")
    if isinstance(event, str) and isinstance(fields.get("timestamp"), str):
        subtask, iteration = fields.get("subtask_id"), fields.get("iteration_index")
        group = Group(
            subtask if isinstance(subtask, str) else None,
            iteration if type(iteration) is int and iteration >= 0 else None,
        )
        pack = event in PACK_EVENTS or "to_state" in fields
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
    return clock.epoch_ms(time)


def _text(escaped: bytes) -> str:
    if b"\\" not in escaped:
        return escaped.decode("utf-8", "replace")
    try:
        return cast("str", orjson.loads(b'"' + escaped + b'"'))
    except orjson.JSONDecodeError:
        return escaped.decode("utf-8", "replace")


SUMMARY_CHARS: Final = 200
_LOOKED_AT: Final = 2048
Mark = Literal["", "x", "v"]
_BAD_STATUS: Final = BAD_STATUSES | {"error", "failed"}
_FIRST_STRING: Final = re.compile(
    rb'"(?:prompt|output|modification_prompt|rules|summary|text|args_summary|content|command)":"((?:[^"\\]|\\.)*)'
)
_HEAD_STATUS: Final = re.compile(rb'"(?:status|judgment)":"([A-Za-z]{1,20})"')
_BROKEN_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?$")


def mark_and_summary(head: Head, fields: dict[str, Any]) -> tuple[Mark, str]:
    """The mark and summary of a decoded line; total on any JSON object."""
    if head.family in {"conversation", "tracepack"}:
        data = fields.get("data")
        body = data if isinstance(data, dict) else {}
        if head.family == "tracepack" and head.event not in facts.KINDS:
            return _tracepack(head.event, fields, body)
        return _conversation(facts.entry_of("", head.event, "", "", body))
    if head.family == "agentic":
        return _agentic(head.event, fields)
    if head.family == "capture":
        payload = fields.get("payload")
        return _capture(head.event, payload if isinstance(payload, dict) else {})
    return "", _pairs(fields)


def summary_from_head(head: Head, start: bytes, end: bytes, size: int) -> tuple[Mark, str]:
    """The same for a line known only by its first and last bytes; `size` is the whole line's, in bytes."""
    found = _FIRST_STRING.search(start, head.body, head.body + _LOOKED_AT)
    text = _unescaped(found.group(1)) if found else f"{size:,} bytes"
    status = _HEAD_STATUS.search(start, head.body, head.body + _LOOKED_AT) or _HEAD_STATUS.search(end)
    word = status.group(1).decode() if status else ""
    return "x" if word in _BAD_STATUS else verdict_mark(word), _line(text)


def _line(text: Any) -> str:
    if not isinstance(text, str):
        return (
            "" if text is None else _line(orjson.dumps(text, option=orjson.OPT_NON_STR_KEYS).decode("utf-8", "replace"))
        )
    part = text[: SUMMARY_CHARS * 4]
    first = next((line.strip() for line in part.split("\n") if line.strip()), "")
    return first[:SUMMARY_CHARS]


def _unescaped(partial: bytes) -> str:
    whole = _BROKEN_ESCAPE.sub(b"", partial[: SUMMARY_CHARS * 6])
    text = whole.decode("utf-8", "ignore")
    try:
        value = orjson.loads(f'"{text}"')
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, str) else text


def _pairs(fields: dict[str, Any]) -> str:
    shown = []
    for key, value in list(fields.items())[:6]:
        if isinstance(value, (str, int, float)) or value is None:
            shown.append(f"{key}={_line(value) if isinstance(value, str) else value}")
        else:
            shown.append(f"{key}=…")
    return _line(" ".join(shown))


def _conversation(fact: facts.Entry) -> tuple[Mark, str]:
    match fact:
        case facts.UserRequest():
            prompt = _line(fact.prompt)
            return "", f"{fact.action}: {prompt}".rstrip(": ") if fact.action is not None else prompt
        case facts.SystemRules():
            return "", _line(fact.rules)
        case facts.ChunkingPlan():
            reason = _line(fact.reason)
            return "", f"{len(fact.subtasks)} subtasks{f': {reason}' if reason else ''}"
        case facts.LlmRequest():
            return "", _line(fact.prompt)
        case facts.LlmResponse():
            text = _line(fact.output)
            if not fact.status or not fact.failed:
                return "", text
            reason = _line(fact.error.message) if fact.error else ""
            return "x", _line(" ".join(part for part in (fact.status, reason or text) if part))
        case facts.QualityJudgment():
            failed = [f"{result.id} {_line(result.reason or result.name)}".strip() for result in fact.failures]
            said = "; ".join(failed) or unverified_text(unverified_in([fact]))
            return verdict_mark(fact.judgment), _line(f"{fact.judgment}  {said}".strip())
        case facts.RejectionDetails():
            return "", _line(f"{' '.join(fact.criteria_failed)}  {_line(fact.modification_prompt)}".strip())
        case facts.IterationEnd():
            return "", _line(fact.judgment)
        case facts.FinalSummary():
            count = fact.total_iterations
            text = f"{fact.status}  {count} iteration{'' if count == 1 else 's'}"
            text += f"  {fact.reason}" if fact.reason not in {"passed", ""} else ""
            return "v" if fact.status == "COMPLETE" else "x" if fact.status in _BAD_STATUS else "", _line(text)
    return "", _pairs(fact.data)


def _tracepack(event: str, fields: dict[str, Any], data: dict[str, Any]) -> tuple[Mark, str]:
    old, new = fields.get("from_state"), fields.get("to_state")
    moved = f"{old or ''} -> {new or ''}".strip() if old or new else ""
    task = fields.get("task_id")
    text = "  ".join(part for part in (task if isinstance(task, str) else "", moved, _pairs(data)) if part)
    return ("x" if event == "ERROR" or new == "ERROR" else ""), _line(text)


def _agentic(kind: str, fields: dict[str, Any]) -> tuple[Mark, str]:
    match kind:
        case "meta":
            success = fields.get("success")
            text = "  ".join(str(fields[key]) for key in ("label", "provider", "model") if fields.get(key))
            return ("x" if success is False else "v" if success is True else ""), _line(text)
        case "tool":
            status = fields.get("status")
            shown = f"{fields.get('name', '')} {_line(fields.get('args_summary'))}".strip()
            return ("x" if status == "error" else ""), _line(shown)
        case "message":
            return "", _line(f"{fields.get('role', '')}: {_line(fields.get('text'))}")
        case "error":
            return "x", _line(fields.get("text"))
        case _:
            text = _line(fields.get("text"))
            return "", text or _line(fields.get("availability"))


def _capture(kind: str, payload: dict[str, Any]) -> tuple[Mark, str]:
    if kind == "test_run":
        passed = payload.get("passed")
        word = "passed" if passed is True else "failed" if passed is False else "not told"
        mark: Mark = "v" if passed is True else "x" if passed is False else ""
        return mark, _line(f"{word}  {_line(payload.get('command'))}")
    if kind == "file_edit" and isinstance(payload.get("patch"), str):
        patch = payload["patch"][: SUMMARY_CHARS * 400].split("\n")
        more = sum(line.startswith("+") and not line.startswith("+++") for line in patch)
        less = sum(line.startswith("-") and not line.startswith("---") for line in patch)
        return "", _line(f"{_line(payload.get('file_path'))}  +{more} -{less}")
    if kind == "file_snapshot":
        return "", _line(f"{_line(payload.get('file_path'))}  {_line(payload.get('snapshot_reason'))}")
    if kind == "terminal_output" and isinstance(payload.get("chunk"), str):
        lines = payload["chunk"][: SUMMARY_CHARS * 40].split("\n")
        telling = next((line for line in lines if any(map(str.isalnum, line))), "")
        return "", _line(telling) or "nothing that shows"
    if kind == "thought":
        return "", _line(f"{_line(payload.get('kind'))}: {_line(payload.get('content'))}")
    keys = ("file_path", "command", "content", "message", "title", "action", "kind", "query", "stream")
    text = "  ".join(_line(payload[key]) for key in keys if isinstance(payload.get(key), str))
    return ("x" if kind == "error" else ""), _line(text or _pairs(payload))
