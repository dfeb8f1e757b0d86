"""The conversation trace's lines: one closed envelope, parsed strictly and written in one canonical form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tracer.errors import TraceError
from tracer.facts import Entry, entry_of
from tracer.redaction.redactor import CleanLine, Redacted

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
