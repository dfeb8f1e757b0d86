"""What a killed `pm` left running is found by the next one, and nothing else is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.processes.orphans import ProcessRecord, end_orphans
from runner.processes.process import Process
from runner.processes.process_table import MARK, entry_of
from tracer.errors import RecordError

_OWNER = """
import asyncio, sys
from pathlib import Path
from runner.processes.process import Process

async def main():
    state = Path(sys.argv[1])
    script = "trap '' HUP TERM; setsid sleep 300 & echo $! > " + sys.argv[1] + "/inner; while :; do sleep 0.1; done"
    async with Process(["sh", "-c", script], cwd=state, state_dir=state, label="task-001") as process:
        (state / "leader").write_text(str(process.pid))
        await process.wait()

asyncio.run(main())
"""


async def _pid_from(path: Path) -> int:
    for _ in range(250):
        if path.exists() and (text := path.read_text().strip()):
            return int(text)
        await asyncio.sleep(0.02)
    raise AssertionError(f"{path} never appeared")


async def test_the_next_pm_ends_what_a_killed_one_left_running(tmp_path):
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, str(tmp_path)])
    try:
        leader, inner = await _pid_from(tmp_path / "leader"), await _pid_from(tmp_path / "inner")
        assert await end_orphans(tmp_path) == []  # its pm lives
        assert entry_of(inner) is not None
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    found = await end_orphans(tmp_path, grace_s=0.2)
    assert [(orphan.label, orphan.pid, orphan.ended) for orphan in found] == [("task-001", leader, True)]
    assert entry_of(leader) is None
    assert entry_of(inner) is None
    assert await end_orphans(tmp_path) == []


async def test_a_program_that_cannot_be_put_on_record_is_ended_at_once(tmp_path, monkeypatch):
    def full(self: ProcessRecord, pid: int, start: str) -> None:
        raise RecordError("cannot record what is started", why="no space left")

    monkeypatch.setattr(ProcessRecord, "started", full)
    process = Process(["sleep", "60"], cwd=tmp_path, state_dir=tmp_path)
    with pytest.raises(RecordError):
        await process.__aenter__()
    assert entry_of(process.pid) is None


async def test_a_number_that_another_program_has_now_is_never_ended(tmp_path):
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        folder = tmp_path / "control" / "processes"
        folder.mkdir(parents=True)
        entry = entry_of(bystander.pid)
        facts = {"mark": "f" * 32, "label": "", "boot": "", "owner": 1, "owner_start": "x", "pid": bystander.pid}
        for name, start in (("a", "1"), ("b", entry.start)):  # another start time; another boot
            (folder / f"{name}.json").write_text(json.dumps(facts | {"start": start}))
        assert await end_orphans(tmp_path) == []
        assert bystander.poll() is None
        assert list(folder.iterdir()) == []
    finally:
        bystander.kill()
        bystander.wait()


async def test_a_damaged_record_is_removed_and_harms_nobody(tmp_path):
    folder = tmp_path / "control" / "processes"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text("{")
    (folder / "b.json").write_text('{"mark": "", "pid": 1, "boot": "", "owner": 1, "owner_start": "", "start": ""}')
    assert await end_orphans(tmp_path) == []
    assert list(folder.iterdir()) == []


async def test_what_a_kill_left_half_written_goes_and_what_is_being_written_stays(tmp_path):
    """One stayed for good where the kill came before the record had its name."""
    folder = tmp_path / "control" / "processes"
    folder.mkdir(parents=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    for writer in (ended.pid, os.getpid()):
        (folder / f"{'a' * 32}.{writer}.new").write_text("{")
    assert await end_orphans(tmp_path) == []
    assert [path.name for path in folder.iterdir()] == [f"{'a' * 32}.{os.getpid()}.new"]


async def test_a_program_that_ends_leaves_no_record(tmp_path):
    async with Process(["true"], cwd=tmp_path, state_dir=tmp_path) as process:
        await process.wait()
    assert list((tmp_path / "control" / "processes").iterdir()) == []


async def test_the_mark_is_inherited_and_not_our_own(tmp_path):
    async with Process(["sh", "-c", "echo $" + MARK], cwd=tmp_path) as process:
        lines = [line.data async for line in process.lines()]
    assert len(lines[0]) == 32
    assert MARK not in os.environ
