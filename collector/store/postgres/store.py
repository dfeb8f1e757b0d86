"""The PostgreSQL store, for many servers and machines on one database.

Every write is one transaction with `synchronous_commit` on; PostgreSQL itself lets commits that wait share a sync.
Transactions that another one made impossible are tried again. Connections come from a bounded pool: who waits too long
is told to come back (`OverloadedError`).
"""

from __future__ import annotations

import contextlib
import re
import secrets
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, Final, LiteralString, TypeVar

import orjson
import psycopg
import psycopg.errors
import psycopg.types.json
import psycopg_pool

from collector.errors import OverloadedError
from collector.store.plan import TRACE_FIELDS, Append, named_blobs
from collector.store.port import (
    AppendResult,
    AuditRow,
    BlobRow,
    NewBlob,
    QaFact,
    Status,
    StoredEvent,
    TokenRow,
    TraceLimits,
    TraceRow,
)
from collector.store.postgres import write
from collector.store.postgres.jobs import first_line
from collector.store.postgres.schema import LOCK_GARBAGE, migrate
from collector.store.postgres.write import Connection, one
from tracer import clock
from tracer.errors import NotFoundError, RecordError, UnavailableError
from tracer.redaction.redactor import CleanLine

_POOL: Final = 10
_GATES: Final = 16
_WAIT_S: Final = 10.0
_WAIT_AWAY_S: Final = 2.0
_RECONNECT_S: Final = 3.0
_MOST_WAITING: Final = 2_000
_TRIES: Final = 5
_Result = TypeVar("_Result")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TRACE: Final = (
    "SELECT trace_id::text, status, created_at_ms, metadata_json, finalized_at_ms, final_state_json, seq_last,"
    " event_count, byte_count, coalesce(clock_skew_ms, 0), final_blob_id, deleted_at_ms FROM traces"
)
_ONE_TRACE: Final = f"{_TRACE} WHERE trace_id = %s"
_LISTED: Final = (
    _TRACE  # noqa: S608 # our own words only
    + " WHERE (status = %s OR (%s::text IS NULL AND status != 'deleted'))"
    " AND (%s::uuid IS NULL OR (created_at_ms, trace_id) <"
    " (SELECT created_at_ms, trace_id FROM traces WHERE trace_id = %s::uuid))"
    " ORDER BY created_at_ms DESC, trace_id DESC LIMIT %s"
)
_RESOLVED: Final = """
    SELECT s.name, b.blob_id, b.storage_uri, b.content_type, b.byte_len, b.redaction_json
    FROM unnest(%s::text[]) AS s (name)
    LEFT JOIN blob_aliases AS a ON a.trace_id = %s AND a.submitted_id = s.name
    JOIN blobs AS b ON b.blob_id = coalesce(a.blob_id, s.name)
    WHERE b.shared OR EXISTS (SELECT 1 FROM trace_blobs AS t WHERE t.trace_id = %s AND t.blob_id = b.blob_id)"""
_BLOBS: Final = """
    SELECT b.blob_id, b.storage_uri, t.content_type, b.byte_len, t.redaction_json FROM trace_blobs AS t
    JOIN blobs AS b ON b.blob_id = t.blob_id
    WHERE t.trace_id = %s AND t.used AND t.blob_id > %s ORDER BY t.blob_id LIMIT %s"""
_UNNAMED: Final = _BLOBS.replace("t.used", "NOT t.used")
_TOKENS: Final = (
    "SELECT token_id, kind, token_hash, trace_id::text, label, created_at_ms, revoked_at_ms, role, developer,"
    " project, expires_at_ms FROM tokens"
)
OnFinalize = Callable[[Connection, str], Awaitable[None]]
"""Called inside the transaction that finalizes a trace: what it writes commits with it, or not at all."""


@contextlib.asynccontextmanager
async def open_postgres(
    dsn: str, *, pool_size: int = _POOL, on_finalize: OnFinalize | None = None
) -> AsyncIterator[PostgresStore]:
    """The store in the database that `dsn` names, migrated if needed; TraceError: it is of a later version."""
    store = PostgresStore(dsn, pool_size=pool_size, on_finalize=on_finalize)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


class PostgresStore:
    """Implements `collector.store.port.TraceStore`; made by `open_postgres`."""

    def __init__(self, dsn: str, *, pool_size: int, on_finalize: OnFinalize | None) -> None:
        self._dsn = dsn
        self._on_finalize = on_finalize
        self._answers = True
        self._pool = _pool(dsn, pool_size, check=self._check)
        self._gates = _pool(dsn, _GATES, check=self._check)

    async def start(self) -> None:
        """Connect, bring the tables up to date, go on with removals that a crash cut off."""
        try:
            async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True, connect_timeout=10) as first:
                await _configure(first)
                await migrate(first)
        except psycopg.OperationalError as error:
            raise _unreachable(first_line(error)) from error
        await self._pool.open()
        await self._gates.open()
        for (trace_id,) in await self._rows("SELECT trace_id::text FROM purges"):
            await self._purge(trace_id)

    async def close(self) -> None:
        await self._pool.close()
        await self._gates.close()

    @contextlib.asynccontextmanager
    async def _connection(self, pool: psycopg_pool.AsyncConnectionPool[Connection]) -> AsyncIterator[Connection]:
        connection: Connection | None = None
        try:
            async with pool.connection(timeout=_WAIT_S if self._answers else _WAIT_AWAY_S) as connection:
                yield connection
                self._answers = True
        except (psycopg_pool.PoolTimeout, psycopg_pool.TooManyRequests) as error:
            if not self._answers:
                raise _unreachable("nothing answers at its address") from error
            raise OverloadedError("the collector's database has too much to do") from error
        except (psycopg.errors.DiskFull, psycopg.errors.ReadOnlySqlTransaction) as error:
            raise RecordError(
                "the collector could not store this",
                why=first_line(error),
                next_step="free space or make the database writable, then try again",
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if connection is not None and connection.closed:
                self._answers = False
            raise UnavailableError(
                "the collector's database did not answer", why=first_line(error), next_step="send it again"
            ) from error

    async def _check(self, connection: Connection) -> None:
        """Try a connection on which something came while nobody used it: the server ended it, as a restart does.

        Looking costs microseconds; asking the server would be one more round trip for each call. Raises where it is
        dead: the pool makes another, and no call fails once the database is back.
        """
        look = select.poll()
        look.register(connection.fileno(), select.POLLIN)
        if look.poll(0):
            self._answers = False
            await psycopg_pool.AsyncConnectionPool.check_connection(connection)

    async def _write(self, work: Callable[[Connection], Awaitable[_Result]]) -> _Result:
        """`work` in a transaction, again where another transaction made it impossible."""
        for left in reversed(range(_TRIES)):
            try:
                async with self._connection(self._pool) as connection, connection.transaction():
                    result = await work(connection)
            except (
                psycopg.errors.DeadlockDetected,
                psycopg.errors.SerializationFailure,
                psycopg.errors.UniqueViolation,
            ) as error:
                if not left:
                    raise OverloadedError("the collector's database has too much to do") from error
            else:
                return result
        raise AssertionError  # pragma: no cover

    async def _rows(self, query: LiteralString, *values: Any, binary: bool = False) -> list[tuple[Any, ...]]:
        async with self._connection(self._pool) as connection:
            return await (await connection.execute(query, values, binary=binary)).fetchall()

    # -- traces

    async def create_trace(self, row: TraceRow, *, ingest_key_hash: str, identity: bytes = b"") -> bool:
        now = clock.now_epoch_ms()
        token = TokenRow(clock.new_id(), "ingest", ingest_key_hash, row.trace_id, "", now)
        return await self._write(lambda c: write.create(c, row, token, identity, now))

    async def get_trace(self, trace_id: str) -> TraceRow | None:
        if _UUID.fullmatch(trace_id) is None:  # the beginning of one names none
            return None
        rows = await self._rows(_ONE_TRACE, trace_id)
        return _trace(rows[0]) if rows else None

    async def list_traces(
        self, *, after: str | None = None, limit: int = 100, status: str | None = None
    ) -> tuple[TraceRow, ...]:
        return tuple(map(_trace, await self._rows(_LISTED, status, status, after, after, limit)))

    async def finalize(
        self,
        trace_id: str,
        *,
        final_state: dict[str, Any] | None,
        at_ms: int,
        blobs: Sequence[NewBlob] = (),
        references: Collection[str] = (),
    ) -> TraceRow:
        async def work(connection: Connection) -> TraceRow | None:
            closed = await write.finalize(
                connection, trace_id, final_state=final_state, blobs=blobs, references=references, at_ms=at_ms
            )
            if closed and self._on_finalize is not None:
                await self._on_finalize(connection, trace_id)
            row = await one(connection, _ONE_TRACE, (trace_id,))
            return _trace(row) if row is not None else None

        row = await self._write(work)
        if row is None:
            raise NotFoundError(f"no trace {trace_id!r}")
        return row

    async def set_status(self, trace_id: str, status: Status, *, expected: Collection[str] | None = None) -> bool:
        """See the port; becoming `finalized` again (checks asked for anew) is announced as the first time is."""

        async def work(connection: Connection) -> bool:
            changed = await write.set_status(connection, trace_id, status, expected)
            if changed and status == "finalized" and self._on_finalize is not None:
                await self._on_finalize(connection, trace_id)
            return changed

        return await self._write(work)

    async def pending_traces(self, *, limit: int = 1000) -> tuple[str, ...]:
        rows = await self._rows(
            "SELECT trace_id::text FROM traces WHERE status IN ('finalized', 'qa_running')"
            " ORDER BY finalized_at_ms, trace_id LIMIT %s",
            limit,
        )
        return tuple(row[0] for row in rows)

    async def set_final_document(self, trace_id: str, blob_id: str) -> None:
        now = clock.now_epoch_ms()
        await self._write(lambda c: write.set_final(c, trace_id, blob_id, now))

    async def delete_trace(self, trace_id: str, at_ms: int) -> bool:
        deleted = await self._write(lambda c: write.delete(c, trace_id, at_ms))
        await self._purge(trace_id)
        return deleted

    async def narrow_trace(self, trace_id: str, metadata: dict[str, Any], *, released: Collection[str]) -> None:
        await self._write(lambda c: write.narrow(c, trace_id, metadata, released))

    async def scrub(self) -> None:
        """Nothing: its log and its backups are the operator's."""

    async def _purge(self, trace_id: str) -> None:
        while await self._write(lambda c: write.purge_slice(c, trace_id)):
            pass

    async def gaps(self, trace_id: str, *, limit: int = 1000) -> tuple[tuple[int, int], ...]:
        query: Final = "SELECT from_seq, to_seq FROM trace_gaps WHERE trace_id = %s ORDER BY from_seq LIMIT %s"
        return tuple((row[0], row[1]) for row in await self._rows(query, trace_id, limit))

    # -- events

    async def append_events(
        self,
        trace_id: str,
        events: Sequence[StoredEvent],
        blobs: Sequence[NewBlob] = (),
        *,
        references: Collection[str] = (),
        skew_ms: int | None = None,
        limits: TraceLimits | None = None,
    ) -> AppendResult:
        now = clock.now_epoch_ms()
        append = Append(trace_id, events, blobs, references, skew_ms, limits, now)
        return await self._write(lambda c: write.append(c, append))

    async def read_events(self, trace_id: str, *, after: int = 0, limit: int = 1000) -> tuple[StoredEvent, ...]:
        rows = await self._rows(
            "SELECT event_id::text, seq, ts_ms, type, envelope_json::text, payload_jsonb::text FROM events"
            " WHERE trace_id = %s AND seq > %s ORDER BY seq LIMIT %s",
            trace_id, after, limit,
        )  # fmt: skip
        return tuple(
            StoredEvent(row[0], row[1], row[2], row[3], CleanLine(row[4].encode()), CleanLine(row[5].encode()))
            for row in rows
        )

    # -- quality checks

    async def append_qa_fact(self, trace_id: str, fact: QaFact) -> bool:
        now = clock.now_epoch_ms()
        named = named_blobs(fact.result)
        return await self._write(lambda c: write.put_fact(c, trace_id, fact, named, now))

    async def replace_qa_result(self, trace_id: str, fact: QaFact) -> None:
        await self._write(lambda c: write.replace_result(c, trace_id, fact))

    async def qa_facts(self, trace_id: str) -> tuple[QaFact, ...]:
        query: Final = "SELECT step, input_hash, ts_ms, result_json FROM qa_facts WHERE trace_id = %s ORDER BY number"
        return tuple(QaFact(*row) for row in await self._rows(query, trace_id))

    # -- blobs

    async def put_blob_row(
        self, row: BlobRow, *, trace_id: str | None = None, submitted_id: str | None = None, data: bytes | None = None
    ) -> None:
        now = clock.now_epoch_ms()
        await self._write(
            lambda c: write.put_blob(c, row, trace_id=trace_id, submitted_id=submitted_id, data=data, now_ms=now)
        )

    async def get_blob_row(self, blob_id: str) -> BlobRow | None:
        rows = await self._rows(
            "SELECT blob_id, storage_uri, content_type, byte_len, redaction_json FROM blobs WHERE blob_id = %s", blob_id
        )
        return BlobRow(*rows[0]) if rows else None

    async def blob_data(self, blob_id: str) -> bytes | None:
        rows = await self._rows("SELECT data FROM blobs WHERE blob_id = %s", blob_id, binary=True)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    async def resolve_blobs(self, trace_id: str, submitted: Collection[str]) -> dict[str, BlobRow]:
        rows = await self._rows(_RESOLVED, list(submitted), trace_id, trace_id)
        return {row[0]: BlobRow(*row[1:]) for row in rows}

    async def blob_rows(self, trace_id: str, *, after: str = "", limit: int | None = None) -> tuple[BlobRow, ...]:
        return tuple(BlobRow(*row) for row in await self._rows(_BLOBS, trace_id, after, limit))

    async def unnamed_blobs(self, trace_id: str) -> tuple[BlobRow, ...]:
        return tuple(BlobRow(*row) for row in await self._rows(_UNNAMED, trace_id, "", None))

    async def take_garbage(self, *, before_ms: int, limit: int = 100) -> tuple[BlobRow, ...]:
        return await self._write(lambda c: write.take_garbage(c, before_ms=before_ms, limit=limit))

    @contextlib.asynccontextmanager
    async def blob_gate(self, *, exclusive: bool = False) -> AsyncIterator[None]:
        """See the port. Held by an advisory lock, so it also keeps machines apart; a lost connection lets go."""
        lock: Final = "SELECT pg_advisory_xact_lock(%s)" if exclusive else "SELECT pg_advisory_xact_lock_shared(%s)"
        async with self._connection(self._gates) as connection, connection.transaction():
            await connection.execute(lock, (LOCK_GARBAGE,))
            yield

    # -- tokens and keys

    async def secret(self, name: str = "identity", fresh: bytes = b"") -> bytes:
        value = fresh or secrets.token_bytes(32)

        async def work(connection: Connection) -> bytes:
            await connection.execute(
                "INSERT INTO secrets (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING", (name, value)
            )
            rows = await connection.execute("SELECT value FROM secrets WHERE name = %s", (name,), binary=True)
            return bytes((await rows.fetchall())[0][0])

        return await self._write(work)

    async def add_token(self, token: TokenRow) -> None:
        await self._write(lambda c: write.add_token(c, token))

    async def find_token(self, token_hash: str) -> TokenRow | None:
        rows = await self._rows(f"{_TOKENS} WHERE token_hash = %s", token_hash)
        return TokenRow(*rows[0]) if rows else None

    async def revoke_token(self, token_id: str, at_ms: int) -> bool:
        async def work(connection: Connection) -> bool:
            done = await connection.execute(
                "UPDATE tokens SET revoked_at_ms = %s WHERE token_id = %s AND revoked_at_ms IS NULL", (at_ms, token_id)
            )
            return done.rowcount == 1

        return await self._write(work)

    async def list_tokens(self) -> tuple[TokenRow, ...]:
        return tuple(TokenRow(*row) for row in await self._rows(f"{_TOKENS} ORDER BY created_at_ms, token_id"))

    async def take_lease(self, trace_id: str, holder: str, *, now_ms: int, until_ms: int) -> str:
        return await self._write(lambda c: write.take_lease(c, trace_id, holder, now_ms, until_ms))

    async def drop_lease(self, trace_id: str, holder: str) -> None:
        await self._write(lambda c: write.drop_lease(c, trace_id, holder))

    async def add_audit(self, row: AuditRow) -> None:
        await self._write(lambda c: write.add_audit(c, row))

    async def list_audit(self, *, limit: int) -> tuple[AuditRow, ...]:
        newest: Final = "SELECT at_ms, token_id, role, action, subject FROM audit ORDER BY number DESC LIMIT %s"
        return tuple(AuditRow(*row) for row in reversed(await self._rows(newest, limit)))


def _trace(row: tuple[Any, ...]) -> TraceRow:
    return TraceRow(**dict(zip(TRACE_FIELDS, row, strict=True)))


def _pool(
    dsn: str, size: int, *, check: Callable[[Connection], Awaitable[None]]
) -> psycopg_pool.AsyncConnectionPool[Connection]:
    return psycopg_pool.AsyncConnectionPool(
        dsn,
        min_size=1,
        max_size=size,
        max_waiting=_MOST_WAITING,
        timeout=_WAIT_S,
        reconnect_timeout=_RECONNECT_S,  # then each call tries anew; by itself the pool would wait longer and longer
        kwargs={"autocommit": True},
        configure=_configure,
        check=check,
        open=False,
    )


def _unreachable(why: str) -> UnavailableError:
    return UnavailableError(
        "the collector's database cannot be reached",
        why=why,
        next_step="check collector.database and that PostgreSQL runs",
    )


async def _configure(connection: Connection) -> None:
    psycopg.types.json.set_json_loads(orjson.loads, connection)
    await connection.execute("SET search_path = pm_collector, public")
    await connection.execute("SET synchronous_commit = on")  # a database's default may be less than durable
