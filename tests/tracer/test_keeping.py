"""Blobs, pruning and collecting: nothing that a record names is lost, and deleting is planned first."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tracer.support import SEED_LINES, NoRedactor, fact, with_traces
from tracer import durable
from tracer.blobs import DirectoryBlobs, blob_id_of
from tracer.catalog.tasks import list_tasks
from tracer.conversation import ConversationTracer
from tracer.errors import NotFoundError, TraceError, UsageError
from tracer.journal import gc
from tracer.journal.follow import follow
from tracer.journal.gc import apply_gc, apply_prune, parse_age, plan_gc, plan_prune
from tracer.json_values import clean_json
from tracer.statedir import StateDir


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    return DirectoryBlobs(tmp_path / "blobs")


@given(data=st.binary(max_size=3000))
def test_what_is_put_is_read_back_under_its_sha256(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = DirectoryBlobs(tmp_path_factory.getbasetemp() / "shared-blobs")
    blob_id = store.put_bytes(data)
    assert blob_id == blob_id_of(data)
    assert store.read(blob_id) == data
    assert store.put_bytes(data) == blob_id


def test_a_blob_is_one_private_file_where_the_design_says(blobs: DirectoryBlobs) -> None:
    blob_id = blobs.put_bytes(b"hello")
    path = blobs.root / "sha256" / blob_id[7:9] / blob_id[9:]
    assert path.read_bytes() == b"hello"
    assert path.stat().st_mode & 0o777 == 0o600
    assert blobs.get_uri(blob_id) == path.as_uri()
    assert [one.name for one in path.parent.parent.iterdir()] == [blob_id[7:9]]
    assert list(blobs.ids()) == [blob_id]


def test_a_damaged_blob_is_an_error_and_mended_by_putting_it_again(blobs: DirectoryBlobs) -> None:
    blob_id = blobs.put_bytes(b"hello")
    blobs.path_of(blob_id).write_bytes(b"hell")
    with pytest.raises(TraceError, match="is damaged"):
        blobs.read(blob_id)
    assert blobs.put_bytes(b"hello") == blob_id
    assert blobs.read(blob_id) == b"hello"


@pytest.mark.parametrize("bad", ["", "sha256:", "sha256:" + "g" * 64, "../../etc/passwd", "sha256:../" + "a" * 61])
def test_what_is_no_id_is_refused(blobs: DirectoryBlobs, bad: str) -> None:
    with pytest.raises(UsageError):
        blobs.open(bad)


def test_an_absent_blob_is_said(blobs: DirectoryBlobs) -> None:
    with pytest.raises(NotFoundError):
        blobs.read("sha256:" + "0" * 64)


def test_many_threads_that_put_the_same_bytes_leave_one_blob(blobs: DirectoryBlobs) -> None:
    threads = [threading.Thread(target=blobs.put_bytes, args=(b"same",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [blobs.read(one) for one in blobs.ids()] == [b"same"]
    assert [name for _, _, names in os.walk(blobs.root) for name in names if name.endswith(".tmp")] == []


def age(path: Path, days: float) -> None:
    seconds = path.stat().st_mtime - days * 86_400
    os.utime(path, (seconds, seconds))


def test_gc_takes_old_unnamed_blobs_only_and_says_so_first(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path).ensure()
    store = DirectoryBlobs(state_dir.blobs)
    text = store.put_bytes(b"text of a file")
    manifest = store.put_bytes(f'{{"files":[{{"sha256":"{text[7:]}"}}]}}'.encode())
    in_database = store.put_bytes(b"a collected blob")
    prompt = store.put_bytes(b"prompt")
    unnamed, young = store.put_bytes(b"unnamed"), store.put_bytes(b"young")
    for blob_id in (text, manifest, in_database, prompt, unnamed):
        age(store.path_of(blob_id), 1)
    trace = state_dir.traces / "conversation-task-001-2025-01-23T10-30-00.jsonl"
    trace.write_bytes(fact("USER_REQUEST", {"prompt": "x", "base": manifest}))
    (state_dir.agentic_traces / "trace_x.jsonl").write_text(f'{{"type":"meta","prompt_sha256":"{prompt[7:]}"}}\n')
    connection = sqlite3.connect(state_dir.root / "notes.sqlite")
    connection.execute("create table events (payload text)")
    connection.execute("insert into events values (?)", ("x" * 20_000 + in_database + "y" * 20_000,))
    connection.commit()
    connection.close()
    leftover = state_dir.traces / ".conversation-task-002.jsonl.abcd.tmp"
    leftover.write_bytes(b"half")
    age(leftover, 1)

    plan = plan_gc(state_dir)
    assert [path for path, _ in plan.blobs] == [str(store.path_of(unnamed))]
    assert [path for path, _ in plan.leftovers] == [str(leftover)]
    assert set(store.ids()) == {text, manifest, in_database, prompt, unnamed, young}
    assert apply_gc(state_dir, plan) == len(b"unnamed") + len(b"half")
    assert set(store.ids()) == {text, manifest, in_database, prompt, young}


def test_gc_goes_on_where_a_file_went_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state_dir = StateDir(tmp_path).ensure()
    for number in range(20):
        leftover = state_dir.traces / f".conversation-task-{number:03}.jsonl.abcd.tmp"
        leftover.write_bytes(b"half")
        age(leftover, 1)
    plan = plan_gc(state_dir)

    def then_one_goes(*given: Any, **options: Any) -> Any:
        again = plan_gc(*given, **options)
        Path(again.leftovers[7][0]).unlink()
        return again

    monkeypatch.setattr(gc, "plan_gc", then_one_goes)
    assert apply_gc(state_dir, plan) == 19 * len(b"half")
    assert list(state_dir.traces.iterdir()) == []


def test_gc_leaves_what_was_put_again_or_named_since_the_plan(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path).ensure()
    store = DirectoryBlobs(state_dir.blobs)
    again, named, unnamed = (store.put_bytes(text) for text in (b"again", b"named", b"unnamed"))
    for blob_id in (again, named, unnamed):
        age(store.path_of(blob_id), 1)
    plan = plan_gc(state_dir)
    assert len(plan.blobs) == 3
    store.put_bytes(b"again")
    (state_dir.traces / "late.jsonl").write_text(named)
    apply_gc(state_dir, plan)
    assert set(store.ids()) == {again, named}


def test_gc_takes_nothing_while_a_record_cannot_be_read(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path).ensure()
    store = DirectoryBlobs(state_dir.blobs)
    age(store.path_of(store.put_bytes(b"x")), 1)
    (state_dir.root / "notes.sqlite").write_bytes(b"SQLite format 3\0" + b"damaged" * 1000)
    with pytest.raises(TraceError, match="cannot read the database"):
        plan_gc(state_dir)


def test_prune_plans_old_finished_tasks_beyond_the_kept_ones(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001", "task-002", "task-003")
    with_traces(tmp_path, "task-002", stamp="2025-01-23T10-30-00_2")
    (state_dir.traces / "conversation-task-002-2025-01-23T10-30-00.jsonl.chain").write_bytes(b"c")
    with_traces(tmp_path, "task-004", lines=SEED_LINES[: SEED_LINES.rindex(b'{"timestamp"')])
    with_traces(tmp_path, "task-0020")
    assert [item.task_id for item in plan_prune(state_dir, older_than_ms=parse_age("30d")).items] == [
        "task-001", "task-002", "task-0020", "task-003",
    ]  # fmt: skip
    plan = plan_prune(state_dir, older_than_ms=0, keep=3)
    assert [item.task_id for item in plan.items] == ["task-001", "task-002"]
    assert plan.kept == 3
    assert len(plan.items[1].files) == 3
    assert len(list_tasks(state_dir)) == 5
    gone = apply_prune(state_dir, plan)
    assert [item.task_id for item in gone] == ["task-001", "task-002"]
    assert [row.task_id for row in list_tasks(state_dir)] == ["task-0020", "task-004", "task-003"]
    assert not [path for path in state_dir.traces.iterdir() if "task-002-" in path.name]


def test_prune_leaves_a_task_that_went_on_since_the_plan(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    plan = plan_prune(state_dir, keep=0)
    with_traces(tmp_path, "task-001", stamp="2026-01-23T10-30-00", lines=fact("USER_REQUEST", {"prompt": "more"}))
    assert apply_prune(state_dir, plan) == []
    assert len(state_dir.trace_names()) == 2


async def test_prune_leaves_a_task_that_is_being_written(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    plan = plan_prune(state_dir, keep=0)
    tracer = ConversationTracer(state_dir=state_dir, session_id="s", task_id="task-001", redactor=NoRedactor())
    await tracer.open()
    assert apply_prune(state_dir, plan) == []
    await tracer.close()
    assert len(apply_prune(state_dir, plan)) == 1


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("30d", 2_592_000_000), ("12h", 43_200_000), ("1w", 604_800_000), ("90s", 90_000), ("1.5d", 129_600_000)],
)
def test_ages_are_read(text: str, milliseconds: int) -> None:
    assert parse_age(text) == milliseconds


@pytest.mark.parametrize("text", ["", "d", "30", "-1d", "1y", "1e999d", "nand", "٣d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_age(text)


def test_an_age_beyond_the_epoch_keeps_everything(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    assert plan_prune(state_dir, older_than_ms=parse_age("999999w")).items == ()


def test_prune_without_a_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a limit"):
        plan_prune(StateDir(tmp_path))


def test_a_clean_value_is_the_same_object() -> None:
    value = {"a": ["x", 1, 2.5, None, True, {"é": "残り\u2028"}]}
    assert clean_json(value) is value


def test_what_json_cannot_hold_is_replaced() -> None:
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    assert clean_json({1: "\ud83d\ude00", "s": "\udc80", "n": 2**64, "f": float("inf"), "b": b"\xff", "t": (1,)}) == {
        "1": "😀", "s": "\ufffd", "n": str(2**64), "f": None, "b": "\ufffd", "t": [1],
    }  # fmt: skip
    assert "nested deeper than 100" in str(clean_json(deep))
    assert clean_json(2**20_000) == hex(2**20_000)
    with pytest.raises(TraceError, match="has no JSON form"):
        clean_json({"x": object()})


async def test_a_pipe_where_a_trace_should_be_stops_nobody(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    pipe = state_dir.traces / "conversation-task-002-2025-01-23T10-30-00.jsonl"
    os.mkfifo(pipe)
    assert [row.task_id for row in list_tasks(state_dir)] == ["task-001"]
    assert plan_gc(state_dir).blobs == ()
    with pytest.raises(TraceError, match="is not a file"):
        ConversationTracer.read_trace(pipe)
    with pytest.raises(TraceError, match="is not a file"):
        await ConversationTracer.open_existing(pipe, state_dir=state_dir, session_id="s", redactor=NoRedactor())
    with pytest.raises(TraceError, match="is not a file"):
        await anext(follow(pipe))
    assert state_dir.writers() == {}


def test_macos_is_asked_for_a_full_sync_and_plain_sync_stands_in_where_it_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def full_sync(_descriptor: int, command: int) -> int:
        asked.append(command)
        if len(asked) > 1:
            raise OSError(45, "Operation not supported")
        return 0

    monkeypatch.setattr(durable, "_FULL_SYNC", 51)
    monkeypatch.setattr(durable.fcntl, "fcntl", full_sync)
    synced: list[int] = []
    monkeypatch.setattr(durable, "_sync_data", synced.append)
    with (tmp_path / "x").open("wb") as file:
        durable.sync_file(file.fileno())
        assert (asked, synced) == ([51], [])
        durable.sync_file(file.fileno())
        assert synced == [file.fileno()]


def test_importing_the_followers_module_does_not_load_watchfiles() -> None:
    code = "import sys, tracer.journal.follow; print('watchfiles' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout == "False\n"


async def test_the_tracers_lock_tells_who_writes(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path)
    async with ConversationTracer(
        state_dir=state_dir, session_id="s", task_id="task-001", redactor=NoRedactor()
    ) as tracer:
        await tracer.log_user_request("x")
        (task_id, holder), *others = state_dir.writers().items()
        assert (task_id, holder.pid, others) == ("task-001", os.getpid(), [])
    assert state_dir.writers() == {}


def test_gc_of_a_folder_that_holds_no_record_yet_finds_nothing(tmp_path: Path) -> None:
    plan = plan_gc(StateDir(tmp_path))
    assert (plan.blobs, plan.leftovers, plan.kept) == ((), (), 0)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A file put in the place of `/dev/null` or `/dev/stdout` would break the machine for everybody."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        durable.replace(pipe, b"whole")
        assert os.read(reader, 100) == b"whole"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_an_output_keeps_links_and_modes_and_is_whole_or_left_alone(tmp_path: Path) -> None:
    behind, link = tmp_path / "behind", tmp_path / "link"
    behind.write_bytes(b"before")
    behind.chmod(0o640)
    link.symlink_to(behind)
    with pytest.raises(TypeError), durable.output_file(link) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert behind.read_bytes() == b"before"
    with durable.output_file(link) as file:
        file.write(b"after")
    assert (link.is_symlink(), behind.read_bytes(), stat.S_IMODE(behind.stat().st_mode)) == (True, b"after", 0o640)
    with durable.output_file(tmp_path / "new") as file:
        file.write(b"x")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["behind", "link", "new"]


def test_an_output_to_standard_output_goes_where_it_stands(tmp_path: Path) -> None:
    code = (
        "import os; from tracer.durable import output_file; os.write(1, b'1')\n"
        "with output_file('/dev/stdout') as file: file.write(b'2')\n"
        "os.write(1, b'3')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, cwd=Path.cwd())
    assert (tmp_path / "out").read_bytes() == b"123"


@pytest.mark.parametrize("name", ["folder", "missing/file"])
def test_an_output_that_cannot_be_written_is_told_by_its_own_name(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=name) as failed, durable.output_file(target) as file:
        file.write(b"whole")
    assert (failed.value.filename, failed.value.filename2) == (str(target), None)
    assert ".tmp" not in str(failed.value)
    assert list(tmp_path.rglob("*.tmp")) == []
