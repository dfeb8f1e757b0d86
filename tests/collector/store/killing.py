"""Kill a real ingesting process under load, again and again, and look whether what it acknowledged is there, once.

One campaign keeps one database: the server is started, clients send batches (some again, some concurrently twice), the
process group gets SIGKILL at a random moment of its work, and what is stored is compared with what was acknowledged.
A record of the answers is all the clients keep; after each kill they send what was not answered once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx2
import orjson

from collector.store.port import TraceStore
from tests.collector.store.samples import metadata, sent
from tracer.blobs import blob_id_of

__all__ = ["Campaign", "Client"]

_ROOT = Path(__file__).parents[3]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Client:
    """One trace's sender: `acknowledged` are the seqs that were answered with success."""

    trace_id: str
    rng: random.Random
    next_seq: int = 1
    key: str = ""
    acknowledged: int = 0
    unanswered: list[dict[str, Any]] = field(default_factory=list)

    def batch(self) -> list[dict[str, Any]]:
        """What was not answered, as it was, or fresh events."""
        if not self.unanswered:
            count = self.rng.choice((1, 1, 3, 20))
            self.unanswered = [self._event(self.next_seq + at) for at in range(count)]
            self.next_seq += count
        return self.unanswered

    def _event(self, seq: int) -> dict[str, Any]:
        number = uuid.UUID(self.trace_id).int ^ seq
        if seq % 3:
            return sent(seq, number=number)
        return sent(seq, of="thought", number=number, content=text_of(self.trace_id, seq), kind="plan")


def text_of(trace_id: str, seq: int) -> str:
    """The content of a thought; each eighth is too large for the database and goes to the blob store."""
    return f"thought {seq} of {trace_id} " + ("long " * 20_000 if seq % 8 == 0 else "")


def _until_gone(process: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.002)
    raise AssertionError("the killed process is still there")


class Campaign:
    """A server that is killed, its clients and what they know."""

    def __init__(self, project: Path, *, seed: int, environ: dict[str, str] | None = None, clients: int = 6) -> None:
        self.project = project
        self.rng = random.Random(seed)
        self.environ = {**os.environ, "PYTHONPATH": str(_ROOT), **(environ or {})}
        self.clients = [
            Client(str(uuid.UUID(int=self.rng.getrandbits(128))), random.Random(self.rng.random()))
            for _each in range(clients)
        ]
        self.kills = 0
        self.answered = asyncio.Event()
        self.answers = 0

    def __enter__(self) -> Self:
        self.forker = subprocess.Popen(
            [sys.executable, "-m", "tests.collector.store.kill_child"],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(self, *_error: object) -> None:
        self.forker.stdin.close()
        self.forker.wait(10)
        self.forker.stdout.close()

    def _start(self, port: int) -> int:
        self.forker.stdin.write(f"{port}\n")
        self.forker.stdin.flush()
        return int(self.forker.stdout.readline())

    async def round(self) -> None:
        """Start, load, kill."""
        port = free_port()
        process = self._start(port)
        try:
            await self._until_ready(port)
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                for client in self.clients:
                    await self._create(http, client)
                self.answered = asyncio.Event()
                senders = [asyncio.create_task(self._send(http, client)) for client in self.clients]
                if self.rng.random() < 0.8:  # most while it works, some while it warms up
                    await self.answered.wait()
                await asyncio.sleep(self.rng.uniform(0.0, 0.25))
                os.killpg(process, signal.SIGKILL)
                self.kills += 1
                await asyncio.gather(*senders)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            _until_gone(process)

    async def _until_ready(self, port: int) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                _reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return
        raise AssertionError("the server did not start")

    async def _create(self, http: httpx2.AsyncClient, client: Client) -> None:
        if client.key:
            return
        token = (self.project / ".pm-orchestrator" / "serve-token").read_text().strip()
        body = orjson.dumps({"trace_id": client.trace_id, **metadata()})
        answer = await http.post("/traces", content=body, headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 201, answer.text
        client.key = answer.json()["ingest_key"]

    async def _send(self, http: httpx2.AsyncClient, client: Client) -> None:
        headers = {"authorization": f"Bearer {client.key}"}
        while True:
            batch = client.batch()
            body = orjson.dumps({"events": batch})
            calls = [http.post(f"/traces/{client.trace_id}/events", content=body, headers=headers)]
            if client.rng.random() < 0.2:  # an impatient sender
                calls.append(http.post(f"/traces/{client.trace_id}/events", content=body, headers=headers))
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for answer in answers:
                if isinstance(answer, httpx2.TransportError):
                    continue
                assert not isinstance(answer, BaseException), answer
                assert answer.status_code == 200, answer.text
                assert answer.json()["seq_last"] == batch[-1]["seq"]
                client.acknowledged = batch[-1]["seq"]
                client.unanswered = []
                self.answers += 1
                self.answered.set()
            if any(isinstance(answer, httpx2.TransportError) for answer in answers):
                return

    async def check(self, store: TraceStore, blobs: Path) -> None:
        """Nothing acknowledged is lost, nothing is there twice, nothing is there in part."""
        for client in self.clients:
            if not client.key:
                continue
            seqs: list[int] = []
            while page := await store.read_events(client.trace_id, after=seqs[-1] if seqs else 0):
                for event in page:
                    await self._check_blob(store, blobs, client, event)
                seqs += [event.seq for event in page]
            row = await store.get_trace(client.trace_id)
            assert row is not None
            assert seqs == list(range(1, len(seqs) + 1)), "an event is missing or there twice"
            assert row.seq_last == row.event_count == len(seqs)
            assert len(seqs) >= client.acknowledged, "something acknowledged is lost"
            sent_last = client.unanswered[-1]["seq"] if client.unanswered else client.acknowledged
            assert len(seqs) in {client.acknowledged, sent_last}, "a batch is there in part"

    async def _check_blob(self, store: TraceStore, blobs: Path, client: Client, event: Any) -> None:
        if event.type != "thought":
            return
        expected = text_of(client.trace_id, event.seq).encode()
        blob_id = orjson.loads(event.payload)["content_blob_id"]
        assert blob_id == blob_id_of(expected)
        data = await store.blob_data(blob_id)
        if data is None:
            digits = blob_id.removeprefix("sha256:")
            data = (blobs / "sha256" / digits[:2] / digits[2:]).read_bytes()
        assert data == expected
