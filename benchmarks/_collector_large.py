"""One large trace, each step in a process of its own: `FOLDER fill|page|materialize`; prints one line of JSON."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import time
import uuid
from pathlib import Path

import orjson

from benchmarks._collector_load import batches_of, create_body
from collector.collector import Collector
from collector.opening import open_collector
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

_EVENTS = int(os.environ.get("PM_BENCH_EVENTS", "1000000"))
_BATCH = 500
_TRACE = str(uuid.UUID(int=20_261_121))


async def _fill(collector: Collector) -> dict[str, float]:
    await collector.create(create_body(_TRACE))
    times = []
    for first in range(1, _EVENTS + 1, _BATCH):
        (body,) = batches_of(1, _BATCH, first=first)
        started = time.perf_counter()
        await collector.append(_TRACE, body)
        times.append((time.perf_counter() - started) * 1000)
    tenth = max(len(times) // 10, 1)
    return {
        "events": _EVENTS,
        "batch": _BATCH,
        "first_ms": statistics.median(times[1 : tenth + 1]),
        "last_ms": statistics.median(times[-tenth:]),
    }


async def _page(collector: Collector) -> dict[str, float]:
    started = time.perf_counter()
    page = await collector.events_page(_TRACE, limit=200)
    assert len(page.events) == min(200, _EVENTS)
    return {"page_ms": (time.perf_counter() - started) * 1000}


async def _materialize(collector: Collector) -> dict[str, float]:
    started = time.perf_counter()
    size = 0
    async for piece in await collector.full(_TRACE):
        size += len(piece)
    return {
        "seconds": time.perf_counter() - started,
        "megabytes": size / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def main(folder: Path, step: str) -> None:
    """Do one step."""
    state = StateDir(folder / ".pm-orchestrator")
    settings = load_settings(project=state.root, environ=os.environ)
    async with open_collector(state, settings, environ=os.environ) as collector:
        told = await {"fill": _fill, "page": _page, "materialize": _materialize}[step](collector)
    sys.stdout.buffer.write(orjson.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
