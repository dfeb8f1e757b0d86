# ruff: noqa: E501 - a table of strategies reads best with one key a line
"""Traces are untrusted: whatever stands in one, every view of it answers, and with one line a fact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tracer.support import fact
from tracer.catalog.tasks import list_tasks
from tracer.journal.reading import scan
from tracer.journal.tracepack import read_session
from tracer.journal.verify_trace import check_session, verify_trace
from tracer.lookup import latest_iteration, summarize
from tracer.names import EVENT_NAMES
from tracer.statedir import StateDir
from tracer.trace_text import trace_text

words = st.sampled_from(
    ["PASS", "REJECT", "RETRY", "COMPLETE", "ask", "continue", "hint", "Q2", "a.py", "", "x\n\u202ey"]
)
leaves = st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats(allow_nan=False, allow_infinity=False) | words
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=6
)
KEYS = (
    "prompt", "rules", "subtasks", "output", "status", "judgment", "criteria_results", "summary", "issues", "error",
    "criteria_failed", "modification_prompt", "iteration_index", "total_iterations", "files_modified", "action", "limits",
    "executor", "cost_usd", "max_iterations", "ask_person", "reason", "redactions", "title",
)  # fmt: skip
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "limits": st.fixed_dictionaries({"max_iterations": st.integers(-1, 3), "on_limit": words}),
    "criteria_results": st.lists(st.fixed_dictionaries({"id": values, "passed": values, "reason": values}) | values, max_size=3),
    "issues": st.lists(st.fixed_dictionaries({"criterion": words, "path": values, "line": values}) | values, max_size=3),
    "status": words, "judgment": words, "prompt": words, "output": words, "rules": words,
    "total_iterations": st.integers(0, 5), "iteration_index": st.integers(0, 5), "files_modified": st.lists(words),
    "modification_prompt": words, "criteria_failed": st.lists(words), "subtasks": st.lists(values, max_size=2),
}  # fmt: skip
data = st.fixed_dictionaries({}, optional={key: LIKELY.get(key, values) | values for key in KEYS})
facts = st.fixed_dictionaries(
    {
        "timestamp": words,
        "event": st.sampled_from([*EVENT_NAMES, "NEW", "x\x1b[2J"]),
        "session_id": words,
        "task_id": st.sampled_from(["task-001", "task-001", "task-002"]),
        "data": data | values,
    },
    optional={"subtask_id": words, "iteration_index": st.integers(0, 3), "from_state": words, "to_state": words},
)
lines = st.one_of(
    facts.map(lambda one: json.dumps(one).encode()), st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b""))
)

REQUEST = fact("USER_REQUEST", {"prompt": "x"}).rstrip()


@settings(max_examples=60)
@example(content=[REQUEST, REQUEST.replace(b'"x"', b'"x","action":["continue"]')], tail=b"")
@given(content=st.lists(lines, max_size=8), tail=st.binary(max_size=5))
def test_every_view_of_any_trace_answers(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes], tail: bytes
) -> None:
    raw = b"".join(line + b"\n" for line in content) + tail.replace(b"\n", b"")
    state_dir = StateDir(tmp_path_factory.mktemp("h"))
    state_dir.traces.mkdir()
    path = state_dir.traces / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    path.write_bytes(raw)
    found = scan(path)
    whole = raw[: found.torn.offset].count(b"\n") if found.torn else len(content)
    assert len(found.facts) + len(found.problems) == whole
    for entries in (found.entries, latest_iteration(found.entries)):
        text = trace_text(entries, task_id="task-001")
        assert len(text.splitlines()) == len(entries) + 2
        assert "\x1b" not in text
    assert summarize(found.entries).total_iterations >= 0
    report = verify_trace(path)
    assert report.ok or report.findings
    (row,) = list_tasks(state_dir)
    assert row.facts >= len(found.facts)
    assert all("\n" not in judgment for judgment in row.judgments)


@settings(max_examples=60)
@given(events=st.lists(facts, max_size=8))
def test_any_session_log_is_read_and_checked(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]]
) -> None:
    path = Path(tmp_path_factory.mktemp("s")) / "trace-s-2025-01-23T10-30-00.jsonl"
    path.write_bytes(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    assert isinstance(check_session(read_session(path)), list)
