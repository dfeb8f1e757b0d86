"""PgQueuer's tables beside the traces, and the judge's shared rate; `enqueue` joins the caller's transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tracer.errors import ConfigError, UnavailableError, needs_extra

if TYPE_CHECKING:
    from psycopg import AsyncConnection

QA_JOB: Final = "qa"


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[AsyncConnection[Any]]:
    """A connection of one's own, each statement its own transaction; UnavailableError where there is none."""
    import psycopg  # 200 ms, for workers and servers on PostgreSQL alone

    try:
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    except psycopg.Error as error:
        raise UnavailableError(
            "the job database cannot be reached", why=first_line(error), next_step="check collector.database"
        ) from error
    try:
        yield connection
    finally:
        await connection.close()


def first_line(errors: BaseException) -> str:
    """The first line: later ones may repeat what was sent."""
    return (str(errors).splitlines() or [type(errors).__name__])[0]


def _queries(connection: AsyncConnection[Any]) -> Any:
    from pgqueuer.db import PsycopgDriver  # 490 ms with the rest of the package
    from pgqueuer.queries import Queries

    return Queries(PsycopgDriver(connection))


async def install_queue(dsn: str) -> None:
    """Make the queue's tables where they are not there yet; several may try at once. ConfigError: not in UTF-8."""
    with needs_extra("postgres", wanted_by="a postgresql:// address"):  # whoever uses the database comes by here first
        import pgqueuer.queries  # noqa: F401 - what is used from here on
        import psycopg_pool  # noqa: F401 - for the store

    async with connected(dsn) as connection:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":  # texts would come back as bytes, and JSON could not be stored
            raise ConfigError(
                f"the collector's database is in {encoding}, and must be in UTF8",
                next_step="createdb --encoding=UTF8 --template=template0 NAME, and set collector.database to it",
            )
        queries = _queries(connection)
        await connection.execute("SELECT pg_advisory_lock(hashtext('pm-orchestrator/queue'))")
        if not await queries.has_table("pgqueuer"):
            await queries.install()
        else:
            await queries.upgrade()
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS pm_pace (name text PRIMARY KEY, next_at timestamptz NOT NULL)"
        )


async def enqueue(connection: AsyncConnection[Any], key: str) -> None:
    """Queue a trace's checks on `connection`, inside whatever transaction is open there; queued already is the same."""
    await _queries(connection).enqueue(QA_JOB, key.encode(), dedupe_key=f"{QA_JOB}:{key}", on_conflict="skip")
