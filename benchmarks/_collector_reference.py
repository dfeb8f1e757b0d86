"""What the collector is measured against: bare ASGI, sqlite3 with group commit, nothing else (80 lines at most).

No authentication, validation, dedupe, redaction or blobs: each event of the body becomes a row, durable before the
answer. Run as `python -m benchmarks._collector_reference FOLDER PORT`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections import deque
from typing import Any

import orjson
import uvicorn

_waiting: deque[tuple[list[tuple[str, int, str, bytes]], asyncio.Future[None]]] = deque()
_wake = threading.Event()


def _write(folder: str, loop: asyncio.AbstractEventLoop) -> None:
    database = sqlite3.connect(f"{folder}/reference.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE events (trace_id TEXT, seq INTEGER, event_id TEXT, body BLOB)")
    while True:
        _wake.wait()
        _wake.clear()
        while _waiting:
            taken = [_waiting.popleft() for _each in range(min(len(_waiting), 1000))]
            database.execute("BEGIN IMMEDIATE")
            for rows, _done in taken:
                database.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
            database.execute("COMMIT")
            loop.call_soon_threadsafe(_settle, [done for _rows, done in taken])


def _settle(done: list[asyncio.Future[None]]) -> None:
    for future in done:
        future.set_result(None)


async def _application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    parts = []
    while True:
        message = await receive()
        parts.append(message["body"])
        if not message["more_body"]:
            break
    trace_id = scope["path"].split("/")[2]
    events = orjson.loads(b"".join(parts))["events"]
    done = asyncio.get_running_loop().create_future()
    _waiting.append(([(trace_id, e["seq"], e["event_id"], orjson.dumps(e)) for e in events], done))
    _wake.set()
    await done
    body = b'{"accepted":%d}' % len(events)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _serve(folder: str, port: int) -> None:
    threading.Thread(target=_write, args=(folder, asyncio.get_running_loop()), daemon=True).start()
    config = uvicorn.Config(_application, port=port, log_level="warning", access_log=False, lifespan="off")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
