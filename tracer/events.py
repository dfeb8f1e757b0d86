"""The conversation trace's lines: one closed envelope, parsed strictly and written in one canonical form.

What agents send is made writable as JSON first: lone surrogates become U+FFFD, integers beyond 64 bits decimal text,
NaN and infinities null, bytes text, tuples and sets lists; deeper than 100 levels a marker stands for the rest. A
value that needs none of this is returned as the same object.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tracer.errors import TraceError
from tracer.facts import Entry, entry_of
from tracer.redaction.redactor import CleanLine, Redacted

_DEPTH: Final = 100
_TOO_DEEP: Final = f"[left out: nested deeper than {_DEPTH} levels]"
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1


def clean_text(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD (surrogate pairs become the character they mean)."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text if type(text) is str else str(text)


def clean_json(value: Any, *, _depth: int = 0) -> Any:
    """`value` as JSON holds it; the same object where nothing had to change.

    Raises `TraceError` (a type that has no JSON form).
    """
    kind = type(value)
    if kind is str:
        return clean_text(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if _SMALLEST <= value <= _LARGEST else _decimal(value)
    if kind is float:
        return value if value - value == 0.0 else None
    if _depth >= _DEPTH:
        return _TOO_DEEP
    if kind is dict:
        return _clean_dict(value, _depth)
    if kind is list:
        cleaned = [clean_json(item, _depth=_depth + 1) for item in value]
        return value if all(map(_same, cleaned, value)) else cleaned
    return _clean_other(value, _depth)


def _clean_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    cleaned, changed = {}, False
    for key, item in value.items():
        name = clean_text(key) if type(key) is str else clean_text(str(key))
        cleaned[name] = kept = clean_json(item, _depth=depth + 1)
        changed = changed or kept is not item or name is not key
    return cleaned if changed else value


def _clean_other(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, bool | int | float):
        return clean_json(float(value) if isinstance(value, float) else int(value), _depth=depth)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, os.PathLike):
        return clean_text(os.fsdecode(value))
    if isinstance(value, set | frozenset):
        return clean_json(sorted(value, key=str), _depth=depth)
    if isinstance(value, list | tuple):
        return clean_json(list(value), _depth=depth)
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return clean_json({key: value[key] for key in value}, _depth=depth)
    raise TraceError(
        f"a value of type {type(value).__name__!r} has no JSON form",
        next_step="this is a defect: give the tracer text, numbers, lists and mappings",
    )


def _same(one: Any, other: Any) -> bool:
    return one is other


def _decimal(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # beyond the interpreter's limit of 4,300 digits
        return hex(value)


# The keys the seed requires in `data`, with their JSON types; a known event without them is damaged.
REQUIRED: Final[Mapping[str, tuple[tuple[str, type], ...]]] = {
    "USER_REQUEST": (("prompt", str),),
    "SYSTEM_RULES": (("rules", str),),
    "CHUNKING_PLAN": (("subtasks", list),),
    "LLM_REQUEST": (("prompt", str),),
    "LLM_RESPONSE": (("output", str), ("status", str)),
    "QUALITY_JUDGMENT": (("judgment", str), ("criteria_results", list)),
    "REJECTION_DETAILS": (("criteria_failed", list), ("modification_prompt", str)),
    "ITERATION_END": (("iteration_index", int), ("judgment", str)),
    "FINAL_SUMMARY": (("status", str), ("total_iterations", int), ("files_modified", list)),
}
_ENVELOPE: Final = frozenset({"timestamp", "event", "session_id", "task_id", "subtask_id", "iteration_index", "data"})


def encode(entry: Entry) -> bytes:
    """One compact JSON line, UTF-8, ending in `\\n`.

    Raises `TraceError` (the data holds what JSON cannot: a lone surrogate, an integer beyond 64 bits).
    """
    return _dumps(entry.to_dict())


def counted(redacted: Redacted) -> Redacted:
    """An event's data that names its marks under `redactions`, those of an earlier record included."""
    value, counts = redacted
    if not counts:
        return Redacted(value, counts)
    earlier = value.get("redactions")
    held = earlier.items() if isinstance(earlier, dict) else ()
    total = Counter({rule: count for rule, count in held if isinstance(count, int)})
    total.update(counts)
    return Redacted({**value, "redactions": dict(total)}, counts)


def clean_line(envelope: Mapping[str, Any], data: Redacted) -> CleanLine:
    """The line of a record: `envelope` (our names, times and ids) around redacted `data`. Raises `TraceError`."""
    return CleanLine(_dumps({**envelope, "data": data.value}))


def _dumps(fields: dict[str, Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as error:
        raise TraceError(
            f"a {fields['event']!r} event cannot be written as JSON",
            why=str(error),
            next_step="this is a defect: the executor must clean its text before it is recorded",
        ) from error


def parse_line(line: bytes) -> Entry:
    """The entry that `line` (with or without its newline) holds.

    Raises `TraceError` (not a JSON object, a key outside the envelope, or a value of the wrong type).
    """
    import orjson  # 6 ms with what it imports: the first prompt reads no record

    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise TraceError("not a JSON object", why=str(error)) from error
    if not isinstance(fields, dict):
        raise TraceError("not a JSON object", why=f"the line holds a {type(fields).__name__}")
    return _entry_of(fields)


def _entry_of(fields: dict[str, Any]) -> Entry:
    if not fields.keys() <= _ENVELOPE:
        raise TraceError(f"unknown envelope key {min(fields.keys() - _ENVELOPE)!r}")
    try:
        timestamp, event = fields["timestamp"], fields["event"]
        session_id, task_id, data = fields["session_id"], fields["task_id"], fields["data"]
    except KeyError as error:
        raise TraceError(f"envelope key {error.args[0]!r} is missing") from error
    subtask_id, iteration = fields.get("subtask_id"), fields.get("iteration_index")
    if not (
        type(timestamp) is str
        and type(event) is str
        and type(session_id) is str
        and type(task_id) is str
        and type(data) is dict
        and (subtask_id is None or type(subtask_id) is str)
        and (iteration is None or (type(iteration) is int and iteration >= 0))
    ):
        raise TraceError(f"an envelope value of {event!r} has the wrong type")
    required = REQUIRED.get(event)
    if required is not None:
        for key, kind in required:
            value = data.get(key)
            if not isinstance(value, kind):
                problem = "missing" if value is None else "of the wrong type"
                raise TraceError(f"{event} without a usable {key!r}", why=f"data.{key} is {problem}")
    return entry_of(timestamp, event, session_id, task_id, data, subtask_id, iteration)
