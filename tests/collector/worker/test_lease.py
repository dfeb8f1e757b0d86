"""Two checkers at once, and kill -9 of all who check: one verdict a trace, and nothing lost.

PM_TEST_RACES and PM_TEST_KILLS set how often; the published figures are of 200 and 100.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from collector.collector import Collector
from collector.judge.packet import Packet
from collector.judge.port import JudgeResult
from collector.judge.rubric_judge import RubricJudge
from collector.opening import open_collector
from collector.qa import pipeline
from collector.qa.pipeline import leased, run_qa
from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from collector.qa.sandbox.port import Sandbox
from collector.store.port import QaFact
from collector.work.worker import Attempt, attempt_checks
from tests.collector.judge.command import environment, pm_command
from tests.collector.judge.rigs import a_reply, recorded
from tests.collector.qa.rigs import a_repository, quick_settings, send_session
from tests.support.tools import need_program
from tracer.errors import LockedError, UnavailableError
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

pytestmark = [pytest.mark.machine, pytest.mark.xdist_group("postgres")]
RACES = int(os.environ.get("PM_TEST_RACES", "8"))
KILLS = int(os.environ.get("PM_TEST_KILLS", "6"))
STEPS = {"schema": 1, "checkout": 1, "tests": 1, "judge": 1, "materialize": 1}


@pytest.fixture(params=["sqlite", "postgresql"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of a database."""
    return {"PM_COLLECTOR_DATABASE": request.getfixturevalue("postgres_dsn")} if request.param == "postgresql" else {}


@pytest.fixture
async def checkers(tmp_path: Path, environ: dict[str, str]) -> AsyncIterator[tuple[Collector, Collector]]:
    """Two collectors on one database, as two processes have them."""
    state = StateDir(tmp_path / ".pm-orchestrator")
    settings = load_settings(project=state.root, environ=environ)
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(open_collector(state, settings, environ=environ)) for _ in range(2)
        ]
        yield one, other


class Judge:
    """One that counts what it is asked."""

    identity = "counting"

    def __init__(self) -> None:
        self.asked = 0

    async def judge(self, packet: Packet) -> JudgeResult:
        self.asked += 1
        await asyncio.sleep(0)
        return await RubricJudge(recorded(a_reply(4, cite=sorted(packet.event_ids)[:1]))).judge(packet)

    async def close(self) -> None:
        pass


async def bubblewrap(_image: str) -> Sandbox:
    return BubblewrapSandbox()


def results(facts: tuple[QaFact, ...]) -> Counter[str]:
    return Counter(fact.step for fact in facts if fact.step in STEPS)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_two_checkers_at_once_leave_one_verdict(tmp_path: Path, checkers: tuple[Collector, Collector]) -> None:
    """A worker and somebody at the command line; then the loser again, without a judge."""
    need_program("bwrap", how="apt-get install bubblewrap")
    repository, chance, judge = a_repository(tmp_path), random.Random(4711), Judge()
    settings = quick_settings(tmp_path, repeats=1, trials=0)

    async def check(collector: Collector, trace_id: str, *, judge: Judge | None, wait_s: float = 0.0) -> None:
        await asyncio.sleep(wait_s)
        await run_qa(trace_id, collector=collector, settings=settings, judge=judge, sandbox=bubblewrap)

    for number in range(RACES):
        worker, by_hand = checkers if number % 2 else checkers[::-1]
        trace_id = await send_session(worker, repository)
        raced = await asyncio.gather(
            attempt_checks(trace_id, store=worker.store, checks=partial(check, worker, judge=judge)),
            check(by_hand, trace_id, judge=judge, wait_s=chance.choice((0.0, chance.random() * 0.02))),
            return_exceptions=True,
        )
        assert all(isinstance(each, Attempt | LockedError | None) for each in raced), raced
        assert results(await by_hand.store.qa_facts(trace_id)) == Counter(STEPS), number
        await check(by_hand, trace_id, judge=None)
        told = await by_hand.metadata(trace_id)
        assert (judge.asked, told["qa"]["judge"]["overall"]) == (number + 1, 4.0)
        assert told["qa"]["tests"]["detail"]["proof"]["verdict"] == "proven"


async def test_who_lost_the_lease_ends(checkers: tuple[Collector, Collector], monkeypatch: pytest.MonkeyPatch) -> None:
    """The database was away for longer than the lease: whoever holds the trace now must not be disturbed."""
    monkeypatch.setattr(pipeline, "_LEASE_MS", 60)
    store, trace_id = checkers[0].store, "30000000-0000-4000-8000-000000000001"

    async def away(*_: Any, **__: Any) -> str:
        raise UnavailableError("the database is away")

    async def hold() -> None:
        async with leased(store, trace_id):
            monkeypatch.setattr(store, "take_lease", away)
            await asyncio.sleep(60)

    with pytest.raises(LockedError):
        await hold()


async def test_the_lease_is_renewed_while_the_checks_run(
    checkers: tuple[Collector, Collector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_LEASE_MS", 60)
    store, renewed, asked = checkers[0].store, asyncio.Event(), list[str]()
    take = store.take_lease

    async def counted(trace_id: str, holder: str, **more: int) -> str:
        asked.append(holder)
        if len(asked) > 2:
            renewed.set()
        return await take(trace_id, holder, **more)

    monkeypatch.setattr(store, "take_lease", counted)
    async with leased(store, "30000000-0000-4000-8000-000000000002"):
        await renewed.wait()
    assert len(set(asked)) == 1


class Crew:
    """A server and two workers on one PostgreSQL, each of which may be killed."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._words = [["serve", "--port", "0"], ["admin", "worker"], ["admin", "worker"]]
        self.members: list[subprocess.Popen[bytes]] = []
        for words in self._words:
            self.members.append(self._start(words))

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / "crew.log").open("ab") as log:
            return subprocess.Popen(
                pm_command("-C", str(self._folder), *words),
                env=environment(**self._environ),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, number: int) -> None:
        """Kill one at once, and start another in its place."""
        os.killpg(self.members[number].pid, signal.SIGKILL)
        self.members[number].wait(30)
        self.members[number] = self._start(self._words[number])

    def end(self) -> None:
        for member in self.members:
            member.terminate()
        for member in self.members:
            member.wait(60)


async def ended(collector: Collector, trace_ids: list[str]) -> bool:
    rows = [await collector.store.get_trace(trace_id) for trace_id in trace_ids]
    return all(row is not None and row.status in {"complete", "qa_failed"} for row in rows)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_server_and_workers_killed_amid_checks_lose_nothing_and_judge_nothing_twice(
    tmp_path: Path, postgres_dsn: str
) -> None:
    need_program("bwrap", how="apt-get install bubblewrap")
    recording = tmp_path / "judge.jsonl"
    cited = "00000000-0000-4000-8000-000000000001"
    recording.write_text(json.dumps({"reply": a_reply(4, cite=[cited])}) + "\n")
    environ = {
        "PM_COLLECTOR_DATABASE": postgres_dsn,
        "PM_JUDGE_RECORDING": str(recording),
        "PM_JUDGE_PER_MINUTE": "6000",
        "PM_WORKER_HEARTBEAT": "2",
        "PM_QA_SANDBOX": "bubblewrap",
        "PM_QA_REPEATS": "1",
        "PM_QA_TRIALS": "0",
        "PM_QA_COMMANDS": "sh run.sh",
    }
    state = StateDir(tmp_path / ".pm-orchestrator")
    repository, chance, ids = a_repository(tmp_path), random.Random(22), list[str]()
    async with open_collector(state, load_settings(project=state.root, environ=environ), environ=environ) as collector:
        crew = Crew(tmp_path, environ)
        try:
            for _ in range(KILLS):
                ids += [await send_session(collector, repository) for _ in range(2)]
                await _amid_checks(collector, ids)
                await asyncio.sleep(chance.random())
                crew.kill(chance.randrange(3))
            async with asyncio.timeout(600):
                while not await ended(collector, ids):
                    await asyncio.sleep(0.2)
        finally:
            crew.end()
        for trace_id in ids:
            told = await collector.metadata(trace_id)
            log = (tmp_path / "crew.log").read_text()
            assert told["status"] == "complete", log
            assert (told["event_count"], told["qa"]["judge"]["overall"]) == (1, 4.0), log
            assert told["qa"]["tests"]["detail"]["proof"]["verdict"] == "proven", log
            assert results(await collector.store.qa_facts(trace_id)) == Counter(STEPS), log


async def _amid_checks(collector: Collector, trace_ids: list[str]) -> None:
    """Wait until one of the traces has a result and not all, so that a kill meets somebody at work."""
    async with asyncio.timeout(60):
        while not await ended(collector, trace_ids):
            for trace_id in trace_ids[-2:]:
                if await collector.store.qa_facts(trace_id):
                    return
            await asyncio.sleep(0.02)
