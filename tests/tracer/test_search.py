"""Lists by one filter language, with texts, orders, pages and totals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tracer.support import SEED_LINES, with_traces
from tracer.catalog.search import search_sessions, search_tasks
from tracer.catalog.store import rebuild
from tracer.errors import NotFoundError, UsageError
from tracer.statedir import StateDir


@pytest.fixture
def state_dir(tmp_path: Path) -> StateDir:
    state_dir = with_traces(tmp_path, "task-001", "task-002", "task-003")
    lines = SEED_LINES.replace(b"Implement login feature", b"Tear down the caf\xc3\xa9")
    with_traces(tmp_path, "task-010", lines=lines)
    with_traces(tmp_path, "task-011", lines=lines[: lines.rindex(b'{"timestamp"')])
    return state_dir


def found(state_dir: StateDir, text: str, **more: str) -> list[str]:
    return [row.task_id for row in search_tasks(state_dir, text, **more).rows]


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("", ["task-011", "task-010", "task-003", "task-002", "task-001"]),
        ("tear cafe", ["task-011", "task-010"]),
        ('"tear down"', ["task-011", "task-010"]),
        ('"down tear"', []),
        ("prompt:tear status:COMPLETE", ["task-010"]),
        ("answer:tear", []),
        ("finding:TODO", ["task-011", "task-010", "task-003", "task-002", "task-001"]),
        ("status:unf*", ["task-011"]),
        ("status:COMPLETE,UNFINISHED task:task-01*", ["task-011", "task-010"]),
        ("open", ["task-011"]),
        ("rejected it:>=2 since:2025-01-01 tear", ["task-011", "task-010"]),
        ("since:2026-06-01", []),
        ("task-002", ["task-002"]),
        ("task:task_002", []),
        ('text:"-" ; AND (', []),
    ],
)
def test_terms_find(state_dir: StateDir, text: str, tasks: list[str]) -> None:
    assert found(state_dir, text) == tasks


@pytest.mark.parametrize("text", ["colour:red", "cost:much", "it:1-", "since:yesterday", "status:", '"'])
def test_what_is_no_term_is_said(state_dir: StateDir, text: str) -> None:
    with pytest.raises(UsageError):
        search_tasks(state_dir, text)


def test_pages_in_any_order_meet_each_row_once_and_totals_are_of_all(state_dir: StateDir) -> None:
    for sort in ("", "title", "-title", "cost", "-updated"):
        seen, after = [], None
        while True:
            page = search_tasks(state_dir, sort=sort, after=after, limit=2)
            seen += [row.task_id for row in page.rows]
            assert (page.totals["count"], page.totals["judged"], page.totals["rejected"]) == (5, 10, 5)
            if (after := page.following) is None:
                break
        assert sorted(seen) == sorted(found(state_dir, "")), sort
    with pytest.raises(NotFoundError):
        search_tasks(state_dir, after="task-999")
    with pytest.raises(UsageError):
        search_tasks(state_dir, sort="colour")


def test_texts_follow_the_files_when_they_grow_are_rewritten_or_go(state_dir: StateDir) -> None:
    path = next(state_dir.traces.glob("conversation-task-011-*"))
    assert found(state_dir, "marmalade") == []
    whole = path.read_bytes()
    more = json.dumps({
        "timestamp": "2025-01-23T10:31:00.000Z", "task_id": "task-011", "iteration_index": 2, "event": "LLM_REQUEST",
        "data": {"prompt": "spread the marmalade"},
    })  # fmt: skip
    path.write_bytes(whole + more.encode() + b"\n")
    assert found(state_dir, "marmalade tear") == ["task-011"]
    path.write_bytes(whole.replace(b"Tear down", b"[REDACTED]"))
    assert found(state_dir, "marmalade") == []
    assert found(state_dir, "tear") == ["task-010"]
    path.unlink()
    assert found(state_dir, "redacted") == []
    before = found(state_dir, "implement")
    rebuild(state_dir)
    assert found(state_dir, "implement") == before != []


def test_a_task_is_found_by_what_its_agent_thought_and_called(state_dir: StateDir) -> None:
    name = "trace_20250123_103000_claude.jsonl"
    lines = [
        {"type": "meta", "ts": "2025-01-23T10:30:09", "label": "fix:login", "provider": "anthropic", "model": "m",
         "success": True, "cost_usd": 0.5, "tokens": {"input": 10, "output": 5}, "agents": [], "errors": 1},
        {"type": "thought", "text": "the gazebo is broken"},
        {"type": "tool", "name": "Bash", "args_summary": "rm -rf gondola", "status": "ok"},
    ]  # fmt: skip
    (state_dir.agentic_traces / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = next(state_dir.traces.glob("conversation-task-002-*"))
    told = path.read_bytes()
    path.write_bytes(told.replace(b'"status":"COMPLETE"', b'"agentic_trace":"agentic/%s"' % name.encode(), 1))
    assert found(state_dir, "thought:gazebo") == found(state_dir, "gazebo call:gondola") == ["task-002"]
    page = search_sessions(state_dir, "gazebo cost:>0.4 errors:1 agent:anthropic -", sort="-cost")
    assert page.rows == []
    page = search_sessions(state_dir, "gazebo cost:>0.4 errors:1 agent:anthropic", sort="-cost")
    assert [(row.used, row.agents, row.label) for row in page.rows] == [(15, 0, "fix:login")]
    assert page.totals["tokens"] == 15
