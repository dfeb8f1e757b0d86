"""A set of 1,000 captured sessions, exported by one process and by two: seconds, and whether the bytes are the same."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from collector.collector import Collector
from collector.handover.sets import Helpers, SetRequest, export_set
from collector.opening import open_collector
from tracer.clock import new_id
from tracer.redaction.engine import build_redactor
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

_TRACES = int(os.environ.get("PM_BENCH_TRACES", "1000"))
_EVENTS = 40
_TEXT = "\n".join(topics[name] for name in sorted(topics)).splitlines()  # words as people use them


async def _fill(collector: Collector) -> None:
    chance = random.Random(1)
    for number in range(_TRACES):
        created = await collector.create(
            {
                "repo": {"repo_id": f"acme/shop-{number % 50}", "commit_base": "a" * 40},
                "task": {"bug_report": {"title": f"total {number} is wrong", "description": "a price is left out"}},
                "developer": {"developer_id": "dev-1", "consent_flags": {"store_terminal_output": True}},
                "environment": {},
                "ingestion": {"mode": "batch", "client_session_id": "s"},
            }
        )
        await collector.append(created.trace_id, [_event(seq, chance) for seq in range(1, _EVENTS + 1)])
        await collector.finalize(created.trace_id)


def _event(seq: int, chance: random.Random) -> dict[str, Any]:
    text = "\n".join(chance.choices(_TEXT, k=20))
    kind, payload = [
        ("thought", {"content": text, "kind": "plan"}),
        ("terminal_output", {"stream": "stdout", "chunk": text, "is_truncated": False}),
    ][seq % 2]
    envelope = {"event_id": new_id(), "seq": seq, "ts_ms": 1_700_000_000_000 + seq, "type": kind}
    return {**envelope, "actor": {"kind": "human", "id": "dev-1"}, "payload": payload}


async def _measure(folder: Path) -> None:
    state = StateDir(folder / ".pm-orchestrator")
    opened = partial(open_collector, state, load_settings(project=state.root, environ={}), environ={})
    redactor = build_redactor(state_dir=state.root, environ={}, rewrite_paths=True, truncate=False)
    redactor.prepare()  # else the first figure alone would hold the seconds that it takes
    async with opened() as collector:
        await _fill(collector)
        figures: list[tuple[float, str]] = []
        for count in (1, 2):
            target, begun = folder / f"set-{count}", time.perf_counter()
            await export_set(
                SetRequest(where="", form="chat"),
                store=collector.store,
                contents=collector.contents,
                redactor=redactor,
                target=target,
                helpers=Helpers(opened, count),
            )
            seconds = time.perf_counter() - begun
            files = sorted(path for path in target.rglob("*") if path.is_file())
            figures.append((seconds, hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()))
            print(f"  {_TRACES} traces by {count}: {seconds:6.1f} s")
    same = "the same bytes" if figures[0][1] == figures[1][1] else "OTHER BYTES"
    print(f"  two are {figures[0][0] / figures[1][0]:.2f} times as fast, {same}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder)))


if __name__ == "__main__":
    main()
