"""The `/trace` text: the seed's block to the byte, one line per fact, nothing that reaches the terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tracer.support import SEED_LINES
from tracer.events import parse_line
from tracer.facts import Entry, entry_of
from tracer.trace_text import escape_controls, fact_line, trace_text

SEED_BLOCK = """\
--- Conversation Trace for task-001 ---
[2025-01-23 10:30:00] USER_REQUEST: Implement login feature
[2025-01-23 10:30:00] SYSTEM_RULES: (Mandatory Rules injected)
[2025-01-23 10:30:01] LLM_REQUEST[0]: (prompt sent)
[2025-01-23 10:30:05] LLM_RESPONSE[0]: TODO: implement this
[2025-01-23 10:30:05] QUALITY_JUDGMENT[0]: REJECT (Q2: TODO found)
[2025-01-23 10:30:05] REJECTION_DETAILS[0]: Fix: Remove TODO markers...
[2025-01-23 10:30:06] LLM_REQUEST[1]: (modified prompt)
[2025-01-23 10:30:10] LLM_RESPONSE[1]: Fully implemented
[2025-01-23 10:30:10] QUALITY_JUDGMENT[1]: PASS
[2025-01-23 10:30:10] FINAL_SUMMARY: COMPLETE (2 iterations)
---
"""


def entry(event: str, data: dict[str, Any], index: int | None = None, subtask: str | None = None) -> Entry:
    return entry_of("2025-01-23T10:30:00.000Z", event, "s", "task-001", data, subtask, index)


def test_the_seeds_lines_give_the_seeds_block_to_the_byte() -> None:
    assert trace_text([parse_line(line) for line in SEED_LINES.split(b"\n")[:-1]]) == SEED_BLOCK


def test_a_rejection_lists_its_places_once() -> None:
    results = [
        {"id": "Q1", "name": "Files Verified", "passed": True},
        {"id": "Q2", "name": "No TODO/FIXME", "passed": False, "reason": "TODO found at src/login.py:2"},
        {"id": "Q3", "name": "No Omission Markers", "passed": False, "reason": "work left out"},
    ]
    issues = [
        {"criterion": "Q2", "type": "todo", "path": "src/login.py", "line": 2},
        {"criterion": "Q3", "type": "omission", "path": "a.py", "line": 7},
        {"criterion": "Q3", "type": "omission", "path": "a.py", "line": 7},
        {"criterion": "Q3", "type": "omission", "path": "b.py"},
    ]
    line = fact_line(
        entry("QUALITY_JUDGMENT", {"judgment": "REJECT", "criteria_results": results, "issues": issues}, 0)
    )
    assert line.endswith(": REJECT (Q2: TODO found at src/login.py:2; Q3: work left out at a.py:7, b.py)")


def test_iteration_end_is_printed_and_one_iteration_is_singular() -> None:
    text = trace_text(
        [
            entry("ITERATION_END", {"iteration_index": 0, "judgment": "REJECT"}, 0),
            entry("FINAL_SUMMARY", {"status": "INCOMPLETE", "total_iterations": 1, "files_modified": []}),
        ]
    )
    assert "ITERATION_END[0]: REJECT\n" in text
    assert "FINAL_SUMMARY: INCOMPLETE (1 iteration)\n" in text


def test_after_a_retry_the_same_prompt_is_sent_and_after_a_rejection_a_modified_one() -> None:
    def end(index: int, judgment: str) -> Entry:
        return entry("ITERATION_END", {"iteration_index": index, "judgment": judgment}, index)

    text = trace_text([
        end(0, "RETRY"), entry("LLM_REQUEST", {"prompt": "p"}, 1), end(1, "REJECT"),
        entry("LLM_REQUEST", {"prompt": "q"}, 2), end(2, "RETRY"), entry("LLM_REQUEST", {"prompt": "q"}, 3),
    ])  # fmt: skip
    assert [line.split("] ", 1)[1] for line in text.splitlines() if "LLM_REQUEST" in line] == [
        "LLM_REQUEST[1]: (prompt sent)",
        "LLM_REQUEST[2]: (modified prompt)",
        "LLM_REQUEST[3]: (modified prompt)",
    ]


@pytest.mark.parametrize(
    ("event", "data", "expected"),
    [
        ("LLM_RESPONSE", {"output": "\n\nfirst\nsecond", "status": "COMPLETE"}, "LLM_RESPONSE[0]: first"),
        (
            "LLM_RESPONSE",
            {"output": "", "status": "ERROR", "error": {"message": "cut off\nx"}},
            "LLM_RESPONSE[0]: (ERROR) cut off",
        ),
        ("USER_REQUEST", {"prompt": "two\nlines"}, "USER_REQUEST[0]: two\\nlines"),
        ("USER_REQUEST", {"prompt": "", "action": "accept"}, "USER_REQUEST[0]: (accept)"),
        ("CHUNKING_PLAN", {"subtasks": [{}, {}]}, "CHUNKING_PLAN[0]: (2 subtasks)"),
        ("SOMETHING_NEW", {"a": 1}, "SOMETHING_NEW[0]:"),
    ],
)
def test_each_event_has_its_line(event: str, data: dict[str, Any], expected: str) -> None:
    assert fact_line(entry(event, data, 0)) == f"[2025-01-23 10:30:00] {expected}"


def test_a_subtask_is_named_before_the_summary() -> None:
    assert fact_line(entry("LLM_REQUEST", {"prompt": "p"}, 0, "task-001-sub-2")).endswith(
        "LLM_REQUEST[0]: [task-001-sub-2] (prompt sent)"
    )


@given(text=st.text())
def test_no_text_spans_two_lines_or_reaches_the_terminal(text: str) -> None:
    line = fact_line(entry("USER_REQUEST", {"prompt": text}))
    assert len(line.splitlines()) == 1
    assert not {"\x1b", "\x9b", "\x07", "\x00", "\u202e", "\u2066", "\x7f", "\x85"} & set(line)


def test_escapes_are_readable_and_ordinary_text_is_untouched() -> None:
    assert escape_controls("a\x1b[31mb\u202e\tc") == "a\\x1b[31mb\\u202e\\tc"
    assert escape_controls("残り省略 café 👩\u200d💻") == "残り省略 café 👩\u200d💻"
