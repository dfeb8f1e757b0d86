"""MLflow's tracing server for the collector's benchmark: the same texts as OTLP spans, into SQLite.

It is installed into a throw-away environment inside the benchmark's folder (some 300 MB); PM_BENCH_MLFLOW=skip leaves
it out, PM_BENCH_MLFLOW=/path/to/python takes an environment that has it. It is asked only once its start is over, and
is stopped while ours is measured: its workers for other jobs take processor time meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks._collector_load import event, replay
from benchmarks.harness import Figure, show

__all__ = ["Load", "measure"]


class Load(NamedTuple):
    """So many clients, each sending so many requests one after the other, with so many events in each."""

    clients: int
    requests: int
    events: int

    @property
    def name(self) -> str:
        """As in the table."""
        what = "single events" if self.events == 1 else f"batches of {self.events} of 2 kB"
        return f"{what}, {self.clients} {'client' if self.clients == 1 else 'clients'}: ours / MLflow"


# What we are asked for, and how many requests of each client MLflow is asked for.
_LOADS = (
    (Load(1, 200, 1), 20.0, 40),
    (Load(64, 30, 1), 20.0, 4),
    (Load(1, 10, 100), 15.0, 3),
    (Load(8, 4, 100), 15.0, 1),
)
_ROUNDS = int(os.environ.get("PM_BENCH_ROUNDS", "5"))


def _python(folder: Path) -> str | None:
    """A Python that has MLflow; None (with the reason printed) where it cannot be had."""
    chosen = os.environ.get("PM_BENCH_MLFLOW", "")
    if chosen == "skip":
        sys.stdout.write("left out: PM_BENCH_MLFLOW=skip\n")
        return None
    if chosen:
        return chosen
    target = folder / "mlflow"
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    python = str(target / "bin" / "python")
    make = [uv, "venv", "-q", str(target)] if uv else [sys.executable, "-m", "venv", str(target)]
    install = [uv, "pip", "install", "-q", "--python", python] if uv else [python, "-m", "pip", "install", "-q"]
    try:
        subprocess.run(make, check=True, capture_output=True, timeout=300)
        subprocess.run([*install, "mlflow"], check=True, capture_output=True, timeout=900)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stdout.write(f"left out: MLflow could not be installed ({type(error).__name__})\n")
        return None
    return python


def _body(trace_id: bytes, count: int) -> bytes:
    export = ExportTraceServiceRequest()
    scope = export.resource_spans.add().scope_spans.add()
    for _each in range(count):
        made = event(1)
        span = scope.spans.add()
        span.trace_id, span.span_id, span.name = trace_id, secrets.token_bytes(8), made["type"]
        span.start_time_unix_nano = made["ts_ms"] * 1_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + 1_000_000
        for name, value in (("chunk", made["payload"]["chunk"]), ("stream", "stdout"), ("event_id", made["event_id"])):
            attribute = span.attributes.add()
            attribute.key, attribute.value.string_value = name, value
    return bytes(export.SerializeToString())


def _requests(count: int, spans: int, port: int) -> list[bytes]:
    trace_id = secrets.token_bytes(16)
    made = []
    for _each in range(count):
        body = _body(trace_id, spans)
        head = (
            f"POST /v1/traces HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx-mlflow-experiment-id: 0\r\n"
            f"content-type: application/x-protobuf\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


def _until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    for _attempt in range(600):
        if process.poll() is not None:
            raise RuntimeError("MLflow's server ended")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=2):
            return
        time.sleep(0.2)
    raise RuntimeError("MLflow's server did not start")


def _until_quiet(session: int) -> None:
    """Wait until the server's programs use next to no processor time: some start long after it answers."""
    spent, quiet = -1, 0
    for _attempt in range(120):
        told = subprocess.run(["ps", "-s", str(session), "-o", "cputimes="], capture_output=True, text=True, check=True)
        now = sum(map(int, told.stdout.split()))
        quiet = quiet + 1 if now - spent <= 0 else 0
        if quiet >= 5:
            return
        spent = now
        time.sleep(1)


@contextlib.contextmanager
def _stopped(session: int) -> Iterator[None]:
    os.killpg(session, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(session, signal.SIGCONT)


def measure(folder: Path, ours: Callable[[Load], float]) -> None:
    """Show our events a second over MLflow's spans a second; `ours` gives requests a second."""
    python = _python(folder)
    if python is None:
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    home = folder / "mlflow-home"
    home.mkdir()
    command = [python, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{home}/mlflow.db"]
    workers = os.environ.get("PM_BENCH_MLFLOW_WORKERS")
    environ = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port), *(["--workers", workers] if workers else [])],
        cwd=home,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _until_healthy(f"http://127.0.0.1:{port}", process)
        _until_quiet(process.pid)
        for load, target, theirs in _LOADS:
            replay(port, [_requests(2, load.events, port)])
            pairs = []
            for _round in range(_ROUNDS):
                with _stopped(process.pid):
                    mine = ours(load) * load.events
                sent = [_requests(theirs, load.events, port) for _client in range(load.clients)]
                pairs.append((mine, replay(port, sent) * load.events))
            first, second = (statistics.median(pair[which] for pair in pairs) for which in (0, 1))
            ratio = statistics.median(mine / other for mine, other in pairs)
            show(Figure(load.name, ratio, target, "higher", f"{first:,.0f} / {second:,.0f} events a second"))
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)
