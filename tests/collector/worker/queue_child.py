"""A worker in a process of its own for the queue's tests: `python -m … DSN LOG SECONDS OPTIONS(JSON)`.

Its checks write `start ID` and `end ID` to LOG, with SECONDS between them; with OPTIONS `die` they kill the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from collector.store.postgres.store import open_postgres
from collector.work.worker import QueueLimits, run_queue_worker


async def main() -> None:
    dsn, log, seconds, options = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4])
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    def note(word: str, trace_id: str) -> None:
        os.write(descriptor, f"{word} {trace_id} {os.getpid()}\n".encode())

    async def checks(trace_id: str) -> None:
        note("start", trace_id)
        if options.pop("die", False):
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(seconds)
        note("end", trace_id)

    limits: dict[str, Any] = {"heartbeat_s": 1.0, "poll_s": 0.5, "first_delay_s": 0.1, **options.pop("limits", {})}
    os.write(descriptor, b"ready\n")
    async with open_postgres(dsn) as store:
        await run_queue_worker(dsn, store=store, checks=checks, stop=stop, limits=QueueLimits(**limits))


if __name__ == "__main__":
    asyncio.run(main())
