"""The journal: durable on return, one sync for many, one writer, whole lines only."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from tracer.errors import LockedError, NotFoundError, RecordError, TraceError
from tracer.journal import record_file
from tracer.journal.chain import check_chain
from tracer.journal.writer import Journal


def lines_of(count: int, size: int = 40) -> list[bytes]:
    return [f'{{"n":{number},"pad":"{"x" * size}"}}\n'.encode() for number in range(count)]


async def test_an_append_is_in_the_file_when_it_returns(tmp_path: Path) -> None:
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        for number, line in enumerate(lines_of(5)):
            assert await journal.append(line) == number
            assert (tmp_path / "a.jsonl").read_bytes().endswith(line)


async def test_the_file_appears_with_its_first_line_whole_and_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    async with await Journal.create(path) as journal:
        assert not path.exists()
        await journal.append(b'{"first":1}\n')
        assert path.read_bytes() == b'{"first":1}\n'
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.with_name("a.jsonl.chain").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.jsonl.chain"]


async def test_concurrent_appends_share_syncs_and_keep_the_order_of_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0
    real = record_file.sync_file

    def counted(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        real(descriptor)

    monkeypatch.setattr(record_file, "sync_file", counted)
    lines = lines_of(1000)
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        sequences = await asyncio.gather(*(journal.append(line) for line in lines))
    assert sequences == list(range(1000))
    assert (tmp_path / "a.jsonl").read_bytes() == b"".join(lines)
    assert syncs < 10


async def test_every_fact_is_synced_before_its_caller_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = record_file.sync_file
    monkeypatch.setattr(record_file, "sync_file", lambda descriptor: (real(descriptor), order.append("sync")))
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        for line in lines_of(3):
            await journal.append(line)
            order.append("returned")
    assert order == ["sync", "returned"] * 3


async def test_a_second_writer_is_told_who_holds_the_record(tmp_path: Path) -> None:
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        await journal.append(b"{}\n")
        with pytest.raises(LockedError, match=f"process {os.getpid()}"):
            await Journal.open(tmp_path / "a.jsonl")
    again = await Journal.open(tmp_path / "a.jsonl")
    await again.close()
    assert not (tmp_path / "a.jsonl.lock").exists()


async def test_opening_goes_on_at_the_next_sequence(tmp_path: Path) -> None:
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        await asyncio.gather(*(journal.append(line) for line in lines_of(7)))
        head = journal.chain_head
    async with await Journal.open(tmp_path / "a.jsonl") as journal:
        assert journal.chain_head == head
        assert await journal.append(b"{}\n") == 7
        head = journal.chain_head
    report = check_chain(tmp_path / "a.jsonl", head=head)
    assert (report.state, report.lines, report.head_matches) == ("intact", 8, True)


async def test_creating_over_an_existing_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"mine\n")
    with pytest.raises(RecordError, match="cannot record"):
        await Journal.create(tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == b"mine\n"
    with pytest.raises(NotFoundError):
        await Journal.open(tmp_path / "b.jsonl")


async def test_nothing_is_added_after_the_last_line(tmp_path: Path) -> None:
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        last = asyncio.create_task(journal.append(b'{"end":1}\n', last=True))
        await asyncio.sleep(0)
        with pytest.raises(TraceError, match="nothing can be added"):
            await journal.append(b"{}\n")
        assert await last == 0
    assert (tmp_path / "a.jsonl").read_bytes() == b'{"end":1}\n'


@pytest.mark.parametrize("line", [b"{}", b"", b"{}\n{}\n", b"\n{}\n"])
async def test_what_is_not_one_line_is_refused(tmp_path: Path, line: bytes) -> None:
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        with pytest.raises(TraceError, match="one JSON object per line"):
            await journal.append(line)


async def test_a_failed_sync_stops_the_record_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        await journal.append(b"{}\n")

        def failing(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(record_file, "sync_file", failing)
            with pytest.raises(RecordError, match="cannot record"):
                await journal.append(b"{}\n")
        with pytest.raises(RecordError, match="cannot record"):
            await journal.append(b"{}\n")


async def test_a_failed_write_leaves_whole_lines_and_every_waiting_caller_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    async with await Journal.create(path) as journal:
        await journal.append(b'{"n":0}\n')

        def partial(descriptor: int, data: bytes) -> None:
            os.write(descriptor, data[:3])
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(record_file, "write_all", partial)
            results = await asyncio.gather(*(journal.append(b"{}\n") for _ in range(5)), return_exceptions=True)
        assert [type(result) for result in results] == [RecordError] * 5
        assert path.read_bytes() == b'{"n":0}\n'
        assert await journal.append(b'{"n":1}\n') == 1
    assert path.read_bytes() == b'{"n":0}\n{"n":1}\n'
    assert check_chain(path).state == "intact"


async def test_bytes_lost_under_the_writer_stop_it_where_there_is_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    async with await Journal.create(path) as journal:
        await journal.append(b'{"n":0}\n')
        os.truncate(path, 3)
        for _ in range(2):
            with pytest.raises(RecordError, match=r"cannot record in|changed by another program"):
                await journal.append(b'{"n":1}\n')


async def test_a_cancelled_append_does_not_disturb_the_others(tmp_path: Path) -> None:
    async with await Journal.create(tmp_path / "a.jsonl") as journal:
        tasks = [asyncio.create_task(journal.append(line)) for line in lines_of(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[0] == 0
        assert isinstance(results[1], asyncio.CancelledError)
        assert results[2] == 2
    assert (tmp_path / "a.jsonl").read_bytes() == b"".join(lines_of(3))


async def test_closing_waits_for_what_was_appended(tmp_path: Path) -> None:
    journal = await Journal.create(tmp_path / "a.jsonl")
    waiting = [asyncio.create_task(journal.append(line)) for line in lines_of(50)]
    await asyncio.sleep(0)
    await journal.close()
    assert await asyncio.gather(*waiting) == list(range(50))
    await journal.close()
    with pytest.raises(TraceError):
        await journal.append(b"{}\n")
