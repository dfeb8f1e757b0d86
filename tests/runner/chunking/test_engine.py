"""The scheduler over a world in memory: random graphs, failures, limits, conflicts, and resuming at every prefix."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.decide import decide
from runner.core.evolve import evolve, fold
from runner.core.outcome import continuation, outcome_of
from runner.core.state import EMPTY, TaskState
from runner.core.steps import AwaitPerson
from runner.core.subtasks import standings
from runner.executors.executor_port import (
    Answer,
    AnswerError,
    Ask,
    LiveSink,
)
from runner.loop import TaskLoop
from tests.runner.chunking.memory import MemoryEffects, MemoryWorld, request, writes
from tests.runner.memory import Record, no_sleep, person
from tracer.facts import Entry, entry_of
from tracer.journal.verify_trace import check_order, check_values


async def run(record: Record, world: MemoryWorld) -> TaskState:
    """The loop over `record` to its next stop; what it wrote must be in order."""
    loop = TaskLoop(append=record.append, effects=world.here(None), live=lambda _update: None, sleep=no_sleep)
    state = await loop.run(fold(record.entries))
    facts = list(enumerate(record.entries))
    damage = [one for one in (*check_order(facts), *check_values(facts)) if one.level == "damage"]
    assert damage == []
    return state


def chain(*needs: Sequence[int]) -> list[dict[str, Any]]:
    """One subtask for each argument, which lists the numbers it depends on."""
    return [{"description": f"part {n}", "dependencies": list(need)} for n, need in enumerate(needs, 1)]


def sub(number: int) -> str:
    return f"task-001-sub-{number}"


def places(record: Record, event: str) -> dict[str | None, int]:
    """Where each loop has its last fact of that event."""
    return {entry.subtask_id: place for place, entry in enumerate(record.entries) if entry.event == event}


def passed_at(record: Record) -> dict[str | None, int]:
    return {
        entry.subtask_id: place
        for place, entry in enumerate(record.entries)
        if entry.event == "ITERATION_END" and entry.data["judgment"] == "PASS"
    }


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Dependencies of up to twelve subtasks, in any order of numbers, without a cycle."""
    size = draw(st.integers(2, 12))
    order = draw(st.permutations(range(1, size + 1)))
    needs: list[list[int]] = [[] for _ in range(size)]
    for place, number in enumerate(order):
        if place:
            needs[number - 1] = draw(st.lists(st.sampled_from(order[:place]), unique=True, max_size=3))
    return needs


def follows(needs: list[list[int]], roots: set[int]) -> set[int]:
    """Everything that depends on one of `roots`."""
    found: set[int] = set()
    while True:
        more = {n for n, need in enumerate(needs, 1) if set(need) & (roots | found)} - found
        if not more:
            return found
        found |= more


@given(graphs(), st.integers(1, 5), st.sets(st.integers(1, 12), max_size=3))
def test_on_any_graph_nothing_starts_early_is_lost_or_done_twice_and_a_failure_stops_only_what_needs_it(
    needs: list[list[int]], parallel: int, failing: set[int]
) -> None:
    failing &= set(range(1, len(needs) + 1))
    bad = {sub(number) for number in failing}

    def work(ask: Ask, folder: dict[str, bytes]) -> Answer:
        # Each finds the work of all it depends on.
        number = int(str(ask.subtask_id).rpartition("-")[2])
        for need in needs[number - 1] if number <= len(needs) else ():
            assert f"{sub(need)}.txt" in folder
        return writes(ask, folder)

    world = MemoryWorld(work, reject=lambda step: "no" if step.subtask_id in bad else "")
    record = Record([request(chain(*needs), limits={"max_iterations": 2, "parallel": parallel})])
    state = asyncio.run(run(record, world))
    assert state.final is not None
    skipped = follows(needs, failing)
    done = set(range(1, len(needs) + 1)) - failing - skipped
    begun, merged = places(record, "LLM_REQUEST"), passed_at(record)
    first_asked = {}
    for place, entry in enumerate(record.entries):
        if entry.event == "LLM_REQUEST":
            first_asked.setdefault(entry.subtask_id, place)
    assert {one for one in begun if one} == {sub(number) for number in done | failing - skipped}
    for number in done:
        for need in needs[number - 1]:
            assert merged[sub(need)] < first_asked[sub(number)]
        assert sum(ask.subtask_id == sub(number) for ask in world.asked) == 1
    assert world.most_asking <= parallel
    if failing:
        assert state.final.data["status"] == "INCOMPLETE"
        assert world.isolation.files == {}
        assert world.handed == []
    else:
        assert (state.final.data["status"], state.final.data["reason"]) == ("COMPLETE", "passed")
        assert set(world.isolation.files) == {f"{sub(number)}.txt" for number in done}
    told = {one["id"]: one for one in state.final.data["subtasks"]}
    assert {one for one in told if told[one]["status"] == "COMPLETE"} == {sub(number) for number in done}
    for number in skipped - failing:
        assert (told[sub(number)]["status"], told[sub(number)]["reason"]) == ("NOT_STARTED", "dependency")
        assert "it needs" in told[sub(number)]["detail"]


async def test_as_many_are_asked_at_once_as_allowed() -> None:
    world = MemoryWorld(writes, delay_s=0.01)
    await run(Record([request(chain(*[[]] * 9), limits={"parallel": 3})]), world)
    assert world.most_asking == 3


async def test_without_isolation_they_run_one_after_another() -> None:
    world = MemoryWorld(writes, delay_s=0.001, parallel=False)
    state = await run(Record([request(chain([], [], []), limits={"parallel": 3})]), world)
    assert state.final is not None
    assert (state.final.data["status"], world.most_asking) == ("COMPLETE", 1)


def both_write_one_file(ask: Ask, folder: dict[str, bytes]) -> Answer:
    """Adds its own line to what is there; two that start alike do not merge."""
    folder["shared.txt"] = folder.get("shared.txt", b"") + f"{ask.subtask_id}\n".encode()
    return Answer(output="added a line to shared.txt", status="COMPLETE", cost_usd=0.01)


async def test_a_conflict_sends_the_later_one_back_on_the_merged_base_with_the_reason() -> None:
    world = MemoryWorld(both_write_one_file, delay_s=0.001)
    record = Record([request(chain([], []), limits={"max_iterations": 1})])
    state = await run(record, world)
    assert state.final is not None
    assert state.final.data["status"] == "COMPLETE"
    assert sorted(world.isolation.files["shared.txt"].decode().split()) == [sub(1), sub(2)]
    (conflict,) = [entry for entry in record.entries if entry.data.get("conflict")]
    assert conflict.data["criteria_results"][-1]["id"] == "MERGE"
    again = world.asked[-1]
    assert again.subtask_id == conflict.subtask_id
    assert "Other subtasks changed the same lines" in again.prompt
    assert "shared.txt" in again.prompt
    assert state.loop(conflict.subtask_id).counted == 1


async def test_the_whole_is_judged_once_more_and_repaired_by_a_subtask_of_its_own() -> None:
    judged: list[int] = []

    def reject(step: Any) -> str:
        if step.whole:
            judged.append(step.iteration_index)
        return "the parts do not fit" if step.whole and len(judged) == 1 else ""

    world = MemoryWorld(writes, reject=reject)
    record = Record([request(chain([], []))])
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.data["status"], judged) == ("COMPLETE", [0, 1])
    assert world.asked[-1].subtask_id == sub(3)
    assert "the parts do not fit" in world.asked[-1].prompt
    assert set(world.isolation.files) == {f"{sub(n)}.txt" for n in (1, 2, 3)}
    plans = [entry.data["mode"] for entry in record.entries if entry.event == "CHUNKING_PLAN"]
    assert plans == ["given", "repair"]


async def test_a_whole_that_stays_rejected_ends_incomplete_and_hands_nothing_over() -> None:
    world = MemoryWorld(writes, reject=lambda step: "never good" if step.whole else "")
    state = await run(Record([request(chain([], []))]), world)
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("INCOMPLETE", "max_iterations")
    assert "never good" in state.final.data["detail"]
    assert (world.isolation.files, world.closed[-1]) == ({}, True)


async def test_partial_results_are_handed_over_only_when_asked_for() -> None:
    world = MemoryWorld(writes, reject=lambda step: "no" if step.subtask_id == sub(2) else "")
    state = await run(Record([request(chain([], []), partial=True)]), world)
    assert state.final is not None
    assert state.final.data["status"] == "INCOMPLETE"
    assert set(world.isolation.files) == {f"{sub(1)}.txt"}


async def test_a_result_for_a_branch_leaves_the_files_alone() -> None:
    world = MemoryWorld(writes)
    state = await run(Record([request(chain([], []), into="result")]), world)
    assert state.final is not None
    assert (state.final.data["branch"], world.isolation.files) == ("result", {})
    assert set(world.isolation.branches["result"]) == {f"{sub(1)}.txt", f"{sub(2)}.txt"}


async def test_refused_credentials_start_nothing_more() -> None:
    def work(_ask: Ask, _folder: dict[str, bytes]) -> Answer:
        return Answer(output="", status="ERROR", error=AnswerError(kind="auth", message="refused"))

    world = MemoryWorld(work)
    state = await run(Record([request(chain(*[[]] * 20), limits={"parallel": 1})]), world)
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("ERROR", "auth")
    assert len(world.asked) <= 3


async def test_the_budget_is_shared_and_never_promised_twice() -> None:
    promised: dict[str | None, float] = {}
    most: list[float] = []

    class Thrifty(MemoryEffects):
        async def ask(self, request: Ask, live: LiveSink) -> Answer:
            assert request.budget_usd is not None
            promised[request.subtask_id] = request.budget_usd
            most.append(sum(promised.values()))
            return await super().ask(request, live)

    def work(ask: Ask, folder: dict[str, bytes]) -> Answer:
        spent = promised.pop(ask.subtask_id) / 2
        return writes(ask, folder)._replace(cost_usd=spent)

    world = MemoryWorld(work, delay_s=0.001)
    world.here = lambda subtask_id: Thrifty(world, subtask_id)  # type: ignore[method-assign]
    state = await run(Record([request(chain(*[[]] * 8), limits={"budget_usd": 0.05, "parallel": 4})]), world)
    assert max(most) <= 0.05 + 1e-9
    assert len(world.asked) > 4
    assert state.totals.cost_usd <= 0.05 + 1e-9


async def test_when_the_money_is_spent_nothing_more_starts() -> None:
    world = MemoryWorld(lambda ask, folder: writes(ask, folder)._replace(cost_usd=0.02))
    state = await run(Record([request(chain(*[[]] * 8), limits={"budget_usd": 0.05, "parallel": 1})]), world)
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("INCOMPLETE", "budget")
    assert len(world.asked) == 3


async def test_when_the_time_is_over_everything_ends_as_incomplete_and_nothing_more_starts() -> None:
    world = MemoryWorld(writes, delay_s=0.05)
    state = await run(Record([request(chain(*[[]] * 30), limits={"timeout_s": 0.12, "parallel": 2})]), world)
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("INCOMPLETE", "timeout")
    assert len(world.asked) < 12
    assert world.isolation.files == {}
    reasons = {one["reason"] for one in state.final.data["subtasks"]}
    assert reasons <= {"passed", "timeout"}


async def test_time_that_passes_side_by_side_counts_once() -> None:
    state = fold([request(chain([], []))])
    for number in (1, 2):
        data = {"output": "", "status": "COMPLETE", "duration_ms": 4000}
        stamp = f"2025-01-23T10:30:0{4 + number}.000Z"
        state = evolve(state, entry_of(stamp, "LLM_RESPONSE", "s", "task-001", data, sub(number), 0))
    assert state.totals.spent_ms == 5000
    assert state.loop(sub(1)).answer.duration_ms == 4000


async def test_a_person_who_grants_one_more_iteration_gets_one_more_repair_of_the_whole() -> None:
    judged: list[int] = []

    def reject(step: Any) -> str:
        if step.whole:
            judged.append(step.iteration_index)
        return "the parts do not fit" if step.whole and len(judged) < 3 else ""

    record = Record([request(chain([], []), limits={"on_limit": "ask"})])
    world = MemoryWorld(writes, reject=reject)
    assert isinstance(decide(await run(record, world)), AwaitPerson)
    record.entries.append(person("continue", max_iterations=1))
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.data["status"], judged) == ("COMPLETE", [0, 1, 2])


async def test_time_counts_on_where_the_clock_was_set_back_meanwhile() -> None:
    state = fold([request(chain([], [], []))])
    for number, stamp in enumerate(("10:30:05", "09:30:05", "09:30:10"), 1):
        data = {"output": "", "status": "COMPLETE", "duration_ms": 4000}
        state = evolve(
            state, entry_of(f"2025-01-23T{stamp}.000Z", "LLM_RESPONSE", "s", "task-001", data, sub(number), 0)
        )
    assert state.totals.spent_ms == 12_000


async def test_a_person_is_asked_about_the_subtask_at_its_limit_when_nothing_else_can_go_on() -> None:
    rejected = {sub(1)}
    world = MemoryWorld(writes, reject=lambda step: "no" if step.subtask_id in rejected else "")
    record = Record([request(chain([], [], [1]), limits={"max_iterations": 1, "on_limit": "ask"})])
    state = await run(record, world)
    outcome = outcome_of(state, trace_file="", chain_head=None)
    assert (outcome.status, outcome.reason) == ("AWAITING_RESPONSE", "max_iterations")
    assert [one.status for one in outcome.subtasks] == ["ask", "done", "wait"]
    rejected.clear()
    record.entries.append(person("hint", prompt="look again"))
    state = await run(record, world)
    assert state.final is not None
    assert state.final.data["status"] == "COMPLETE"
    assert any("look again" in ask.prompt for ask in world.asked if ask.subtask_id == sub(1))


async def test_accepting_hands_over_what_there_is() -> None:
    world = MemoryWorld(writes, reject=lambda step: "no" if step.subtask_id == sub(1) else "")
    record = Record([request(chain([], []), limits={"max_iterations": 1, "on_limit": "ask"})])
    await run(record, world)
    record.entries.append(person("accept"))
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.data["status"], state.final.data["reason"]) == ("COMPLETE", "accepted")
    assert set(world.isolation.files) == {f"{sub(1)}.txt", f"{sub(2)}.txt"}


async def test_stopping_for_good_hands_nothing_over_and_leaves_nothing() -> None:
    world = MemoryWorld(writes, reject=lambda step: "no" if step.subtask_id == sub(1) else "")
    record = Record([request(chain([], []), limits={"max_iterations": 1, "on_limit": "ask"})])
    await run(record, world)
    record.entries.append(person("stop"))
    state = await run(record, world)
    assert state.final is not None
    assert (state.final.data["status"], world.isolation.files, world.closed[-1]) == ("CANCELLED", {}, False)


async def test_a_continued_task_does_again_only_what_was_not_done() -> None:
    bad = {sub(2)}
    world = MemoryWorld(writes, reject=lambda step: "no" if step.subtask_id in bad else "")
    record = Record([request(chain([], [], [2]), limits={"max_iterations": 1})])
    await run(record, world)
    assert record.entries[-1].data["status"] == "INCOMPLETE"
    bad.clear()
    before = len(world.asked)
    data = continuation(record.entries, trace_file="first.jsonl", overrides={}).data
    again = Record([entry_of("2025-01-23T11:00:00.000Z", "USER_REQUEST", "s", "task-001", data)])
    state = await run(again, world)
    assert state.final is not None
    assert state.final.data["status"] == "COMPLETE"
    assert [ask.subtask_id for ask in world.asked[before:]] == [sub(2), sub(3)]
    assert "no" in world.asked[before].prompt
    assert set(world.isolation.files) == {f"{sub(n)}.txt" for n in (1, 2, 3)}


class CrashError(Exception):
    """The process ends here."""


async def _crashing(record: Record, world: MemoryWorld, after: int) -> None:
    """Run until `after` facts are recorded, as if the process died there."""
    append = record.append

    async def deadly(draft: Any) -> Entry:
        if len(record.entries) >= after:
            raise CrashError
        return await append(draft)

    loop = TaskLoop(append=deadly, effects=world.here(None), live=lambda _update: None, sleep=no_sleep)
    with pytest.raises(CrashError):
        await loop.run(fold(record.entries))


def _rejects_once() -> Any:
    """A judge that rejects the first answer of the second subtask and the first whole."""
    return lambda step: "no" if step.iteration_index == 0 and (step.whole or step.subtask_id == sub(2)) else ""


async def test_invariant_03_after_a_crash_at_every_prefix_subtasks_end_the_same() -> None:
    def fresh() -> tuple[Record, MemoryWorld]:
        plan = chain([], [], [1], [2, 3])
        return Record([request(plan, limits={"parallel": 2})]), MemoryWorld(both_write_one_file, reject=_rejects_once())

    record, world = fresh()
    await run(record, world)
    whole = len(record.entries)
    assert record.entries[-1].data["status"] == "COMPLETE"
    for after in range(1, whole):
        record, world = fresh()
        await _crashing(record, world, after)
        kept = list(record.entries)
        state = await run(record, world)
        assert record.entries[: len(kept)] == kept
        assert state.final is not None
        assert state.final.data["status"] == "COMPLETE"
        lines = world.isolation.files["shared.txt"].decode().split()
        assert {sub(n) for n in (1, 2, 3, 4, 5)} == set(lines), after
        assert set(passed_at(record)) == {None, *(sub(n) for n in (1, 2, 3, 4, 5))}
        assert [e.event for e in record.entries].count("FINAL_SUMMARY") == 1


@given(st.lists(st.integers(0, 60), max_size=40), graphs())
def test_invariant_12_a_chunked_task_has_one_step_for_a_state_and_any_order_of_facts_folds(
    picks: list[int], needs: list[list[int]]
) -> None:
    record = Record([request(chain(*needs))])
    asyncio.run(run(record, MemoryWorld(writes)))
    state = EMPTY
    for entry in (record.entries[0], *(record.entries[pick % len(record.entries)] for pick in picks)):
        state = evolve(state, entry)
        assert repr(decide(state)) == repr(decide(state))
        standings(state)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["id", "dependencies", "description", "title", "subtasks"]), inner, max_size=4
            )
        ),
        max_leaves=20,
    )
)
def test_a_plan_of_any_shape_in_a_trace_breaks_no_reader(value: Any) -> None:
    data = {"subtasks": value, "mode": "model", "base": "b"}
    state = fold([request(), entry_of("2025-01-23T10:30:01.000Z", "CHUNKING_PLAN", "s", "task-001", data)])
    state = state._replace(rules="r")
    decide(state)
    json.dumps([one._asdict() for one in standings(state)])
