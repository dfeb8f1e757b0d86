"""Trace lines for tests: the seed's example as bytes, and single facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAME = "conversation-task-015-2025-01-23T10-30-00.jsonl"


def fact(
    ms: int, event: str, data: dict[str, Any], *, iteration: int | None = None, subtask: str | None = None
) -> bytes:
    fields: dict[str, Any] = {
        "timestamp": f"2025-01-23T10:30:{ms // 1000:02d}.{ms % 1000:03d}Z",
        "event": event,
        "session_id": "sess-1",
        "task_id": "task-015",
    }
    if subtask is not None:
        fields["subtask_id"] = subtask
    if iteration is not None:
        fields["iteration_index"] = iteration
    return json.dumps({**fields, "data": data}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def answer(text: str, tokens: int) -> dict[str, Any]:
    return {
        "output": text,
        "status": "COMPLETE",
        "files_modified": ["src/signup.py"],
        "usage": {"input_tokens": tokens, "output_tokens": 100},
        "cost_usd": 0.02,
    }


def judgment(word: str, *failed: str) -> dict[str, Any]:
    results = [
        {"id": f"Q{number}", "name": f"Check {number}", "passed": f"Q{number}" not in failed}
        | ({"reason": "TODO left at src/signup.py:41"} if f"Q{number}" in failed else {})
        for number in range(1, 7)
    ]
    return {"judgment": word, "criteria_results": results, "summary": ""}


SEED: tuple[bytes, ...] = (
    fact(0, "USER_REQUEST", {"prompt": "add input validation to the signup form"}),
    fact(100, "SYSTEM_RULES", {"rules": "## Mandatory Rules\n" + "\n".join(f"{n}. a rule" for n in range(40))}),
    fact(1000, "LLM_REQUEST", {"prompt": "add input validation"}, iteration=0),
    fact(5000, "LLM_RESPONSE", answer("def check(x):\n    # TODO: implement\n", 2000), iteration=0),
    fact(5100, "QUALITY_JUDGMENT", judgment("REJECT", "Q2"), iteration=0),
    fact(5200, "REJECTION_DETAILS", {"criteria_failed": ["Q2"], "modification_prompt": "Fix: remove TODO markers"},
         iteration=0),
    fact(5300, "ITERATION_END", {"iteration_index": 0, "judgment": "REJECT"}, iteration=0),
    fact(6000, "LLM_REQUEST", {"prompt": "Fix: remove TODO markers"}, iteration=1),
    fact(7600, "LLM_RESPONSE", answer("def check(x):\n    return '@' in x\n", 2550), iteration=1),
    fact(7800, "QUALITY_JUDGMENT", judgment("PASS"), iteration=1),
    fact(7850, "ITERATION_END", {"iteration_index": 1, "judgment": "PASS"}, iteration=1),
    fact(
        7900,
        "FINAL_SUMMARY",
        {"status": "COMPLETE", "total_iterations": 2, "files_modified": ["src/signup.py"], "cost_usd": 0.04,
         "usage": {"input_tokens": 4550, "output_tokens": 200}, "reason": "passed"},
    ),
)  # fmt: skip


def write_seed(folder: Path, *, facts: int = len(SEED), tail: bytes = b"") -> Path:
    path = folder / NAME
    path.write_bytes(b"".join(SEED[:facts]) + tail)
    return path
