"""The tables of the SQLite store, version by version, and how an older file becomes a newer one.

`PRAGMA user_version` is the schema's version. A migration runs in one transaction: a crash leaves the old version
whole. A file of a later version than this program knows is refused, never guessed at.
"""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path
from typing import Final

from collector.store.plan import check_version
from collector.store.sqlite.blobs import key_of


def _statements(version: int) -> tuple[str, ...]:
    """The statements of `schema-<version>.sql`."""
    found: list[str] = []
    held = ""
    for line in Path(__file__).with_name(f"schema-{version}.sql").read_text(encoding="utf-8").splitlines(keepends=True):
        held += line
        if sqlite3.complete_statement(held):
            found.append(held)
            held = ""
    return tuple(found)


MIGRATIONS: Final = tuple(map(_statements, (1, 2, 3)))
"""Statements that lead from version n to n + 1. What is here is released: it never changes, new ones follow."""


def use_wal(connection: sqlite3.Connection, *, patience_s: float) -> None:
    """Let the file keep a write-ahead log, trying again for `patience_s`.

    Of two connections that turn a fresh file to WAL at once SQLite refuses one at once, whatever its timeout.
    """
    give_up_at = time.monotonic() + patience_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 # not for secrets: so that two do not keep step
        else:
            return


def migrate(connection: sqlite3.Connection) -> int:
    """Bring the file to the newest version; the version it had."""
    connection.create_function("blob_key", 1, key_of, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        check_version(version, len(MIGRATIONS))
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return int(version)
