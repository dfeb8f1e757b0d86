"""The loop over an in-memory record: the table of decisions, limits, retries and resuming at every prefix."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.decide import decide
from runner.core.evolve import evolve, fold
from runner.core.outcome import continuation, outcome_of
from runner.core.state import EMPTY
from runner.executors.executor_port import (
    Answer,
    AnswerError,
    Ask,
    Live,
)
from runner.loop import TaskLoop
from tests.runner.memory import Record, World, no_sleep, person, request, run
from tracer.facts import Entry, entry_of
from tracer.names import EVENT_NAMES

GOOD = Answer(output="done", status="COMPLETE", cost_usd=0.01)


def failed(kind: Any, **extra: Any) -> Answer:
    return Answer(output="", status="ERROR", error=AnswerError(kind=kind, message="no luck", **extra))


def names(record: Record) -> list[str]:
    return [entry.event for entry in record.entries]


async def test_a_rejected_answer_is_sent_back_with_its_reasons_and_then_passes() -> None:
    record, world = Record([request()]), World([GOOD], ["REJECT", "PASS"])
    state = await run(record, world)
    assert names(record) == [
        "USER_REQUEST",
        "SYSTEM_RULES",
        "LLM_REQUEST",
        "LLM_RESPONSE",
        "QUALITY_JUDGMENT",
        "REJECTION_DETAILS",
        "ITERATION_END",
        "LLM_REQUEST",
        "LLM_RESPONSE",
        "QUALITY_JUDGMENT",
        "ITERATION_END",
        "FINAL_SUMMARY",
    ]
    assert state.final is not None
    assert state.final.data["status"] == "COMPLETE"
    assert state.final.data["reason"] == "passed"
    assert state.final.data["total_iterations"] == 2
    assert "TODO found" in world.asked[1].prompt
    assert "Implement login feature" in world.asked[1].prompt


async def test_the_limit_ends_a_task_as_incomplete_when_nobody_can_be_asked() -> None:
    record = Record([request(max_iterations=2)])
    state = await run(record, World([GOOD], ["REJECT"]))
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("INCOMPLETE", "max_iterations")
    assert names(record).count("LLM_REQUEST") == 2


async def test_at_the_limit_a_person_is_asked_and_each_answer_does_what_it_says() -> None:
    for action, status, reason in (("accept", "COMPLETE", "accepted"), ("stop", "CANCELLED", "cancelled")):
        record = Record([request(max_iterations=1, on_limit="ask")])
        state = await run(record, World([GOOD], ["REJECT"]))
        assert state.final is None
        waiting = outcome_of(state, trace_file="", chain_head=None)
        assert (waiting.status, waiting.files_modified) == ("AWAITING_RESPONSE", ("base:task-001/main/0.py",))
        record.entries.append(person(action))
        state = await run(record, World([GOOD], ["REJECT"]))
        assert state.final is not None
        assert (state.final.data["status"], state.final.data["reason"]) == (status, reason)


async def test_a_hint_is_part_of_the_next_request_and_grants_as_many_iterations_as_it_says() -> None:
    record = Record([request(max_iterations=1, on_limit="ask")])
    await run(record, World([GOOD], ["REJECT"]))
    record.entries.append(person("hint", prompt="look at login()", max_iterations=1))
    world = World([GOOD], ["REJECT", "REJECT"])
    state = await run(record, world)
    assert "look at login()" in world.asked[0].prompt
    assert len(world.asked) == 1
    assert outcome_of(state, trace_file="", chain_head=None).status == "AWAITING_RESPONSE"


async def test_a_new_limit_of_iterations_is_the_whole_limit_and_other_limits_grant_none() -> None:
    record = Record([request(max_iterations=2, on_limit="ask")])
    await run(record, World([GOOD], ["REJECT"]))
    record.entries.append(person("continue", limits={"budget_usd": 5.0}))
    waiting = await run(record, World([GOOD], ["REJECT"]))
    assert outcome_of(waiting, trace_file="", chain_head=None).status == "AWAITING_RESPONSE"
    record.entries.append(person("continue", limits={"max_iterations": 5}))
    world = World([GOOD], ["REJECT"])
    await run(record, world)
    assert len(world.asked) == 3


@pytest.mark.parametrize(("kind", "allowed"), [("network", 2), ("timeout", 2), ("rate_limit", 5), ("overloaded", 5)])
async def test_passing_trouble_is_retried_with_the_same_prompt_a_bounded_number_of_times(
    kind: str, allowed: int
) -> None:
    record, world = Record([request()]), World([failed(kind)], ["PASS"])
    state = await run(record, world)
    assert state.judgments.items() == ("RETRY",) * allowed
    assert len({ask.prompt for ask in world.asked}) == 1
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("ERROR", "retries")


async def test_after_passing_trouble_the_same_prompt_goes_to_the_agents_own_session() -> None:
    """The session of a request that failed may hold nothing of it: the rules and the task are said again."""
    begun = Answer(
        output="", status="ERROR", session_ref="codex:1", error=AnswerError(kind="network", message="no luck")
    )
    started = request()
    executor = {"name": "codex", "continue_session": True}
    record = Record([started._replace(data={**started.data, "executor": executor})])
    rejected = GOOD._replace(session_ref="codex:1")
    world = World([begun, rejected, begun, rejected], ["PASS", "REJECT", "PASS", "PASS"])
    await run(record, world)
    first, second, third, fourth = world.asked
    assert (first.session_ref, second.session_ref, third.session_ref) == (None, "codex:1", "codex:1")
    assert first.prompt == second.prompt
    assert "Mandatory Rules" in first.prompt
    assert third.prompt == fourth.prompt
    assert "Mandatory Rules" not in third.prompt


async def test_a_wait_that_the_time_limit_does_not_allow_is_not_begun() -> None:
    record = Record([request(timeout_s=60.0)])
    world = World([failed("rate_limit", retry_after_s=61.0)], ["PASS"])
    state = await run(record, world)
    assert len(world.asked) == 1
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("INCOMPLETE", "timeout")
    assert "61 s" in state.final.data["detail"]


async def test_time_spent_waiting_counts_against_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0

    async def sleeping(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("runner.perform.monotonic", lambda: now)
    record = Record([request(timeout_s=60.0)])
    world = World([failed("rate_limit", retry_after_s=25.0)], ["PASS"])
    loop = TaskLoop(append=record.append, effects=world, live=lambda _update: None, sleep=sleeping)
    state = await loop.run(fold(record.entries))
    assert [entry.data.get("waited_ms") for entry in record.entries if entry.event == "LLM_REQUEST"] == [
        None, 25_000, 25_000,
    ]  # fmt: skip
    assert state.final is not None
    assert (state.final.data["reason"], state.final.data["duration_ms"]) == ("timeout", 50_000)


async def test_while_it_waits_it_counts_down_and_says_which_try_comes() -> None:
    live: list[Live] = []
    record, world = Record([request()]), World([failed("rate_limit", retry_after_s=2.5), GOOD], ["PASS", "PASS"])
    loop = TaskLoop(append=record.append, effects=world, live=live.append, sleep=no_sleep)
    await loop.run(fold(record.entries))
    waits = [(update.wait_s, update.attempt, update.attempts) for update in live if update.kind == "waiting"]
    assert waits == [(2.5, 1, 5), (1.5, 1, 5), (0.5, 1, 5)]


async def test_an_agent_that_is_ended_at_the_time_limit_still_tells_what_it_did() -> None:
    class Ended(World):
        async def ask(self, request: Ask, live: Any) -> Answer:
            await asyncio.sleep((request.timeout_s or 0) + 0.1)  # it ends its own process, which takes a moment
            return GOOD._replace(output="half", status="TIMEOUT", session_ref="codex:1")

    record = Record([request(timeout_s=0.2)])
    state = await run(record, Ended([], []))
    (answer,) = (entry.data for entry in record.entries if entry.event == "LLM_RESPONSE")
    assert (answer["status"], answer["session_ref"], answer["cost_usd"]) == ("TIMEOUT", "codex:1", 0.01)
    assert answer["error"]["message"] == "the time limit of 0.2 s was reached"
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("INCOMPLETE", "timeout")


async def test_a_refused_request_is_judged_and_a_refused_key_ends_the_task() -> None:
    for kind, judged in (("refusal", True), ("auth", False)):
        record = Record([request()])
        answer = Answer(output="", status="BLOCKED", error=AnswerError(kind=kind, message="no"))  # type: ignore[arg-type]
        state = await run(record, World([answer], ["REJECT"]))
        outcome = outcome_of(state, trace_file="", chain_head=None)
        assert ("QUALITY_JUDGMENT" in names(record)) == judged
        assert (outcome.reason == "auth") == (not judged)


async def test_an_error_comes_with_what_would_mend_it() -> None:
    error = AnswerError(kind="auth", message="Invalid API key", next_step="set ANTHROPIC_API_KEY")
    record = Record([request()])
    state = await run(record, World([Answer(output="", status="ERROR", error=error)], ["PASS"]))
    outcome = outcome_of(state, trace_file="", chain_head=None)
    assert (outcome.detail, outcome.next_step) == ("Invalid API key", "set ANTHROPIC_API_KEY")


async def test_a_retry_does_not_count_against_the_iterations_but_counts_in_the_total() -> None:
    record, world = Record([request(max_iterations=1)]), World([failed("network"), GOOD], ["PASS"])
    state = await run(record, world)
    assert state.judgments.items() == ("RETRY", "PASS")
    assert state.final is not None
    assert state.final.data["total_iterations"] == 2
    assert [ask.iteration_index for ask in world.asked] == [0, 1]


async def test_a_full_session_is_left_once_and_a_prompt_that_is_too_long_ends_the_task() -> None:
    started = request()
    executor = {"name": "claude", "continue_session": True}
    record = Record([started._replace(data={**started.data, "executor": executor})])
    full = failed("context")._replace(session_ref="claude:1", extra={"session_resumed": True})
    world = World([GOOD._replace(session_ref="claude:1"), full, failed("context")], ["REJECT"])
    state = await run(record, world)
    assert [ask.session_ref for ask in world.asked] == [None, "claude:1", None]
    assert "Implement login feature" in world.asked[2].prompt
    assert state.final is not None
    assert (state.final.status, state.final.reason) == ("INCOMPLETE", "context")
    assert state.judgments.items() == ("REJECT", "RETRY")


async def test_a_refused_key_ends_the_task_at_once() -> None:
    record, world = Record([request()]), World([failed("auth")], ["PASS"])
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("ERROR", "auth")
    assert len(world.asked) == 1


async def test_an_agent_that_is_not_there_ends_the_task_without_asking_again() -> None:
    record, world = Record([request()]), World([failed("unavailable")], ["PASS"])
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("ERROR", "retries")
    assert len(world.asked) == 1


async def test_the_budget_stops_before_the_next_call() -> None:
    record, world = Record([request(budget_usd=0.01)]), World([GOOD], ["REJECT"])
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("INCOMPLETE", "budget")
    assert len(world.asked) == 1


async def test_each_answer_is_told_what_is_left_of_the_budget_and_the_one_that_was_given() -> None:
    dear = GOOD._replace(cost_usd=3.3)
    world = World([dear, GOOD], ["REJECT", "PASS"])
    await run(Record([request(budget_usd=5.0)]), world)
    assert [(round(ask.budget_usd or 0, 2), ask.whole_budget_usd) for ask in world.asked] == [(5.0, 5.0), (1.7, 5.0)]


async def test_a_request_that_the_provider_refused_costs_nothing_and_one_that_was_cut_off_costs_nobody_knows() -> None:
    cut = failed("network")._replace(extra={"tool_call_count": 3})
    late = failed("rate_limit")._replace(extra={"tool_call_count": 3})
    for trouble, cost in ((failed("rate_limit"), 0.01), (failed("overloaded"), 0.01), (cut, None), (late, None)):
        state = await run(Record([request()]), World([trouble, GOOD], ["PASS", "PASS"]))
        assert state.final is not None
        assert state.final.data["cost_usd"] == cost
    state = await run(Record([request()]), World([failed("auth")], ["PASS"]))
    assert state.final is not None
    assert state.final.data["cost_usd"] is None, "nobody told any"


@pytest.mark.parametrize(("cost_usd", "budget_usd", "total"), [(0.02, None, 0.03), (None, None, None), (0.5, 0.5, 0.5)])
async def test_a_killed_request_goes_on_in_its_session_and_is_paid_for(
    cost_usd: float | None, budget_usd: float | None, total: float | None
) -> None:
    """Before, its session was not known: the agent began anew, and what the first one cost was nobody's."""
    started = request(budget_usd=budget_usd)
    executor = {"name": "claude", "continue_session": True}
    record = Record([started._replace(data={**started.data, "executor": executor})])
    world = World([GOOD._replace(session_ref="claude:1", cost_usd=0.01)], ["PASS"])
    world.dies = True
    with pytest.raises(asyncio.CancelledError):
        await run(record, world)
    assert names(record)[-2:] == ["LLM_REQUEST", "SESSION_STARTED"]
    world.dies, world.lost = False, {"usage": {"input_tokens": 5, "output_tokens": 2}, "cost_usd": cost_usd}
    state = await run(record, world)
    assert names(record).count("SESSION_INTERRUPTED") == 1
    assert state.final is not None
    assert state.final.cost_usd == total
    if budget_usd is not None:
        assert (len(world.asked), state.final.reason) == (1, "budget")
        return
    assert state.final.usage is not None
    assert state.final.usage.output_tokens == 2
    assert world.asked[1].session_ref == "claude:1"
    assert world.asked[1].prompt.endswith("Implement login feature")
    assert "interrupted" in world.asked[1].prompt


async def test_a_stopped_task_tells_at_once_what_its_session_did_and_tells_it_once() -> None:
    record, world = Record([request()]), World([GOOD._replace(session_ref="claude:1", cost_usd=0.01)], ["PASS"])
    world.dies, world.lost = True, {"usage": None, "cost_usd": 0.02}
    with pytest.raises(asyncio.CancelledError):
        await run(record, world)
    assert names(record)[-1] == "SESSION_INTERRUPTED"
    world.dies = False
    state = await run(record, world)
    assert names(record).count("SESSION_INTERRUPTED") == 1
    assert state.final is not None
    assert state.final.cost_usd == 0.03


async def test_an_unknown_cost_is_null_in_the_summary_never_zero() -> None:
    unknown = Answer(output="done", status="COMPLETE")
    state = await run(Record([request()]), World([unknown], ["PASS"]))
    assert state.final is not None
    assert state.final.data["cost_usd"] is None


async def test_a_continued_task_names_what_was_tried_and_what_is_used_up() -> None:
    record = Record([request(max_iterations=1)])
    await run(record, World([Answer(output="x", status="COMPLETE", session_ref="scripted:1")], ["REJECT"]))
    data = continuation(record.entries, trace_file="conversation-task-001-a.jsonl", overrides={}).data
    again = Record([entry_of("2025-01-24T00:00:00.000Z", "USER_REQUEST", "sess-2", "task-001", data)])
    world = World([GOOD], ["PASS"])
    state = await run(again, world)
    assert "Q2: TODO found" in world.asked[0].prompt
    assert world.asked[0].history == ("scripted:1",)
    assert state.request is not None
    assert state.request.continues is not None
    assert state.request.continues.reason == "max_iterations"


async def test_a_continued_task_keeps_the_limits_and_the_branch_that_the_person_gave_it_last() -> None:
    record = Record([request(max_iterations=1, budget_usd=1.0)])
    await run(record, World([GOOD], ["REJECT"]))
    record.entries.append(person("continue", limits={"budget_usd": 5.0}, into="b"))
    overrides = {"timeout_s": 9.0}
    data = continuation(record.entries, trace_file="conversation-task-001-a.jsonl", overrides=overrides).data
    assert (data["limits"]["budget_usd"], data["limits"]["timeout_s"], data["into"]) == (5.0, 9.0, "b")
    assert data["limits"]["max_iterations"] == 1


def _script(draw: st.DrawFn) -> tuple[list[Answer], list[str], int]:
    answers = draw(st.lists(st.sampled_from([GOOD, failed("network"), failed("crash")]), min_size=1, max_size=5))
    verdicts = draw(st.lists(st.sampled_from(["PASS", "REJECT"]), min_size=1, max_size=5))
    return answers, verdicts, draw(st.integers(1, 4))


scripts = st.composite(_script)()


@given(scripts)
def test_invariant_03_resuming_at_every_prefix_gives_the_same_log(script: tuple[list[Answer], list[str], int]) -> None:
    answers, verdicts, limit = script

    async def whole() -> None:
        full = Record([request(max_iterations=limit)])
        await run(full, World(answers, verdicts))
        shape = [(entry.event, entry.iteration_index) for entry in full.entries]
        for cut in range(1, len(full.entries) + 1):
            record = Record(full.entries[:cut])
            await run(record, World(answers, verdicts))
            resumed = [(entry.event, entry.iteration_index) for entry in record.entries]
            if shape[cut - 1][0] == "LLM_REQUEST":
                asked = record.entries[cut]
                assert asked.event == "LLM_REQUEST"
                assert asked.data["attempt"] == full.entries[cut - 1].data["attempt"] + 1
                assert asked.data["base"] == full.entries[cut - 1].data["base"]
                del resumed[cut]
            assert resumed == shape

    asyncio.run(whole())


@given(scripts, st.integers(1, 30))
def test_invariant_03_a_kill_after_every_append_still_ends(
    script: tuple[list[Answer], list[str], int], every: int
) -> None:
    answers, verdicts, limit = script

    class KilledError(Exception):
        pass

    async def through() -> None:
        record = Record([request(max_iterations=limit)])
        for _attempt in range(500):
            left = every

            async def append(draft: Any) -> Entry:
                nonlocal left
                if left == 0:
                    raise KilledError
                left -= 1
                return await Record.append(record, draft)

            killed = Record(record.entries)
            killed.append = append  # type: ignore[method-assign]
            try:
                state = await run(killed, World(answers, verdicts))
            except KilledError:
                continue
            assert state.final is not None
            break
        assert [entry.event for entry in record.entries].count("FINAL_SUMMARY") == 1
        assert record.entries[-1].event == "FINAL_SUMMARY"

    asyncio.run(through())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    [
        *("prompt", "limits", "executor", "action", "judgment", "subtasks", "usage", "cost_usd", "error", "status"),
        *("base", "max_iterations", "continues", "criteria_results", "issues", "iteration_index", "duration_ms"),
        "session_ref",
    ]
)
_ENTRIES = st.builds(
    Entry,
    timestamp=st.just("2025-01-23T10:30:00.000Z"),
    event=st.sampled_from([*EVENT_NAMES, "SOMETHING_NEW"]),
    session_id=st.just("s"),
    task_id=st.just("task-001"),
    data=st.dictionaries(_KEYS, _JSON, max_size=6),
    subtask_id=st.none() | st.just("task-001-sub-1"),
    iteration_index=st.none() | st.integers(0, 3),
)


@given(st.lists(_ENTRIES, max_size=12))
def test_invariant_12_same_state_same_step_and_nothing_after_the_end(entries: list[Entry]) -> None:
    state = EMPTY
    for entry in entries:
        state = evolve(state, entry)
        assert decide(state) == decide(state)
        if state.final is not None:
            assert decide(state) is None
    assert fold(entries) == state


@given(st.lists(_ENTRIES, max_size=12))
def test_unknown_events_change_nothing_but_the_count(entries: list[Entry]) -> None:
    known = [entry for entry in entries if entry.event in EVENT_NAMES]
    assert fold(entries)._replace(facts=0) == fold(known)._replace(facts=0)


async def test_invariant_01_the_request_is_recorded_before_the_call_and_the_answer_before_the_judgment() -> None:
    record = Record([request()])
    seen: list[tuple[str, str]] = []

    class Watching(World):
        async def ask(self, request: Any, live: Any) -> Answer:
            seen.append(("ask", record.entries[-1].event))
            return await super().ask(request, live)

        async def judge(self, state: Any, step: Any, models: Any) -> Any:
            seen.append(("judge", record.entries[-1].event))
            return await super().judge(state, step, models)

    await run(record, Watching([GOOD], ["PASS"]))
    assert seen == [("ask", "LLM_REQUEST"), ("judge", "LLM_RESPONSE")]


async def test_invariant_02_a_recorded_judgment_is_never_made_again() -> None:
    full = Record([request()])
    await run(full, World([GOOD], ["REJECT", "PASS"]))
    judged = next(number for number, entry in enumerate(full.entries) if entry.event == "QUALITY_JUDGMENT")
    # The world has changed its mind: had the judgment been made again, iteration 0 would pass.
    record = Record(full.entries[: judged + 1])
    state = await run(record, World([GOOD], ["PASS"]))
    assert state.judgments.items() == ("REJECT", "PASS")
