"""The catalogue for the event loop (HTTP, full screen): the same rows through aiosqlite, never blocking the loop.

Reading the files happens in a worker thread, one refresh at a time; queries share one connection. Where no database can
be written (a read-only state directory) each query works on rows in memory instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from types import TracebackType
from typing import Any, Self

import aiosqlite

from tracer.catalog.store import open_catalog, refresh
from tracer.catalog.tasks import (
    TASKS_SQL,
    TaskRow,
    list_tasks,
    task_row,
)
from tracer.statedir import StateDir


class Catalog:
    """Rows of one state directory. Use as an async context manager; queries bring the rows up to the files first."""

    def __init__(self, state_dir: StateDir) -> None:
        self.state_dir = state_dir
        self._connection: aiosqlite.Connection | None = None
        self._refreshing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        if await asyncio.to_thread(self._refresh):
            self._connection = await aiosqlite.connect(os.fspath(self.state_dir.catalog), isolation_level=None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def tasks(
        self,
        *,
        status: str | None = None,
        since: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[TaskRow]:
        """The tasks as `tracer.catalog.tasks.list_tasks` gives them.

        Raises:
            TraceError: the state directory cannot be read.

        """
        connection = self._connection
        if connection is None or status is not None:
            return await asyncio.to_thread(
                list_tasks, self.state_dir, status=status, since=since, after=after, limit=limit
            )
        async with self._refreshing:
            await asyncio.to_thread(self._refresh)
        return await self._select(connection, {"after": after, "since": since, "task_id": None}, limit)

    async def task(self, task_id: str) -> TaskRow | None:
        """The task of exactly this id, or None.

        Raises:
            TraceError: the state directory cannot be read.

        """
        connection = self._connection
        if connection is None:
            found = await asyncio.to_thread(list_tasks, self.state_dir, task_id=task_id)
        else:
            async with self._refreshing:
                await asyncio.to_thread(self._refresh)
            found = await self._select(connection, {"after": None, "since": None, "task_id": task_id}, 1)
        return found[0] if found else None

    async def _select(
        self, connection: aiosqlite.Connection, values: dict[str, Any], limit: int | None
    ) -> list[TaskRow]:
        query = f"{TASKS_SQL} limit {-1 if limit is None else int(limit)}"
        async with connection.execute(query, {**values, "final": None, "open": None}) as cursor:
            found = await cursor.fetchall()
        return [task_row(tuple(row), self.state_dir) for row in found]

    def _refresh(self) -> bool:
        """Bring the rows up to the files; whether they are in a file that others can open."""
        with contextlib.closing(open_catalog(self.state_dir)) as connection:
            refresh(connection, self.state_dir)
            return bool(connection.execute("pragma database_list").fetchone()[2])
