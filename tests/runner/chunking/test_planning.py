"""Whether a task is split and by whom: model, list, person; repair, failure, approval and editing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from runner.core.decide import wants_plan
from runner.core.evolve import fold
from runner.core.outcome import outcome_of
from runner.core.state import TaskState
from runner.core.subtasks import standings
from runner.executors.executor_port import (
    Answer,
    AnswerError,
    Ask,
    LiveSink,
)
from tests.runner.chunking.memory import MemoryEffects, MemoryWorld, request, writes
from tests.runner.chunking.test_engine import run, sub
from tests.runner.memory import Record, person

GOOD = {"subtasks": [{"id": "a", "description": "part a"}, {"id": "b", "description": "part b"}]}
CYCLE = {
    "subtasks": [
        {"id": "a", "description": "part a", "dependencies": ["b"]},
        {"id": "b", "description": "part b", "dependencies": ["a"]},
    ]
}


def planner(*answers: Any) -> MemoryWorld:
    """A world whose model answers requests for a plan with these, one after another."""
    left = list(answers)

    def work(ask: Ask, folder: dict[str, bytes]) -> Answer:
        if ask.answer_schema is None:
            return writes(ask, folder)
        answer = left.pop(0)
        if isinstance(answer, Answer):
            return answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return Answer(output=text, status="COMPLETE", cost_usd=0.01)

    return MemoryWorld(work)


def plan_of(record: Record) -> dict[str, Any]:
    """The last CHUNKING_PLAN."""
    return [entry.data for entry in record.entries if entry.event == "CHUNKING_PLAN"][-1]


def status(state: TaskState) -> tuple[str, str]:
    outcome = outcome_of(state, trace_file="", chain_head=None)
    return outcome.status, outcome.reason


async def test_a_model_plans_under_a_schema_and_may_change_nothing_while_it_does() -> None:
    record, world = Record([request(plans=True)]), planner(GOOD)
    state = await run(record, world)
    assert status(state)[0] == "COMPLETE"
    asked = world.asked[0]
    assert (asked.subtask_id, asked.permissions) == ("task-001-plan", "read")
    assert asked.answer_schema is not None
    assert "Do all of it" in asked.prompt
    assert (plan_of(record)["mode"], len(plan_of(record)["subtasks"])) == ("model", 2)
    assert state.totals.cost_usd == pytest.approx(0.03)


async def test_a_plan_that_is_no_good_is_sent_back_once_with_the_reason() -> None:
    record, world = Record([request(plans=True)]), planner(CYCLE, GOOD)
    state = await run(record, world)
    assert "wait for each other" in world.asked[1].prompt
    assert (status(state)[0], plan_of(record)["mode"]) == ("COMPLETE", "model")


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((CYCLE, CYCLE), "wait for each other"),
        (("no idea", "still none"), "holds no plan"),
        (({"subtasks": [{"description": "all"}]},), "fewer than 2"),
        ((Answer(output="", status="TIMEOUT", error=AnswerError(kind="timeout", message="slow")),), "timeout: slow"),
        ((Answer(output="", status="ERROR", error=AnswerError(kind="crash", message="gone")),), "crash: gone"),
    ],
)
async def test_analysis_that_fails_leaves_one_task_and_the_reason(answers: tuple[Any, ...], why: str) -> None:
    record, world = Record([request(plans=True)]), planner(*answers)
    state = await run(record, world)
    assert status(state)[0] == "COMPLETE"
    assert plan_of(record)["subtasks"] == []
    assert why in plan_of(record)["reason"]
    assert world.asked[-1].subtask_id is None


async def test_a_planner_that_does_not_answer_in_time_leaves_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.perform._PLANNING_S", 0.02)
    monkeypatch.setattr("runner.perform._TO_END_S", 0.01)

    class Slow(MemoryEffects):
        async def ask(self, request: Ask, live: LiveSink) -> Answer:
            if request.answer_schema is not None:
                assert request.timeout_s == 0.02
                await asyncio.sleep(30)
            return await super().ask(request, live)

    world = planner()
    world.here = lambda subtask_id: Slow(world, subtask_id)  # type: ignore[method-assign]
    record = Record([request(plans=True, limits={"timeout_s": 60.0})])
    state = await run(record, world)
    assert status(state)[0] == "COMPLETE"
    assert "planning failed: timeout" in plan_of(record)["reason"]
    assert state.totals.spent_ms < 10_000


async def test_without_a_model_an_explicit_list_splits_and_prose_does_not() -> None:
    record = Record([request(prompt="Build it:\n1. Add the schema\n2. Write the API (after 1)")])
    state = await run(record, MemoryWorld(writes))
    assert status(state)[0] == "COMPLETE"
    plan = plan_of(record)
    assert plan["mode"] == "list"
    assert [item["dependencies"] for item in plan["subtasks"]] == [[], [sub(1)]]
    assert "Build it:" in plan["subtasks"][0]["description"]
    record = Record([request(prompt="Build the schema and then the API")])
    await run(record, MemoryWorld(writes))
    assert "no explicit list" in plan_of(record)["reason"]


async def test_a_small_request_leaves_no_trace_of_planning() -> None:
    record, world = Record([request(chunk="auto", plans=True, prompt="use the latest version")]), planner(GOOD)
    await run(record, world)
    assert "CHUNKING_PLAN" not in [entry.event for entry in record.entries]
    assert [ask.subtask_id for ask in world.asked] == [None]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"chunk": "never", "prompt": "1. Add a\n2. Add b"}, False),
        ({"chunk": "always", "prompt": "Add a"}, True),
        ({"chunk": "auto", "prompt": "1. Add a\n2. Add b"}, True),
        ({"chunk": "auto", "prompt": "1. Open a\n2. Click b"}, False),
        ({"chunk": "auto", "prompt": "1. Add a\n2. Add b", "kind": "question"}, False),
        ({"chunk": "auto", "prompt": "word " * 150, "plans": True}, True),
        ({"chunk": "auto", "prompt": "word " * 150, "plans": False}, False),
        ({"chunk": "never", "prompt": "Add a", "plan": {"subtasks": []}}, True),
    ],
)
def test_what_is_looked_at_for_splitting(changes: dict[str, Any], wanted: bool) -> None:
    asked = request(**{"plan": None, **changes})
    state = fold([asked._replace(data=asked.data | _plan(changes))])
    assert wants_plan(state.request) is wanted


def _plan(changes: dict[str, Any]) -> dict[str, Any]:
    return {"plan": {"subtasks": [{"description": "a"}]}} if "plan" in changes else {}


async def test_a_plan_waits_for_the_person_and_runs_as_it_is_on_their_word() -> None:
    record, world = Record([request(plans=True, approve_plan=True)]), planner(GOOD)
    state = await run(record, world)
    assert status(state) == ("AWAITING_RESPONSE", "plan")
    assert len(world.asked) == 1
    assert [one.status for one in standings(state)] == ["wait", "wait"]
    record.entries.append(person("continue"))
    state = await run(record, world)
    assert (status(state)[0], plan_of(record)["mode"]) == ("COMPLETE", "approved")
    assert state.granted == 0


async def test_what_the_person_makes_of_the_plan_is_what_runs() -> None:
    record, world = Record([request(plans=True, approve_plan=True)]), planner(GOOD)
    await run(record, world)
    edited = {"subtasks": [{"description": "x"}, {"description": "y"}, {"description": "z", "dependencies": [1]}]}
    record.entries.append(person("continue", plan=edited))
    state = await run(record, world)
    assert (status(state)[0], plan_of(record)["mode"]) == ("COMPLETE", "edited")
    assert [ask.subtask_id for ask in world.asked[1:]] == [sub(1), sub(2), sub(3)]


async def test_an_emptied_plan_runs_the_task_in_one_piece() -> None:
    record, world = Record([request(plans=True, approve_plan=True)]), planner(GOOD)
    await run(record, world)
    record.entries.append(person("continue", plan={"subtasks": []}))
    state = await run(record, world)
    assert (status(state)[0], plan_of(record)["subtasks"]) == ("COMPLETE", [])
    assert "the user wants it so" in plan_of(record)["reason"]
    assert world.asked[-1].subtask_id is None


async def test_a_hint_makes_the_model_plan_again_and_the_new_plan_waits_too() -> None:
    record, world = Record([request(plans=True, approve_plan=True)]), planner(GOOD, CYCLE, GOOD)
    await run(record, world)
    record.entries.append(person("hint", prompt="split by layer"))
    state = await run(record, world)
    assert status(state) == ("AWAITING_RESPONSE", "plan")
    assert all("split by layer" in ask.prompt for ask in world.asked[1:])
    record.entries.append(person("continue"))
    assert status(await run(record, world))[0] == "COMPLETE"


async def test_other_limits_are_no_word_about_the_plan() -> None:
    record, world = Record([request(plans=True, approve_plan=True)]), planner(GOOD)
    await run(record, world)
    record.entries.append(person("continue", limits={"max_iterations": 7}))
    state = await run(record, world)
    assert status(state) == ("AWAITING_RESPONSE", "plan")
    assert state.request is not None
    assert state.request.limits.max_iterations == 7
    record.entries.append(person("continue"))
    assert status(await run(record, world))[0] == "COMPLETE"


async def test_without_a_model_nobody_can_plan_again_and_the_plan_goes_on_waiting() -> None:
    record = Record([request(approve_plan=True, prompt="1. Add a\n2. Add b")])
    await run(record, MemoryWorld(writes))
    record.entries.append(person("hint", prompt="other"))
    assert status(await run(record, MemoryWorld(writes))) == ("AWAITING_RESPONSE", "plan")


async def test_a_stop_at_the_plan_ends_the_task_with_nothing_done() -> None:
    record, world = Record([request(plans=True, approve_plan=True)]), planner(GOOD)
    await run(record, world)
    record.entries.append(person("stop"))
    state = await run(record, world)
    assert status(state) == ("CANCELLED", "cancelled")
    assert len(world.asked) == 1


async def test_a_request_for_a_plan_without_an_answer_is_asked_again_and_then_given_up() -> None:
    record, world = Record([request(plans=True)]), planner(GOOD)
    await run(record, world)
    unanswered = next(n for n, entry in enumerate(record.entries) if entry.event == "LLM_REQUEST")
    begun = record.entries[: unanswered + 1]
    record, world = Record([*begun]), planner(GOOD)
    assert status(await run(record, world))[0] == "COMPLETE"
    assert [entry.data["attempt"] for entry in record.entries if entry.event == "LLM_REQUEST"][:2] == [0, 1]
    record = Record([*begun, begun[-1], begun[-1]])
    await run(record, planner())
    assert "had no answer" in plan_of(record)["reason"]


def test_prefixes_of_a_proposed_plan_fold() -> None:
    state = fold([request(approve_plan=True)])
    assert standings(state) == ()


@pytest.mark.parametrize("chunk", ["auto", "never"])
async def test_what_runs_in_one_piece_for_a_branch_is_one_subtask_and_leaves_the_persons_files(chunk: str) -> None:
    record = Record([request(prompt="write part a", chunk=chunk, into="result", plans=True)])
    world = planner()
    state = await run(record, world)
    assert status(state)[0] == "COMPLETE"
    planned = plan_of(record)
    assert [(each["description"], each["dependencies"]) for each in planned["subtasks"]] == [("write part a", [])]
    assert planned["mode"] == "single"
    assert all(ask.answer_schema is None for ask in world.asked)
