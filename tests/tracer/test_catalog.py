"""The catalogue: rows are a function of the files, read incrementally, on json and sqlite3 alone."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracer.support import SEED_LINES, NoRedactor, fact, with_traces
from tracer.catalog.agentic import TraceQuery, find_traces, list_agentic
from tracer.catalog.store import rebuild
from tracer.catalog.tasks import list_tasks
from tracer.conversation import ConversationTracer
from tracer.statedir import StateDir


def stored_rows(state_dir: StateDir) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(state_dir.catalog)
    try:
        return [
            row for table in ("traces", "agentic") for row in connection.execute(f"select * from {table} order by name")
        ]
    finally:
        connection.close()


def forget(state_dir: StateDir) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{state_dir.catalog}{suffix}").unlink(missing_ok=True)


def test_a_finished_task_is_one_row_of_what_its_trace_says(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    (row,) = list_tasks(state_dir)
    assert (row.task_id, row.title, row.status, row.iterations) == (
        "task-001",
        "Implement login feature",
        "COMPLETE",
        2,
    )
    assert row.judgments == ("REJECT", "PASS")
    assert row.cost_usd is None
    assert row.created_at == "2025-01-23T10:30:00.000Z"
    assert row.updated_at == "2025-01-23T10:30:10.200Z"
    assert row.facts == 10


def test_newest_first_with_pages_and_filters(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, *(f"task-{number:03d}" for number in range(1, 13)), "other")
    with_traces(tmp_path, "task-1000", lines=SEED_LINES[: SEED_LINES.rindex(b'{"timestamp"')])
    everything = [row.task_id for row in list_tasks(state_dir)]
    assert everything == ["task-1000", *(f"task-{number:03d}" for number in range(12, 0, -1)), "other"]
    assert [row.task_id for row in list_tasks(state_dir, limit=3)] == everything[:3]
    assert [row.task_id for row in list_tasks(state_dir, limit=4, after="task-011")] == everything[3:7]
    assert [row.task_id for row in list_tasks(state_dir, status="UNFINISHED")] == ["task-1000"]
    assert len(list_tasks(state_dir, status="COMPLETE")) == 13
    assert list_tasks(state_dir, since="2026-01-01") == []
    assert [row.task_id for row in list_tasks(state_dir, task_id="task-001")] == ["task-001"]


def test_a_growing_trace_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path)
    state_dir.ensure()
    path = state_dir.traces / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    lines = SEED_LINES.split(b"\n")
    seen = []
    for count in range(1, 11):
        path.write_bytes(b"\n".join(lines[:count]) + b"\n" + lines[count][:10])
        (row,) = list_tasks(state_dir)
        seen.append((row.facts, row.status, row.iterations))
    assert [facts for facts, _, _ in seen] == list(range(1, 11))
    assert seen[-1][1] == "COMPLETE"
    before = stored_rows(state_dir)
    forget(state_dir)
    list_tasks(state_dir)
    assert stored_rows(state_dir) == before


@settings(max_examples=40)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["append", "tear", "whole", "look", "delete", "rewrite"])),
        max_size=25,
    )
)
def test_invariant_10_deleted_and_rebuilt_rows_are_equal(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]]
) -> None:
    state_dir = StateDir(tmp_path_factory.mktemp("state"))
    state_dir.ensure()
    lines = SEED_LINES.split(b"\n")[:-1]
    for number, action in steps:
        path = state_dir.traces / f"conversation-task-{number:03d}-2025-01-23T10-30-00.jsonl"
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        following = lines[whole.count(b"\n") % len(lines)]
        match action:
            case "append":
                path.write_bytes(whole + following + b"\n")
            case "tear":
                path.write_bytes(whole + following[:20])
            case "whole":
                path.write_bytes(SEED_LINES)
            case "rewrite":
                path.write_bytes(fact("USER_REQUEST", {"prompt": "another" * 9}) + data)
            case "delete":
                path.unlink(missing_ok=True)
            case _:
                list_tasks(state_dir)
    listed, stored = list_tasks(state_dir), stored_rows(state_dir)
    forget(state_dir)
    assert list_tasks(state_dir) == listed
    assert stored_rows(state_dir) == stored
    assert rebuild(state_dir) == len(listed)
    assert stored_rows(state_dir) == stored


def test_a_damaged_or_foreign_database_is_replaced(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    expected = list_tasks(state_dir)
    forget(state_dir)
    state_dir.catalog.write_bytes(b"this is not a database" * 100)
    assert list_tasks(state_dir) == expected
    forget(state_dir)
    connection = sqlite3.connect(state_dir.catalog)
    connection.execute("create table traces (something)")
    connection.commit()
    connection.close()
    assert list_tasks(state_dir) == expected


def test_where_no_database_can_be_written_rows_still_come(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    state_dir.catalog.mkdir()  # stands for any place SQLite cannot open
    assert [row.task_id for row in list_tasks(state_dir)] == ["task-001"]
    assert list_tasks(StateDir(tmp_path / "absent")) == []


async def test_status_tells_running_from_unfinished_and_waiting(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path)

    def status() -> str:
        return list_tasks(state_dir)[0].status

    async with ConversationTracer(
        state_dir=state_dir, session_id="s", task_id="task-001", redactor=NoRedactor()
    ) as tracer:
        await tracer.log_user_request("x", extra={"limits": {"max_iterations": 1, "on_limit": "ask"}})
        assert status() == "RUNNING"
        await tracer.log_llm_request("p", 0)
        refused = {"cost_usd": None, "usage": None, "error": {"kind": "rate_limit", "message": "wait"}}
        await tracer.log_llm_response("", "ERROR", [], 0, extra=refused)
        assert list_tasks(state_dir)[0].cost_usd is None
        await tracer.log_llm_response("o", "COMPLETE", [], 0, extra={"cost_usd": 0.25})
        await tracer.log_quality_judgment("REJECT", [], 0)
        await tracer.log_iteration_end(0, "REJECT")
        assert status() == "AWAITING_RESPONSE"
        await tracer.log_user_request("", extra={"action": "continue", "max_iterations": 2})
        assert status() == "RUNNING"
        await tracer.log_llm_request("p", 1)
        await tracer.log_quality_judgment("REJECT", [], 1)
        await tracer.log_iteration_end(1, "REJECT")
        assert status() == "RUNNING"
    assert status() == "UNFINISHED"
    assert list_tasks(state_dir)[0].cost_usd == 0.25


def test_lines_of_the_wrong_shape_are_counted_and_stop_nothing(tmp_path: Path) -> None:
    lines = b'[1]\nnonsense\n{"data":3}\n{"event":["x"],"data":{}}\n' + fact("FINAL_SUMMARY", {"status": 3})
    state_dir = with_traces(tmp_path, "task-001", lines=lines + b'{"data":' * 5000 + b"\n")
    (row,) = list_tasks(state_dir)
    assert row.damaged == 4
    assert row.facts == 6


def test_distilled_sessions_are_listed_by_outcome_and_operation(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path)
    for name, success in (("a", "true"), ("b", "false"), ("c", "null")):
        (state_dir.agentic_traces / f"trace_20260321_1457_sync__{name}_google.jsonl").write_text(
            f'{{"type":"meta","ts":"2026-03-21T14:57:4{name.encode()[0] % 10}","label":"sync:{name}",'
            f'"provider":"google","model":"m","success":{success},"cost_usd":1.75,"duration_sec":125}}\n'
        )
    (state_dir.agentic_traces / "trace_broken.jsonl").write_bytes(b"\xff\xfe")
    assert [row.module for row in list_agentic(state_dir)] == ["c", "b", "a", ""]
    assert [row.module for row in find_traces(state_dir, TraceQuery(outcome="failure"))] == ["b"]
    assert [row.success for row in find_traces(state_dir, TraceQuery(operation="sync"), limit=2)] == [None, False]


def test_listing_tasks_loads_neither_asyncio_nor_orjson(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    code = (
        "import sys; from pathlib import Path; from tracer.catalog.tasks import list_tasks;"
        "from tracer.statedir import StateDir; assert list_tasks(StateDir(Path(sys.argv[1])));"
        "print(sorted({'asyncio','orjson','dataclasses','logging','pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.fspath(state_dir)], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.strip() == "[]"


async def test_a_task_asks_only_once_no_other_subtask_is_being_answered(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path)
    tracer = ConversationTracer(state_dir=state_dir, session_id="s", task_id="task-001", redactor=NoRedactor())

    def status() -> str:
        return list_tasks(state_dir)[0].status

    await tracer.log_user_request("x", extra={"limits": {"max_iterations": 1, "on_limit": "ask"}})
    await tracer.log_llm_request("plan", 0, subtask_id="task-001-plan")
    for name in ("task-001-sub-1", "task-001-sub-2"):
        await tracer.log_llm_request("p", 0, subtask_id=name)
    for name, expected in (("task-001-sub-1", "RUNNING"), ("task-001-sub-2", "AWAITING_RESPONSE")):
        await tracer.log_llm_response("o", "COMPLETE", [], 0, subtask_id=name)
        await tracer.log_quality_judgment("REJECT", [], 0, subtask_id=name)
        await tracer.log_iteration_end(0, "REJECT", subtask_id=name)
        assert status() == expected
    await tracer.close()
