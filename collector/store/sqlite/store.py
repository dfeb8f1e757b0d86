"""The SQLite store, the default: one file, no set-up, safe to share between processes of one machine.

WAL, `synchronous=FULL`: what is acknowledged is on the disk; one thread writes, with group commit. Single rows are
read on the event loop (10 us; a thread costs 60 to 100), longer reads in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

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
from collector.store.sqlite import write
from collector.store.sqlite.blobs import BY_ID, MAY_NAME, spot
from collector.store.sqlite.group import MOST_GROUPED, GroupWriter, code_of
from collector.store.sqlite.schema import migrate, use_wal
from tracer import clock
from tracer.durable import ensure_folder
from tracer.errors import NotFoundError, RecordError, TraceError

_PAUSES_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)


async def _locked(path: str, kind: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for tries in range(1 << 62):
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
            else:
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    raise AssertionError  # pragma: no cover


_BUSY_S: Final = 10.0
_CACHE_KIB: Final = 256 * 1024  # taken as needed; a whole index must fit (a million events: 220 MB)
_CHECKPOINT_PAGES: Final = 4_000  # 16 MB: a log that grows costs half as much again at each sync
_Result = TypeVar("_Result")
_TRACES: Final = (
    "SELECT trace_id, status, created_at_ms, metadata_json, finalized_at_ms, final_state_json, seq_last, event_count,"
    " byte_count, coalesce(clock_skew_ms, 0), final_blob_id, deleted_at_ms FROM traces"
)
_BLOBS: Final = "SELECT blob_id, storage_uri, content_type, byte_len, redaction_json FROM blobs"
_HELD: Final = (
    "SELECT b.blob_id, b.storage_uri, coalesce(t.content_type, b.content_type), b.byte_len,"
    " coalesce(t.redaction_json, b.redaction_json) FROM trace_blobs AS t"
    " JOIN blobs AS b ON b.number = t.number WHERE t.trace_id = ? AND t.named = 1"
)
_UNNAMED: Final = _HELD.replace("t.named = 1", "t.named = 0")
_SORTED: Final = 4
_TOKENS: Final = (
    "SELECT token_id, kind, token_hash, trace_id, label, created_at_ms, revoked_at_ms, role, developer, project,"
    " expires_at_ms FROM tokens"
)


@contextlib.asynccontextmanager
async def open_sqlite(path: Path | str, *, group: int = MOST_GROUPED) -> AsyncIterator[SqliteStore]:
    """The store in `path`, made if missing; TraceError: not ours, or of a later version. `group` 1: no group commit."""
    store = SqliteStore(Path(path), group=group)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


class SqliteStore:
    """Implements `collector.store.port.TraceStore`; made by `open_sqlite`."""

    def __init__(self, path: Path, *, group: int) -> None:
        self._path = path
        self._writer = GroupWriter(self._connect_writer, group=group)
        self._point: sqlite3.Connection | None = None
        self._scan: sqlite3.Connection | None = None
        self._scanner = ThreadPoolExecutor(1, thread_name_prefix="collector-reader")

    async def start(self) -> None:
        """Open the file, bring it to the newest version, go on with removals that a crash cut off."""
        told = f"cannot open the collector's database {str(self._path)!r}"
        next_step = "check the file and its folder, or name another one (collector.database)"
        try:
            ensure_folder(self._path.parent)
            await self._writer.start()
            self._point, self._scan = self._connect(), self._connect()
            self._point.execute("PRAGMA query_only = ON")  # the other one sorts into temporary tables
        except OSError as error:
            raise RecordError(told, why=error, next_step=next_step) from error
        except sqlite3.DatabaseError as error:
            if code_of(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}:
                next_step = "free space or make the database writable, then try again"
            raise TraceError(told, why=str(error), next_step=next_step) from error
        for (trace_id,) in self._rows("SELECT trace_id FROM purges"):
            await self._purge(trace_id)

    async def close(self) -> None:
        await self._writer.close()
        connections = (self._point, self._scan)
        self._point = self._scan = None
        await asyncio.to_thread(self._scanner.shutdown)
        for connection in connections:
            if connection is not None:
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=256
        )

    def _connect_writer(self) -> sqlite3.Connection:
        if not self._path.exists():  # a database and what SQLite puts beside it take the mode of the file
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, cached_statements=256)
        try:
            use_wal(connection, patience_s=_BUSY_S)
            for pragma in (
                "synchronous = FULL",
                f"cache_size = -{_CACHE_KIB}",
                f"wal_autocheckpoint = {_CHECKPOINT_PAGES}",
                "secure_delete = ON",  # what a person asked to be deleted must not stay in free pages
            ):
                connection.execute(f"PRAGMA {pragma}")
            migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read a row or a few on the event loop."""
        if self._point is None:
            raise TraceError("the store is closed")
        return self._point.execute(query, values).fetchall()

    async def _long(self, reading: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Read many rows in a thread."""
        if self._scan is None:
            raise TraceError("the store is closed")
        # One thread of its own: a cancelled caller leaves its reading to end there, not beside the next one.
        return await asyncio.get_running_loop().run_in_executor(self._scanner, reading, self._scan)

    # -- traces

    async def create_trace(self, row: TraceRow, *, ingest_key_hash: str, identity: bytes = b"") -> bool:
        now = clock.now_epoch_ms()
        token = TokenRow(clock.new_id(), "ingest", ingest_key_hash, row.trace_id, "", now)
        return await self._writer.write(lambda c: write.create(c, row, token, identity, now))

    async def get_trace(self, trace_id: str) -> TraceRow | None:
        rows = self._rows(f"{_TRACES} WHERE trace_id = ?", trace_id)
        return _trace(rows[0]) if rows else None

    async def list_traces(
        self, *, after: str | None = None, limit: int = 100, status: str | None = None
    ) -> tuple[TraceRow, ...]:
        where, values = ("status = ?", [status]) if status is not None else ("status != 'deleted'", list[Any]())
        if after is not None:
            where += " AND (created_at_ms, trace_id) < (SELECT created_at_ms, trace_id FROM traces WHERE trace_id = ?)"
            values.append(after)
        query = f"{_TRACES} WHERE {where} ORDER BY created_at_ms DESC, trace_id DESC LIMIT ?"
        return await self._long(lambda c: tuple(map(_trace, c.execute(query, (*values, limit)))))

    async def finalize(
        self,
        trace_id: str,
        *,
        final_state: dict[str, Any] | None,
        at_ms: int,
        blobs: Sequence[NewBlob] = (),
        references: Collection[str] = (),
    ) -> TraceRow:
        await self._writer.write(
            lambda c: write.finalize(
                c, trace_id, final_state=final_state, blobs=blobs, references=references, at_ms=at_ms
            )
        )
        row = await self.get_trace(trace_id)
        if row is None:
            raise NotFoundError(f"no trace {trace_id!r}")
        return row

    async def set_status(self, trace_id: str, status: Status, *, expected: Collection[str] | None = None) -> bool:
        return await self._writer.write(lambda c: write.set_status(c, trace_id, status, expected))

    async def pending_traces(self, *, limit: int = 1000) -> tuple[str, ...]:
        rows = self._rows(
            "SELECT trace_id FROM traces WHERE status IN ('finalized', 'qa_running')"
            " ORDER BY finalized_at_ms, trace_id LIMIT ?",
            limit,
        )
        return tuple(row[0] for row in rows)

    async def set_final_document(self, trace_id: str, blob_id: str) -> None:
        now = clock.now_epoch_ms()
        await self._writer.write(lambda c: write.set_final(c, trace_id, blob_id, now))

    async def delete_trace(self, trace_id: str, at_ms: int) -> bool:
        deleted = await self._writer.write(lambda c: write.delete(c, trace_id, at_ms))
        await self._purge(trace_id)
        return deleted

    async def narrow_trace(self, trace_id: str, metadata: dict[str, Any], *, released: Collection[str]) -> None:
        await self._writer.write(lambda c: write.narrow(c, trace_id, metadata, released))

    async def scrub(self) -> None:
        await self._long(lambda c: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())

    async def _purge(self, trace_id: str) -> None:
        while await self._writer.write(lambda c: write.purge_slice(c, trace_id)):
            pass

    async def gaps(self, trace_id: str, *, limit: int = 1000) -> tuple[tuple[int, int], ...]:
        query = "SELECT from_seq, to_seq FROM trace_gaps WHERE trace_id = ? ORDER BY from_seq LIMIT ?"
        return tuple((row[0], row[1]) for row in self._rows(query, trace_id, limit))

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
        size = sum([len(event.payload) for event in events]) + sum([len(blob.data or b"") for blob in blobs])
        append = Append(trace_id, events, blobs, references, skew_ms, limits, now)
        return await self._writer.write_together(write.append_together, append, size=size)

    async def read_events(self, trace_id: str, *, after: int = 0, limit: int = 1000) -> tuple[StoredEvent, ...]:
        query = (
            "SELECT event_id, seq, ts_ms, type, CAST(envelope_json AS BLOB), CAST(payload_jsonb AS BLOB) FROM events"
            " WHERE trace_id = ? AND seq > ? ORDER BY seq LIMIT ?"
        )
        return await self._long(
            lambda c: tuple(StoredEvent(*row) for row in c.execute(query, (trace_id, after, limit)))
        )

    # -- quality checks

    async def append_qa_fact(self, trace_id: str, fact: QaFact) -> bool:
        now = clock.now_epoch_ms()
        named = named_blobs(fact.result)
        return await self._writer.write(lambda c: write.put_fact(c, trace_id, fact, named, now))

    async def replace_qa_result(self, trace_id: str, fact: QaFact) -> None:
        await self._writer.write(lambda c: write.replace_result(c, trace_id, fact))

    async def qa_facts(self, trace_id: str) -> tuple[QaFact, ...]:
        query = "SELECT step, input_hash, ts_ms, result_json FROM qa_facts WHERE trace_id = ? ORDER BY number"
        return tuple(QaFact(row[0], row[1], row[2], orjson.loads(row[3])) for row in self._rows(query, trace_id))

    # -- blobs

    async def put_blob_row(
        self, row: BlobRow, *, trace_id: str | None = None, submitted_id: str | None = None, data: bytes | None = None
    ) -> None:
        now = clock.now_epoch_ms()
        await self._writer.write(
            lambda c: write.put_blob(c, row, trace_id=trace_id, submitted_id=submitted_id, data=data, now_ms=now),
            size=len(data or b""),
        )

    async def get_blob_row(self, blob_id: str) -> BlobRow | None:
        rows = self._rows(f"{_BLOBS} WHERE {BY_ID}", *spot(blob_id))
        return _blob(rows[0]) if rows else None

    async def blob_data(self, blob_id: str) -> bytes | None:
        rows = self._rows(f"SELECT data FROM blobs WHERE {BY_ID}", *spot(blob_id))  # noqa: S608 # our own words
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    async def resolve_blobs(self, trace_id: str, submitted: Collection[str]) -> dict[str, BlobRow]:
        found: dict[str, BlobRow] = {}
        for name in submitted:
            alias = "SELECT blob_id FROM blob_aliases WHERE trace_id = ? AND submitted_id = ?"
            ((blob_id,),) = self._rows(alias, trace_id, name) or ((name,),)
            for row in self._rows(f"{_BLOBS} WHERE {BY_ID} AND {MAY_NAME}", *spot(blob_id), trace_id):
                found[name] = _blob(row)
        return found

    async def blob_rows(self, trace_id: str, *, after: str = "", limit: int | None = None) -> tuple[BlobRow, ...]:
        return await self._long(lambda c: _blob_rows(c, trace_id, after, limit))

    async def unnamed_blobs(self, trace_id: str) -> tuple[BlobRow, ...]:
        return tuple(map(_blob, self._rows(_UNNAMED, trace_id)))

    async def take_garbage(self, *, before_ms: int, limit: int = 100) -> tuple[BlobRow, ...]:
        return await self._writer.write(lambda c: write.take_garbage(c, before_ms=before_ms, limit=limit))

    @contextlib.asynccontextmanager
    async def blob_gate(self, *, exclusive: bool = False) -> AsyncIterator[None]:
        """See the port. Held by lock files, made when first needed."""
        door = await _locked(f"{self._path}.gate.door", fcntl.LOCK_EX)  # whoever waits stops those who come after
        try:
            held = await _locked(f"{self._path}.gate", fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        finally:
            os.close(door)
        try:
            yield
        finally:
            os.close(held)

    # -- tokens and keys

    async def secret(self, name: str = "identity", fresh: bytes = b"") -> bytes:
        return await self._writer.write(lambda c: write.secret(c, name, fresh or secrets.token_bytes(32)))

    async def add_token(self, token: TokenRow) -> None:
        await self._writer.write(lambda c: write.add_token(c, token))

    async def find_token(self, token_hash: str) -> TokenRow | None:
        rows = self._rows(f"{_TOKENS} WHERE token_hash = ?", token_hash)
        return TokenRow(*rows[0]) if rows else None

    async def revoke_token(self, token_id: str, at_ms: int) -> bool:
        return await self._writer.write(lambda c: write.revoke_token(c, token_id, at_ms))

    async def list_tokens(self) -> tuple[TokenRow, ...]:
        query = f"{_TOKENS} ORDER BY created_at_ms, token_id"
        return await self._long(lambda c: tuple(TokenRow(*row) for row in c.execute(query)))

    async def take_lease(self, trace_id: str, holder: str, *, now_ms: int, until_ms: int) -> str:
        return await self._writer.write(lambda c: write.take_lease(c, trace_id, holder, now_ms, until_ms))

    async def drop_lease(self, trace_id: str, holder: str) -> None:
        await self._writer.write(lambda c: write.drop_lease(c, trace_id, holder))

    async def add_audit(self, row: AuditRow) -> None:
        await self._writer.write(lambda c: write.add_audit(c, row))

    async def list_audit(self, *, limit: int) -> tuple[AuditRow, ...]:
        newest = "SELECT at_ms, token_id, role, action, subject FROM audit ORDER BY number DESC LIMIT ?"
        rows = await self._long(lambda c: c.execute(newest, (limit,)).fetchall())
        return tuple(AuditRow(*row) for row in reversed(rows))


def _trace(row: tuple[Any, ...]) -> TraceRow:
    found = dict(zip(TRACE_FIELDS, row, strict=True))
    texts = {name: orjson.loads(found[name] or "null") for name in ("metadata", "final_state")}
    return TraceRow(**{**found, **texts})


def _blob(row: tuple[Any, ...]) -> BlobRow:
    return BlobRow(row[0], row[1], row[2], row[3], orjson.loads(row[4]))


def _blob_rows(connection: sqlite3.Connection, trace_id: str, after: str, limit: int | None) -> tuple[BlobRow, ...]:
    """See `TraceStore.blob_rows`: sorted once into a temporary table, which the following pages are read from."""
    if limit is None:
        rows = connection.execute(f"{_HELD} AND b.blob_id > ? ORDER BY b.blob_id", (trace_id, after))
        return tuple(map(_blob, rows))
    table = "sorted_" + "".join(sign for sign in trace_id if sign.isascii() and sign.isalnum())
    names = [row[0] for row in connection.execute("SELECT name FROM temp.sqlite_schema WHERE type = 'table'")]
    if not after or table not in names:
        for old in (table, *names[: max(0, len(names) - _SORTED)]):
            connection.execute(f"DROP TABLE IF EXISTS temp.{old}")
        connection.execute(f"CREATE TEMP TABLE {table} (id TEXT PRIMARY KEY, a, b, c, d) WITHOUT ROWID")
        connection.execute(f"INSERT INTO temp.{table} {_HELD} ORDER BY b.blob_id", (trace_id,))
    found = connection.execute(f"SELECT * FROM temp.{table} WHERE id > ? ORDER BY id LIMIT ?", (after, limit))  # noqa: S608
    page = tuple(map(_blob, found))
    if len(page) < limit:
        connection.execute(f"DROP TABLE temp.{table}")
    return page
