# ruff: noqa: E501 - a table of facts reads best with one case a line
"""Verification names the first thing that is not as the writer wrote it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.tracer.support import SEED_LINES, NoRedactor, fact
from tracer.conversation import ConversationTracer
from tracer.errors import NotFoundError
from tracer.journal.chain import check_chain
from tracer.journal.tracepack import TracePack, find_session, read_session
from tracer.journal.verify_trace import (
    Finding,
    TraceReport,
    check_session,
    verify_trace,
)


def head_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def recorded(root: Path) -> Path:
    async with ConversationTracer(state_dir=root, session_id="s", task_id="task-001", redactor=NoRedactor()) as tracer:
        await tracer.log_user_request("x")
        await tracer.log_system_rules("r")
        for index, judgment in enumerate(("REJECT", "PASS")):
            await tracer.log_llm_request("p", index)
            await tracer.log_llm_response("o", "COMPLETE", [], index)
            await tracer.log_quality_judgment(judgment, [], index)
            if judgment == "REJECT":
                await tracer.log_rejection_details(["Q2"], "fix", index)
            await tracer.log_iteration_end(index, judgment)
        await tracer.log_final_summary("COMPLETE", 2, [])
        return tracer.get_trace_file_path()


def damage(report: TraceReport) -> list[tuple[int, str]]:
    return [(finding.line, finding.text) for finding in report.findings if finding.level == "damage"]


async def test_what_the_tracer_wrote_is_intact_and_its_head_is_the_files_sha256(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    report = verify_trace(path, head=head_of(path), task_id="task-001")
    assert (report.ok, report.findings, report.facts, report.chain.state) == (True, (), 12, "intact")


async def test_the_seeds_own_sample_is_legal_and_unchained(tmp_path: Path) -> None:
    path = tmp_path / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    path.write_bytes(SEED_LINES)
    report = verify_trace(path)
    assert report.ok
    assert report.findings == (Finding("note", 0, "unchained: there is no side file to compare with"),)


async def test_one_changed_byte_anywhere_is_found_at_its_line(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    data = path.read_bytes()
    for place in range(0, len(data), 37):
        changed = bytearray(data)
        changed[place] = changed[place] ^ 1 if changed[place] ^ 1 != 10 else changed[place] ^ 2
        path.write_bytes(bytes(changed))
        report = verify_trace(path)
        assert not report.ok
        if data[place] != 10:
            assert report.chain.first_difference == data[:place].count(b"\n")


async def test_a_removed_an_inserted_and_a_cut_line_are_named(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    lines = path.read_bytes().split(b"\n")[:-1]
    path.write_bytes(b"\n".join([*lines[:4], *lines[5:], b""]))
    assert (5, "is not the line that was recorded (first difference in the chain)") in damage(verify_trace(path))
    path.write_bytes(b"\n".join([*lines[:-1], b""]))
    assert (12, "is missing although the chain holds it (first difference in the chain)") in damage(verify_trace(path))
    path.write_bytes(b"\n".join([*lines, b""]) + b'{"torn')
    assert damage(verify_trace(path)) == [(13, "incomplete (6 bytes); the next writer moves it aside")]


async def test_a_chain_rewritten_with_its_trace_is_caught_by_a_kept_head_only(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    kept = head_of(path)
    path.write_bytes(path.read_bytes().replace(b'"REJECT"', b'"PASSED"'))
    path.with_name(path.name + ".chain").unlink()
    report = verify_trace(path, head=kept)
    assert report.chain.state == "unchained"
    assert any("lines were changed or removed" in text for _, text in damage(report))


async def test_an_earlier_head_still_vouches_for_the_lines_it_was_taken_at(tmp_path: Path) -> None:
    async with ConversationTracer(
        state_dir=tmp_path, session_id="s", task_id="task-001", redactor=NoRedactor()
    ) as tracer:
        await tracer.log_user_request("x")
        kept = tracer.chain_head
        await tracer.log_system_rules("r")
        assert check_chain(tracer.get_trace_file_path(), head=kept).head_matches
        assert check_chain(tracer.get_trace_file_path(), head="0" * 64).head_matches is False


async def test_a_chain_that_a_crash_left_behind_is_a_note_and_mended_by_the_next_writer(tmp_path: Path) -> None:
    async with ConversationTracer(
        state_dir=tmp_path, session_id="s", task_id="task-001", redactor=NoRedactor()
    ) as tracer:
        for _ in range(3):
            await tracer.log_system_rules("r")
        path = tracer.get_trace_file_path()
    chain = path.with_name(path.name + ".chain")
    chain.write_bytes(chain.read_bytes()[: 65 + 30])
    report = verify_trace(path)
    assert (report.chain.state, report.chain.chained) == ("behind", 1)
    again = await ConversationTracer.open_existing(path, state_dir=tmp_path, session_id="t", redactor=NoRedactor())
    await again.log_system_rules("r")
    await again.close()
    assert check_chain(path).state == "intact"


REQUEST = fact("USER_REQUEST", {"prompt": "x"})
ASK, ANSWER = fact("LLM_REQUEST", {"prompt": "p"}, 0), fact("LLM_RESPONSE", {"output": "", "status": "ERROR"}, 0)
JUDGE = fact("QUALITY_JUDGMENT", {"judgment": "RETRY", "criteria_results": []}, 0)
END = fact("ITERATION_END", {"iteration_index": 0, "judgment": "RETRY"}, 0)
FINAL = fact("FINAL_SUMMARY", {"status": "ERROR", "total_iterations": 1, "files_modified": []})


@pytest.mark.parametrize(
    ("lines", "line", "text"),
    [
        ([ASK], 1, "LLM_REQUEST stands first: a trace begins with USER_REQUEST"),
        ([REQUEST, REQUEST], 2, "USER_REQUEST without an action stands after the first line"),
        ([REQUEST, ANSWER], 2, "LLM_RESPONSE stands before any LLM_REQUEST"),
        ([REQUEST, ASK, JUDGE], 3, "QUALITY_JUDGMENT stands after LLM_REQUEST"),
        ([REQUEST, ASK, ANSWER, ASK], 4, "LLM_REQUEST stands after LLM_RESPONSE"),
        ([REQUEST, ASK, ANSWER, JUDGE, END, END], 6, "ITERATION_END stands after ITERATION_END"),
        ([REQUEST, ASK, ANSWER, JUDGE, END, ASK], 6, "LLM_REQUEST has iteration 0 where 1 is due"),
        ([REQUEST, FINAL, FINAL], 3, "FINAL_SUMMARY stands after FINAL_SUMMARY"),
        ([REQUEST, fact("LLM_REQUEST", {"prompt": "p"})], 2, "LLM_REQUEST: iteration_index is missing"),
        ([REQUEST, ASK, fact("LLM_RESPONSE", {"output": "", "status": "DONE"}, 0)], 3, "LLM_RESPONSE: status 'DONE'"),
        ([REQUEST, fact("USER_REQUEST", {"prompt": "", "action": "go"})], 2, "USER_REQUEST: action 'go'"),
        ([REQUEST, fact("FINAL_SUMMARY", {"status": "OK", "total_iterations": 1, "files_modified": []})], 2, "FINAL_SUMMARY: status 'OK'"),
        ([REQUEST, b"[]\n"], 2, "not a JSON object: the line holds a list"),
        ([REQUEST, fact("X", {}, task="task-002")], 2, "belongs to task 'task-002', not 'task-001'"),
        ([], 0, "no whole line"),
    ],
)  # fmt: skip
def test_what_cannot_stand_where_it_stands_is_named(tmp_path: Path, lines: list[bytes], line: int, text: str) -> None:
    path = tmp_path / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    path.write_bytes(b"".join(lines))
    assert (line, text) in damage(verify_trace(path))


@pytest.mark.parametrize(
    "lines",
    [
        [REQUEST],
        [REQUEST, fact("NEW_EVENT", {"a": 1}), ASK, ASK, ANSWER, JUDGE, END],
        [REQUEST, ASK, ANSWER, FINAL],
        [REQUEST, ASK, ANSWER, JUDGE, END, fact("USER_REQUEST", {"prompt": "h", "action": "hint"}), fact("LLM_REQUEST", {"prompt": "p"}, 1)],
    ],
)  # fmt: skip
def test_legal_orders_are_no_damage(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    path.write_bytes(b"".join(lines))
    assert damage(verify_trace(path)) == []


def test_subtasks_are_checked_each_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    one = [fact("LLM_REQUEST", {"prompt": "p"}, 0, subtask_id=name) for name in ("a", "b")]
    two = [fact("LLM_RESPONSE", {"output": "", "status": "COMPLETE"}, 0, subtask_id=name) for name in ("b", "a")]
    path.write_bytes(b"".join([REQUEST, *one, *two]))
    assert damage(verify_trace(path)) == []


def test_a_pass_with_a_failed_criterion_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    results = [{"id": "Q2", "name": "No TODO/FIXME", "passed": False}]
    path.write_bytes(
        REQUEST + ASK + ANSWER + fact("QUALITY_JUDGMENT", {"judgment": "PASS", "criteria_results": results}, 0)
    )
    assert damage(verify_trace(path)) == [(4, "QUALITY_JUDGMENT: PASS although Q2 failed")]


def test_a_trace_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        verify_trace(tmp_path / "absent.jsonl")


async def test_a_session_log_is_balanced_and_repeats_the_chain_head(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    async with TracePack(state_dir=tmp_path, session_id="sess-1", redactor=NoRedactor()) as pack:
        await pack.append("SESSION_START")
        await pack.append("TASK_START", task_id="task-001", to_state="QUEUED")
        await pack.append("TASK_STATE_CHANGE", task_id="task-001", from_state="QUEUED", to_state="RUNNING")
        for event in ("EXECUTOR_CALL", "EXECUTOR_RESULT", "VERIFICATION_START", "VERIFICATION_RESULT"):
            await pack.append(event, task_id="task-001")
        await pack.append("WARNING", data={"text": "disk is filling"})
        data = {"chain_head": head_of(path)}
        await pack.append("TASK_END", task_id="task-001", from_state="RUNNING", to_state="COMPLETE", data=data)
        await pack.append("SESSION_END")
    path.unlink()  # either log is complete without the other
    events = read_session(find_session(pack.state_dir, "sess"))
    assert check_session(events) == []
    assert list(events[2]) == ["timestamp", "event", "session_id", "task_id", "from_state", "to_state", "data"]
    assert events[-2]["data"]["chain_head"] != ""


def event(name: str, **more: Any) -> dict[str, Any]:
    return {"timestamp": "t", "event": name, "session_id": "s", "data": {}, **more}


START, STOP = event("SESSION_START"), event("SESSION_END")
BEGIN = event("TASK_START", task_id="t", to_state="RUNNING")
FINISH = event("TASK_END", task_id="t", from_state="RUNNING", to_state="COMPLETE")


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([BEGIN], "TASK_START stands before SESSION_START"),
        ([START, START], "SESSION_START does not stand first"),
        ([START, STOP, BEGIN], "SESSION_END is not the last event"),
        ([START, FINISH, STOP], "TASK_END of task 't', which has not started"),
        ([START, BEGIN, BEGIN, FINISH, STOP], "TASK_START of task 't', which has started already"),
        ([START, BEGIN, STOP], "task 't' has no TASK_END (last state RUNNING)"),
        ([START, BEGIN, event("EXECUTOR_CALL", task_id="t"), FINISH, STOP], "1 EXECUTOR_CALL of task 't' without a result"),
        ([START, BEGIN, event("VERIFICATION_RESULT", task_id="t"), FINISH, STOP], "VERIFICATION_RESULT without VERIFICATION_START of task 't'"),
        ([START, BEGIN, event("TASK_STATE_CHANGE", task_id="t", from_state="QUEUED", to_state="ERROR"), STOP], "TASK_STATE_CHANGE from 'QUEUED' although task 't' is RUNNING"),
        ([START, BEGIN, event("TASK_STATE_CHANGE", task_id="t", from_state="RUNNING", to_state="QUEUED"), STOP], "TASK_STATE_CHANGE RUNNING to 'QUEUED' is no legal transition"),
    ],
)  # fmt: skip
def test_illegal_or_unbalanced_session_events_are_named(events: list[dict[str, Any]], text: str) -> None:
    assert text in [finding.text for finding in check_session(events) if finding.level == "damage"]


def test_a_session_that_was_cut_off_is_a_note() -> None:
    assert {finding.level for finding in check_session([START, BEGIN])} == {"note"}


def test_sessions_are_found_by_id_or_unique_beginning(tmp_path: Path) -> None:
    packs = [TracePack(state_dir=tmp_path, session_id=name) for name in ("sess-1", "sess-10", "other")]
    packs[0].path.parent.mkdir(parents=True)
    for pack in packs:
        pack.path.write_bytes(b"")
    again = TracePack(state_dir=tmp_path, session_id="sess-1")
    again.path.write_bytes(b"")
    assert find_session(packs[0].state_dir, "sess-1") in {again.path, packs[0].path}
    assert find_session(packs[0].state_dir, "oth") == packs[2].path
    for selector in ("sess", "absent", ""):
        with pytest.raises(NotFoundError):
            find_session(packs[0].state_dir, selector)
    assert again.path != packs[0].path
