"""The collector of this project, opened for one command; its traces found by the start of their ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tracer.errors import NotFoundError

if TYPE_CHECKING:
    from collector.collector import Collector
    from collector.store.port import TraceRow, TraceStore
    from repl.commands.context import Context

__all__ = ["NoCollectorError", "find_row", "opened_collector"]

_PAGE = 500


class NoCollectorError(NotFoundError):
    """The project has no collector yet."""


@asynccontextmanager
async def opened_collector(context: Context, *, create: bool = False) -> AsyncIterator[Collector]:
    """The collector that the settings name (`collector.*`), while the block runs.

    Raises:
        NoCollectorError: there is none yet, and `create` is not asked for: looking makes nothing.

    """
    from collector.opening import open_collector  # pydantic, orjson: 150 ms, for these commands alone

    settings = context.settings()
    own = not settings.get("collector.database")
    if own and not create and not (context.state_root / "collector.sqlite").exists():
        raise NoCollectorError(
            "there are no captured sessions here",
            why=f"{str(context.state_root)!r} holds no collector",
            next_step="pm record, pm capture from-task, or work in the right project with -C",
        )
    async with open_collector(context.state_dir, settings, environ=context.environ) as collector:
        yield collector


async def find_row(store: TraceStore, selector: str) -> TraceRow:
    """The trace whose id is `selector`, or the only one whose id begins so.

    Raises:
        NotFoundError: none, more than one, or it was deleted.

    """
    exact = await store.get_trace(selector.lower())
    if exact is not None and exact.status == "deleted":
        raise NotFoundError(f"trace {selector!r} was deleted", next_step="pm capture list --remote")
    if exact is not None:
        return exact
    found: list[TraceRow] = []
    after: str | None = None
    while selector and len(found) < 2 and (rows := await store.list_traces(after=after, limit=_PAGE)):
        after = rows[-1].trace_id
        found += [row for row in rows if row.trace_id.startswith(selector.lower())]
    if len(found) == 1:
        return found[0]
    why = "several ids begin so" if found else "no id in this project's collector begins so"
    raise NotFoundError(f"no trace {selector!r}", why=why, next_step="give more of the id")
