"""The judge's rate over all workers: the next free moment is one row in PostgreSQL, taken in one statement."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tracer.errors import UnavailableError

__all__ = ["SharedPace"]

_TAKE: Final = """
INSERT INTO pm_pace AS pace (name, next_at) VALUES (%(name)s, clock_timestamp() + %(gap)s * interval '1 second')
ON CONFLICT (name) DO UPDATE
SET next_at = greatest(pace.next_at, clock_timestamp()) + %(gap)s * interval '1 second'
RETURNING extract(epoch FROM next_at - clock_timestamp())::float8 - %(gap)s
"""


class SharedPace:
    """At most `per_minute` requests a minute over everyone who names the same `name` in the same database."""

    def __init__(self, dsn: str, *, per_minute: float, name: str = "judge") -> None:
        self._dsn = dsn
        self._gap_s = 60.0 / per_minute
        self._name = name

    async def wait(self) -> None:
        """Return when the next request may leave.

        Raises:
            UnavailableError: the database cannot be reached.

        """
        import psycopg

        try:
            # A connection a request: requests are seconds apart, and a kept one would idle through long answers.
            async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
                cursor = await connection.execute(_TAKE, {"name": self._name, "gap": self._gap_s})
                row: Any = await cursor.fetchone()
        except psycopg.Error as error:
            raise UnavailableError("the judge's rate cannot be kept", why=str(error).strip()) from error
        await asyncio.sleep(max(float(row[0]), 0.0))
