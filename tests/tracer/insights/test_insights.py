"""What insights say of traces, and that they never say more than the traces do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.insights import score, score_second
from tests.tracer.insights.loop_cases import CASES, Case
from tracer.errors import NotFoundError
from tracer.facts import QualityJudgment
from tracer.insights.agentic_trace import Step, judgments, parse_trace, read_agentic
from tracer.insights.loops import find_loops
from tracer.insights.report import insights

HARD = {
    "waits for a server",
    "looks for one function by ever other words",
    "installs the same package in ever other ways",
}


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in HARD], ids=lambda case: case.name)
def test_loops_are_found_where_a_person_sees_them_and_nowhere_else(case: Case) -> None:
    found = [(loop.kind, loop.lines[0], loop.lines[-1]) for loop in find_loops(case.steps())]
    assert found == list(case.loops)


def judged(results: object) -> QualityJudgment:
    return QualityJudgment("", "QUALITY_JUDGMENT", "", "", {"criteria_results": results})


def test_precision_and_recall_on_the_labelled_set_hold() -> None:
    result = score()
    assert result.precision >= 0.9
    assert result.recall >= 0.85
    assert set(result.wrong) | set(result.missed) <= HARD


@pytest.mark.torture
def test_the_second_set_is_found_no_worse_than_after_it_was_first_answered() -> None:
    result = score_second()
    assert result.precision >= 0.95
    assert result.recall >= 0.88


def read(*offsets: int) -> list[Step]:
    return [Step(n, "tool", n, "Read", "a.py (200 lines)", "ok", offset=at) for n, at in enumerate(offsets, 1)]


def test_paging_through_a_file_is_no_loop_and_one_page_three_times_is() -> None:
    assert find_loops(read(1, 201, 401, 601)) == []
    assert [loop.lines for loop in find_loops(read(401, 401, 601, 401))] == [(1, 2, 4)]


def test_a_call_that_answered_otherwise_in_between_is_worth_asking_again() -> None:
    answers = ["green", "green", "red", "green"]
    assert find_loops([Step(n, "tool", n, "Bash", "check", "ok", a) for n, a in enumerate(answers, 1)]) == []


def test_failures_that_are_never_the_same_are_no_cycle() -> None:
    def rounds(*failures: str) -> list[Step]:
        steps = []
        for number, failure in enumerate(failures):
            steps.append(Step(2 * number + 1, "tool", 0, "Edit", "a.py (1 replacements)", "ok"))
            steps.append(Step(2 * number + 2, "tool", 0, "Bash", "make", "error", failure))
        return steps

    assert find_loops(rounds("no header", "no symbol", "no library", "no rights")) == []
    assert [
        loop.kind for loop in find_loops(rounds("line 7: no header", "line 9: no header", "line 8: no header"))
    ] == ["edit-fail"]


def test_the_same_command_in_other_folders_is_not_the_same_command() -> None:
    steps = [Step(n, "tool", n, "Bash", f"cd packages/{n} && npm test", "ok", "4 passed") for n in range(1, 5)]
    assert find_loops(steps) == []


def test_a_subagents_calls_do_not_mix_with_the_main_ones() -> None:
    mixed = [Step(n, "tool", n, "Read", "a.py", "ok", agent=None if n % 2 else "sub") for n in range(1, 6)]
    assert [(loop.agent, loop.lines) for loop in find_loops(mixed)] == [(None, (1, 3, 5))]


steps = st.builds(
    Step,
    line=st.integers(1, 50),
    kind=st.sampled_from(["tool", "thought", "message", "error", "new"]),
    seconds=st.none() | st.integers(0, 10**6),
    name=st.sampled_from(["Read", "Bash", "Edit", ""]),
    args=st.sampled_from(["a", "pytest", "b (1 lines)"]) | st.text(max_size=8),
    status=st.sampled_from(["ok", "error", "no_result", "?"]),
    output=st.text(max_size=8),
    agent=st.none() | st.just("x"),
)


@given(st.lists(steps, max_size=60))
def test_any_steps_can_be_looked_at_and_loops_have_three_calls_or_more(some: list[Step]) -> None:
    for loop in find_loops(some):
        assert loop.times >= 3


def lines(*records: dict) -> list[bytes]:
    return [json.dumps(record).encode() + b"\n" for record in records]


META = {"type": "meta", "ts": "2026-01-01T00:10:00", "success": False, "tokens": {"output": 1000}}
SESSION = lines(
    META,
    {"type": "thought", "ts": "2026-01-01T00:00:00", "text": "Run the tests first."},
    {"type": "tool", "ts": "2026-01-01T00:00:10", "name": "Bash", "args_summary": "pytest -q", "status": "error",
     "output_tail": "1 failed in 2s", "duration_ms": 3000},
    {"type": "thought", "ts": "2026-01-01T00:00:20", "text": "Mend it."},
    {"type": "tool", "ts": "2026-01-01T00:00:25", "name": "Edit", "args_summary": "a.py (1 replacements)",
     "status": "ok"},
    {"type": "tool", "ts": "2026-01-01T00:00:30", "name": "Bash", "args_summary": "pytest  -q", "status": "error",
     "output_tail": "1 failed in 9s"},
    {"type": "message", "ts": "2026-01-01T00:00:40", "role": "assistant", "text": "Done."},
)  # fmt: skip


def test_failing_commands_are_counted_over_traces_whatever_their_spacing() -> None:
    told = insights([parse_trace("a", SESSION), parse_trace("b", SESSION)])
    assert told.failed == 2
    row = told.failed_commands[0]
    assert (row.tool, row.args, row.failed, row.calls, row.traces) == ("Bash", "pytest -q", 4, 4, 2)
    assert row.last_output == "1 failed in 9s"


def test_the_thought_before_a_failure_is_told_with_its_place() -> None:
    omens = insights([parse_trace("a", SESSION)]).omens
    assert [(omen.line, omen.thought) for omen in omens] == [(3, "Run the tests first.")]


def test_time_goes_to_what_was_going_on_and_tokens_are_shared_out_as_an_estimate() -> None:
    told = insights([parse_trace("a", SESSION)])
    seconds = {share.phase: share.seconds for share in told.phases}
    assert seconds == {"think": 10 + 7 + 5, "edit": 5, "test": 3 + 10}
    assert sum(share.output_tokens or 0 for share in told.phases) == pytest.approx(1000, abs=2)
    assert told.to_dict()["estimated"] == ("phases.output_tokens",)


def test_tokens_that_no_trace_tells_stay_unknown() -> None:
    told = insights([parse_trace("a", lines({"type": "meta"}, {"type": "thought", "ts": "x", "text": "hm"}))])
    assert [share.output_tokens for share in told.phases] == []


def test_criteria_are_ranked_by_how_often_they_rejected() -> None:
    results = [
        {"id": "Q1", "name": "Files Verified", "passed": True},
        {"id": "Q2", "name": "No TODO/FIXME", "passed": False, "reason": "TODO in a.py"},
        {"id": "Q7", "name": "Test Passed", "passed": True, "outcome": "not_verified", "why": "folder not trusted"},
    ]
    told = insights([], [judged(results), judged(results), judged("broken")])
    assert [(row.criterion, row.rejected, row.judged) for row in told.rejections] == [("Q2", 2, 2), ("Q1", 0, 2)]
    assert told.rejections[0].last_reason == "TODO in a.py"


def test_damaged_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(SESSION[:2]) + b"{torn\n[1]\n" + b"".join(SESSION[2:]) + b"\n")
    trace = read_agentic(path)
    assert (trace.damaged, len(trace.steps), trace.steps[-1].line) == (2, 6, 9)
    with pytest.raises(NotFoundError):
        read_agentic(tmp_path / "none")


def test_judgments_come_from_conversations_by_time(tmp_path: Path) -> None:
    def fact(ts: str, event: str) -> dict:
        return {"timestamp": ts, "event": event, "data": {"at": ts, "text": "QUALITY_JUDGMENT"}}

    path = tmp_path / "c.jsonl"
    path.write_bytes(
        b"".join(lines(fact("2026-01-01", "QUALITY_JUDGMENT"), fact("2026-01-02", "LLM_REQUEST"),
                       fact("2026-01-03", "QUALITY_JUDGMENT"))) + b"torn QUALITY_JUDGMENT"
    )  # fmt: skip
    paths = [path, tmp_path / "gone.jsonl"]
    assert [judgment.data["at"] for judgment in judgments(paths)] == ["2026-01-01", "2026-01-03"]
    assert [judgment.data["at"] for judgment in judgments(paths, since="2026-01-02")] == ["2026-01-03"]
