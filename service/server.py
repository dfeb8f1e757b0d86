"""Runs the application under uvicorn: signals end it gracefully, and tasks it leaves behind are resumable."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Sequence

import uvicorn
from starlette.applications import Starlette

_LOOK_S = 0.1
_MADE = 20_000


def without_delay(listener: socket.socket) -> socket.socket:
    """`listener`, whose connections send at once. asyncio leaves Nagle's delay (40 ms an answer) on listeners of ours.

    It looks at the protocol number, which `socket.create_server` leaves 0; accepted sockets inherit the option.
    """
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def run_server(app: Starlette, listener: socket.socket, *, proxies: Sequence[str] = ()) -> None:
    """Serve on `listener` until SIGINT or SIGTERM, then end open streams and leave tasks resumable.

    `proxies` are addresses whose X-Forwarded-For and -Proto are believed; nobody's are where there is none.

    What the application's start raises is raised here: uvicorn would print its traceback and exit.
    """
    async with app.router.lifespan_context(app):
        await _serve(app, listener, proxies)


async def _serve(app: Starlette, listener: socket.socket, proxies: Sequence[str]) -> None:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        server_header=False,
        lifespan="off",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
    server = uvicorn.Server(config)
    # A handler of the loop would cancel us half-way through the graceful end.
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().remove_signal_handler(number)
    # uvicorn raises the signal again once it is done: a graceful end is exit 0 here, not a KeyboardInterrupt.
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    closing = asyncio.create_task(_end_streams(app, server))
    _calm_collector()
    try:
        await server.serve(sockets=[without_delay(listener)])
    finally:
        closing.cancel()
        for number, handler in previous.items():
            signal.signal(number, handler)
        listener.close()


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
