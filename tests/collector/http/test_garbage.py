"""Collection of blobs takes what nothing names, and never what is referenced or was just uploaded."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from collector.collector import Collector
from collector.opening import open_collector
from collector.store.blobs import FolderBlobs
from tests.collector.http.support import event, new_trace
from tests.support.s3 import BUCKET, s3_environment
from tracer.blobs import blob_id_of
from tracer.errors import NotFoundError
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir


@pytest.fixture(scope="module")
def endpoint() -> Iterator[dict[str, str]]:
    with s3_environment() as environ:
        yield environ


@pytest.fixture(params=["folder", "bucket", pytest.param("postgres", marks=pytest.mark.torture)])
async def collector(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Collector]:
    environ: dict[str, str] = {"HOME": str(tmp_path)}
    if request.param == "postgres":
        environ["PM_COLLECTOR_DATABASE"] = request.getfixturevalue("postgres_dsn")
    if request.param == "bucket":
        environ |= request.getfixturevalue("endpoint")
        environ["PM_COLLECTOR_BLOBS"] = f"s3://{BUCKET}/{tmp_path.name}"
    state_dir = StateDir(tmp_path / ".pm-orchestrator")
    settings = load_settings(project=state_dir.root, environ=environ)
    async with open_collector(state_dir, settings, environ=environ) as opened:
        yield opened


async def put(collector: Collector, data: bytes, trace_id: str | None = None) -> str:
    stored = await collector.put_blob(
        io.BytesIO(data),
        submitted_id=blob_id_of(data),
        byte_length=len(data),
        content_type="text/plain",
        trace_id=trace_id,
    )
    return stored.blob_id


def text(number: int, length: int) -> bytes:
    return (f"line {number} of a plain report\n" * (length // 20)).encode()


@pytest.mark.parametrize("length", [1_000, 200_000])
async def test_what_is_named_stays_and_the_rest_goes(collector: Collector, length: int) -> None:
    trace = await collector.create(new_trace())
    named = await put(collector, text(1, length), trace.trace_id)
    for_the_trace = await put(collector, text(2, length), trace.trace_id)
    alone = await put(collector, text(3, length))
    await collector.append(trace.trace_id, [event(1, payload={"kind": "plan", "content_blob_id": named})])
    gone = await collector.collect_garbage(grace_ms=-60_000)
    assert (gone.blobs, gone.freed) == (1, len(text(3, length)))
    for number, blob_id in ((1, named), (2, for_the_trace)):  # its event may still come
        with (await collector.open_blob(blob_id)).file as file:
            assert file.read() == text(number, length)
    with pytest.raises(NotFoundError):
        await collector.open_blob(alone)


async def test_a_fresh_upload_stays_for_its_event(collector: Collector) -> None:
    blob_id = await put(collector, text(1, 200_000))
    assert (await collector.collect_garbage()).blobs == 0
    with (await collector.open_blob(blob_id)).file as file:
        assert file.read() == text(1, 200_000)


async def test_the_diff_of_an_end_that_was_told_before_is_not_kept(collector: Collector) -> None:
    trace = await collector.create(new_trace())
    diffs = [text(number, length) for number, length in ((1, 1_000), (2, 1_000), (3, 200_000))]
    for diff in diffs:
        await collector.finalize(trace.trace_id, {"final_state": {"pr": {"title": "Fix", "diff": diff.decode()}}})
    await collector.collect_garbage(grace_ms=-60_000)
    with (await collector.open_blob(blob_id_of(diffs[0]), trace_id=trace.trace_id)).file as file:
        assert file.read() == diffs[0]
    for diff in diffs[1:]:
        with pytest.raises(NotFoundError):
            await collector.open_blob(blob_id_of(diff))
        with pytest.raises(NotFoundError):
            await collector.blobs.read(blob_id_of(diff))


async def test_bytes_that_a_crash_left_without_a_row_go_too(collector: Collector) -> None:
    blob_id = await collector.blobs.put_bytes(b"left behind")
    assert (await collector.collect_garbage()).leftovers == 0
    gone = await collector.collect_garbage(grace_ms=-60_000)
    assert (gone.leftovers, gone.freed) == (1, 11)
    with pytest.raises(NotFoundError):
        await collector.blobs.read(blob_id)


async def test_a_deleted_trace_frees_its_blobs_but_not_those_of_others(collector: Collector) -> None:
    both, mine = text(1, 100_000).decode(), text(2, 100_000).decode()
    kept, deleted = await collector.create(new_trace()), await collector.create(new_trace())
    for trace, texts in ((kept, [both]), (deleted, [both, mine])):
        events = [
            event(
                at,
                payload={"kind": "plan", "content": each},
                event_id=blob_id_of(f"{trace.trace_id}{at}".encode())[7:15] + event(at)["event_id"][8:],
            )
            for at, each in enumerate(texts, 1)
        ]
        await collector.append(trace.trace_id, events)
    assert await collector.delete(deleted.trace_id)
    await collector.collect_garbage(grace_ms=-60_000)
    with (await collector.open_blob(blob_id_of(both.encode()))).file as file:
        assert file.read().decode() == both
    with pytest.raises(NotFoundError):
        await collector.open_blob(blob_id_of(mine.encode()))


async def test_uploads_and_collection_at_once_lose_nothing(collector: Collector) -> None:
    """Everything is old enough to go at any moment; whatever an append has acknowledged must be readable."""
    trace = await collector.create(new_trace())
    stop = asyncio.Event()

    async def collect() -> None:
        while not stop.is_set():
            await collector.collect_garbage(grace_ms=-60_000)
            await asyncio.sleep(0)

    async def fill() -> None:
        for seq in range(1, 13):
            content = text(seq % 3, 90_000).decode()
            await collector.append(trace.trace_id, [event(seq, payload={"kind": "plan", "content": content})])
        stop.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(collect())
        group.create_task(fill())
    await collector.collect_garbage(grace_ms=-60_000)
    for number in range(3):
        with (await collector.open_blob(blob_id_of(text(number, 90_000)))).file as file:
            assert file.read() == text(number, 90_000)


async def test_what_a_cancelled_collection_still_deletes_is_no_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_dir = StateDir(tmp_path / ".pm-orchestrator")
    settings = load_settings(project=state_dir.root, environ={})
    async with open_collector(state_dir, settings, environ={}) as collector:
        assert isinstance(collector.blobs, FolderBlobs)
        begun, go, delete = threading.Event(), threading.Event(), collector.blobs._delete

        def delete_late(blob_ids: tuple[str, ...]) -> int:
            begun.set()
            go.wait(10)
            return delete(blob_ids)

        blob_id = await put(collector, text(1, 200_000))
        monkeypatch.setattr(collector.blobs, "_delete", delete_late)
        collecting = asyncio.create_task(collector.collect_garbage(grace_ms=-60_000))
        await asyncio.to_thread(begun.wait, 10)
        collecting.cancel()
        again = asyncio.create_task(put(collector, text(1, 200_000)))
        await asyncio.wait([again], timeout=0.3)  # it finds the bytes in place, unless it has to wait
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await collecting
        assert await again == blob_id
        with (await collector.open_blob(blob_id)).file as file:
            assert file.read() == text(1, 200_000)


async def test_without_captures_there_is_nothing_to_collect(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path / ".pm-orchestrator")
    settings = load_settings(project=state_dir.root, environ={})
    async with open_collector(state_dir, settings, environ={}) as collector:
        assert isinstance(collector.blobs, FolderBlobs)
        assert await collector.collect_garbage() == (0, 0, 0)
