"""Durable appends beside write + fdatasync of the same bytes, on the same disk, in the same run.

Rounds alternate between the bare calls and the journal, and the median ratio counts, because a shared disk drifts. The
folder is the current one (PM_BENCH_DIR names another): a tmpfs would make every figure meaningless.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.harness import Figure, heading, show
from tracer.conversation import ConversationTracer
from tracer.journal.writer import Journal

_WRITERS = 1000
_EVENTS = 10_000
_ROUNDS = 5
_LINE = b'{"event":"LLM_RESPONSE","data":{"output":"' + b"x" * 979 + b'"}}\n'
_TEXT = "The login form now validates the address before it is sent. " * 16


def _bare(folder: Path, *, events: int, per_sync: int, sync: bool = True) -> float:
    """Events a second of one write (+ fdatasync) per `per_sync` lines."""
    path = folder / "bare"
    data = _LINE * per_sync
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    started = time.perf_counter()
    for _ in range(events // per_sync):
        os.write(descriptor, data)
        if sync:
            os.fdatasync(descriptor)
    rate = events / (time.perf_counter() - started)
    os.close(descriptor)
    path.unlink()
    return rate


async def _timed(append: Callable[[], Awaitable[object]], *, events: int, writers: int) -> float:
    """Events a second of `writers` tasks that append as soon as their last append is durable."""

    async def writer() -> None:
        for _ in range(events // writers):
            await append()

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(writer())
    return events / (time.perf_counter() - started)


async def _journal(folder: Path, *, events: int, writers: int, chained: bool = False) -> float:
    async with await Journal.create(folder / "journal.jsonl", chained=chained) as journal:
        await journal.append(_LINE)
        rate = await _timed(lambda: journal.append(_LINE), events=events, writers=writers)
    for path in folder.glob("journal.jsonl*"):
        path.unlink()
    return rate


async def _tracer(folder: Path, *, events: int, writers: int) -> float:
    async with ConversationTracer(state_dir=folder / "state", session_id="bench", task_id="task-001") as tracer:
        await tracer.log_user_request("bench")
        rate = await _timed(lambda: tracer.log_llm_response(_TEXT, "COMPLETE", [], 0), events=events, writers=writers)
        tracer.get_trace_file_path().unlink()
    return rate


def _rounds(folder: Path) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {}
    for _ in range(_ROUNDS):
        one = _bare(folder, events=600, per_sync=1)
        hundred = _bare(folder, events=_EVENTS, per_sync=100)
        unsynced = _bare(folder, events=_EVENTS, per_sync=1, sync=False)
        many = asyncio.run(_journal(folder, events=_EVENTS, writers=_WRITERS))
        chained = asyncio.run(_journal(folder, events=_EVENTS, writers=_WRITERS, chained=True))
        single = asyncio.run(_journal(folder, events=600, writers=1))
        single_chained = asyncio.run(_journal(folder, events=600, writers=1, chained=True))
        traced = asyncio.run(_tracer(folder, events=5000, writers=_WRITERS))
        traced_single = asyncio.run(_tracer(folder, events=300, writers=1))
        for name, value in {
            "one": one,
            "hundred": hundred,
            "unsynced": unsynced,
            "many/one": many / one,
            "many/hundred": many / hundred,
            "chained/one": chained / one,
            "one/single": one / single,
            "one/single chained": one / single_chained,
            "traced/one": traced / one,
            "one/traced single": one / traced_single,
            "unsynced/many": unsynced / many,
        }.items():
            figures.setdefault(name, []).append(value)
    return figures


def main() -> None:
    """Print the ratios the design asks for, each beside the bare rate of the same run."""
    heading(f"journal: 1 kB lines, {_WRITERS} concurrent writers, median of {_ROUNDS} rounds")
    with tempfile.TemporaryDirectory(dir=os.environ.get("PM_BENCH_DIR", ".")) as name:
        os.environ["XDG_STATE_HOME"] = name  # second copies of records lie on the same disk
        median = {key: statistics.median(values) for key, values in _rounds(Path(name)).items()}
    sys.stdout.write(
        f"bare: write + fdatasync per line {median['one']:,.0f}/s; per 100 lines {median['hundred']:,.0f} lines/s;"
        f" write without sync {median['unsynced']:,.0f}/s\n"
    )
    show(Figure("journal, 1,000 writers / bare line by line", median["many/one"], 15, "higher"))
    show(Figure("journal, 1,000 writers / bare 100 lines a sync", median["many/hundred"], 0.25, "higher"))
    show(Figure("journal with chain, 1,000 writers / bare line by line", median["chained/one"]))
    show(Figure("tracer (redaction, chain), 1,000 writers / bare", median["traced/one"], 3, "higher"))
    show(Figure("journal, one writer: time / bare time", median["one/single"], 1.6))
    show(Figure("journal with chain, one writer: time / bare time", median["one/single chained"]))
    show(Figure("tracer, one writer: time / bare time", median["one/traced single"]))
    show(Figure("write without sync / journal, 1,000 writers", median["unsynced/many"]))


if __name__ == "__main__":
    main()
