"""PgQueuer's tables beside the traces, and the judge's shared rate; `enqueue` joins the caller's transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tracer.errors import ConfigError, RecordError, UnavailableError, needs_extra

if TYPE_CHECKING:
    from psycopg import AsyncConnection

QA_JOB: Final = "qa"
_CONNECT_S: Final = 10


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[AsyncConnection[Any]]:
    """A connection of one's own, each statement its own transaction; UnavailableError where there is none."""
    with needs_extra("postgres", wanted_by="a postgresql:// address"):  # whoever uses the database comes by here first
        import pgqueuer.queries  # noqa: F401 - 700 ms with psycopg, for workers and servers on PostgreSQL alone
        import psycopg
        import psycopg_pool  # noqa: F401 - for the store

    try:
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=_CONNECT_S)
    except psycopg.Error as error:
        raise UnavailableError(
            "the collector's database cannot be reached",
            why=first_line(error),
            next_step="check collector.database and that PostgreSQL runs",
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


async def _is_standby(connection: AsyncConnection[Any]) -> bool:
    return await (await connection.execute("SELECT pg_is_in_recovery()")).fetchone() == (True,)


async def _check_usable(connection: AsyncConnection[Any]) -> None:
    encoding, user = connection.info.parameter_status("server_encoding"), connection.info.user
    if encoding != "UTF8":  # texts would come back as bytes, and JSON could not be stored
        raise ConfigError(
            f"the collector's database is in {encoding}, and must be in UTF8",
            next_step="createdb --encoding=UTF8 --template=template0 NAME, and set collector.database to it",
        )
    if connection.info.parameter_status("default_transaction_read_only") == "on" or await _is_standby(connection):
        raise RecordError(
            "the collector's database takes no writes",
            why="it is a standby, or its sessions are read-only (default_transaction_read_only)",
            next_step="name the primary in collector.database, or let it take writes again",
        )
    found = await connection.execute(
        "SELECT has_schema_privilege(current_schema(), 'CREATE')"
        " AND (has_database_privilege(current_database(), 'CREATE') OR has_schema_privilege("
        "(SELECT oid FROM pg_namespace WHERE nspname = 'pm_collector'), 'USAGE'))"
    )
    if await found.fetchone() != (True,):
        raise ConfigError(
            f"the user {user} may not make tables in the collector's database",
            next_step=f"as its administrator: ALTER DATABASE {connection.info.dbname} OWNER TO {user}",
        )


async def check_database(dsn: str) -> str:
    """Which PostgreSQL answers; nothing is made. ConfigError: it cannot hold our tables, or its user not make them."""
    async with connected(dsn) as connection:
        await _check_usable(connection)
        return f"PostgreSQL {connection.info.parameter_status('server_version')}"


async def install_queue(dsn: str) -> None:
    """Make the queue's tables where they are not there yet; several may try at once. Raises as `check_database`."""
    async with connected(dsn) as connection:
        await _check_usable(connection)
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
