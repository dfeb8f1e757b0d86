"""`pm admin worker`: takes checks of captured sessions from the queue in PostgreSQL, until a signal."""

from __future__ import annotations

import asyncio
import signal
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from repl.context import Context
from tracer.errors import UsageError
from tracer.settings.layers import mistyped_variables

_RENEW_S = 5.0


async def worker(context: Context, arguments: Namespace) -> None:
    from collector.work.worker import work_from_queue  # the store, the sandbox, the queue: 900 ms

    context.state_dir.ensure()
    stop = asyncio.Event()
    _end_on_signals(context, stop)
    for line in mistyped_variables(context.environ):
        context.output.note(line)
    async with _alive(context, arguments.alive_file):
        await work_from_queue(
            context.state_dir,
            context.settings(),
            environ=context.environ,
            stop=stop,
            parallel=arguments.parallel,
            started=lambda: context.output.note("working; Ctrl+C finishes what is under way"),
        )
    context.output.result("admin worker", {"ended": True})


@asynccontextmanager
async def _alive(context: Context, name: str | None) -> AsyncIterator[None]:
    """Renew the file while the block runs: it grows old when the loop hangs, and is gone when the worker ends."""
    if not name:
        yield
        return
    path = context.path(name)

    async def renew() -> None:
        while True:
            path.touch()
            await asyncio.sleep(_RENEW_S)

    try:
        path.touch()
    except OSError as error:
        raise UsageError(f"{name!r} cannot be written", why=error) from error
    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await task
        path.unlink(missing_ok=True)


def _end_on_signals(context: Context, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()

    def told() -> None:
        if stop.is_set() and main is not None:
            main.cancel()
            return
        stop.set()
        context.output.note("ending; what is under way is finished first")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
