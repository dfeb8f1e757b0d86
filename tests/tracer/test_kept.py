"""What other programs do to a record while it is written is put back, also after the writer was killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tracer.errors import LockedError, RecordError
from tracer.journal.chain import check_chain
from tracer.journal.record_file import RecordFile, open_records, recover_records
from tracer.lock import holder_of
from tracer.statedir import StateDir

LINES = [b'{"n":%d,"text":"task"}\n' % number for number in range(4)]
NAME = "conversation-task-001-2026-01-01T00-00-00.jsonl"


@pytest.fixture
def state_dir(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "project" / ".pm-orchestrator").ensure()


def begun(state_dir: StateDir) -> RecordFile:
    """A record of three lines that is being written."""
    record = RecordFile.create(
        state_dir.traces / NAME, lock_path=state_dir.task_lock("task-001"), copies=state_dir.copies
    )
    record.write_batch(LINES[:1])
    record.write_batch(LINES[1:3])
    return record


def copies(state_dir: StateDir) -> list[str]:
    assert state_dir.copies is not None
    return sorted(path.name for path in state_dir.copies.glob("*"))


def cut(path: Path) -> None:
    os.truncate(path, 0)


def add(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"junk\n")


def edit(path: Path) -> None:
    """Other bytes in the same inode, of the same length, with the time of before."""
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(3)
        file.write(b"XX")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def replace(path: Path) -> None:
    """As `sed -i` does."""
    other = path.with_name("sedXYZ")
    other.write_bytes(path.read_bytes().replace(b"task", b"tosk"))
    other.replace(path)


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def close(path: Path) -> None:
    path.chmod(0)


def remove_all(path: Path) -> None:
    shutil.rmtree(path.parents[1])


DAMAGE: list[Callable[[Path], None]] = [cut, add, edit, replace, move, close, Path.unlink, remove_all]


@pytest.mark.parametrize("side_file", [False, True])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_record_that_another_program_changed_is_put_back_and_goes_on(
    state_dir: StateDir, damage: Callable[[Path], None], side_file: bool
) -> None:
    record = begun(state_dir)
    path = state_dir.traces / NAME
    mode = path.stat().st_mode
    damage(Path(f"{path}.chain") if side_file else path)
    record.write_batch(LINES[3:])
    assert record.disturbed()
    assert not record.disturbed()
    record.close()
    assert path.read_bytes() == b"".join(LINES)
    assert path.stat().st_mode == mode
    assert check_chain(path).state == "intact"
    assert copies(state_dir) == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_it_is_put_back_at_the_end_too(state_dir: StateDir, damage: Callable[[Path], None]) -> None:
    record = begun(state_dir)
    damage(state_dir.traces / NAME)
    record.close()
    assert (state_dir.traces / NAME).read_bytes() == b"".join(LINES[:3])
    assert check_chain(state_dir.traces / NAME).state == "intact"


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_copy_is_made_anew_and_is_no_trespass(state_dir: StateDir, damage: Callable[[Path], None]) -> None:
    record = begun(state_dir)
    assert state_dir.copies is not None
    copy = state_dir.copies / NAME
    damage(copy)
    assert not record.disturbed()
    assert copy.read_bytes() == b"".join(LINES[:3])
    cut(state_dir.traces / NAME)
    record.write_batch(LINES[3:])
    record.close()
    assert (state_dir.traces / NAME).read_bytes() == b"".join(LINES)


def test_a_second_name_for_the_record_is_no_trespass(state_dir: StateDir) -> None:
    record = begun(state_dir)
    path = state_dir.traces / NAME
    number = path.stat().st_ino
    os.link(path, path.with_name("backup"))
    os.utime(path, ns=(0, 0))
    assert not record.disturbed()
    assert path.stat().st_ino == number
    record.close()


def test_without_a_state_folder_of_the_user_all_but_lost_bytes_is_put_back(
    state_dir: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    record = begun(state_dir)
    path = state_dir.traces / NAME
    for damage in (replace, add, move, Path.unlink):
        damage(path)
        assert record.disturbed()
        assert path.read_bytes() == b"".join(LINES[:3])
    cut(path)
    with pytest.raises(RecordError, match="changed by another program"):
        record.write_batch(LINES[3:])
    record.close()


def test_two_writers_never_write_one_record_even_where_its_lock_was_deleted(state_dir: StateDir) -> None:
    record = begun(state_dir)
    lock = state_dir.task_lock("task-001")
    lock.unlink()
    with pytest.raises(LockedError, match="is being written by process"):
        RecordFile.open(record.path, lock_path=lock, copies=state_dir.copies)
    assert record.disturbed()
    holder = holder_of(lock)
    assert holder is not None
    assert holder.pid == os.getpid()
    record.close()
    assert not lock.exists()


def test_the_records_being_written_are_known_by_their_folder(state_dir: StateDir, tmp_path: Path) -> None:
    record = begun(state_dir)
    (tmp_path / "link").symlink_to(state_dir.root)
    assert open_records(tmp_path / "link") == open_records(record.path) == [record]
    assert open_records(state_dir.root.parent / ".pm") == []
    record.close()
    assert open_records(state_dir.root) == []


def abandoned(state_dir: StateDir) -> Path:
    """A record of three lines whose writer was killed."""
    child = os.fork()
    if child == 0:
        begun(state_dir)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(copies(state_dir)) == 3
    return state_dir.traces / NAME


@pytest.mark.parametrize("damage", [cut, edit, replace, move, Path.unlink, remove_all])
def test_what_a_killed_writer_could_not_put_back_comes_back_at_the_next_start(
    state_dir: StateDir, damage: Callable[[Path], None]
) -> None:
    path = abandoned(state_dir)
    damage(path)
    changed = path.read_bytes() if path.exists() else None
    assert recover_records(state_dir) == [f"traces/{NAME}"]
    assert path.read_bytes() == b"".join(LINES[:3])
    assert check_chain(path).state == "intact"
    assert copies(state_dir) == []
    beside = path.with_name(f"{NAME}.changed-1")
    assert (beside.read_bytes() if beside.exists() else None) == changed


def test_a_record_that_is_longer_than_its_copy_or_torn_stays_as_it_is(state_dir: StateDir) -> None:
    path = abandoned(state_dir)
    with path.open("ab") as file:
        file.write(LINES[3] + b'{"torn')
    assert recover_records(state_dir) == []
    assert path.read_bytes() == b"".join(LINES) + b'{"torn'
    assert [one.name for one in path.parent.iterdir() if "changed" in one.name] == []


@pytest.mark.parametrize("at", [0, 5, 30, 60])
def test_a_copy_that_the_power_failure_spoilt_harms_no_record(state_dir: StateDir, at: int) -> None:
    path = abandoned(state_dir)
    assert state_dir.copies is not None
    with (state_dir.copies / NAME).open("r+b") as file:
        file.seek(at)
        file.write(b"\0" * 8)
    recover_records(state_dir)
    assert path.read_bytes() == b"".join(LINES[:3])
    assert [one.name for one in path.parent.iterdir() if "changed" in one.name] == []


def test_a_record_that_is_being_written_is_left_to_its_writer(state_dir: StateDir) -> None:
    record = begun(state_dir)
    cut(state_dir.traces / NAME)
    recover_records(state_dir)
    assert (state_dir.traces / NAME).read_bytes() == b""
    assert record.disturbed()
    record.close()


_KILLED_EVERYWHERE = """
import os, shutil, signal, sys
from pathlib import Path
from tests.tracer import test_kept as rig
from tracer import durable
from tracer.journal.record_file import recover_records
from tracer.statedir import StateDir

durable._sync_data = os.fsync = lambda descriptor: None  # a kill loses nothing of what was written

def dies(begin, call, after):
    # whether a process that calls `call` is killed before its call number `after` into C code; else it just ends
    child = os.fork()
    if child == 0:
        left = after
        def kill(frame, event, argument):
            nonlocal left
            left -= event == "c_call"
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        made = begin()
        sys.setprofile(kill)
        call(made)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

folder, damage, stride, kills = Path(sys.argv[1]), getattr(rig, sys.argv[2]), int(sys.argv[3]), 0
for who in ("writer", "recovery"):
    after, killed = 0, True
    while killed:
        state_dir = StateDir(folder / f"{who}{after}" / ".pm-orchestrator").ensure()
        path = state_dir.traces / rig.NAME
        def begun():
            record = rig.begun(state_dir)
            damage(path)
            return record
        if who == "writer":
            killed = dies(begun, lambda record: record.put_back(), after)
        else:
            rig.abandoned(state_dir)
            damage(path)
            killed = dies(lambda: state_dir, recover_records, after)
        recover_records(state_dir)
        assert path.read_bytes() == b"".join(rig.LINES[:3]), (who, after)
        assert rig.check_chain(path).state == "intact", (who, after)
        shutil.rmtree(folder)
        after += stride
        kills += killed
print(kills)
"""


def killed_again_and_again(folder: Path, damage: str, stride: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_EVERYWHERE, str(folder), damage, str(stride)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("damage", ["cut", "replace", "remove_all"])
def test_a_kill_at_any_point_of_putting_back_loses_nothing(tmp_path: Path, damage: str) -> None:
    assert killed_again_and_again(tmp_path / "projects", damage, 3) > 100
