"""The tables of the SQLite store, version by version, and how an older file becomes a newer one.

`PRAGMA user_version` is the schema's version. A migration runs in one transaction: a crash leaves the old version
whole. A file of a later version than this program knows is refused, never guessed at.
"""

from __future__ import annotations

import random
import sqlite3
import time
from typing import Final

from collector.store.sqlite.blobs import key_of
from tracer.errors import TraceError

_V1: Final = (
    """
    CREATE TABLE traces (
        trace_id TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL,
        finalized_at_ms INTEGER,
        metadata_json TEXT NOT NULL,
        final_state_json TEXT,
        seq_last INTEGER NOT NULL DEFAULT 0,
        event_count INTEGER NOT NULL DEFAULT 0,
        byte_count INTEGER NOT NULL DEFAULT 0,
        clock_skew_ms INTEGER,
        final_blob_id TEXT,
        deleted_at_ms INTEGER,
        identity BLOB NOT NULL DEFAULT x''
    )
    """,
    "CREATE INDEX traces_newest ON traces (created_at_ms, trace_id)",
    "CREATE INDEX traces_pending ON traces (status, finalized_at_ms) WHERE status IN ('finalized', 'qa_running')",
    # payload_jsonb and envelope_json are canonical JSON text: what comes out is byte for byte what went in.
    """
    CREATE TABLE events (
        trace_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        ts_ms INTEGER NOT NULL,
        type TEXT NOT NULL,
        payload_jsonb TEXT NOT NULL,
        event_id TEXT NOT NULL,
        envelope_json TEXT NOT NULL,
        identity BLOB NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX events_in_order ON events (trace_id, seq)",
    "CREATE UNIQUE INDEX events_by_id ON events (trace_id, event_id)",
    """
    CREATE TABLE blobs (
        number INTEGER PRIMARY KEY,
        blob_id TEXT NOT NULL,
        storage_uri TEXT NOT NULL,
        content_type TEXT NOT NULL,
        byte_len INTEGER NOT NULL,
        redaction_json TEXT NOT NULL,
        held_by INTEGER NOT NULL DEFAULT 0,
        shared INTEGER NOT NULL DEFAULT 0,
        touched_ms INTEGER NOT NULL,
        data BLOB
    )
    """,
    "CREATE UNIQUE INDEX blobs_by_id ON blobs (blob_id)",
    "CREATE INDEX blobs_garbage ON blobs (touched_ms) WHERE held_by = 0",
    # Blobs by number: new ones stand side by side, where ids would scatter over the whole index. content_type and
    # redaction_json are null where they are as in blobs.
    """
    CREATE TABLE trace_blobs (
        trace_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        content_type TEXT,
        redaction_json TEXT,
        used INTEGER NOT NULL,
        PRIMARY KEY (trace_id, number)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE blob_aliases (
        trace_id TEXT NOT NULL,
        submitted_id TEXT NOT NULL,
        blob_id TEXT NOT NULL,
        PRIMARY KEY (trace_id, submitted_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE trace_gaps (
        trace_id TEXT NOT NULL,
        from_seq INTEGER NOT NULL,
        to_seq INTEGER NOT NULL,
        PRIMARY KEY (trace_id, from_seq)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE qa_facts (
        number INTEGER PRIMARY KEY,
        trace_id TEXT NOT NULL,
        step TEXT NOT NULL,
        input_hash TEXT NOT NULL,
        ts_ms INTEGER NOT NULL,
        result_json TEXT NOT NULL,
        UNIQUE (trace_id, step, input_hash)
    )
    """,
    """
    CREATE TABLE tokens (
        token_id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        token_hash TEXT NOT NULL UNIQUE,
        trace_id TEXT,
        label TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL,
        revoked_at_ms INTEGER
    )
    """,
    # deleted traces whose events are not all removed yet
    "CREATE TABLE purges (trace_id TEXT PRIMARY KEY)",
    "CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
)

_V2: Final = (
    # See collector.store.sqlite.blobs.
    "CREATE TABLE blob_ids_new (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID",
    "CREATE TABLE blob_ids_recent (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID",
    "CREATE TABLE blob_ids (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID",
    """
    CREATE VIEW blob_numbers AS
        SELECT key, number FROM blob_ids_new
        UNION ALL SELECT key, number FROM blob_ids_recent
        UNION ALL SELECT key, number FROM blob_ids
    """,
    "INSERT INTO blob_ids SELECT blob_key(blob_id), number FROM blobs ORDER BY 1, 2",
    "DROP INDEX blobs_by_id",
    # How many traces hold a blob beside those that its row counts; what is here is counted there too.
    "CREATE TABLE blob_holds (number INTEGER PRIMARY KEY, more INTEGER NOT NULL)",
    # So that a program of version 1 that still runs fails where it would store a blob that nobody finds.
    "ALTER TABLE trace_blobs RENAME COLUMN used TO named",
)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_V1, _V2)
"""Statements that lead from version n to n + 1. What is here is released: it never changes, new ones follow."""


def use_wal(connection: sqlite3.Connection, *, patience_s: float) -> None:
    """Let the file keep a write-ahead log.

    Of two connections that turn a fresh file to WAL at the same moment SQLite refuses one at once, whatever its
    timeout (waiting could be a deadlock), so that this one tries again for up to `patience_s` seconds.
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
        if version > len(MIGRATIONS):
            raise TraceError(
                f"the collector's database is of version {version}",
                why=f"this program knows versions up to {len(MIGRATIONS)}",
                next_step="use the newer program that wrote it",
            )
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
