"""The agent's report: read tolerantly, judged, held against what happened; and what the person is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.agent_report import REPORT_SCHEMA, clean_report, prose_of, read_report
from runner.core.decide import decide
from runner.core.decide_loop import decide_loop, task_text
from runner.core.evolve import fold
from runner.core.outcome import continuation, outcome_of
from runner.core.state import TaskState
from runner.core.steps import AskAgent, AwaitPerson, Finish, Judge
from runner.executors.executor_port import Answer
from runner.gate.criterion import ChangedFile, CommandResult, Evidence, Models, Question, SessionCall, Verdict
from runner.gate.report import question_of
from runner.gate.verdict import criteria_in_force, judge
from runner.judging import check_paths
from tests.runner.memory import Record, World, person, request, run
from tracer import verification
from tracer.facts import Entry, LlmRequest, LlmResponse, Report, entry_of
from tracer.names import Action

MADE = (ChangedFile(path="a.py", before=b"A = 1\n", after=b"A = 2\n"),)


def block(**fields: Any) -> str:
    return f"Done.\n\n```pm-report\n{json.dumps({'status': 'done', **fields})}\n```\n"


def judged(answer: str = "Done.", *, report: Mapping[str, Any] | None = None, **fields: Any) -> Verdict:
    given_ = {"request": "a.py is wrong", "answer": answer, "files": MADE, **fields}
    told = Report(clean_report(report) or {}) if report is not None else None
    return judge(Evidence(report=told, **given_), criteria_in_force())


def q6(verdict: Verdict) -> str:
    return next((one.get("reason", "") for one in verdict.criteria_results if one["id"] == "Q6"), "")


def test_a_report_is_read_from_its_block_and_is_no_part_of_what_people_read() -> None:
    text = block(files="a.py", left=["docs"], commands=["pytest -q", {"command": "ruff", "exit_code": 1}])
    report = read_report(text)
    assert report is not None
    assert (report["files"], report["left"]) == (["a.py"], ["docs"])
    assert report["commands"] == [{"run": "pytest -q", "exit": None}, {"run": "ruff", "exit": 1}]
    assert prose_of(text) == "Done."


@pytest.mark.parametrize(
    "text",
    [
        "```pm-report\nnot json\n```", "```pm-report\n[]\n```", '```pm-report\n{"status": "perfect"}\n```',
        '```json\n{"status": "done"}\n```', "no block at all", '```pm-report\n{"status": "done"',
        "```pm-report\n" + "[" * 10_000, '```pm-report\n{"status": "done", "done": ["' + "x" * 70_000 + '"]}\n```',
    ],
)  # fmt: skip
def test_what_is_no_report_is_none(text: str) -> None:
    assert read_report(text) is None
    assert prose_of(text).strip()


def test_the_last_report_counts_and_a_fence_that_is_cut_off_is_read_where_it_is_whole() -> None:
    assert (read_report(block(left=["x"]) + block()) or {})["left"] == []
    assert (read_report('Done.\n```pm-report\n{"status": "nothing to do"}') or {})["status"] == "nothing_to_do"


def test_an_answer_of_nothing_but_a_report_is_told_from_it() -> None:
    told = prose_of('```pm-report\n{"status": "question", "done": ["read it"], "question": "Up or down?"}\n```')
    assert told == "Done:\n- read it\n\nUp or down?"


@pytest.mark.parametrize("nothing", ["none", "None.", "n/a", "なし", "", None, []])
def test_a_list_that_says_nothing_is_empty(nothing: Any) -> None:
    assert (clean_report({"status": "done", "left": nothing}) or {})["left"] == []


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)
       | st.dictionaries(st.sampled_from([*REPORT_SCHEMA["properties"], "run", "path", "x"]), inner)))  # fmt: skip
def test_reading_is_total_and_what_it_gives_has_the_schemas_shape(value: object) -> None:
    for report in (clean_report(value), clean_report({"status": "done", "left": value, "commands": value})):
        if report is not None:
            assert report.keys() == REPORT_SCHEMA["properties"].keys()
            assert all(isinstance(item, str) and len(item) <= 2000 for item in report["left"])
            assert all(isinstance(item["run"], str) for item in report["commands"])


def test_what_the_report_leaves_is_sent_back_item_by_item() -> None:
    verdict = judged(report={"status": "partial", "left": ["the docs", "the tests"]})
    assert verdict.judgment == "REJECT"
    assert [issue["excerpt"] for issue in verdict.issues if issue["type"] == "left"] == ["the docs", "the tests"]
    assert judged(report={"status": "done"}).judgment == "PASS"
    assert judged(report={"status": "partial"}).judgment == "REJECT"


# A claim: the command, its exit code, the session's calls, and what the finding says (None: nothing is found).
RAN = SessionCall(name="Bash", text="cd /p && python -m pytest -q", ok=True)
FAILED = SessionCall(name="Bash", text="pytest -q", ok=False)
READ = SessionCall(name="Read", text="a.py (3 lines)", ok=True)
MAKE = SessionCall(name="Bash", text="make check", ok=True, output="pytest -q\n3 passed")
LONG = SessionCall(name="Bash", text="x" * 500, ok=True)


@pytest.mark.parametrize(
    ("run_", "code", "session", "found"),
    [
        ("pytest", 0, [], "the session ran nothing"),
        ("pytest", 0, [READ], "the session ran nothing"),
        ("python -m pytest", 0, [SessionCall(name="Bash", text="ls -la", ok=True)], "the session ran ls"),
        ("pytest -q", 0, [FAILED], "in the session it failed"),
        ("pytest -q", 0, [FAILED, RAN], None),
        ("pytest -q", 1, [FAILED], None),
        ("pytest", 0, [RAN], None),
        ("python3 -m pytest tests/unit", 0, [RAN], None),
        ("pytest", 0, [MAKE], None),
        ("pytest", 0, [LONG], None),
        ("pytest", 0, None, None),
        ("pytest", 0, [SessionCall(name="mcp__ci__check", text="all", ok=True)], None),
        ("FOO=1 npx jest", 0, [SessionCall(name="run_shell_command", text="npm exec jest", ok=True)], None),
    ],
)
def test_a_claimed_command_is_held_against_the_session(
    run_: str, code: int, session: list[SessionCall] | None, found: str | None
) -> None:
    report = {"status": "done", "commands": [{"run": run_, "exit": code}]}
    verdict = judged(report=report, session=None if session is None else tuple(session))
    assert (found in q6(verdict)) if found else verdict.judgment == "PASS", q6(verdict)


def test_a_claim_that_our_own_run_bears_out_is_no_finding() -> None:
    own = CommandResult(kind="test", command="pytest", origin="given", exit_code=0)
    report = {"status": "done", "commands": [{"run": "pytest", "exit": 0}]}
    assert judged(report=report, session=(READ,), commands=(own,)).judgment == "PASS"


@pytest.mark.parametrize(
    ("test", "found"),
    [("a.py::test_x", False), ("./a.py", False), ("b.py::test_x", True), ("tests/b.py", True), ("test_x", False)],
)
def test_a_test_that_the_report_says_was_changed_is_looked_up_in_the_change(test: str, *, found: bool) -> None:
    verdict = judged(report={"status": "done", "tests_changed": [{"test": test, "why": "x"}]})
    assert ("its file was not" in q6(verdict)) == found


def asks(answer: str, **fields: Any) -> Question | None:
    report = fields.pop("report", None)
    told = Report(clean_report(report) or {}) if report is not None else None
    return question_of(Evidence(**{"request": "fix a.py", "answer": answer, "report": told, **fields}))


def test_a_question_is_the_agents_only_where_it_stands_in_the_works_way() -> None:
    report = {"status": "question", "question": "Up or down?", "choices": ["up", "down"]}
    assert asks("", report=report) == Question(text="Up or down?", by="agent", choices=("up", "down"))
    assert asks("", report=report, files=MADE) is not None
    assert asks("I read it.\n\nUp or down?") == Question(text="Up or down?", by="agent")
    assert asks("どちらですか？") is not None
    listed = asks("Which database?\n\n1. SQLite\n2. Postgres")
    assert listed == Question(text="Which database?", by="agent", choices=("SQLite", "Postgres"))
    assert asks("I fixed it. Shall I add tests too?", files=MADE) is None
    assert asks("Does that help?", kind="question") is None
    assert asks("I fixed it.") is None
    assert asks("Why did it fail? Because of a.py.") is None
    refused = "I may not touch this.\n\nMessage ID: 7"
    blocked = asks(refused, status="BLOCKED")
    assert blocked is not None
    assert blocked.text == refused


def test_a_person_decides_where_nothing_is_said_to_need_change_and_after_a_second_unchanged_answer() -> None:
    for question in (asks("See a.py.", report={"status": "nothing_to_do"}), asks("I fixed it.", unchanged_before=True)):
        assert question is not None
        assert question.by == "gate"
    assert judged("All is there.", report={"status": "nothing_to_do"}, files=()).judgment == "REJECT"


class Asking(World):
    """The first answer asks; every later one passes."""

    by = "agent"

    async def judge(self, state: TaskState, step: Judge, models: Models) -> Verdict:
        verdict = await super().judge(state, step, models)
        question = Question(text="Up or down?", by=self.by)  # type: ignore[arg-type]
        return verdict._replace(question=question) if verdict.judgment == "REJECT" else verdict


def asking(*, by: str = "agent", session: str | None = None) -> Asking:
    world = Asking([Answer(output="Up or down?", status="COMPLETE", session_ref=session)], ["REJECT", "PASS"])
    world.by = by
    return world


@pytest.mark.parametrize("session", [None, "claude:1"])
async def test_a_question_waits_is_answered_and_the_task_goes_on(session: str | None) -> None:
    first = request(on_limit="ask", max_iterations=1)
    first.data["executor"]["continue_session"] = True
    record, world = Record([first]), asking(session=session)
    outcome = outcome_of(await run(record, world), trace_file="", chain_head=None)
    assert (outcome.status, outcome.reason) == ("AWAITING_RESPONSE", "asked")
    assert outcome.question is not None
    assert outcome.question.text == "Up or down?"
    record.entries.append(person("hint", prompt="up"))
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.status, state.final.reason) == ("COMPLETE", "passed")
    sent = world.asked[-1]
    assert "You asked: Up or down?\nThe user answers: up" in sent.prompt
    assert sent.prompt.count("The user answers") == 1
    assert (sent.session_ref, "Mandatory Rules" in sent.prompt) == (session, session is None)
    assert "Implement login feature" in sent.prompt
    assert "Already tried" not in sent.prompt


@pytest.mark.parametrize(
    ("action", "status"), [("accept", "COMPLETE"), ("stop", "CANCELLED"), ("continue", "COMPLETE")]
)
async def test_a_question_can_be_decided_without_an_answer(action: str, status: str) -> None:
    record, world = Record([request(on_limit="ask")]), asking()
    await run(record, world)
    record.entries.append(person(action))
    state = await run(record, world)
    assert state.final is not None
    assert state.final.status == status
    if action == "continue":
        assert "decide it yourself" in world.asked[-1].prompt


async def test_without_a_person_a_question_ends_the_task_and_its_answer_begins_the_next_file() -> None:
    record, world = Record([request()]), asking(session="claude:1")
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.status, state.final.reason) == ("INCOMPLETE", "asked")
    assert len(world.asked) == 1
    draft = continuation(record.entries, trace_file="x", overrides={}, answer="hint", text="up")
    follow = Record()
    await follow.append(draft)
    further = asking(session="claude:1")
    further.verdicts = ["PASS"]
    state = await run(follow, further)
    assert state.final is not None
    assert state.final.status == "COMPLETE"
    assert "The user answers: up" in further.asked[0].prompt


@pytest.mark.parametrize(("answer", "verified"), [("accept", "not_verified"), ("allow", "verified")])
async def test_what_the_user_lets_stand_after_the_end_keeps_its_answer_and_only_what_is_allowed_is_verified(
    answer: Action, verified: str
) -> None:
    told = {
        "id": "Q7",
        "passed": True,
        "outcome": "not_verified",
        "why": "the task changed what tests expect",
        "ran": True,
    }
    tests = {"command": "make test", "outcome": "not_verified", "passed": 2}
    asked = {"text": "Are the new ones right?", "by": "gate"}
    judgment = {"judgment": "PASS", "criteria_results": [told], "unsettled": ["Q7"], "question": asked, "tests": tests}
    at = ("sess-1", "task-001")
    ended = {"status": "INCOMPLETE", "reason": "not_verified", "files_modified": ["a.py"], "diff_blob": None}
    entries = [
        request(),
        *(entry_of("2026-01-02T00:00:00.000Z", event, *at, data, None, 0) for event, data in (
            ("LLM_REQUEST", {"prompt": "p", "base": "b"}), ("LLM_RESPONSE", {"output": "Changed.", "cost_usd": 0.5}),
            ("QUALITY_JUDGMENT", judgment), ("ITERATION_END", {"judgment": "PASS"}), ("FINAL_SUMMARY", ended),
        )),
    ]  # fmt: skip
    first = outcome_of(fold(entries), trace_file="", chain_head=None)
    assert (first.status, first.allowable) == ("INCOMPLETE", True)
    follow = Record()
    await follow.append(continuation(entries, trace_file="x", overrides={}, answer=answer))
    assert follow.entries[0].data["action"] == answer
    state = await run(follow, World([], []))
    outcome = outcome_of(state, trace_file="", chain_head=None)
    assert (outcome.status, outcome.answer, outcome.verification) == ("COMPLETE", "Changed.", verified)
    assert (outcome.iterations, outcome.cost_usd, outcome.files_modified) == (1, 0.5, ("a.py",))
    assert bool(verification.tests_text(outcome.tests)) == (answer == "allow")
    assert bool(outcome.not_verified) == (answer == "accept")
    assert state.final is not None
    assert state.final.verification == verified


async def test_what_only_a_person_may_decide_is_asked_again_where_there_is_none() -> None:
    record, world = Record([request(max_iterations=2)]), asking(by="gate")
    state = await run(record, world)
    assert state.final is not None
    assert state.final.status == "COMPLETE"
    waiting = await run(Record([request(on_limit="ask")]), asking(by="gate"))
    assert decide(waiting) == AwaitPerson("asked")


@given(st.lists(st.sampled_from(["hint", "continue", "allow", "accept", "stop"]), max_size=4), st.sampled_from(
    ["agent", "gate"]), st.booleans())  # fmt: skip
def test_no_run_of_answers_makes_a_question_a_pass(actions: list[str], by: str, there: bool) -> None:
    """Whatever the person says, a task whose every answer asks ends well only where they accept it."""
    import asyncio

    record = Record([request(on_limit="ask" if there else "fail", max_iterations=1)])
    world = asking(by=by)
    world.verdicts = ["REJECT"]
    for action in [*actions, ""]:
        state = asyncio.run(run(record, world))
        if state.final is not None or not action:
            break
        record.entries.append(person(action, prompt="x"))
    step = decide(fold(record.entries))
    assert step is None or isinstance(step, AwaitPerson | Finish)
    if state.final is not None and state.final.status == "COMPLETE":
        assert state.final.reason == "accepted"


async def test_the_report_is_recorded_parsed_beside_the_raw_output() -> None:
    record = Record([request()])
    state = await run(record, World([Answer(output=block(files=["a.py"]), status="COMPLETE")], ["PASS"]))
    (answer,) = (entry for entry in record.entries if isinstance(entry, LlmResponse))
    assert answer.report is not None
    assert answer.report.files == ("a.py",)
    assert "pm-report" in answer.output
    assert state.answer == "Done."
    assert any(isinstance(entry, LlmRequest) for entry in record.entries)


def test_the_built_in_rules_ask_for_the_report_that_the_schema_describes(tmp_path: Path) -> None:
    from runner.effects import load_rules

    asked = read_report(load_rules(tmp_path))
    assert asked is not None
    assert asked["files"] == ["PATH"]


async def test_an_answer_by_itself_is_checked_with_its_report_and_may_end_in_a_question(tmp_path: Path) -> None:
    left = await check_paths(root=tmp_path, answer=block(left=["the docs"]))
    assert [issue["excerpt"] for issue in left.verdict.issues] == ["the docs"]
    assert (await check_paths(root=tmp_path, answer=block())).passed
    assert (await check_paths(root=tmp_path, answer="It rounds down.\n\nDoes that help?")).passed


def of_subtask(event: str, number: int, **data: Any) -> Entry:
    at: dict[str, Any] = {"subtask_id": f"task-001-sub-{number}", "iteration_index": 0}
    return entry_of("2025-01-23T10:30:02.000Z", event, "sess-1", "task-001", data, **at)


def test_of_two_parts_that_ask_each_gets_its_own_answer() -> None:
    """An answer is for the question that was shown, whichever part looks first."""
    parts = [{"id": f"task-001-sub-{number}", "description": f"part {number}"} for number in (1, 2)]
    facts = [
        request(on_limit="ask"),
        entry_of("", "SYSTEM_RULES", "s", "task-001", {"rules": "Finish."}),
        entry_of("", "CHUNKING_PLAN", "s", "task-001", {"subtasks": parts, "reason": "", "mode": "given"}),
    ]
    for number in (2, 1):
        question = {"text": f"What of {number}?", "by": "agent"}
        facts += [
            of_subtask("LLM_REQUEST", number, prompt="x"),
            of_subtask("LLM_RESPONSE", number, output="?", status="COMPLETE"),
            of_subtask("QUALITY_JUDGMENT", number, judgment="REJECT", question=question, summary=""),
            of_subtask("ITERATION_END", number, judgment="REJECT", iteration_index=0),
        ]
    outcome = outcome_of(fold(facts), trace_file="", chain_head=None)
    assert outcome.question is not None
    assert (outcome.reason, outcome.question.text) == ("asked", "What of 1?")
    state = fold([*facts, person("hint", prompt="up")])
    first, second = (decide_loop(state, subtask_id=f"task-001-sub-{number}") for number in (1, 2))
    assert isinstance(first, AskAgent)
    assert "What of 1?\nThe user answers: up" in first.prompt
    assert second == AwaitPerson("asked")
    assert state.question is not None
    assert state.question.text == "What of 2?"


def test_an_answer_to_a_part_of_an_ended_task_reaches_the_parts_of_the_next_file() -> None:
    again = request()
    again.data["continues"] = {"file": "x", "replies": ["You asked: Up?\nThe user answers: down"]}
    plan = {"subtasks": [{"id": "task-001-sub-1", "description": "part 1"}], "reason": "", "mode": "given"}
    state = fold([again, entry_of("", "CHUNKING_PLAN", "s", "task-001", plan)])
    assert "The user answers: down" in task_text(state, "task-001-sub-1")
    assert "The user answers: down" in task_text(state, None)


def test_a_huge_answer_is_read_in_time() -> None:
    import time

    began = time.monotonic()
    for text in ("x" * 20_000_000 + block(), "```pm-report\n" * 200_000, block(done=["x"] * 10_000) * 50):
        read_report(text)
        prose_of(text)
    assert time.monotonic() - began < 10
