"""Runs the application under uvicorn: signals end it gracefully, and tasks it leaves behind are resumable.

A client that does not finish its request's head is cut off, and the access log says who asked for what.
"""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Final

import h11
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.security import first_headers
from service.state import StatusNoted
from tracer.clock import monotonic, now_iso
from tracer.errors import ConfigError

HEAD_S: Final = 10.0
"""How long a client may take to send a request's head."""
_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_LOOK_S = 0.1
_MADE = 20_000


class HeadInTime(H11Protocol):
    """A connection that ends when a request's head does not come whole in `HEAD_S`; between requests it may be idle."""

    _late: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_S, self._cut_off)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._in_time()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_S, self._cut_off)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _cut_off(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_LATE)
            self.transport.close()


class _OwnFile(WatchedFileHandler):
    @override
    def _open(self) -> io.TextIOWrapper:
        """The file, new ones for their owner alone."""
        made = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return io.TextIOWrapper(os.fdopen(made, "ab"), encoding=self.encoding)


class AccessLog:
    """ASGI middleware: a JSON line for each request. Queries are left out: sign-in codes and search words are in them.

    Another program may move the file away; what follows goes into a new one.
    """

    def __init__(self, app: ASGIApp, *, path: Path) -> None:
        self._app = app
        try:
            self._file = _OwnFile(path, encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"cannot write the access log {str(path)!r}",
                why=str(error),
                next_step="make its folder for the user that runs pm, or set service.access_log to another file",
            ) from error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, and write the line once it is answered; the file is closed with the service."""
        if scope["type"] != "http":
            try:
                await self._app(scope, receive, send)
            finally:
                if scope["type"] == "lifespan":
                    self._file.close()
            return
        noted, at, began = StatusNoted(send), now_iso(), monotonic()
        asked = {"method": scope["method"], "path": scope["path"]}  # before a sign-in page takes its place
        try:
            await self._app(scope, receive, noted)
        finally:
            line = {
                "at": at,
                "client": (scope.get("client") or ("",))[0],
                **asked,
                "status": noted.status,
                "ms": round((monotonic() - began) * 1000, 1),
                "agent": first_headers(scope).get(b"user-agent", b"").decode("latin-1")[:200],
            }
            self._file.emit(logging.makeLogRecord({"msg": orjson.dumps(line).decode()}))


def without_delay(listener: socket.socket) -> socket.socket:
    """`listener`, whose connections send at once. asyncio leaves Nagle's delay (40 ms an answer) on listeners of ours.

    It looks at the protocol number, which `socket.create_server` leaves 0; accepted sockets inherit the option.
    """
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def run_server(
    app: Starlette,
    listener: socket.socket,
    *,
    proxies: Sequence[str] = (),
    started: Callable[[], None] = lambda: None,
) -> None:
    """Serve on `listener` until SIGINT or SIGTERM, then end open streams and leave tasks resumable.

    `started` is called once everything is open and requests are taken. `proxies` are addresses whose X-Forwarded-For
    and -Proto are believed; nobody's are where there is none.

    What the application's start raises is raised here: uvicorn would print its traceback and exit.
    """
    async with app.router.lifespan_context(app):
        started()
        await _serve(app, listener, proxies)


async def _serve(app: Starlette, listener: socket.socket, proxies: Sequence[str]) -> None:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        http=HeadInTime,
        timeout_graceful_shutdown=1,
        server_header=False,
        lifespan="off",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
    server = uvicorn.Server(config)
    # In the place of the command's, which would cancel us half-way through the graceful end. They hold until uvicorn
    # listens by itself, and when it raises the signals again once it is done: what came meanwhile is not lost.
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _end, server)
    closing = asyncio.create_task(_end_streams(app, server))
    _calm_collector()
    try:
        await server.serve(sockets=[without_delay(listener)])
    finally:
        closing.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        listener.close()


def _end(server: uvicorn.Server) -> None:
    server.should_exit = True


def _calm_collector() -> None:
    """Look for cycles less often, and never among what start-up made (half a million objects that stay).

    A batch of events makes thousands of objects at once: looking for cycles took half of its validation's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MADE, 20, 50)


async def _end_streams(app: Starlette, server: uvicorn.Server) -> None:
    """Tell open event streams to end as soon as the server is asked to: they would hold its shutdown."""
    while not server.should_exit:  # noqa: ASYNC110 - uvicorn sets a flag and has no event
        await asyncio.sleep(_LOOK_S)
    app.state.service.closing.set()
