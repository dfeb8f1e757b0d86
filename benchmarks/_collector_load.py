"""Requests for the collector's benchmark, made beforehand, and a client that costs as little as it can."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

__all__ = ["batches_of", "create_body", "event", "replay", "request"]

_SOURCE = Path(__file__).parent.parent.joinpath("tracer", "journal", "writer.py").read_text(encoding="utf-8")
_RANDOM = random.Random(20_261_121)
_HEX = "0123456789abcdef"


def create_body(trace_id: str, *, store: str = "redacted") -> bytes:
    """A trace whose developer agreed to everything."""
    return orjson.dumps({
        "trace_id": trace_id,
        "repo": {"repo_id": "shop", "commit_base": "a" * 40},
        "task": {"bug_report": {"title": "totals are wrong", "description": "the tax is added twice"}},
        "developer": {
            "developer_id": "dev-1",
            "consent_flags": {"store_raw_code": True, "store_terminal_output": True, "allow_llm_judge": True},
        },
        "environment": {"os": "linux"},
        "ingestion": {"mode": "incremental", "client_session_id": "bench"},
        "store": store,
    })  # fmt: skip


def event(seq: int, *, size: int = 2_000, unique: bool = False) -> dict[str, Any]:
    """An output of about `size` bytes, its content inline: it becomes a blob of its own.

    The contents are pieces of one source, so that some come again; `unique` ones never do.
    """
    start = _RANDOM.randrange(len(_SOURCE) - size)
    event_id = str(uuid.UUID(int=_RANDOM.getrandbits(128)))
    chunk = _SOURCE[start : start + size - 440]
    return {
        "event_id": event_id,
        "seq": seq,
        "ts_ms": 1_700_000_000_000 + seq,
        "type": "terminal_output",
        "actor": {"kind": "human", "id": "dev-1"},
        "context": {
            "workspace_root": "/home/alice/shop",
            "branch": "main",
            "commit_head": "a" * 40,
            "correlation_id": str(uuid.UUID(int=_RANDOM.getrandbits(128))),
        },
        "payload": {
            "stream": "stdout",
            "chunk": f"{event_id}{chunk[len(event_id) :]}" if unique else chunk,
            "is_truncated": False,
        },
    }


def batches_of(count: int, size: int, *, first: int = 1, unique: bool = False) -> list[bytes]:
    """`count` bodies of `size` events each, with seq from `first` on; see `event`."""
    return [
        orjson.dumps({"events": [event(first + number * size + at, unique=unique) for at in range(size)]})
        for number in range(count)
    ]


def request(path: str, body: bytes, *, port: int, token: str = "none", extra: str = "") -> bytes:
    """The bytes of a request."""
    return (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n{extra}"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


class _Client(asyncio.Protocol):
    """Sends its requests one after the other, each when the one before was answered with 2xx."""

    def __init__(self, requests: Sequence[bytes], done: asyncio.Future[None]) -> None:
        self.requests = iter(requests)
        self.done = done
        self.answer = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def next(self) -> None:
        following = next(self.requests, None)
        if following is not None:
            self.transport.write(following)
        elif not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.answer += data
        head, found, body = self.answer.partition(b"\r\n\r\n")
        if not found:
            return
        lowered = head.lower()
        at = lowered.find(b"content-length:")
        length = int(lowered[at + 15 :].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        if head[9:10] != b"2":
            self.done.set_exception(AssertionError(self.answer[:400]))
            return
        self.answer = b""
        self.next()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(AssertionError("the server hung up"))


async def _replay(port: int, clients: Sequence[Sequence[bytes]]) -> float:
    loop = asyncio.get_running_loop()
    made = []
    for requests in clients:
        done: asyncio.Future[None] = loop.create_future()
        _transport, client = await loop.create_connection(
            lambda requests=requests, done=done: _Client(requests, done),  # type: ignore[misc] # bound at once
            "127.0.0.1",
            port,
        )
        made.append(client)
    started = time.perf_counter()
    for client in made:
        client.next()
    await asyncio.gather(*(client.done for client in made))
    taken = time.perf_counter() - started
    for client in made:
        client.transport.close()
    return taken


def replay(port: int, clients: Sequence[Sequence[bytes]]) -> float:
    """Requests a second of all `clients` together."""
    return sum(len(requests) for requests in clients) / asyncio.run(_replay(port, clients))
