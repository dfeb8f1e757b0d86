"""The service under many eyes: followers of one task, and a large raw trace beside a bare sendfile server."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


def _sendfile_server(path: str, port: Any) -> None:
    """The bare static server: one request, answered by sendfile and nothing else."""
    listener = socket.create_server(("127.0.0.1", 0))
    port.send(listener.getsockname()[1])
    while True:
        connection, _address = listener.accept()
        with connection, Path(path).open("rb") as file:
            connection.recv(65536)
            length = os.fstat(file.fileno()).st_size
            connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n".encode())
            connection.sendfile(file)


def _our_server(project: str, port: Any) -> None:
    """The service in a process of its own, as people run it."""
    with serving(Path(project), [GOOD]) as served:
        port.send(int(served.url.rpartition(":")[2]))
        threading.Event().wait()


def _download(port: int, path: str) -> tuple[float, int]:
    """Seconds and bytes of one answer; a bare client, so that the server is measured."""
    room = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        started = time.perf_counter()
        connection.sendall(head.encode())
        size, length, answer = 0, None, b""
        while length is None or size < length:
            got = connection.recv_into(room)
            if not got:
                break
            if length is None:
                answer += room[:got]
                top, found, rest = answer.partition(b"\r\n\r\n")
                if found:
                    lines = [line.split(b":", 1) for line in top.lower().split(b"\r\n")[1:]]
                    length, size = int(dict(lines)[b"content-length"]), len(rest)
            else:
                size += got
    return time.perf_counter() - started, size


@contextmanager
def _process(target: Any, *arguments: str) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its port and process id."""
    fork = multiprocessing.get_context("spawn")
    here, there = fork.Pipe()
    process = fork.Process(target=target, args=(*arguments, there), daemon=True)
    process.start()
    try:
        yield here.recv(), process.pid or 0
    finally:
        process.kill()
        process.join()


def _peak_mb(process_id: int) -> float:
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _large_trace(project: Path) -> tuple[str, Path]:
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
    return task_id, trace


def _raw(project: Path) -> None:
    task_id, trace = _large_trace(project)
    path = f"/api/tasks/{task_id}/trace?raw=true"
    with _process(_our_server, str(project)) as (port, process_id), _process(_sendfile_server, str(trace)) as (bare, _):
        _download(port, "/healthz")
        _download(bare, "/")  # the file is in the page cache for both from here on
        before = _peak_mb(process_id)
        pairs = [(_download(port, path), _download(bare, "/")) for _each in range(5)]
        grown = _peak_mb(process_id) - before
    ours = min(seconds for (seconds, _size), _ in pairs)
    static = min(seconds for _, (seconds, _size) in pairs)
    size = pairs[0][0][1]
    show(Figure(f"raw trace of {size >> 20} MB, MB/s", size / 1e6 / ours))
    show(Figure("bare sendfile server, MB/s", size / 1e6 / static))
    show(Figure("our speed / bare sendfile server", static / ours, 0.5, "higher"))
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
