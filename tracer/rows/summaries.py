"""The one-line summary and the mark of a row, from its decoded fields or, for long lines, from its first bytes alone.

Summaries are recorded text: whoever shows them escapes them. They are cut to `SUMMARY_CHARS` and hold no newline.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal

import orjson

from tracer.rows.model import Head
from tracer.verification import unverified_in, unverified_text

__all__ = ["SUMMARY_CHARS", "mark_and_summary", "summary_from_head"]

SUMMARY_CHARS: Final = 200
_LOOKED_AT: Final = 2048
Mark = Literal["", "x", "v"]
_BAD_STATUS: Final = frozenset({"INCOMPLETE", "ERROR", "BLOCKED", "TIMEOUT", "CANCELLED", "error", "failed"})
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
        maker = _CONVERSATION.get(head.event)
        if maker is not None:
            return maker(body)
        if head.family == "tracepack":
            return _tracepack(head.event, fields, body)
        return "", _pairs(body)
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
    mark: Mark = "x" if word in _BAD_STATUS or word == "REJECT" else "v" if word == "PASS" else ""
    return mark, _line(text)


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


def _status_mark(status: Any) -> Mark:
    return "x" if status in _BAD_STATUS else ""


def _request(data: dict[str, Any]) -> tuple[Mark, str]:
    action = data.get("action")
    prompt = _line(data.get("prompt"))
    return "", f"{action}: {prompt}".rstrip(": ") if isinstance(action, str) else prompt


def _response(data: dict[str, Any]) -> tuple[Mark, str]:
    status = data.get("status")
    text = _line(data.get("output"))
    if status == "COMPLETE" or not isinstance(status, str):
        return "", text
    error = data.get("error")
    reason = error.get("message") if isinstance(error, dict) else None
    return "x", _line(" ".join(part for part in (status, _line(reason) or text) if part))


def _judgment(data: dict[str, Any]) -> tuple[Mark, str]:
    judgment = data.get("judgment")
    results = data.get("criteria_results")
    failed = [
        f"{result.get('id')} {_line(result.get('reason') or result.get('name'))}".strip()
        for result in (results if isinstance(results, list) else [])
        if isinstance(result, dict) and result.get("passed") is False
    ]
    mark: Mark = "x" if judgment == "REJECT" else "v" if judgment == "PASS" else ""
    said = "; ".join(failed) or unverified_text(unverified_in([data]))
    return mark, _line(f"{judgment}  {said}".strip())


def _rejection(data: dict[str, Any]) -> tuple[Mark, str]:
    failed = data.get("criteria_failed")
    names = " ".join(str(name) for name in failed) if isinstance(failed, list) else ""
    return "", _line(f"{names}  {_line(data.get('modification_prompt'))}".strip())


def _plan(data: dict[str, Any]) -> tuple[Mark, str]:
    subtasks = data.get("subtasks")
    count = len(subtasks) if isinstance(subtasks, list) else 0
    reason = _line(data.get("reason"))
    return "", f"{count} subtasks{f': {reason}' if reason else ''}"


def _iteration_end(data: dict[str, Any]) -> tuple[Mark, str]:
    return "", _line(data.get("judgment"))


def _final(data: dict[str, Any]) -> tuple[Mark, str]:
    status, count = data.get("status"), data.get("total_iterations")
    reason = data.get("reason")
    text = f"{status}  {count} iteration{'' if count == 1 else 's'}"
    if isinstance(reason, str) and reason not in {"passed", ""}:
        text += f"  {reason}"
    return ("v" if status == "COMPLETE" else _status_mark(status)), _line(text)


_CONVERSATION: Final[dict[str, Callable[[dict[str, Any]], tuple[Mark, str]]]] = {
    "USER_REQUEST": _request,
    "SYSTEM_RULES": lambda data: ("", _line(data.get("rules"))),
    "CHUNKING_PLAN": _plan,
    "LLM_REQUEST": lambda data: ("", _line(data.get("prompt"))),
    "LLM_RESPONSE": _response,
    "QUALITY_JUDGMENT": _judgment,
    "REJECTION_DETAILS": _rejection,
    "ITERATION_END": _iteration_end,
    "FINAL_SUMMARY": _final,
}


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
