"""What every store promises; each adapter's test module subclasses this and gives it a `store` fixture."""

from __future__ import annotations

import asyncio

import pytest

from collector.errors import EventConflictError, IntakeError, TooLargeError
from collector.store.port import AuditRow, BlobRow, QaFact, TokenRow, TraceLimits, TraceStore
from tests.collector.store.samples import blob, event, trace, uid
from tracer.blobs import blob_id_of
from tracer.errors import ConflictError, NotFoundError

REDACTED = {"applied": True, "rules": ["secret_scan"]}
T = uid(1)


async def opened(store: TraceStore, number: int = 1, **changes) -> str:
    await store.create_trace(trace(number, **changes), ingest_key_hash=f"hash-{number}")
    return uid(number)


def row_of(text: str, uri: str = "file:///somewhere") -> BlobRow:
    return BlobRow(blob_id_of(text.encode()), uri, "text/plain", len(text), REDACTED)


class StoreContract:
    # -- traces

    async def test_a_created_trace_is_read_back(self, store: TraceStore):
        assert await store.create_trace(trace(), ingest_key_hash="h") is True
        found = await store.get_trace(T)
        assert found == trace()
        assert (found.status, found.seq_last, found.event_count) == ("open", 0, 0)

    async def test_a_trace_that_never_was_is_none(self, store: TraceStore):
        await opened(store)
        for named in (uid(99), T[:8], "", "\u00e9"):
            assert await store.get_trace(named) is None

    async def test_creating_the_same_trace_again_is_harmless_and_adds_its_key(self, store: TraceStore):
        assert await store.create_trace(trace(), ingest_key_hash="one", identity=b"same") is True
        assert await store.create_trace(trace(), ingest_key_hash="two", identity=b"same") is False
        for key in ("one", "two"):
            token = await store.find_token(key)
            assert token is not None
            assert (token.kind, token.trace_id) == ("ingest", T)

    async def test_creating_another_trace_under_a_taken_id_is_a_conflict_and_leaves_no_key(self, store: TraceStore):
        await store.create_trace(trace(), ingest_key_hash="one", identity=b"same")
        with pytest.raises(ConflictError, match="already there"):
            await store.create_trace(trace(), ingest_key_hash="two", identity=b"other")
        assert await store.find_token("two") is None

    async def test_traces_are_listed_newest_first_page_by_page(self, store: TraceStore):
        for number in range(1, 6):
            await opened(store, number, at_ms=1_000 + number // 2)
        first = await store.list_traces(limit=2)
        second = await store.list_traces(limit=9, after=first[-1].trace_id)
        assert [row.trace_id for row in (*first, *second)] == [uid(number) for number in (5, 4, 3, 2, 1)]

    async def test_traces_are_listed_by_status(self, store: TraceStore):
        await opened(store, 1)
        await opened(store, 2)
        await store.finalize(uid(2), final_state=None, at_ms=5)
        assert [row.trace_id for row in await store.list_traces(status="finalized")] == [uid(2)]

    async def test_finalizing_closes_the_trace_once(self, store: TraceStore):
        await opened(store)
        row = await store.finalize(T, final_state={"commit_head": "b" * 40}, at_ms=50)
        assert (row.status, row.finalized_at_ms, row.final_state) == ("finalized", 50, {"commit_head": "b" * 40})
        again = await store.finalize(T, final_state={"commit_head": "c" * 40}, at_ms=60)
        assert again == row

    async def test_finalizing_what_is_not_there_is_not_found(self, store: TraceStore):
        with pytest.raises(NotFoundError):
            await store.finalize(uid(99), final_state=None, at_ms=50)

    async def test_a_finalized_trace_is_pending_until_it_is_complete(self, store: TraceStore):
        for number, at_ms in ((1, 70), (2, 60), (3, 65)):
            await opened(store, number)
            await store.finalize(uid(number), final_state=None, at_ms=at_ms)
        assert await store.set_status(uid(3), "complete", expected=("finalized",)) is True
        assert await store.set_status(uid(1), "qa_running", expected=("finalized",)) is True
        assert await store.pending_traces() == (uid(2), uid(1))

    async def test_a_status_changes_only_from_what_is_expected(self, store: TraceStore):
        await opened(store)
        assert await store.set_status(T, "complete", expected=("qa_running",)) is False
        assert (await store.get_trace(T)).status == "open"
        assert await store.set_status(uid(99), "complete") is False

    # -- events

    async def test_events_are_read_back_byte_for_byte_and_in_order(self, store: TraceStore):
        await opened(store)
        sent = [
            event(1),
            event(2, kind="search", query="näïve \u2028 \u200btext 😀", extra={"n": 1e16, "z": -0.0, "t": 1.0}),
        ]
        result = await store.append_events(T, sent)
        assert (result.accepted, result.duplicates, result.seq_last, result.gaps) == (2, 0, 2, ())
        found = await store.read_events(T)
        assert [item.body for item in found] == [item.body for item in sent]
        assert [item.seq for item in found] == [1, 2]

    async def test_events_are_read_page_by_page(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(seq) for seq in range(1, 8)])
        assert [item.seq for item in await store.read_events(T, after=2, limit=3)] == [3, 4, 5]
        assert await store.read_events(T, after=7) == ()

    async def test_the_row_counts_what_is_durable(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1), event(2)], [blob("patch")])
        row = await store.get_trace(T)
        assert (row.seq_last, row.event_count) == (2, 2)
        assert row.byte_count == sum(len(e.payload) + len(e.envelope) for e in (event(1), event(2))) + len("patch")

    async def test_a_repeated_batch_is_all_duplicates(self, store: TraceStore):
        await opened(store)
        batch = [event(1), event(2)]
        await store.append_events(T, batch)
        result = await store.append_events(T, batch)
        assert (result.accepted, result.duplicates, result.seq_last) == (0, 2, 2)
        assert len(await store.read_events(T)) == 2

    async def test_a_batch_that_was_half_stored_goes_on_where_it_was(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1), event(2)])
        result = await store.append_events(T, [event(2), event(3)])
        assert (result.accepted, result.duplicates, result.seq_last) == (1, 1, 3)

    async def test_the_same_event_twice_in_a_batch_counts_once(self, store: TraceStore):
        await opened(store)
        result = await store.append_events(T, [event(1), event(1), event(2)])
        assert (result.accepted, result.duplicates) == (2, 1)

    async def test_a_known_id_with_other_content_is_a_conflict_and_stores_nothing(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1)])
        with pytest.raises(EventConflictError, match="other content") as caught:
            await store.append_events(T, [event(2), event(1, identity=b"another content!")])
        assert caught.value.event_id == event(1).event_id
        assert [item.seq for item in await store.read_events(T)] == [1]

    async def test_a_known_id_beyond_the_last_seq_is_a_conflict_too(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1)])
        with pytest.raises(EventConflictError, match="other content"):
            await store.append_events(T, [event(7, number=10_001)])

    async def test_a_seq_that_is_not_beyond_the_last_is_a_conflict(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(5)])
        with pytest.raises(EventConflictError, match="seq 5 ") as caught:
            await store.append_events(T, [event(5, number=77)])
        assert caught.value.seq == 5
        assert "6" in caught.value.next_step

    async def test_a_seq_out_of_order_within_a_batch_is_a_conflict(self, store: TraceStore):
        await opened(store)
        with pytest.raises(EventConflictError):
            await store.append_events(T, [event(2), event(1)])
        assert (await store.get_trace(T)).seq_last == 0

    async def test_timestamps_may_go_back(self, store: TraceStore):
        await opened(store)
        late, early = event(1)._replace(ts_ms=900), event(2)._replace(ts_ms=100)
        await store.append_events(T, [late, early])
        assert [item.ts_ms for item in await store.read_events(T)] == [900, 100]

    async def test_gaps_are_accepted_and_reported(self, store: TraceStore):
        await opened(store)
        first = await store.append_events(T, [event(3), event(4), event(9)])
        second = await store.append_events(T, [event(11)])
        assert first.gaps == ((1, 2), (5, 8))
        assert second.gaps == ((10, 10),)
        assert await store.gaps(T) == ((1, 2), (5, 8), (10, 10))

    async def test_events_of_two_traces_may_share_ids(self, store: TraceStore):
        for number in (1, 2):
            await opened(store, number)
            await store.append_events(uid(number), [event(1)])
        assert len(await store.read_events(uid(2))) == 1

    async def test_an_unknown_trace_takes_no_events(self, store: TraceStore):
        with pytest.raises(NotFoundError):
            await store.append_events(uid(99), [event(1)])

    async def test_a_finalized_trace_takes_no_events(self, store: TraceStore):
        await opened(store)
        await store.finalize(T, final_state=None, at_ms=5)
        with pytest.raises(ConflictError, match="cannot take events"):
            await store.append_events(T, [event(1)])

    async def test_a_trace_beyond_its_limits_takes_no_more(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1)], limits=TraceLimits(events=2))
        with pytest.raises(TooLargeError) as caught:
            await store.append_events(T, [event(2), event(3)], limits=TraceLimits(events=2))
        assert (caught.value.rule, caught.value.limit) == ("trace_events", 2)
        with pytest.raises(TooLargeError, match="too large"):
            await store.append_events(T, [event(2)], limits=TraceLimits(size=100))

    async def test_the_clock_skew_is_that_of_the_quickest_message(self, store: TraceStore):
        await opened(store)
        for seq, skew in enumerate((None, -900, -40, -300), 1):
            await store.append_events(T, [event(seq)], skew_ms=skew)
        assert (await store.get_trace(T)).clock_skew_ms == -40

    async def test_many_writers_of_many_traces_lose_nothing(self, store: TraceStore):
        async def write(number: int) -> None:
            await opened(store, number)
            for seq in range(1, 9):
                await store.append_events(uid(number), [event(seq)], [blob(f"{number}-{seq}"), blob("shared")])

        await asyncio.gather(*(write(number) for number in range(1, 13)))
        for number in range(1, 13):
            assert [item.seq for item in await store.read_events(uid(number))] == list(range(1, 9))
            assert len(await store.blob_rows(uid(number))) == 9

    async def test_concurrent_senders_of_one_batch_store_it_once(self, store: TraceStore):
        await opened(store)
        batch = [event(seq) for seq in range(1, 4)]
        results = await asyncio.gather(*(store.append_events(T, batch, [blob("x")]) for _ in range(8)))
        assert sum(result.accepted for result in results) == 3
        assert sum(result.duplicates for result in results) == 21
        assert len(await store.read_events(T)) == 3

    async def test_a_failing_batch_hinders_no_other(self, store: TraceStore):
        await opened(store, 1)
        await opened(store, 2)
        good = [store.append_events(uid(1), [event(1)]), store.append_events(uid(2), [event(1)])]
        bad = [store.append_events(uid(99), [event(1)]), store.append_events(uid(2), [event(2), event(1, number=5)])]
        results = await asyncio.gather(good[0], bad[0], bad[1], good[1], return_exceptions=True)
        assert isinstance(results[1], NotFoundError)
        assert isinstance(results[2], EventConflictError)
        assert results[0].accepted == results[3].accepted == 1

    # -- blobs

    async def test_a_blob_that_comes_with_events_is_kept_in_the_database(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1)], [blob("a patch")])
        blob_id = blob_id_of(b"a patch")
        assert await store.get_blob_row(blob_id) == BlobRow(blob_id, f"db:{blob_id}", "text/plain", 7, REDACTED)
        assert await store.blob_data(blob_id) == b"a patch"
        assert [row.blob_id for row in await store.blob_rows(T)] == [blob_id]

    async def test_a_blob_elsewhere_has_its_place_and_no_data_here(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1)], [blob("big", data=None, storage_uri="s3://bucket/big")])
        row = await store.get_blob_row(blob_id_of(b"big"))
        assert row.storage_uri == "s3://bucket/big"
        assert await store.blob_data(row.blob_id) is None

    async def test_an_uploaded_blob_can_be_named_by_its_trace_only(self, store: TraceStore):
        await opened(store, 1)
        await opened(store, 2)
        row = row_of("patch")
        await store.put_blob_row(row, trace_id=T)
        assert await store.resolve_blobs(T, [row.blob_id, blob_id_of(b"?")]) == {row.blob_id: row}
        assert await store.resolve_blobs(uid(2), [row.blob_id]) == {}
        await store.append_events(T, [event(1)], references=[row.blob_id])
        with pytest.raises(IntakeError, match="is not here"):
            await store.append_events(uid(2), [event(1)], references=[row.blob_id])
        assert (await store.get_trace(uid(2))).seq_last == 0

    async def test_an_uploaded_blob_answers_to_the_id_it_was_sent_under(self, store: TraceStore):
        await opened(store)
        row = row_of("pass [REDACTED:x:123456]")
        original = blob_id_of(b"pass hunter22")
        await store.put_blob_row(row, trace_id=T, submitted_id=original)
        assert await store.resolve_blobs(T, [original]) == {original: row}

    async def test_a_blob_without_a_trace_may_be_named_by_any(self, store: TraceStore):
        await opened(store)
        row = row_of("bundle")
        await store.put_blob_row(row)
        assert row.blob_id in await store.resolve_blobs(T, [row.blob_id])
        await store.append_events(T, [event(1)], references=[row.blob_id])
        assert await store.blob_rows(T) == (row,)

    async def test_only_blobs_that_are_named_belong_to_the_document(self, store: TraceStore):
        await opened(store)
        used, unused = row_of("used"), row_of("unused")
        for row in (used, unused):
            await store.put_blob_row(row, trace_id=T)
        await store.append_events(T, [event(1)], references=[used.blob_id])
        assert await store.blob_rows(T) == (used,)
        assert await store.unnamed_blobs(T) == (unused,)

    async def test_bytes_that_are_damaged_here_are_put_right_by_whatever_brings_them_again(self, store: TraceStore):
        await opened(store)
        brought = blob("as it was sent")
        row = BlobRow(brought.blob_id, f"db:{brought.blob_id}", "text/plain", brought.byte_len, REDACTED)
        sent = {"uploaded": None, "new": event(1), "sent again": event(1), "beside a new one": event(2)}
        for damaged, (how, given) in zip((b"As it was sent", b"short") * 2, sent.items(), strict=True):
            await store.put_blob_row(row, trace_id=T, data=damaged)
            assert await store.blob_data(row.blob_id) == damaged
            if given is None:
                await store.put_blob_row(row, trace_id=T, data=brought.data)
            else:
                await store.append_events(T, [given], [brought])
            assert await store.blob_data(row.blob_id) == brought.data, how
        await store.put_blob_row(row)
        assert await store.blob_data(row.blob_id) == brought.data, "a row without bytes changes none"

    async def test_final_state_and_checks_name_blobs_too(self, store: TraceStore):
        await opened(store)
        diff, log = row_of("diff"), row_of("log")
        await store.put_blob_row(diff, trace_id=T)
        await store.finalize(T, final_state={}, at_ms=9, references=[diff.blob_id], blobs=[blob("inline diff")])
        await store.put_blob_row(log, trace_id=T)
        fact = QaFact("tests", "h", 10, {"tests": {"invocations": [{"stdout_blob_id": log.blob_id}]}})
        assert await store.append_qa_fact(T, fact) is True
        held = {row.blob_id for row in await store.blob_rows(T)}
        assert held == {diff.blob_id, log.blob_id, blob_id_of(b"inline diff")}

    async def test_a_result_is_replaced_where_consent_to_it_was_taken_back(self, store: TraceStore):
        await opened(store)
        facts = [QaFact("judge", name, 10, {"judge": {"overall": 4.5}}) for name in ("a", "b")]
        for fact in facts:
            await store.append_qa_fact(T, fact)
        gone = facts[0]._replace(result={"judge": None})
        await store.replace_qa_result(T, gone)
        assert await store.qa_facts(T) == (gone, facts[1])

    async def test_each_trace_keeps_how_its_blob_was_redacted(self, store: TraceStore):
        plain = {"applied": False, "rules": []}
        for number, redaction in ((1, plain), (2, REDACTED)):
            await opened(store, number)
            await store.append_events(uid(number), [event(1)], [blob("same bytes", redaction=redaction)])
        assert [(await store.blob_rows(uid(n)))[0].redaction for n in (1, 2)] == [plain, REDACTED]

    # -- garbage

    async def test_what_a_trace_holds_is_never_garbage(self, store: TraceStore):
        await opened(store)
        await store.put_blob_row(row_of("uploaded"), trace_id=T)
        await store.append_events(T, [event(1)], [blob("inline")])
        assert await store.take_garbage(before_ms=1 << 60) == ()

    async def test_an_upload_that_nothing_names_is_garbage_after_its_time(self, store: TraceStore):
        row = row_of("torn")
        await store.put_blob_row(row)
        assert await store.take_garbage(before_ms=0) == ()
        assert await store.take_garbage(before_ms=1 << 60) == (row,)
        assert await store.get_blob_row(row.blob_id) is None

    async def test_uploads_that_were_never_named_are_let_go_at_the_end(self, store: TraceStore):
        await opened(store)
        used, unused = row_of("used"), row_of("unused")
        for row in (used, unused):
            await store.put_blob_row(row, trace_id=T)
        await store.append_events(T, [event(1)], references=[used.blob_id])
        await store.finalize(T, final_state=None, at_ms=9)
        assert await store.take_garbage(before_ms=1 << 60) == (unused,)

    async def test_the_bundle_that_the_metadata_name_stays(self, store: TraceStore):
        bundle = row_of("bundle")
        row = trace()
        row.metadata["repo"]["bundle_blob_id"] = bundle.blob_id
        await store.create_trace(row, ingest_key_hash="h")
        await store.put_blob_row(bundle, trace_id=T)
        await store.finalize(T, final_state=None, at_ms=9)
        assert await store.blob_rows(T) == (bundle,)

    async def test_the_final_document_belongs_to_the_trace(self, store: TraceStore):
        await opened(store)
        await store.finalize(T, final_state=None, at_ms=9)
        document = row_of("{}")
        await store.put_blob_row(document, trace_id=T)
        await store.set_final_document(T, document.blob_id)
        assert (await store.get_trace(T)).final_blob_id == document.blob_id
        assert await store.take_garbage(before_ms=1 << 60) == ()

    async def test_the_final_document_is_no_blob_of_the_trace_it_describes(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1)], [blob("part")])
        await store.finalize(T, final_state=None, at_ms=9)
        for text in ("{}", "{ }"):  # made again after a further check
            await store.put_blob_row(row_of(text), trace_id=T)
            await store.set_final_document(T, row_of(text).blob_id)
        assert [row.blob_id for row in await store.blob_rows(T)] == [blob("part").blob_id]

    async def test_the_blobs_of_a_trace_are_read_in_pages(self, store: TraceStore):
        await opened(store)
        blobs = [blob(f"text {number}") for number in range(7)]
        await store.append_events(T, [event(1)], blobs)
        ids = sorted(each.blob_id for each in blobs)
        assert [row.blob_id for row in await store.blob_rows(T, limit=3)] == ids[:3]
        assert [row.blob_id for row in await store.blob_rows(T, after=ids[2], limit=3)] == ids[3:6]
        assert [row.blob_id for row in await store.blob_rows(T, after=ids[5])] == ids[6:]

    async def test_a_collection_waits_for_an_upload_and_the_other_way_round(self, store: TraceStore):
        order = []

        async def upload(name: str, start: asyncio.Event, end: asyncio.Event) -> None:
            async with store.blob_gate():
                order.append(f"{name} in")
                start.set()
                await end.wait()
                order.append(f"{name} out")

        async def collect() -> None:
            async with store.blob_gate(exclusive=True):
                order.append("collected")

        started, end = asyncio.Event(), asyncio.Event()
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(upload("a", started, end))
            await started.wait()
            other = asyncio.Event()
            group.create_task(upload("b", other, end))
            await other.wait()  # uploads do not wait for each other
            group.create_task(collect())
            await asyncio.sleep(0.1)
            end.set()
        assert order[-1] == "collected"
        assert order.count("a out") == order.count("b out") == 1

    # -- deletion

    async def test_a_deleted_trace_leaves_a_tombstone_and_nothing_else(self, store: TraceStore):
        await opened(store)
        await store.append_events(T, [event(1), event(3)], [blob("secret plan")])
        await store.append_qa_fact(T, QaFact("schema", "h", 1, {"schema_valid": True}))
        assert await store.delete_trace(T, 77) is True
        row = await store.get_trace(T)
        assert (row.status, row.deleted_at_ms, row.metadata, row.final_state) == ("deleted", 77, {}, None)
        assert await store.read_events(T) == ()
        assert await store.qa_facts(T) == ()
        assert await store.blob_rows(T) == ()
        assert await store.gaps(T) == ()
        assert await store.find_token("hash-1") is None
        assert await store.list_traces() == ()
        assert [row.trace_id for row in await store.list_traces(status="deleted")] == [T]

    async def test_a_deleted_trace_frees_its_blobs_but_not_those_of_others(self, store: TraceStore):
        for number in (1, 2):
            await opened(store, number)
            await store.append_events(uid(number), [event(1)], [blob("shared"), blob(f"own {number}")])
        await store.delete_trace(T, 77)
        garbage = await store.take_garbage(before_ms=1 << 60)
        assert [row.blob_id for row in garbage] == [blob_id_of(b"own 1")]
        assert await store.blob_data(blob_id_of(b"own 1")) is None
        assert await store.blob_data(blob_id_of(b"shared")) == b"shared"

    async def test_a_blob_of_many_traces_goes_with_the_last_of_them(self, store: TraceStore):
        for number in range(1, 5):
            await opened(store, number)
            await store.append_events(uid(number), [event(1)], [blob("shared"), blob("shared too")])
        await store.put_blob_row(row_of("shared too"), trace_id=uid(4))
        for number in range(1, 5):
            assert await store.take_garbage(before_ms=1 << 60) == ()
            await store.delete_trace(uid(number), 77)
        assert {row.blob_id for row in await store.take_garbage(before_ms=1 << 60)} == {
            blob_id_of(b"shared"),
            blob_id_of(b"shared too"),
        }

    async def test_an_upload_that_traces_begin_and_cease_to_hold_is_garbage_again(self, store: TraceStore):
        row = row_of("upload")
        await store.put_blob_row(row)
        for number in (1, 2):
            await opened(store, number)
            await store.append_events(uid(number), [event(1)], references=[row.blob_id])
        await store.delete_trace(uid(1), 77)
        assert await store.take_garbage(before_ms=1 << 60) == ()
        await store.delete_trace(uid(2), 77)
        assert await store.take_garbage(before_ms=1 << 60) == (row,)
        assert await store.resolve_blobs(T, [row.blob_id]) == {}

    async def test_a_deleted_trace_takes_nothing_and_does_not_come_back(self, store: TraceStore):
        await opened(store)
        await store.delete_trace(T, 77)
        with pytest.raises(NotFoundError, match="no trace"):
            await store.append_events(T, [event(1)])
        with pytest.raises(ConflictError, match="already there"):
            await store.create_trace(trace(), ingest_key_hash="again")
        assert await store.set_status(T, "open") is False
        assert await store.delete_trace(T, 78) is False
        assert (await store.get_trace(T)).deleted_at_ms == 77

    async def test_deleting_what_is_not_there_is_not_found(self, store: TraceStore):
        with pytest.raises(NotFoundError):
            await store.delete_trace(uid(99), 77)

    async def test_a_large_trace_is_deleted_while_others_write(self, store: TraceStore):
        await opened(store, 1)
        await opened(store, 2)
        for start in range(1, 5_001, 1_000):
            await store.append_events(T, [event(seq) for seq in range(start, start + 1_000)])

        async def write() -> int:
            for seq in range(1, 21):
                await store.append_events(uid(2), [event(seq)])
            return 20

        deleted, written = await asyncio.gather(store.delete_trace(T, 77), write())
        assert deleted is True
        assert len(await store.read_events(uid(2))) == written
        assert await store.read_events(T) == ()

    # -- quality checks

    async def test_results_are_kept_in_order_and_the_first_of_an_input_stays(self, store: TraceStore):
        await opened(store)
        facts = [QaFact("tests", "h1", 1, {"a": 1}), QaFact("judge", "h1", 2, {"b": [1.5, None]})]
        assert [await store.append_qa_fact(T, fact) for fact in facts] == [True, True]
        assert await store.append_qa_fact(T, QaFact("tests", "h1", 3, {"a": 2})) is False
        assert await store.append_qa_fact(T, QaFact("tests", "h2", 4, {"a": 3})) is True
        assert [fact.ts_ms for fact in await store.qa_facts(T)] == [1, 2, 4]
        assert (await store.qa_facts(T))[:2] == tuple(facts)

    async def test_a_result_that_names_an_unknown_blob_is_refused(self, store: TraceStore):
        await opened(store)
        with pytest.raises(IntakeError):
            await store.append_qa_fact(T, QaFact("judge", "h", 1, {"rationale_blob_id": blob_id_of(b"none")}))
        assert await store.qa_facts(T) == ()

    # -- tokens and keys

    async def test_tokens_are_found_listed_and_revoked_once(self, store: TraceStore):
        admin = TokenRow("id-1", "admin", "digest", None, "laptop", 5)
        await store.add_token(admin)
        assert await store.find_token("digest") == admin
        assert await store.find_token("other") is None
        assert await store.revoke_token("id-1", 9) is True
        assert await store.revoke_token("id-1", 10) is False
        assert await store.list_tokens() == (admin._replace(revoked_at_ms=9),)

    async def test_a_token_keeps_its_rights(self, store: TraceStore):
        bound = TokenRow("id-2", "admin", "digest 2", None, "", 5, None, "contributor", "dev-17", "shop", 99)
        await store.add_token(bound)
        assert await store.find_token("digest 2") == bound

    async def test_a_lease_is_one_holders_until_it_ends_or_is_dropped(self, store: TraceStore):
        assert await store.take_lease(T, "one", now_ms=10, until_ms=20) == "one"
        assert await store.take_lease(T, "two", now_ms=15, until_ms=30) == "one"
        assert await store.take_lease(T, "one", now_ms=15, until_ms=25) == "one", "renewed"
        assert await store.take_lease(T, "two", now_ms=25, until_ms=40) == "two", "the first holder died"
        await store.drop_lease(T, "one")
        assert await store.take_lease(T, "one", now_ms=26, until_ms=50) == "two"
        await store.drop_lease(T, "two")
        assert await store.take_lease(T, "one", now_ms=27, until_ms=50) == "one"

    async def test_the_audit_log_gives_the_newest_rows_in_order(self, store: TraceStore):
        rows = [AuditRow(at, "id-1", "reviewer", "read", T) for at in (1, 2, 3)]
        for row in rows:
            await store.add_audit(row)
        assert await store.list_audit(limit=2) == tuple(rows[1:])

    async def test_a_key_is_made_once(self, store: TraceStore):
        first = await store.secret()
        assert len(first) == 32
        assert await store.secret() == first
        assert await store.secret("other") != first
        assert await store.secret("given", b"a mark") == await store.secret("given", b"another") == b"a mark"
