"""kill -9 at any moment of `pm capture qa`: the next run goes on, each step has one result, no container is left."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from collector.qa.sandbox.container import ContainerSandbox
from tests.collector.qa.rigs import a_collector, a_repository, send_session
from tests.repl.support import command_line, environment
from tests.support.containers import IMAGE, container_engine, containers_of

pytestmark = [
    pytest.mark.torture,
    pytest.mark.container,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("bombs"),
]

_KILLS = 6


def _captured(folder: Path) -> str:
    async def send() -> str:
        async with a_collector(folder, state=".pm-orchestrator") as collector:
            return await send_session(collector, a_repository(folder))

    return asyncio.run(send())


def test_killed_at_any_moment_it_still_comes_to_one_result(project: Path) -> None:
    engine = container_engine()
    trace_id = _captured(project)
    environ = environment(PM_QA_SANDBOX=engine, PM_QA_PYTHON_IMAGE=IMAGE, PM_QA_COMMANDS="sh run.sh", PM_QA_REPEATS="2")
    words = command_line("capture", "qa", trace_id)
    begun = time.monotonic()
    subprocess.run([*words, "--again"], cwd=project, env=environ, check=True, capture_output=True)
    whole = time.monotonic() - begun
    killed: list[int] = []
    for _ in range(_KILLS):
        asyncio.run(_request_again(project, trace_id))
        running = subprocess.Popen(words, cwd=project, env=environ, start_new_session=True, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.2, whole))
        running.send_signal(signal.SIGKILL)
        running.wait()
        killed.append(running.pid)
        steps = _results_since_the_request(project, trace_id)
        assert max(steps.values(), default=0) <= 1, steps
        done = subprocess.run(words, cwd=project, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        steps = _results_since_the_request(project, trace_id)
        assert steps == {"schema": 1, "checkout": 1, "tests": 1, "judge": 1, "materialize": 1}
    asyncio.run(ContainerSandbox(engine).clean())
    assert [name for owner in killed for name in containers_of(owner)] == []


async def _request_again(folder: Path, trace_id: str) -> None:
    async with a_collector(folder, state=".pm-orchestrator") as collector:
        await collector.request_qa(trace_id)


def _results_since_the_request(folder: Path, trace_id: str) -> Counter[str]:
    async def read() -> Counter[str]:
        async with a_collector(folder, state=".pm-orchestrator") as collector:
            facts = await collector.store.qa_facts(trace_id)
        last = max(number for number, fact in enumerate(facts) if fact.step == "requested")
        return Counter(fact.step for fact in facts[last + 1 :])

    return asyncio.run(read())
