"""The collector beside bare things in the same run: durable ingest over HTTP, PostgreSQL, MLflow, a trace of a million.

Both servers run as processes of their own under uvicorn with the same settings and get the same bytes; rounds
alternate, the median of the ratios is shown. PM_BENCH_MLFLOW=skip leaves MLflow out, PM_BENCH_EVENTS shortens the large
trace, PM_BENCH_SYNC_MS is how long the slow disk's sync takes. With names as arguments (`python -m benchmarks.collector
http slow postgres mlflow large`) only those parts run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import orjson

from benchmarks._collector_load import batches_of, create_body, event, replay, request
from benchmarks._collector_slow_disk import slow_disk
from benchmarks.harness import Figure, heading, show
from collector.store.port import TraceRow
from collector.store.sqlite.store import open_sqlite
from tests.collector.store.samples import stored

_ROUNDS = int(os.environ.get("PM_BENCH_ROUNDS", "5"))
_SYNC_MS = float(os.environ.get("PM_BENCH_SYNC_MS", "3"))
_ROOT = Path(__file__).parent.parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _process(arguments: list[str], port: int, *, cwd: Path, environ: dict[str, str] | None = None) -> Iterator[None]:
    given = {**os.environ, "PYTHONPATH": str(_ROOT), **(environ or {})}
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=cwd, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _until_open(port, process)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    for _attempt in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"a server ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError("a server did not start")


class Ours:
    """Our server; `traces` opens traces and gives a key for each."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {token}"})

    def traces(self, count: int, *, store: str = "redacted") -> list[tuple[str, str]]:
        made = []
        for _each in range(count):
            answer = self.client.post("/traces", content=create_body(str(uuid.uuid4()), store=store))
            answer.raise_for_status()
            made.append((answer.json()["trace_id"], answer.json()["ingest_key"]))
        return made

    def speed(self, bodies: list[list[bytes]], *, store: str = "redacted") -> float:
        """Requests a second: each list of bodies goes to a fresh trace, on a connection of its own."""
        clients = [
            [request(f"/traces/{trace_id}/events", body, port=self.port, token=key) for body in listed]
            for (trace_id, key), listed in zip(self.traces(len(bodies), store=store), bodies, strict=True)
        ]
        return replay(self.port, clients)


@contextlib.contextmanager
def ours(folder: Path, **environ: str) -> Iterator[Ours]:
    """`pm serve` in a fresh project."""
    project = folder / f"project-{uuid.uuid4().hex[:6]}"
    project.mkdir()
    port = _free_port()
    command = ["-m", "benchmarks._collector_server", "serve", "--port", str(port)]
    with _process(command, port, cwd=project, environ=environ):
        token = (project / ".pm-orchestrator" / "serve-token").read_text().strip()
        yield Ours(port, token)


@contextlib.contextmanager
def reference(folder: Path, **environ: str) -> Iterator[Callable[[list[list[bytes]]], float]]:
    """The reference server: requests a second for lists of bodies."""
    port = _free_port()

    def speed(bodies: list[list[bytes]]) -> float:
        return replay(
            port, [[request(f"/traces/{uuid.uuid4()}/events", b, port=port) for b in each] for each in bodies]
        )

    with _process(["-m", "benchmarks._collector_reference", str(folder), str(port)], port, cwd=folder, environ=environ):
        yield speed


def _singles(clients: int, each: int) -> list[list[bytes]]:
    return [batches_of(each, 1) for _client in range(clients)]


def _compare(
    name: str, target: float | None, mine: Callable[[], float], other: Callable[[], float], *, unit: int = 1
) -> None:
    """The median of the ratio mine / other over alternating rounds, after one round that is not counted."""
    mine(), other()
    pairs = [(mine(), other()) for _round in range(_ROUNDS)]
    ratio = statistics.median(first / second for first, second in pairs)
    first, second = (statistics.median(pair[which] for pair in pairs) * unit for which in (0, 1))
    show(Figure(name, ratio, target, "higher", f"{first:,.0f} / {second:,.0f} events a second"))


def _bare(folder: Path) -> None:
    descriptor = os.open(folder / "bare", os.O_CREAT | os.O_RDWR)
    os.write(descriptor, bytes(4096 * 512))
    os.fsync(descriptor)
    started = time.perf_counter()
    for at in range(500):
        os.pwrite(descriptor, bytes(4096), 4096 * at)
        os.fdatasync(descriptor)
    show(Figure("bare fdatasync of 4 kB, a second", 500 / (time.perf_counter() - started)))
    os.close(descriptor)
    database = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE events (body BLOB)")
    started = time.perf_counter()
    for _each in range(500):
        database.execute("INSERT INTO events VALUES (?)", (bytes(2000),))
    show(Figure("bare sqlite3 commits of 2 kB, a second", 500 / (time.perf_counter() - started)))
    database.close()


def http(folder: Path) -> None:
    """Durable ingest over HTTP."""
    heading("durable ingest over HTTP, beside bare ASGI with sqlite3 group commit")
    _bare(folder)
    one, many = _singles(1, 300), _singles(64, 30)
    batches = [batches_of(10, 100)]
    with reference(folder) as bare, ours(folder) as server, ours(folder, PM_BENCH_GROUP="1") as alone:
        server.speed([batches_of(25, 100)])  # as much text as the redactor wants to see before it compiles its patterns
        _compare("single events, 1 client", 0.4, lambda: server.speed(one), lambda: bare(one))
        _compare("single events, 64 clients", 0.4, lambda: server.speed(many), lambda: bare(many))
        _compare("batches of 100 of 2 kB", 0.25, lambda: server.speed(batches), lambda: bare(batches), unit=100)
        with ours(folder) as raw:  # of its own: a content that is stored redacted too needs a note of what differs
            _compare("batches, raw mode", 0.6, lambda: raw.speed(batches, store="raw"), lambda: bare(batches), unit=100)
            _compare(
                "batches, raw mode, no content seen before",
                None,
                lambda: raw.speed([batches_of(10, 100, unique=True)], store="raw"),
                lambda: bare([batches_of(10, 100, unique=True)]),
                unit=100,
            )
        _compare("64 clients, group commit on / off", 5, lambda: server.speed(many), lambda: alone.speed(many))
    _group_commit(folder)


def slow(folder: Path) -> None:
    """The same where a sync takes as long as on a usual disk: what group commit is for."""
    environ = slow_disk(folder, delay_ms=_SYNC_MS)
    if environ is None:
        print("\nno slow disk: that needs Linux and a C compiler")
        return
    heading(f"every process with a preloaded library that makes fsync and fdatasync {_SYNC_MS:g} ms longer")
    one, many = _singles(1, 100), _singles(64, 10)
    with reference(folder, **environ) as bare, ours(folder, **environ) as server:
        server.speed([batches_of(25, 100)])
        _compare("slow disk: single events, 1 client", None, lambda: server.speed(one), lambda: bare(one))
        _compare("slow disk: single events, 64 clients", None, lambda: server.speed(many), lambda: bare(many))
        with ours(folder, PM_BENCH_GROUP="1", **environ) as alone:
            alone.speed([batches_of(25, 100)])
            name = "slow disk: 64 clients, group commit on / off"
            _compare(name, 5, lambda: server.speed(many), lambda: alone.speed(many))


async def _store_alone(path: Path, group: int) -> float:
    """Events a second of 64 writers into the store itself, without HTTP, validation and redaction."""
    async with open_sqlite(path, group=group) as store:

        async def write(number: int) -> None:
            trace_id = str(uuid.UUID(int=number + 1))
            row = TraceRow(trace_id=trace_id, created_at_ms=1, metadata={})
            await store.create_trace(row, ingest_key_hash=trace_id)
            for seq in range(1, 31):
                each = event(seq) | {"payload": {"kind": "search", "query": "x" * 1_600}}
                await store.append_events(trace_id, [stored(each, identity=bytes(16))])

        started = time.perf_counter()
        await asyncio.gather(*(write(number) for number in range(64)))
        return 64 * 30 / (time.perf_counter() - started)


def _group_commit(folder: Path) -> None:
    """Group commit by itself: over HTTP a fast disk's sync is a small part of a request, so its effect hardly shows."""

    def alone(group: int) -> float:
        return asyncio.run(_store_alone(folder / f"alone-{uuid.uuid4().hex}.sqlite", group))

    _compare("the store alone, 64 writers, group commit on / off", None, lambda: alone(1000), lambda: alone(1))


def postgres(folder: Path) -> None:
    """Batches into PostgreSQL, beside bare COPY of the same rows, a commit for each batch."""
    from benchmarks._collector_postgres import bare_copy, server

    heading("batches of 100 of 2 kB into PostgreSQL, beside bare COPY")
    batches = [batches_of(10, 100)]
    with server() as dsn, ours(folder, PM_COLLECTOR_DATABASE=dsn) as ready:
        _compare(
            "over HTTP, redacted / bare COPY",
            0.2,
            lambda: ready.speed(batches),
            lambda: bare_copy(dsn, batches),
            unit=100,
        )
        _compare(
            "over HTTP, raw / bare COPY",
            0.2,
            lambda: ready.speed(batches, store="raw"),
            lambda: bare_copy(dsn, batches),
            unit=100,
        )


def large(folder: Path) -> None:
    """One trace of a million events: latency from the first to the last, first page, materializing."""
    heading("one trace of a million events")
    child = [sys.executable, "-m", "benchmarks._collector_large", str(folder)]
    environ = {**os.environ, "PYTHONPATH": str(_ROOT)}
    told = orjson.loads(subprocess.run([*child, "fill"], check=True, capture_output=True, env=environ).stdout)
    note = f"{told['first_ms']:.1f} -> {told['last_ms']:.1f} ms a batch of {told['batch']}, {told['events']:,} events"
    show(
        Figure("append latency, last tenth / first tenth (median)", told["last_ms"] / told["first_ms"], 1.5, note=note)
    )
    told = orjson.loads(subprocess.run([*child, "page"], check=True, capture_output=True, env=environ).stdout)
    show(Figure("first page of 200 events, ms", told["page_ms"]))
    told = orjson.loads(subprocess.run([*child, "materialize"], check=True, capture_output=True, env=environ).stdout)
    note = f"{told['megabytes']:.0f} MB in {told['seconds']:.0f} s"
    show(Figure("materialize: peak memory of the process, MB", told["peak_mb"], 200, note=note))


def mlflow(folder: Path) -> None:
    """MLflow's tracing server, installed into a throw-away environment."""
    from benchmarks._collector_mlflow import measure

    heading("MLflow's tracing server (SQLite), same machine, same run")
    with ours(folder) as server:
        server.speed([batches_of(25, 100)])  # as in `http`
        measure(
            folder, lambda load: server.speed([batches_of(load.requests, load.events) for _ in range(load.clients)])
        )


def main(names: list[str] | None = None) -> None:
    """Print every figure, or the parts named."""
    parts: dict[str, Callable[[Path], None]] = {
        "http": http,
        "slow": slow,
        "postgres": postgres,
        "large": large,
        "mlflow": mlflow,
    }
    for name in names or parts:
        folder = Path(tempfile.mkdtemp(prefix="pm-bench-"))
        try:
            parts[name](folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
