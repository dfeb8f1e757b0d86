"""ConversationTracer: the seed's methods, redacted, named, and closed by FINAL_SUMMARY."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest

from tests.tracer.support import NoRedactor
from tracer import clock
from tracer.conversation import ConversationTracer
from tracer.drafts import Draft
from tracer.errors import LockedError, NotFoundError, TraceError, UsageError
from tracer.events import parse_line
from tracer.lookup import resolve_task, trace_files
from tracer.statedir import StateDir

REDACTOR = NoRedactor()


def tracer_in(root: Path, task_id: str = "task-001") -> ConversationTracer:
    return ConversationTracer(state_dir=root, session_id="sess-1", task_id=task_id, redactor=REDACTOR)


async def test_the_seeds_round_trip_is_recorded_in_order_with_the_seeds_keys(tmp_path: Path) -> None:
    async with tracer_in(tmp_path) as tracer:
        await tracer.log_user_request("Implement login feature")
        await tracer.log_system_rules("## Mandatory Rules")
        await tracer.log_chunking_plan([{"id": "task-001-sub-1", "description": "a", "dependencies": []}])
        await tracer.log_llm_request("p", 0, subtask_id="task-001-sub-1")
        await tracer.log_llm_response("TODO", "COMPLETE", ["a.py"], 0, subtask_id="task-001-sub-1")
        failed = {"id": "Q2", "name": "No TODO/FIXME", "passed": False, "reason": "TODO found"}
        await tracer.log_quality_judgment("REJECT", [failed], 0, subtask_id="task-001-sub-1")
        await tracer.log_rejection_details(["Q2"], "Fix: Remove", 0, subtask_id="task-001-sub-1")
        await tracer.log_iteration_end(0, "REJECT", subtask_id="task-001-sub-1")
        await tracer.log_final_summary("INCOMPLETE", 1, ["a.py"])
        path = tracer.get_trace_file_path()
    fields = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert [one["event"] for one in fields] == [
        "USER_REQUEST", "SYSTEM_RULES", "CHUNKING_PLAN", "LLM_REQUEST", "LLM_RESPONSE",
        "QUALITY_JUDGMENT", "REJECTION_DETAILS", "ITERATION_END", "FINAL_SUMMARY",
    ]  # fmt: skip
    assert list(fields[3]) == [
        "timestamp", "event", "session_id", "task_id", "subtask_id", "iteration_index", "data",
    ]  # fmt: skip
    assert fields[3]["data"] == {"prompt": "p", "subtask_id": "task-001-sub-1"}
    assert fields[4]["data"] == {"output": "TODO", "status": "COMPLETE", "files_modified": ["a.py"]}
    assert fields[5]["data"]["summary"] == "REJECT: Q2"
    assert fields[7]["data"] == {"iteration_index": 0, "judgment": "REJECT"}
    assert [entry.to_dict() for entry in ConversationTracer.read_trace(path)] == fields


async def test_secrets_are_replaced_before_the_line_is_written_and_the_entry_returned_is_the_one_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "swordfish-1234")
    async with ConversationTracer(state_dir=tmp_path, session_id="sess-1", task_id="task-001") as tracer:
        entry = await tracer.log_user_request("use swordfish-1234 and AIza" + "SyA1-b2_C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q")
        data = tracer.get_trace_file_path().read_bytes()
    assert b"swordfish" not in data
    assert b"AIzaSyA1" not in data
    assert parse_line(data) == entry
    assert sum(entry.data["redactions"].values()) == 2


async def test_agent_text_that_json_cannot_hold_is_cleaned_and_still_one_line(tmp_path: Path) -> None:
    async with tracer_in(tmp_path) as tracer:
        entry = await tracer.append(
            Draft(
                "LLM_RESPONSE", {"output": "a\ud800b\u2028c\nd", "status": "COMPLETE", "n": 1 << 70, "f": math.nan}, 0
            )
        )
        data = tracer.get_trace_file_path().read_bytes()
    assert data.count(b"\n") == 1
    assert entry.data["output"] == "a\ufffdb\u2028c\nd"
    assert entry.data["n"] == str(1 << 70)
    assert entry.data["f"] is None
    assert parse_line(data) == entry


async def test_after_final_summary_nothing_is_added_here_or_after_reopening(tmp_path: Path) -> None:
    async with tracer_in(tmp_path) as tracer:
        await tracer.log_user_request("x")
        await tracer.log_final_summary("COMPLETE", 0, [])
        path = tracer.get_trace_file_path()
        before = path.read_bytes()
        with pytest.raises(TraceError, match="nothing can be added"):
            await tracer.log_system_rules("late")
    with pytest.raises(TraceError, match="has ended"):
        await ConversationTracer.open_existing(path, state_dir=tmp_path, session_id="s", redactor=REDACTOR)
    assert path.read_bytes() == before
    assert StateDir(tmp_path).writer_of("task-001") is None


async def test_a_trace_whose_last_line_is_damaged_is_refused_and_its_lock_given_back(tmp_path: Path) -> None:
    async with ConversationTracer(state_dir=tmp_path, session_id="s", task_id="t", redactor=REDACTOR) as tracer:
        await tracer.log_user_request("go")
        path = tracer.get_trace_file_path()
    with path.open("ab") as file:
        file.write(b"damaged\n")
    with pytest.raises(TraceError):
        await ConversationTracer.open_existing(path, state_dir=tmp_path, session_id="s", redactor=REDACTOR)
    assert tracer.state_dir.writer_of("t") is None


async def test_an_unfinished_trace_is_continued_in_the_same_file(tmp_path: Path) -> None:
    async with tracer_in(tmp_path) as tracer:
        await tracer.log_user_request("x")
        path = tracer.get_trace_file_path()
    with path.open("ab") as file:
        file.write(b'{"timestamp":"2025')
    async with await ConversationTracer.open_existing(
        path, state_dir=tmp_path, session_id="sess-2", redactor=REDACTOR
    ) as tracer:
        assert tracer.torn is not None
        assert tracer.torn.length == 18
        assert Path(tracer.torn.moved_to).read_bytes() == b'{"timestamp":"2025'
        await tracer.log_system_rules("r")
        assert tracer.next_seq == 2
    assert [entry.session_id for entry in ConversationTracer.read_trace(path)] == ["sess-1", "sess-2"]


async def test_one_task_has_one_writer_even_in_another_file(tmp_path: Path) -> None:
    async with tracer_in(tmp_path) as tracer:
        await tracer.log_user_request("x")
        with pytest.raises(LockedError, match="being written by process"):
            await tracer_in(tmp_path).log_user_request("y")
        assert StateDir(tmp_path).writer_of("task-001") is not None
    assert StateDir(tmp_path).writer_of("task-001") is None


async def test_files_of_one_task_stay_in_order_when_the_clock_steps_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for stamp in ("2025-01-23T10:30:00.000Z", "2025-01-23T10:30:00.000Z", "2024-12-31T00:00:00.000Z"):
        monkeypatch.setattr(clock, "now_iso", lambda stamp=stamp: stamp)
        async with tracer_in(tmp_path) as tracer:
            await tracer.log_user_request("x")
            made.append(tracer.get_trace_file_path())
    assert made[0].name == "conversation-task-001-2025-01-23T10-30-00.jsonl"
    assert trace_files(StateDir(tmp_path), "task-001") == made[::-1]
    assert resolve_task(StateDir(tmp_path), "task-001").path == made[-1]


async def test_a_trace_that_was_never_written_to_leaves_no_file(tmp_path: Path) -> None:
    tracer = tracer_in(tmp_path)
    await tracer.open()
    await tracer.close()
    assert list((tmp_path / "traces").iterdir()) == []


@pytest.mark.parametrize("bad", ["", "../x", "a/b", "a b", "x" * 101, ".hidden"])
def test_ids_that_are_no_file_names_are_refused(tmp_path: Path, bad: str) -> None:
    with pytest.raises(UsageError):
        tracer_in(tmp_path, bad)


async def test_concurrent_drafts_of_subtasks_keep_the_order_of_the_calls(tmp_path: Path) -> None:
    async with tracer_in(tmp_path) as tracer:
        await tracer.log_user_request("x")
        await asyncio.gather(*(tracer.log_llm_request("p" * 10, n, subtask_id=f"task-001-sub-{n}") for n in range(40)))
        entries = tracer.read_trace(tracer.get_trace_file_path())
    assert [entry.iteration_index for entry in entries[1:]] == list(range(40))


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    path.write_bytes(b'{"timestamp":"t","event":"X","session_id":"s","task_id":"t","data":{}}\nnonsense\n')
    with pytest.raises(TraceError, match="line 2 of"):
        ConversationTracer.read_trace(path)
    with pytest.raises(NotFoundError):
        ConversationTracer.read_trace(tmp_path / "absent.jsonl")
