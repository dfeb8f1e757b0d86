"""The PostgreSQL store's tables by version (`pm_collector.schema_version`), and their migration.

A migration is one transaction under an advisory lock: servers that start together migrate once, and a crash leaves
the old version whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from psycopg import AsyncConnection

from collector.store.plan import check_version

LOCK_MIGRATE: Final = 0x706D636F_6C000001
LOCK_GARBAGE: Final = 0x706D636F_6C000002

MIGRATIONS: Final = tuple(Path(__file__).with_name(f"schema-{number}.sql").read_bytes() for number in (1, 2))
"""Statements that lead from version n to n + 1. What is here is released: it never changes, new ones follow."""


async def migrate(connection: AsyncConnection[tuple[object, ...]]) -> int:
    """Bring the database to the newest version; the version it had."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_MIGRATE,))
        await connection.execute("CREATE SCHEMA IF NOT EXISTS pm_collector")
        await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
        found = await (await connection.execute("SELECT max(version) FROM schema_version")).fetchone()
        version = int(str(found[0])) if found is not None and found[0] is not None else 0
        check_version(version, len(MIGRATIONS))
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            await connection.execute(statements)
            await connection.execute("INSERT INTO schema_version (version) VALUES (%s)", (number,))
    return version
