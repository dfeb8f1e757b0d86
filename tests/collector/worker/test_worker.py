"""The embedded worker: pending traces are found, run once each, tried again with patience, and given up at last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from collector.store.port import QaFact, Status, TraceRow
from collector.work.worker import Attempt, EmbeddedWorker, attempt_checks, delay_after, open_starts
from tracer.errors import RecordError, SandboxError


class Memory:
    """Traces by status and their facts; the part of the store port that a worker uses."""

    def __init__(self, *trace_ids: str) -> None:
        self.status: dict[str, Status] = dict.fromkeys(trace_ids, "finalized")
        self.facts: dict[str, list[QaFact]] = {}
        self.broken = 0

    async def get_trace(self, trace_id: str) -> TraceRow | None:
        if trace_id not in self.status:
            return None
        return TraceRow(trace_id=trace_id, status=self.status[trace_id], created_at_ms=1, metadata={})

    async def set_status(self, trace_id: str, status: Status, *, expected: Collection[str] | None = None) -> bool:
        if expected is not None and self.status[trace_id] not in expected:
            return False
        self.status[trace_id] = status
        return True

    async def pending_traces(self, *, limit: int = 1000) -> tuple[str, ...]:
        if self.broken:
            self.broken -= 1
            raise RecordError("the disk is away")
        return tuple(key for key, status in self.status.items() if status in {"finalized", "qa_running"})[:limit]

    async def append_qa_fact(self, trace_id: str, fact: QaFact) -> bool:
        self.facts.setdefault(trace_id, []).append(fact)
        return True

    async def qa_facts(self, trace_id: str) -> tuple[QaFact, ...]:
        return tuple(self.facts.get(trace_id, ()))

    def notes(self, trace_id: str) -> list[str]:
        return [fact.input_hash for fact in self.facts.get(trace_id, ())]


async def nothing(_trace_id: str) -> None:
    await asyncio.sleep(0)


def failing(error: Exception) -> Callable[[str], Any]:
    async def checks(_trace_id: str) -> None:
        raise error

    return checks


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def working(store: Memory, checks: Callable[[str], Any], **options: Any) -> AsyncIterator[EmbeddedWorker]:
    worker = EmbeddedWorker(store=store, checks=checks, **{"poll_s": 0.02, "first_delay_s": 0.01, **options})
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_every_pending_trace_is_run_once_and_completes() -> None:
    store, ran = Memory(*"abcdefgh"), []

    async def checks(trace_id: str) -> None:
        ran.append(trace_id)
        await asyncio.sleep(0.01)

    async with working(store, checks, parallel=3):
        await until(lambda: set(store.status.values()) == {"complete"})
    assert sorted(ran) == list("abcdefgh")
    assert store.notes("a") == ["start-1", "end-1"]


async def test_no_more_run_at_once_than_allowed() -> None:
    store, now, most = Memory(*"abcdefgh"), 0, 0

    async def checks(_trace_id: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1

    async with working(store, checks, parallel=2):
        await until(lambda: set(store.status.values()) == {"complete"})
    assert most == 2


async def test_a_nudge_is_faster_than_the_poll() -> None:
    store, due = Memory(), asyncio.Event()
    async with working(store, nothing, poll_s=60, due=due):
        await asyncio.sleep(0.05)
        store.status["late"] = "finalized"
        due.set()
        await until(lambda: store.status["late"] == "complete")


async def test_a_trace_left_running_by_a_crash_is_found_again() -> None:
    store = Memory("x")
    store.status["x"] = "qa_running"
    await store.append_qa_fact("x", QaFact("worker", "start-1", 1, {}))
    async with working(store, nothing):
        await until(lambda: store.status["x"] == "complete")
    assert store.notes("x") == ["start-1", "start-2", "end-2"]


async def test_a_failing_trace_is_tried_again_and_given_up_while_others_complete() -> None:
    store, tries = Memory("bad", "good"), 0

    async def checks(trace_id: str) -> None:
        nonlocal tries
        if trace_id == "bad":
            tries += 1
            raise SandboxError("no engine")

    async with working(store, checks, most_starts=3):
        await until(lambda: store.status == {"bad": "qa_failed", "good": "complete"})
    assert tries == 3
    assert store.notes("bad") == ["start-1", "start-2", "start-3", "dead-3"]


async def test_a_trace_that_kills_its_worker_every_time_is_given_up_without_another_start() -> None:
    store = Memory("x")
    for number in range(5):
        await store.append_qa_fact("x", QaFact("worker", f"start-{number + 1}", 1, {}))
    attempt = await attempt_checks("x", store=store, checks=nothing)
    assert attempt.outcome == "dead"
    assert store.status["x"] == "qa_failed"


async def test_a_given_up_trace_gets_a_full_number_of_tries_when_asked_again() -> None:
    store = Memory("x")
    for number in range(5):
        await store.append_qa_fact("x", QaFact("worker", f"start-{number + 1}", 1, {}))
    await store.append_qa_fact("x", QaFact("requested", "r", 1, {}))
    assert (await attempt_checks("x", store=store, checks=nothing)).outcome == "done"


async def test_ending_the_worker_is_not_counted_against_the_trace() -> None:
    store, began = Memory("x"), asyncio.Event()

    async def checks(_trace_id: str) -> None:
        began.set()
        await asyncio.sleep(60)

    async with working(store, checks):
        await began.wait()
    assert store.notes("x") == ["start-1", "stop-1"]
    assert open_starts(await store.qa_facts("x")) == (0, 1)
    assert store.status["x"] == "qa_running"


async def test_checks_asked_for_again_while_they_run_are_run_again() -> None:
    store = Memory("x")

    async def checks(_trace_id: str) -> None:
        if store.notes("x") == ["start-1"]:
            store.status["x"] = "finalized"

    assert await attempt_checks("x", store=store, checks=checks) == Attempt("again", 0.0)
    assert await attempt_checks("x", store=store, checks=checks) == Attempt("done")


@pytest.mark.parametrize("status", ["open", "complete", "qa_failed", "deleted"])
async def test_what_is_not_pending_is_left_alone(status: Status) -> None:
    store = Memory("x")
    store.status["x"] = status
    assert await attempt_checks("x", store=store, checks=failing(AssertionError())) == Attempt("gone")
    assert store.facts == {}
    assert await attempt_checks("none", store=store, checks=nothing) == Attempt("gone")


async def test_what_the_checks_decided_about_the_status_stays() -> None:
    store = Memory("x")

    async def checks(trace_id: str) -> None:
        await store.set_status(trace_id, "qa_failed")

    assert (await attempt_checks("x", store=store, checks=checks)).outcome == "done"
    assert store.status["x"] == "qa_failed"


async def test_a_store_in_trouble_is_asked_again_later() -> None:
    store = Memory("x")
    store.broken = 3
    async with working(store, nothing):
        await until(lambda: store.status["x"] == "complete")


async def test_of_two_workers_on_one_project_one_works_and_the_other_takes_over(tmp_path: Path) -> None:
    store, ran = Memory("a"), []

    async def checks(trace_id: str) -> None:
        ran.append(trace_id)

    lock = tmp_path / "worker.lock"
    async with AsyncExitStack() as second:
        async with working(store, checks, lock_file=lock):
            await until(lambda: store.status["a"] == "complete")
            await second.enter_async_context(working(store, checks, lock_file=lock))
            store.status["b"] = "finalized"
            await until(lambda: store.status["b"] == "complete")
        store.status["c"] = "finalized"
        await until(lambda: store.status["c"] == "complete")
    assert ran == ["a", "b", "c"]


def test_the_delay_doubles_up_to_ten_minutes() -> None:
    assert [delay_after(n) for n in (1, 2, 3, 4, 20)] == [5.0, 10.0, 20.0, 40.0, 600.0]
