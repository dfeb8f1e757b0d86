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

__all__ = ["find_row", "opened_collector"]

_PAGE = 500


@asynccontextmanager
async def opened_collector(context: Context) -> AsyncIterator[Collector]:
    """The collector that the settings name (`collector.*`), while the block runs."""
    from collector.collector import open_collector  # pydantic, orjson: 150 ms, for these commands alone

    async with open_collector(context.state_dir, context.settings(), environ=context.environ) as collector:
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
