"""The second labelled set as the insights see it: each case is made a native session and distilled like any other."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tracer.insights.blind_cases import Blind
from tracer.clock import from_epoch_ms
from tracer.distill.one import distill_session
from tracer.insights.agentic_trace import Step, read_agentic
from tracer.redaction.redactor import Redacted

__all__ = ["steps_of"]

_BEGUN_MS = 1_780_000_000_000
_SESSION = "00000000-0000-4000-8000-000000000000"


class _Nothing:
    """A redactor that finds nothing: what is judged here is what insights make of a trace."""

    def redact_text(self, text: str) -> tuple[str, dict[str, int]]:
        return text, {}

    def redact_value(self, value: Any) -> Redacted:
        return Redacted(value, {})


def steps_of(case: Blind) -> list[Step]:
    """The tool calls of the distilled session, numbered from 1 in `line` as the labels count them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{_SESSION}.jsonl")
        path.write_text("".join(json.dumps(record) + "\n" for record in _records(case)), encoding="utf-8")
        done = distill_session(path, provider="claude", project_root=folder, redactor=_Nothing())
        steps = [step for step in read_agentic(done.path).steps if step.kind == "tool"]
    if len(steps) != len(case.calls):
        raise AssertionError(f"{case.name!r}: {len(steps)} steps of {len(case.calls)} calls")
    return [_renumbered(step, number) for number, step in enumerate(steps, 1)]


def _renumbered(step: Step, number: int) -> Step:
    fields = {name: getattr(step, name) for name in Step.__slots__}
    return Step(**{**fields, "line": number})


def _records(case: Blind) -> Iterator[dict[str, Any]]:
    base = {"sessionId": _SESSION, "cwd": "/home/dev/proj", "version": "2.1.197", "isSidechain": False}
    yield {**base, "type": "user", "uuid": "u", "timestamp": _time(0), "message": {"role": "user", "content": "Do it."}}
    for number, call in enumerate(case.calls):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": call.tool, "input": call.arguments}
        message = {"id": f"msg_{number}", "role": "assistant", "model": "m", "content": [block]}
        stamp = _time(2 * number + 1)
        yield {**base, "type": "assistant", "uuid": f"a{number}", "timestamp": stamp, "message": message}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "is_error": call.failed}
        rich: Any = f"Error: {call.output}" if call.failed else {"stdout": call.output, "stderr": ""}
        if call.file is not None:
            text, first, total = call.file
            count = text.count("\n")
            file = {"filePath": call.arguments["file_path"], "content": text}
            rich = {"type": "text", "file": {**file, "numLines": count, "startLine": first, "totalLines": total}}
        elif call.tool != "Bash" and not call.failed:
            rich = {"type": "other"}
        yield {
            **base,
            "type": "user",
            "uuid": f"r{number}",
            "timestamp": _time(2 * number + 2),
            "message": {"role": "user", "content": [{**result, "content": call.output}]},
            "toolUseResult": rich,
        }


def _time(second: int) -> str:
    return from_epoch_ms(_BEGUN_MS + 1000 * second)
