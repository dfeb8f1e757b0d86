"""kill -9 of real workers (`pm admin worker`) amid real checks on PostgreSQL: every trace ends with one result."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.collector import Collector
from collector.opening import open_collector
from tests.collector.judge.captures import a_capture, uid
from tests.collector.judge.command import environment, pm_command
from tests.collector.judge.rigs import a_reply
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

pytestmark = [pytest.mark.torture, pytest.mark.xdist_group("postgres")]


def start(folder: Path, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "workers.log").open("ab") as log:
        return subprocess.Popen(
            pm_command("-C", str(folder), "admin", "worker", "--parallel", "2"),
            env=environment(**environ),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


async def all_ended(collector: Collector, ids: Sequence[str]) -> bool:
    rows = [await collector.store.get_trace(trace_id) for trace_id in ids]
    return all(row is not None and row.status in {"complete", "qa_failed"} for row in rows)


async def begun(collector: Collector, ids: Sequence[str]) -> int:
    return sum([len(await collector.store.qa_facts(trace_id)) for trace_id in ids])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
async def test_workers_killed_again_and_again_leave_one_result_for_every_trace(
    tmp_path: Path, postgres_dsn: str, seed: int
) -> None:
    recording = tmp_path / "judge.jsonl"
    recording.write_text(json.dumps({"reply": a_reply(4, cite=[uid(1)])}) + "\n")
    environ = {
        "PM_COLLECTOR_DATABASE": postgres_dsn,
        "PM_JUDGE_RECORDING": str(recording),
        "PM_JUDGE_PER_MINUTE": "300",
        "PM_WORKER_HEARTBEAT": "2",
    }
    state = StateDir(tmp_path / ".pm-orchestrator")
    chance = random.Random(seed)
    async with open_collector(state, load_settings(project=state.root, environ=environ), environ=environ) as collector:
        ids = [await a_capture(collector, number=700 + number) for number in range(12)]
        for _ in range(3):
            worker, known = start(tmp_path, environ), await begun(collector, ids)
            deadline = time.monotonic() + 60
            while await begun(collector, ids) == known and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            await asyncio.sleep(chance.random() * 0.4)
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait(10)
        last = start(tmp_path, environ)
        try:
            async with asyncio.timeout(90):
                while not await all_ended(collector, ids):
                    await asyncio.sleep(0.1)
        finally:
            last.terminate()
            last.wait(30)
        for trace_id in ids:
            told = await collector.metadata(trace_id)
            assert told["status"] == "complete", (tmp_path / "workers.log").read_text()
            assert told["qa"]["judge"]["overall"] == 4.0
            steps = Counter(fact.step for fact in await collector.store.qa_facts(trace_id))
            assert (steps["schema"], steps["judge"], steps["materialize"]) == (1, 1, 1)
