"""Two stores on one file do what plain dicts do, whoever writes, whatever fails or is cancelled in between.

Seeded: each step gives a few calls to one of the stores, some with a disk that is full or a statement that fails, and
then the whole file is compared: who holds which blob, how often that is counted, and where each blob's id stands.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collector.errors import EventConflictError, IntakeError
from collector.store.port import AppendResult, BlobRow, NewBlob, StoredEvent
from collector.store.sqlite import blobs as sqlite_lookup
from collector.store.sqlite import write
from collector.store.sqlite.blobs import LEVELS, key_of
from collector.store.sqlite.store import SqliteStore, open_sqlite
from tests.collector.store.samples import blob, event, trace, uid
from tracer.errors import ConflictError, NotFoundError, RecordError

_STEPS = 50
_BLOBS = [blob(f"{number} " * (1 if number % 5 else 3_000)) for number in range(60)]
_EVER = 1 << 60
_FAILING = ("events", "blobs", "trace_blobs", "blob_holds", *LEVELS)


class Trace:
    def __init__(self) -> None:
        self.status = "open"
        self.identities: dict[str, bytes] = {}
        self.seqs: list[int] = []
        self.holds: dict[str, bool] = {}
        """Blobs and whether the trace names them."""

    @property
    def last(self) -> int:
        return self.seqs[-1] if self.seqs else 0


class Model:
    """What a store promises; each call answers what the store should: a value, or the error's type."""

    def __init__(self) -> None:
        self.traces: dict[str, Trace] = {}
        self.shared: dict[str, bool] = {}
        """The blobs that are there, and whether any trace may name them."""

    def create(self, trace_id: str) -> Any:
        if trace_id in self.traces:
            return False if self.traces[trace_id].status != "deleted" else ConflictError
        self.traces[trace_id] = Trace()
        return True

    def append(self, trace_id: str, events: list[StoredEvent], blobs: list[NewBlob], references: list[str]) -> Any:
        found = self.traces.get(trace_id)
        if found is None or found.status == "deleted":
            return NotFoundError
        if found.status != "open":
            return ConflictError
        identities, seqs, gaps, is_damaged = dict(found.identities), list(found.seqs), [], False
        for each in events:
            if each.event_id in identities:
                if identities[each.event_id] != each.identity:
                    return EventConflictError
                continue
            last = seqs[-1] if seqs else 0
            if each.seq <= last:
                return EventConflictError
            if each.seq > last + 1:
                gaps.append((last + 1, each.seq - 1))
            identities[each.event_id] = each.identity
            seqs.append(each.seq)
            is_damaged = is_damaged or each.type is None
        accepted = len(seqs) - len(found.seqs)
        if accepted:
            if any(not self.shared.get(name) and name not in found.holds for name in references):
                return IntakeError
            if is_damaged:
                return RecordError
            for name in (*references, *(each.blob_id for each in blobs)):
                self.shared.setdefault(name, False)
                found.holds[name] = True
        found.identities, found.seqs = identities, seqs
        return AppendResult(accepted, len(events) - accepted, found.last, tuple(gaps))

    def upload(self, trace_id: str | None, blob_id: str) -> Any:
        if trace_id is not None and (trace_id not in self.traces or self.traces[trace_id].status == "deleted"):
            return NotFoundError
        self.shared[blob_id] = self.shared.get(blob_id, False) or trace_id is None
        if trace_id is not None:
            self.traces[trace_id].holds.setdefault(blob_id, False)
        return None

    def finalize(self, trace_id: str) -> Any:
        found = self.traces.get(trace_id)
        if found is None or found.status == "deleted":
            return NotFoundError
        if found.status == "open":
            found.status = "finalized"
            found.holds = {name: True for name, named in found.holds.items() if named}
        return found.last

    def delete(self, trace_id: str) -> Any:
        found = self.traces.get(trace_id)
        if found is None:
            return NotFoundError
        was, found.status = found.status, "deleted"
        return was != "deleted"

    def purge(self) -> None:
        for found in self.traces.values():
            if found.status == "deleted":
                found.holds, found.seqs = {}, []

    def garbage(self) -> set[str]:
        gone = self.shared.keys() - {name for found in self.traces.values() for name in found.holds}
        for name in gone:
            del self.shared[name]
        return gone


class Step(NamedTuple):
    call: Callable[[SqliteStore], Coroutine[Any, Any, Any]]
    expected: Callable[[], Any]
    """Does it in the model too."""
    is_whole: bool = True
    """Whether it is one transaction, so that an error or the caller's end leaves nothing half done."""


class Steps:
    """Draws calls: most are sensible in the state things are in, some are not."""

    def __init__(self, rng: random.Random, model: Model) -> None:
        self.rng, self.model = rng, model
        self.first = self.keys = 0
        """Numbers of the traces that are used now, and of ingest keys."""

    def step(self) -> Step:
        if self.rng.random() < 0.02:
            self.first += 4  # the others are deleted or ended by now
        number = self.first + self.rng.randint(1, 4)
        known = uid(number) in self.model.traces
        draws = [self._create, self._append, self._upload, self._finalize, self._delete, self._garbage]
        (draw,) = self.rng.choices(draws, (1, 12, 4, 0.5, 0.7, 2) if known else (8, 1, 1, 1, 1, 1))
        return draw(number)

    def _create(self, number: int) -> Step:
        self.keys += 1
        key = f"key {self.keys}"
        return Step(
            lambda store: store.create_trace(trace(number), ingest_key_hash=key),
            lambda: self.model.create(uid(number)),
        )

    def _append(self, number: int) -> Step:
        found = self.model.traces.get(uid(number), Trace())
        start = found.last + self.rng.choice((1, 1, 1, 1, 3, 0, -2))
        events = [event(max(seq, 1)) for seq in range(start, start + self.rng.choice((1, 1, 2, 5, 70)))]
        if self.rng.random() < 0.2:
            at = self.rng.randrange(len(events))
            other = {"identity": b"another content!", "event_id": uid(9), "type": None}  # None breaks a constraint
            name = self.rng.choice(sorted(other))
            events[at] = events[at]._replace(**{name: other[name]})
        blobs = self.rng.sample(_BLOBS, self.rng.choice((0, 1, 2, 9, 30)))
        sources = [each.blob_id for each in _BLOBS] if self.rng.random() < 0.2 else sorted(found.holds)
        references = self.rng.sample(sources, min(len(sources), self.rng.choice((0, 0, 1, 2))))
        return Step(
            lambda store: store.append_events(uid(number), events, blobs, references=references),
            lambda: self.model.append(uid(number), events, blobs, references),
        )

    def _upload(self, number: int) -> Step:
        sent, trace_id = self.rng.choice(_BLOBS), self.rng.choice((None, uid(number)))
        row = BlobRow(sent.blob_id, "", sent.content_type, sent.byte_len, sent.redaction)
        return Step(
            lambda store: store.put_blob_row(row, trace_id=trace_id, data=sent.data),
            lambda: self.model.upload(trace_id, sent.blob_id),
        )

    def _finalize(self, number: int) -> Step:
        async def seq_last(store: SqliteStore) -> int:
            return (await store.finalize(uid(number), final_state=None, at_ms=1)).seq_last

        return Step(seq_last, lambda: self.model.finalize(uid(number)))

    def _delete(self, number: int) -> Step:
        return Step(
            lambda store: store.delete_trace(uid(number), 1), lambda: self.model.delete(uid(number)), is_whole=False
        )

    def _garbage(self, _number: int) -> Step:
        async def taken(store: SqliteStore) -> set[str]:
            return {row.blob_id for row in await store.take_garbage(before_ms=_EVER, limit=1_000)}

        return Step(taken, self.model.garbage)


@asynccontextmanager
async def trouble(store: SqliteStore, rng: random.Random) -> AsyncIterator[None]:
    """Inside, the store's disk may become full, or one of its statements fails."""
    left = rng.randint(1, 30)

    def fails() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    def begin(connection: sqlite3.Connection) -> None:
        if rng.random() < 0.5:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + rng.randint(0, 4)}").fetchone()
        else:
            connection.create_function("fails", 0, fails)
            connection.execute(
                f"CREATE TEMP TRIGGER failing BEFORE INSERT ON main.{rng.choice(_FAILING)} WHEN fails()"
                f" BEGIN SELECT RAISE({rng.choice(('ABORT', 'FAIL', 'ROLLBACK'))}, 'in the middle'); END"
            )

    def end(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 1000000").fetchone()
        connection.execute("DROP TRIGGER IF EXISTS temp.failing")

    await store._writer.write(begin)
    yield
    await store._writer.write(end)


def check_file(path: Path, model: Model) -> None:
    with closing(sqlite3.connect(path)) as connection:
        blobs = dict(connection.execute("SELECT number, blob_id FROM blobs"))
        assert set(blobs.values()) == model.shared.keys()
        entries = [row for level in LEVELS for row in connection.execute(f"SELECT key, number FROM {level}")]
        assert sorted(entries) == sorted((key_of(blob_id), number) for number, blob_id in blobs.items())
        held: dict[str, dict[str, bool]] = {}
        for trace_id, number, named in connection.execute("SELECT trace_id, number, named FROM trace_blobs"):
            held.setdefault(trace_id, {})[blobs[number]] = bool(named)
        assert held == {trace_id: found.holds for trace_id, found in model.traces.items() if found.holds}
        counted = Counter({blobs[n]: held_by for n, held_by in connection.execute("SELECT number, held_by FROM blobs")})
        counted.update({blobs[n]: more for n, more in connection.execute("SELECT number, more FROM blob_holds")})
        assert +counted == Counter(name for holds in held.values() for name in holds)
        assert connection.execute("SELECT 1 FROM blob_holds WHERE more < 1").fetchone() is None
        stored: dict[str, list[int]] = {}
        for trace_id, seq in connection.execute("SELECT trace_id, seq FROM events ORDER BY rowid"):
            stored.setdefault(trace_id, []).append(seq)
        assert stored == {trace_id: found.seqs for trace_id, found in model.traces.items() if found.seqs}
        statuses = dict(connection.execute("SELECT trace_id, status FROM traces"))
        assert statuses == {trace_id: found.status for trace_id, found in model.traces.items()}
        assert connection.execute("SELECT 1 FROM purges").fetchone() is None


async def check_reads(store: SqliteStore, model: Model) -> None:
    for each in _BLOBS:
        assert await store.blob_data(each.blob_id) == (each.data if each.blob_id in model.shared else None)
    for trace_id, found in model.traces.items():
        named = {name for name, is_named in found.holds.items() if is_named}
        assert {row.blob_id for row in await store.blob_rows(trace_id)} == named
        may_name = {name for name, shared in model.shared.items() if shared or name in found.holds}
        assert (await store.resolve_blobs(trace_id, [each.blob_id for each in _BLOBS])).keys() == may_name


async def answers(store: SqliteStore, steps: list[Step], gone: set[int]) -> list[Any]:
    """What becomes of calls that are made at once, in this order; the callers in `gone` do not wait for theirs."""
    started, go = threading.Event(), threading.Event()

    def hold(_connection: sqlite3.Connection) -> None:
        started.set()
        go.wait(10)

    holding = asyncio.create_task(store._writer.write(hold))
    await asyncio.to_thread(started.wait, 10)
    calls = [asyncio.create_task(step.call(store)) for step in steps]
    await asyncio.sleep(0)  # now all wait for the writer and will share a transaction
    for at in gone:
        calls[at].cancel()
    go.set()
    await holding
    found = await asyncio.gather(*calls, return_exceptions=True)
    await store._writer.write(lambda _connection: None)  # what was cancelled is done by now
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(1, 8))])
async def test_two_stores_on_a_file_do_what_dicts_do(seed, tmp_path, monkeypatch):
    small = ((12, *sqlite_lookup._POURS[0][1:]), (4, *sqlite_lookup._POURS[1][1:]))
    monkeypatch.setattr(sqlite_lookup, "_POURS", small)
    monkeypatch.setattr(write, "_PURGE", 3)
    rng, model, path = random.Random(seed), Model(), tmp_path / "c.sqlite"
    drawn = Steps(rng, model)
    async with open_sqlite(path) as one, open_sqlite(path) as other:
        for _each in range(_STEPS):
            store = rng.choice((one, other))
            steps = [drawn.step() for _call in range(rng.choice((1, 1, 3, 10)))]
            whole = [at for at, step in enumerate(steps) if step.is_whole]
            is_troubled = len(whole) == len(steps) and rng.random() < 0.5
            gone = (
                set(rng.sample(whole, rng.randint(0, len(whole)))) if rng.random() < 0.2 and not is_troubled else set()
            )
            async with trouble(store, rng) if is_troubled else nullcontext():
                found = await answers(store, steps, gone)
            for at, (step, answer) in enumerate(zip(steps, found, strict=True)):
                if is_troubled and isinstance(answer, RecordError):
                    continue
                expected = step.expected()
                if at not in gone:
                    assert type(answer) is expected if isinstance(expected, type) else answer == expected
            model.purge()
            check_file(path, model)
            await check_reads(rng.choice((one, other)), model)
