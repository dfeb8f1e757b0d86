"""The waterfall: what a task spent its time on, lane by lane."""

from __future__ import annotations

from typing import Any

from tracer.facts import Entry, entry_of
from tracer.insights.agentic_trace import Step
from tracer.rows.waterfall import Waterfall, waterfall

BEGAN = 1_764_000_000_000


def entry(at_ms: int, event: str, data: dict[str, Any], subtask: str | None = None, iteration: int | None = 0) -> Entry:
    from tracer.clock import from_epoch_ms

    return entry_of(from_epoch_ms(BEGAN + at_ms), event, "s", "task-001", data, subtask, iteration)


def drawn(found: Waterfall) -> list[str]:
    """One line a bar: `1 claude 100-900 x`."""
    return [
        f"{lane.id}{'  ' * bar.depth}{bar.name} {bar.start_ms}-{bar.end_ms}{'…' * bar.open} {bar.mark}".rstrip()
        for lane in found.lanes
        for bar in lane.bars
    ]


ASKED = entry(0, "USER_REQUEST", {"prompt": "go"}, iteration=None)
JUDGED = {
    "judgment": "REJECT", "duration_ms": 3000, "tests": {"command": "pytest -q"},
    "criteria_results": [
        {"id": "Q7", "name": "Test Passed", "passed": False, "outcome": "fail", "duration_ms": 2000},
        {"id": "Q8", "name": "Lint Passed", "passed": True, "outcome": "pass", "duration_ms": 500},
        {"id": "Q1", "name": "Files Verified", "passed": True, "outcome": "pass"},
    ],
}  # fmt: skip
ROUND = [
    ASKED,
    entry(3000, "LLM_REQUEST", {"executor": "claude", "base_tests": {"command": "pytest", "outcome": "pass",
                                                                     "duration_ms": 2000}}),
    entry(9000, "LLM_RESPONSE", {"status": "COMPLETE", "agentic_trace": "a.jsonl", "usage": {"input_tokens": 7}}),
    entry(13000, "QUALITY_JUDGMENT", JUDGED),
    entry(13010, "ITERATION_END", {"judgment": "REJECT"}),
]  # fmt: skip


def steps(_path: str) -> list[Step]:
    second = BEGAN // 1000
    return [
        Step(2, "thought", second + 3),
        Step(3, "tool", second + 3, "Read", "a.py", duration_ms=40),
        Step(4, "tool", second + 5, "Bash", "make", "error", duration_ms=90_000),
        Step(5, "tool", second + 60, "Edit", "of the next answer"),
    ]


def test_an_iteration_holds_request_tool_calls_and_checks_on_one_scale() -> None:
    found = waterfall(ROUND, steps=steps)
    assert drawn(found) == [
        "iteration 0 1000-13010 x",
        "  tests before 1000-3000 v",
        "  claude 3000-9000",
        "    Read 3000-3040",
        "    Bash 5000-9000 x",
        "  judging 10000-13000 x",
        "    tests 10000-12000 x",
        "    lint 12000-12500 v",
    ]
    assert (found.began_ms, found.total_ms) == (BEGAN, 13010)
    (lane,) = found.lanes
    assert [bar.tokens for bar in lane.bars if bar.kind == "request"] == [7]
    assert [bar.detail for bar in lane.bars if bar.kind == "check"] == ["pytest", "pytest -q", "Lint Passed"]


def test_tool_calls_without_a_session_have_no_time() -> None:
    calls = {"status": "COMPLETE", "tool_calls": [{"name": "Read", "summary": "a.py", "ok": False}]}
    found = waterfall([*ROUND[:2], entry(9000, "LLM_RESPONSE", calls)])
    assert "    Read None-None x" in drawn(found)


def test_what_has_no_end_ends_now_where_the_task_works_and_with_the_last_entry_elsewhere() -> None:
    assert drawn(waterfall(ROUND[:2], now_ms=BEGAN + 7000))[-1] == "  claude 3000-7000…"
    assert drawn(waterfall(ROUND[:2]))[-1] == "  claude 3000-3000…"
    assert drawn(waterfall(ROUND[:3], now_ms=BEGAN + 11000))[-1] == "  judging 9000-11000…"
    asked_again = [*ROUND[:2], entry(8000, "LLM_REQUEST", {"executor": "claude", "attempt": 1})]
    assert drawn(waterfall(asked_again))[2:] == ["  claude 3000-8000 x", "  claude 8000-8000…"]
    steered = [*ROUND[:2], entry(5000, "USER_REQUEST", {"action": "hint"}, iteration=None)]
    assert drawn(waterfall(steered)) == ["iteration 0 1000-5000…", "  tests before 1000-3000 v", "  claude 3000-5000…"]
    ended = [*ROUND, entry(14000, "FINAL_SUMMARY", {"status": "INCOMPLETE"}, iteration=None)]
    assert waterfall(ended, now_ms=BEGAN + 99_000).total_ms == 14000


def test_subtasks_have_lanes_and_planning_reviews_and_waiting_stand_where_they_belong() -> None:
    parts = {"subtasks": [{"id": "task-001-sub-1", "title": "schema"}]}
    reviewed = {"judgment": "PASS", "duration_ms": 100, "criteria_results": []}
    found = waterfall(
        [
            ASKED,
            entry(10, "LLM_REQUEST", {"purpose": "plan", "executor": "claude"}, "task-001-plan"),
            entry(900, "LLM_RESPONSE", {"status": "COMPLETE", "purpose": "plan"}, "task-001-plan"),
            entry(910, "CHUNKING_PLAN", parts, iteration=None),
            entry(5000, "USER_REQUEST", {"action": "continue"}, iteration=None),
            entry(5100, "LLM_REQUEST", {"executor": "codex"}, "task-001-sub-1"),
            entry(6000, "LLM_RESPONSE", {"status": "COMPLETE"}, "task-001-sub-1"),
            entry(6100, "QUALITY_JUDGMENT", reviewed, "task-001-sub-1"),
            entry(6110, "ITERATION_END", {"judgment": "PASS"}, "task-001-sub-1"),
            entry(6200, "LLM_REQUEST", {"purpose": "review", "executor": "gemini"}, "task-001-review"),
            entry(7200, "LLM_RESPONSE", {"purpose": "review", "status": "COMPLETE"}, "task-001-review"),
            entry(7400, "QUALITY_JUDGMENT", {**reviewed, "whole": True}, iteration=None),
        ]
    )
    assert [(lane.id, lane.title) for lane in found.lanes] == [("", ""), ("task-001-sub-1", "schema"), ("", "")]
    assert drawn(found) == [
        "plan 10-900",
        "waiting for you 910-5000",
        "task-001-sub-1iteration 0 5100-6110 v",
        "task-001-sub-1  codex 5100-6000",
        "task-001-sub-1  judging 6000-6100 v",
        "judging the whole 6200-7400 v",
        "  review 6200-7200",
    ]


def test_a_trace_that_says_nothing_has_no_bars() -> None:
    assert waterfall([]) == Waterfall((), 0, 0)
    broken = [entry_of("?", "LLM_REQUEST", "s", "task-001", {}), entry_of("", "LLM_RESPONSE", "s", "task-001", {})]
    assert waterfall(broken) == Waterfall((), 0, 0)
