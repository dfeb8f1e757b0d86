"""A PostgreSQL for the collector's benchmark, durable as a real one, and bare COPY into it."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator

import orjson
import psycopg

from tests.support.postgres import Postgres

__all__ = ["bare_copy", "server"]

_TABLE = """
    CREATE TABLE IF NOT EXISTS bare_events (
        trace_id uuid, seq bigint, ts_ms bigint, type text, payload json, event_id uuid, body json
    )
"""


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The DSN of an empty database, with fsync and synchronous_commit as PostgreSQL has them by default."""
    postgres = Postgres(fsync=True)
    try:
        yield postgres.new_database()
    finally:
        postgres.stop()


def bare_copy(dsn: str, batches: list[list[bytes]]) -> float:
    """Batches a second: each decoded, copied and committed, over one connection, nothing else."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_TABLE)
        started = time.perf_counter()
        for listed in batches:
            trace_id = str(uuid.uuid4())
            for body in listed:
                events = orjson.loads(body)["events"]
                with (
                    connection.transaction(),
                    connection.cursor().copy(
                        "COPY bare_events (trace_id, seq, ts_ms, type, event_id, body) FROM STDIN"
                    ) as copy,
                ):
                    for each in events:
                        row = (trace_id, each["seq"], each["ts_ms"], each["type"], each["event_id"])
                        copy.write_row((*row, orjson.dumps(each).decode()))
        return sum(map(len, batches)) / (time.perf_counter() - started)
