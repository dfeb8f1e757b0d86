"""The spool keeps what it said it keeps: across crashes, processes, torn lines and full disks."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.client import spool as spool_module
from collector.client.spool import Spool, captures_folder, find_spool, list_spools
from tests.collector.recorder.support import spool_in, thought
from tests.repl.support import environment
from tracer.errors import NotFoundError, RecordError, TraceError


def seqs(spool: Spool) -> list[int]:
    return [line.seq for line in spool.lines()]


def test_events_get_ids_times_and_ascending_seqs(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    first, second = spool.append([thought("one"), thought("two")])
    (third,) = spool.append([thought("three")])
    assert [first["seq"], second["seq"], third["seq"]] == [1, 2, 3]
    assert len({first["event_id"], second["event_id"], third["event_id"]}) == 3
    assert first["ts_ms"] > 1_700_000_000_000


def test_what_was_appended_is_there_for_another_process(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append([thought("one")])
    other = Spool.open(spool.folder)
    assert seqs(other) == [1]
    assert other.trace_id == spool.trace_id


def test_two_writers_never_take_the_same_seq(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    script = (
        "import sys; from pathlib import Path; from collector.client.spool import Spool, Draft\n"
        "spool = Spool.open(Path(sys.argv[1]))\n"
        "for n in range(40): spool.append([Draft(type='thought', payload={'content': str(n)})])\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(spool.folder)], env=environment()) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert seqs(spool) == list(range(1, 121))


def test_a_writer_sees_what_others_wrote_since_it_last_looked(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append([thought("mine")])
    Spool.open(spool.folder).append([thought("theirs")])
    with spool.writing() as others:
        assert [orjson.loads(line.raw)["payload"]["content"] for line in others] == ["theirs"]
    with spool.writing() as others:
        assert others == []


@settings(max_examples=25)
@given(cut=st.integers(min_value=1, max_value=200))
def test_a_torn_last_line_is_cut_off_and_nothing_before_it_is_lost(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    spool = spool_in(tmp_path_factory.mktemp("state"))
    spool.append([thought("kept")])
    whole = spool.events_path.stat().st_size
    spool.append([thought("torn")])
    size = spool.events_path.stat().st_size
    os.truncate(spool.events_path, max(size - cut, whole))
    again = Spool.open(spool.folder)
    assert seqs(again) == [1]
    (event,) = again.append([thought("next")])
    assert event["seq"] == 2
    assert seqs(again) == [1, 2]


def test_the_last_seq_is_found_from_the_end_whatever_the_length_of_lines(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    assert spool.last_event() == 0
    for length in (1, 5_000, 40_000, 3):
        spool.append([thought("x" * length)])
    assert spool.last_event() == 4
    with spool.events_path.open("ab") as file:
        file.write(b'{"seq": 5, "torn')
    assert spool.last_event() == 4


def test_a_write_that_fails_half_way_leaves_whole_lines_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = spool_in(tmp_path)
    spool.append([thought("kept")])

    def full(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(spool_module, "write_all", full)
        with pytest.raises(RecordError, match="cannot be written"):
            spool.append([thought("lost")])
    assert seqs(spool) == [1]
    spool.append([thought("after")])
    assert seqs(spool) == [1, 2]


def test_nothing_counts_as_appended_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = spool_in(tmp_path)
    synced: list[int] = []
    monkeypatch.setattr(spool_module, "sync_file", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    spool.append([thought("one")])
    assert synced[-1] == spool.events_path.stat().st_size


def test_files_of_a_spool_are_its_owners_alone(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append([thought("one")])
    spool.keep_key("secret")
    modes = {path.name: path.stat().st_mode & 0o077 for path in spool.folder.iterdir()}
    assert modes
    assert set(modes.values()) == {0}
    assert spool.folder.stat().st_mode & 0o077 == 0


def test_a_capture_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    assert find_spool(tmp_path, spool.trace_id[:6]).trace_id == spool.trace_id
    with pytest.raises(NotFoundError, match="no capture 'zz'"):
        find_spool(tmp_path, "zz")


def test_a_selector_that_fits_several_names_them(tmp_path: Path) -> None:
    for start in ("aa", "ab"):
        trace_id = f"{start}000000-0000-4000-8000-000000000000"
        Spool.create(captures_folder(tmp_path), {"trace_id": trace_id, "server": "", "request": {}})
    with pytest.raises(NotFoundError, match="could be 2"):
        find_spool(tmp_path, "a")


def test_a_folder_without_a_header_is_no_capture(tmp_path: Path) -> None:
    spool_in(tmp_path)
    (captures_folder(tmp_path) / "left-by-a-crash").mkdir()
    assert len(list_spools(tmp_path)) == 1


def test_a_line_that_is_no_event_is_told_and_not_skipped(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.events_path.write_bytes(b"nonsense\n")
    with pytest.raises(TraceError, match="no event"):
        list(spool.lines())


def test_another_collector_has_nothing_of_what_the_first_one_has(tmp_path: Path) -> None:
    spool = spool_in(tmp_path, server="http://127.0.0.1:1")
    spool.keep_key("first")
    spool.note_sent(created=True, seq=9)
    spool.bind("http://127.0.0.1:2")
    assert spool.sent.seq == 0
    assert not spool.sent.created
    assert spool.ingest_key == ""


_WRITER = """
import sys
import time
from pathlib import Path
from collector.client.spool import Draft, Spool
spool = Spool.open(Path(sys.argv[1]))
for number in range(100_000):
    event = spool.append([Draft(type="thought", payload={"content": "x" * (number % 3000)})])[0]
    sys.stdout.write(f"{event['seq']}\\n")
    sys.stdout.flush()
"""


@pytest.mark.torture
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(30))
def test_kill_9_of_a_writer_loses_nothing_that_was_acknowledged_and_leaves_no_lock(tmp_path: Path, seed: int) -> None:
    spool = spool_in(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(spool.folder)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    told = process.stdout.readline()
    time.sleep(random.Random(seed).uniform(0, 0.25))
    process.kill()
    acknowledged = [int(line) for line in (told + process.stdout.read()).split("\n")[:-1]]
    process.wait()
    process.stdout.close()
    again = Spool.open(spool.folder)
    (event,) = again.append([thought("after the kill")])
    assert seqs(again) == list(range(1, event["seq"] + 1))
    assert acknowledged == list(range(1, len(acknowledged) + 1))
    assert event["seq"] - 1 in {len(acknowledged), len(acknowledged) + 1}
