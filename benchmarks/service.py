"""The service under many eyes: followers of one task, and a large raw trace beside a bare static server."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import resource
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.harness import Figure, show
from tests.service.support import GOOD, TOKEN, serving

_FOLLOWERS = int(os.environ.get("PM_BENCH_FOLLOWERS", "1000"))
_RAW_MB = int(os.environ.get("PM_BENCH_RAW_MB", "1024"))


def _lift_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FOLLOWERS * 4 + 1000
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


async def _follow(address: tuple[str, int], path: str) -> tuple[list[int], float]:
    """The ids one follower got, and when the last one came: a bare HTTP client, so that the server is measured."""
    reader, writer = await asyncio.open_connection(*address)
    host = f"{address[0]}:{address[1]}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    await writer.drain()
    ids, last = [], 0.0
    try:
        async for line in reader:
            if line.startswith(b"id: "):
                ids.append(int(line[4:]))
                last = time.perf_counter()
            elif line.startswith(b"event: end"):
                break
    finally:
        writer.close()
    return ids, last


def _followers(project: Path) -> None:
    with serving(project, [{**GOOD, "delay_ms": 8000}]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x"}).json()["task_id"]
        host, port = served.url.removeprefix("http://").split(":")
        address, path = (host, int(port)), f"/api/tasks/{task_id}/events"

        async def all_of_them() -> list[tuple[list[int], float]]:
            return await asyncio.gather(*(_follow(address, path) for _each in range(_FOLLOWERS)))

        got = asyncio.run(all_of_them())
        facts = len(served.client.get(f"/api/tasks/{task_id}/trace").json()["entries"])
    whole = sum(ids == list(range(facts)) for ids, _ in got)
    ends = sorted(last for _, last in got)
    show(Figure(f"share of {_FOLLOWERS} followers with every fact in order", whole / _FOLLOWERS, 1.0, "higher"))
    show(Figure("seconds between the first and the last follower's end", ends[-1] - ends[0]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    show(Figure("peak memory of server and followers together, MB", peak))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """The bare static server, without a line for each request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


def _download(url: str, headers: dict[str, str]) -> tuple[float, int]:
    started, size = time.perf_counter(), 0
    with httpx2.stream("GET", url, headers=headers, timeout=600) as answer:
        for chunk in answer.iter_raw(1 << 20):
            size += len(chunk)
    return time.perf_counter() - started, size


def _raw(project: Path) -> None:
    with serving(project, [GOOD]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x"}).json()["task_id"]
        served.until_ended(task_id)
        trace = project / served.client.get(f"/api/tasks/{task_id}/trace").json()["trace_file"]
        lines = trace.read_bytes().splitlines(keepends=True)
        fact: dict[str, Any] = json.loads(lines[2])
        fact["data"]["prompt"] = "x = compute(value)\n" * 50_000
        filler = (json.dumps(fact) + "\n").encode()
        with trace.open("wb") as file:
            file.writelines(lines[:3])
            while file.tell() < _RAW_MB << 20:
                file.write(filler)
            file.writelines(lines[3:])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ours, size = _download(f"{served.url}/api/tasks/{task_id}/trace?raw=true", {"authorization": f"Bearer {TOKEN}"})
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        handler = partial(_Quiet, directory=str(trace.parent))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as bare:
            threading.Thread(target=bare.serve_forever, daemon=True).start()
            static, _ = _download(f"http://127.0.0.1:{bare.server_port}/{trace.name}", {})
            bare.shutdown()
    show(Figure(f"raw trace of {size >> 20} MB: our speed / bare static server", static / ours, 0.5, "higher"))
    show(Figure("memory grown while it was sent, MB", grown))


def main() -> None:
    """Print both."""
    _lift_file_limit()
    for measure in (_followers, _raw):
        with tempfile.TemporaryDirectory() as name:
            project = Path(name) / "project"
            project.mkdir()
            measure(project)


if __name__ == "__main__":
    main()
