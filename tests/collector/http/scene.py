"""A captured session worth looking at: a bug found, fixed and proved; for browser tests and the docs' pictures."""

from __future__ import annotations

import io
from typing import Any
from uuid import UUID

from collector.collector import Collector
from collector.store.port import QaFact
from tracer.blobs import blob_id_of

BASE = "0123456789abcdef0123456789abcdef01234567"
HEAD = "89abcdef0123456789abcdef0123456789abcdef"
DIFF = """--- a/shop/total.py
+++ b/shop/total.py
@@ -1,4 +1,4 @@
 def total(items):
-    return items[0].price
+    return sum(item.price for item in items)
\x20
"""
FAILED = (
    "\x1b[31mFAILED\x1b[0m tests/test_total.py::test_two_items - assert 1 == 2\n"
    "\x1b[1m1 failed\x1b[0m, 1 passed in 0.12s\n"
)


def event_id(number: int) -> str:
    """The id of the scene's event `number`."""
    return str(UUID(int=number + (4 << 76) + (8 << 60)))


def opening(**more: Any) -> dict[str, Any]:
    """The body of `POST /traces`."""
    return {
        "repo": {"repo_id": "shop-api", "remote_url": "https://git.example/shop-api", "commit_base": BASE},
        "task": {
            "bug_report": {
                "title": "Order total counts only the first item",
                "description": "An order of two items is charged as one.",
                "repro_steps": "Put two items into the basket and look at the total.",
                "expected": "The prices are added up.",
                "actual": "The price of the first item.",
            }
        },
        "developer": {
            "developer_id": "dev-17",
            "experience_level": "senior",
            "consent_flags": {"store_raw_code": True, "store_terminal_output": True, "allow_llm_judge": True},
        },
        "environment": {"os": "linux", "ide": {"name": "vim"}, "language": ["python"]},
        "ingestion": {"mode": "incremental", "client_session_id": "session-17"},
        **more,
    }


def events(note: str = "") -> list[dict[str, Any]]:
    """What the developer did; `note` is added to every text."""
    told: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("terminal_command", {"cwd": "/w/shop", "command": f"pytest -q {note}".strip(), "shell": "bash"}, {}),
        ("terminal_output", {"stream": "stdout", "chunk": FAILED + note}, {"parent_event_id": event_id(1)}),
        (
            "test_run",
            {"command": "pytest -q", "runner": "pytest", "exit_code": 1, "duration_ms": 640, "passed": False},
            {},
        ),
        (
            "thought",
            {
                "kind": "hypothesis",
                "content": "total() returns the price of the first item: nothing adds up. " + note,
                "links_to": [event_id(3)],
            },
            {},
        ),
        ("navigation", {"kind": "open", "file_path": "shop/total.py", "line": 2}, {}),
        ("thought", {"kind": "plan", "content": f"Sum the prices, then run the tests again. {note}"}, {}),
        (
            "file_edit",
            {"file_path": "shop/total.py", "edit_kind": "patch", "patch": DIFF + note, "reason_ref": event_id(6)},
            {},
        ),
        (
            "file_snapshot",
            {"file_path": "shop/total.py", "content": f"def total(items): ...\n{note}", "snapshot_reason": "pre_test"},
            {},
        ),
        (
            "test_run",
            {
                "command": "pytest -q",
                "runner": "pytest",
                "exit_code": 0,
                "duration_ms": 590,
                "passed": True,
                "report": f"2 passed {note}",
            },
            {},
        ),
        ("commit", {"commit_sha": HEAD, "parent_sha": BASE, "message": f"Add up all items {note}", "diff": DIFF}, {}),
        ("error", {"message": f"the linter is not installed {note}", "source": "ide"}, {}),
        ("thought", {"kind": "postmortem", "content": f"A test with two items would have shown it. {note}"}, {}),
    ]
    return [
        {
            "event_id": event_id(seq),
            "seq": seq,
            "ts_ms": 1_774_000_000_000 + seq * 9_500,
            "type": kind,
            "actor": {"kind": "human"},
            "context": {"workspace_root": "/w/shop", **context},
            "payload": payload,
        }
        for seq, (kind, payload, context) in enumerate(told, 1)
    ]


async def checked(collector: Collector, trace_id: str, *, note: str = "") -> None:
    """Finalize the scene and record what checks come to, as the workers do."""
    await collector.finalize(
        trace_id, {"final_state": {"commit_head": HEAD, "pr": {"title": f"Add up all items {note}", "diff": DIFF}}}
    )
    rationale = (f"The cause was shown by a failing test and the fix is one line. {note}").encode()
    stored = await collector.put_blob(
        io.BytesIO(rationale),
        submitted_id=blob_id_of(rationale),
        byte_length=len(rationale),
        content_type="text/plain",
        trace_id=trace_id,
    )
    for step, result in (("schema", {"schema_valid": True}), *_results(stored.blob_id, note)):
        await collector.store.append_qa_fact(trace_id, QaFact(step, "1", 1_774_000_200_000, result))
    await collector.store.set_status(trace_id, "complete")


def _results(rationale: str, note: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    runs = [
        {
            "invocation_id": event_id(100 + number),
            "ts_ms": 1_774_000_150_000,
            "command": f"pytest -q {note}".strip(),
            "exit_code": 0 if phase == "head" else 1,
            "duration_ms": 700 + number,
            "passed": phase == "head",
            "phase": phase,
        }
        for number, phase in enumerate(("head", "head", "base", "base"))
    ]
    rows = [
        {"id": f"tests/test_total.py::test_two_items{note}", "before": "failed", "after": "passed", "flaky": False},
        {"id": "tests/test_total.py::test_one_item", "before": "passed", "after": "passed", "flaky": False},
    ]
    proof = {
        "verdict": "proven",
        "repeats": 2,
        "fail_to_pass": [rows[0]["id"]],
        "counts": {"tests": 2, "pass_to_pass": 1, "fail_to_pass": 1, "pass_to_fail": 0, "flaky": 0},
        "tests": rows,
        "tests_left_out": 0,
    }
    scores = {
        "root_cause_identification": 5.0,
        "plan_quality": 4.0,
        "experiment_iterate_loop": 4.0,
        "use_of_signals_tests_logs": 5.0,
        "minimality_of_fix": 5.0,
        "clarity": 4.0,
    }
    cited = {name: [event_id(3), event_id(4)] for name in scores}
    tests = {"runner": "pytest", "container_image": "python:3.12", "invocations": runs, "final_passed": True}
    judge = {
        "model": "judge-model",
        "rubric_version": "1.0",
        "scores": scores,
        "overall": 4.5,
        "rationale_blob_id": rationale,
        "flags": ["missing_steps"],
        "detail": {"votes": 3, "spread": {"clarity": 1.0}, "citations": cited, "reason": note},
    }
    return (("tests", {"tests": {**tests, "detail": {"proof": proof}}}), ("judge", {"judge": judge}))
