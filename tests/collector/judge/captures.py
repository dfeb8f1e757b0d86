"""Small captured sessions in a real collector, for the tests of judge and workers."""

from __future__ import annotations

from typing import Any

import orjson

from collector.collector import Collector

__all__ = ["a_capture", "events", "uid"]


def uid(number: int) -> str:
    return f"20000000-0000-4000-8000-{number:012d}"


def events() -> list[dict[str, Any]]:
    """A hypothesis, a failing test, an edit, a passing test."""
    payloads: list[tuple[str, dict[str, Any]]] = [
        ("thought", {"kind": "hypothesis", "content": "The divisor is wrong."}),
        ("test_run", {"command": "pytest", "runner": "pytest", "exit_code": 1, "duration_ms": 5, "passed": False}),
        ("file_edit", {"file_path": "calc.py", "edit_kind": "patch", "patch": "--- a/calc.py\n+++ b/calc.py\n"}),
        ("test_run", {"command": "pytest", "runner": "pytest", "exit_code": 0, "duration_ms": 5, "passed": True}),
    ]
    return [
        {
            "event_id": uid(seq),
            "seq": seq,
            "ts_ms": 1_700_000_000_000 + seq,
            "type": kind,
            "actor": {"kind": "human", "id": "dev-1"},
            "payload": payload,
        }
        for seq, (kind, payload) in enumerate(payloads, start=1)
    ]


async def a_capture(collector: Collector, *, allow: bool = True, finalize: bool = True, number: int = 900) -> str:
    """A session's trace id; events of several sessions share their ids, which is allowed."""
    consent = {"store_raw_code": True, "store_terminal_output": True, "allow_llm_judge": allow}
    created = await collector.create(
        {
            "trace_id": uid(number),
            "repo": {"repo_id": "calc", "commit_base": "a" * 40},
            "task": {"bug_report": {"title": "half() is a third", "description": "half(6) gives 2"}},
            "developer": {"developer_id": "dev-1", "consent_flags": consent},
            "environment": {},
            "ingestion": {"mode": "batch", "client_session_id": "s"},
        }
    )
    await collector.append(created.trace_id, orjson.dumps({"events": events()}))
    if finalize:
        state = {"pr": {"title": "fix", "diff": "--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-x / 3\n+x / 2\n"}}
        await collector.finalize(created.trace_id, orjson.dumps({"final_state": state}))
    return created.trace_id
