"""The journal's invariants of docs/architecture.md: cut at every byte, one writer, sequences, record failures."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tools import need
from tests.tracer.support import SEED_LINES, NoRedactor, with_traces
from tracer.conversation import ConversationTracer
from tracer.drafts import Draft
from tracer.errors import LockedError, RecordError, TraceError
from tracer.events import encode, parse_line
from tracer.facts import Entry
from tracer.journal.chain import check_chain
from tracer.journal.follow import follow
from tracer.journal.reading import iter_lines, read_entries, scan
from tracer.journal.record_file import RecordFile
from tracer.journal.writer import Journal
from tracer.names import EVENT_NAMES
from tracer.statedir import StateDir

NAME = "conversation-task-001-2025-01-23T10-30-00.jsonl"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_invariant_04_cut_at_every_byte_readers_give_all_whole_lines_and_name_the_tail(tmp_path: Path) -> None:
    path = tmp_path / NAME
    lines = SEED_LINES.replace(b"Implement", "\u2028Impl\u0085ement".encode()).split(b"\n")
    data = b"\n".join([*lines[:2], lines[-2], b""])
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = data[:cut].count(b"\n")
        found = scan(path)
        assert len(found.facts) == whole
        assert found.problems == []
        tail = cut - (data[:cut].rfind(b"\n") + 1)
        assert (found.torn.length if found.torn else 0) == tail
        assert b"".join(line for _, line in iter_lines(path)) == data[: cut - tail]


def test_invariant_04_cut_at_every_byte_the_next_writer_moves_the_tail_aside_and_goes_on(tmp_path: Path) -> None:
    data = SEED_LINES[: SEED_LINES.index(b"\n") + 1] + b'{"event":"NEXT","data":{}}\n'
    added = b'{"n":"added"}\n'
    for cut in range(1, len(data) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        path = folder / NAME
        path.write_bytes(data[:cut])
        whole = data[: data[:cut].rfind(b"\n") + 1]
        record = RecordFile.open(path)
        assert record.next_seq == whole.count(b"\n")
        assert record.write_batch([added]) == whole.count(b"\n")
        record.close()
        assert path.read_bytes() == whole + added
        assert check_chain(path).state == "intact"
        saved = [other for other in folder.iterdir() if ".torn-" in other.name]
        assert b"".join(other.read_bytes() for other in saved) == data[len(whole) : cut]


def test_invariant_04_pages_zeroed_by_a_crash_belong_to_the_tail(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b'{"n":0}\n{"n":\0\0\0\0\n' + b"\0" * 4096)
    assert [line for _, line in iter_lines(path)] == [b'{"n":0}\n']
    record = RecordFile.open(path)
    record.write_batch([b'{"n":1}\n'])
    record.close()
    assert path.read_bytes() == b'{"n":0}\n{"n":1}\n'


def test_invariant_04_a_crash_between_saving_the_tail_and_cutting_it_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b'{"n":0}\n{"torn')
    (tmp_path / f"{NAME}.torn-8").write_bytes(b'{"torn')  # saved; then the process died
    RecordFile.open(path).close()
    path.write_bytes(b'{"n":0}\n{"other')  # another tail at the same place, later
    RecordFile.open(path).close()
    assert sorted(one.name for one in tmp_path.glob("*.torn-*")) == [f"{NAME}.torn-8", f"{NAME}.torn-8_2"]


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=40), seed=st.integers(0, 2**16))
async def test_invariant_05_concurrent_appends_are_whole_lines_in_the_order_of_their_sequences(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int
) -> None:
    path = tmp_path_factory.mktemp("j") / NAME
    rng = random.Random(seed)
    lines = [json.dumps({"n": number, "pad": "x" * size}).encode() + b"\n" for number, size in enumerate(sizes)]

    async def one(line: bytes) -> tuple[int, bytes]:
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)
        return await journal.append(line), line

    async with await Journal.create(path) as journal:
        written = await asyncio.gather(*map(one, lines))
    assert [line for _, line in sorted(written)] == [line for _, line in iter_lines(path)]
    assert check_chain(path).state == "intact"


_HOLD = """
import asyncio, sys
from tracer.journal.writer import Journal
async def main():
    async with await Journal.open(sys.argv[1]) as journal:
        await journal.append(b'{"by":"child"}\\n')
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
asyncio.run(main())
"""


async def test_invariant_05_two_processes_never_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b'{"n":0}\n')
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path.cwd()
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(LockedError, match=f"process {child.pid}"):
            await Journal.open(path)
        child.kill()
        child.wait()
    async with await Journal.open(path) as journal:  # the kernel gave the dead writer's lock back
        assert await journal.append(b'{"by":"parent"}\n') == 2


def _contend(path: str, count: int, name: str) -> str:
    """Source of a process that appends `count` lines, reopening for each, waiting for the lock."""
    return f"""
import sys, time
from tracer.errors import LockedError
from tracer.journal.record_file import RecordFile
for number in range({count}):
    while True:
        try:
            record = RecordFile.open({path!r})
        except LockedError:
            time.sleep(0.001)
            continue
        record.write_batch([b'{{"by":"{name}","n":%d}}\\n' % number])
        record.close()
        break
"""


def test_invariant_05_processes_that_take_turns_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b'{"n":0}\n')
    processes = [
        subprocess.Popen([sys.executable, "-c", _contend(str(path), 25, name)], cwd=Path.cwd()) for name in "ab"
    ]
    assert [process.wait(timeout=50) for process in processes] == [0, 0]
    written = [json.loads(line) for _, line in iter_lines(path)][1:]
    for name in "ab":
        assert [one["n"] for one in written if one["by"] == name] == list(range(25))
    assert check_chain(path).state == "intact"


async def test_invariant_06_a_follower_in_the_same_process_gets_every_line_once_in_order(tmp_path: Path) -> None:
    path = tmp_path / NAME
    seen: list[tuple[int, bytes]] = []

    async def watch(after: int) -> None:
        seen.extend([one async for one in follow(path, after=after, poll_s=5)])

    async with ConversationTracer(
        state_dir=tmp_path, session_id="s", task_id="task-001", redactor=NoRedactor()
    ) as tracer:
        path = tracer.get_trace_file_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        early = asyncio.create_task(watch(-1))
        await asyncio.sleep(0.05)
        await tracer.log_user_request("x")
        for index in range(20):
            await tracer.log_llm_request("p", index)
        await tracer.log_final_summary("COMPLETE", 20, [])
        await asyncio.wait_for(early, 10)
    lines = [line + b"\n" for line in path.read_bytes().split(b"\n")[:-1]]
    assert seen == list(enumerate(lines))
    seen.clear()
    await asyncio.wait_for(watch(18), 10)
    assert seen == list(enumerate(lines))[19:]


_WRITE = """
import asyncio, sys
from tracer.journal.writer import Journal
async def main():
    async with await Journal.create(sys.argv[1]) as journal:
        for number in range(50):
            await journal.append(b'{"n":%d}\\n' % number)
            await asyncio.sleep(0.002)
        await journal.append(b'{"event":"FINAL_SUMMARY"}\\n')
asyncio.run(main())
"""


async def test_invariant_06_a_follower_in_another_process_gets_every_line_once_in_order(tmp_path: Path) -> None:
    path = tmp_path / NAME
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _WRITE, str(path), cwd=Path.cwd())
    async with asyncio.timeout(30):
        seen = [one async for one in follow(path)]
        assert await process.wait() == 0
    assert [seq for seq, _ in seen] == list(range(51))
    assert b"".join(line for _, line in seen) == path.read_bytes()


async def test_invariant_06_a_slow_or_failing_follower_neither_blocks_nor_breaks_the_writer(tmp_path: Path) -> None:
    path = tmp_path / NAME

    async def slow() -> None:
        async for _ in follow(path):
            await asyncio.sleep(3600)

    async def failing() -> None:
        async for _ in follow(path):
            raise ValueError("a view broke")

    async with await Journal.create(path) as journal:
        tasks = [asyncio.create_task(slow()), asyncio.create_task(failing())]
        async with asyncio.timeout(10):
            for number in range(200):
                assert await journal.append(b'{"n":%d}\n' % number) == number
            with pytest.raises(ValueError, match="a view broke"):
                await tasks[1]
        tasks[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[0]


async def test_invariant_06_a_torn_line_is_never_followed_and_its_successor_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b'{"n":0}\n{"torn')
    stream = follow(path, poll_s=0.05)
    assert await anext(stream) == (0, b'{"n":0}\n')
    following = asyncio.create_task(anext(stream))
    await asyncio.sleep(0.15)
    assert not following.done()
    async with await Journal.open(path) as journal:
        await journal.append(b'{"n":1}\n')
        assert await asyncio.wait_for(following, 5) == (1, b'{"n":1}\n')
    await stream.aclose()


async def test_invariant_06_a_file_that_became_shorter_is_an_error_and_a_deleted_one_an_end(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b'{"n":0}\n{"n":1}\n')
    stream = follow(path, poll_s=0.02)
    await anext(stream)
    await anext(stream)
    os.truncate(path, 8)
    with pytest.raises(TraceError, match="became shorter"):
        await anext(stream)
    ended = follow(path, poll_s=0.02)
    await anext(ended)
    path.unlink()
    with pytest.raises(StopAsyncIteration):
        await anext(ended)


def mounted(folder: Path, *options: str) -> None:
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    need(done.returncode == 0, "mount", how="run the tests as root in a container that may mount")


async def test_invariant_09_a_full_disk_is_an_error_before_the_next_step_and_no_line_is_halved(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted(folder, "-t", "tmpfs", "-o", "size=256k", "tmpfs")
    try:
        tracer = ConversationTracer(state_dir=folder / "s", session_id="s", task_id="task-001", redactor=NoRedactor())
        recorded: list[Entry] = [await tracer.log_user_request("x")]

        async def log_until_it_fails() -> None:
            for index in range(100):
                recorded.append(await tracer.log_llm_request("p" * 10_000, index))  # noqa: PERF401 - up to the error

        with pytest.raises(RecordError, match="cannot record") as caught:
            await log_until_it_fails()
        assert caught.value.why == "No space left on device"
        assert caught.value.next_step
        await tracer.close()
        path = tracer.get_trace_file_path()
        assert read_entries(path) == recorded
        assert scan(path).torn is None
        (folder / "s" / "task-counter").unlink(missing_ok=True)
        subprocess.run(["mount", "-o", "remount,size=1m", str(folder)], check=True)
        again = await ConversationTracer.open_existing(
            path, state_dir=folder / "s", session_id="t", redactor=NoRedactor()
        )
        recorded.append(await again.log_final_summary("ERROR", 0, [], extra={"reason": "record"}))
        await again.close()
        assert read_entries(path) == recorded
        assert check_chain(path).state == "intact"
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_invariant_09_on_a_read_only_mount_nothing_is_begun_and_everything_is_readable(tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    mounted(folder, "-t", "tmpfs", "tmpfs")
    try:
        state_dir = with_traces(folder / "s", "task-001")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(RecordError) as caught:
            await ConversationTracer(
                state_dir=state_dir, session_id="s", task_id="task-002", redactor=NoRedactor()
            ).log_user_request("x")
        assert "Read-only file system" in caught.value.why
        with pytest.raises(RecordError, match=r"cannot lock|cannot be written"):
            state_dir.allot_task_id()
        from tracer.catalog.tasks import list_tasks

        assert [row.status for row in list_tasks(state_dir)] == ["COMPLETE"]
        assert len(read_entries(state_dir.traces / NAME)) == 10
    finally:
        subprocess.run(["umount", str(folder)], check=True)


_AS_NOBODY = """
import asyncio, os, sys
sys.path.insert(0, os.getcwd())
from pathlib import Path
from tracer.catalog.tasks import list_tasks
from tracer.conversation import ConversationTracer
from tracer.errors import PmError
from tracer.lookup import resolve_task
from tracer.statedir import StateDir

async def log(state_dir):
    await ConversationTracer(state_dir=state_dir, session_id="s", task_id="task-001").log_user_request("x")

def attempt(state_dir):
    for name, call in {
        "list": lambda: list_tasks(state_dir),
        "find": lambda: resolve_task(state_dir, "1"),
        "allot": state_dir.allot_task_id,
        "log": lambda: asyncio.run(log(state_dir)),
    }.items():
        try:
            call()
            yield f"{name} went through"
        except PmError as error:
            yield f"{name} {type(error).__name__} | {error.what} | {error.why} | {error.next_step}"

list(attempt(StateDir(Path(sys.argv[2]))))  # as root: loads every module, which the other user may not be able to
os.setgid(65534)
os.setuid(65534)
print("\\n".join(attempt(StateDir(Path(sys.argv[1])))))
"""


@pytest.mark.machine
def test_the_state_dir_of_another_user_is_a_clear_error_everywhere(tmp_path: Path) -> None:
    need(os.geteuid() == 0, "root", how="run the tests as root: another user's view is taken by setuid")
    state_dir = with_traces(tmp_path / "s", "task-001")
    folder = state_dir.root
    while folder != folder.parent:  # the way there is open, the state dir itself is not
        if folder != state_dir.root:
            folder.chmod(folder.stat().st_mode | 0o011)
        folder = folder.parent
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(state_dir.root), str(tmp_path / "warm")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert said["list"].startswith("TraceError")
    assert said["find"].startswith("TraceError")
    assert said["allot"].startswith("RecordError")
    assert said["log"].startswith("RecordError")
    assert "Permission denied" in said["log"]
    assert all(line.rsplit("|", 1)[1].strip() for line in said.values())


@settings(max_examples=30)
@given(
    # The names pm itself writes have keys of their own that must be there; this is about all the others.
    event=st.text(st.characters(codec="utf-8"), min_size=1).filter(
        lambda name: name.isupper() and name not in EVENT_NAMES
    ),
    data=st.dictionaries(st.text(st.characters(codec="utf-8")), json_values, max_size=5),
)
async def test_invariant_11_unknown_events_and_extra_keys_survive_reading_and_rewriting(
    tmp_path_factory: pytest.TempPathFactory, event: str, data: dict[str, object]
) -> None:
    folder = tmp_path_factory.mktemp("u")
    async with ConversationTracer(
        state_dir=folder, session_id="s", task_id="task-001", redactor=NoRedactor()
    ) as tracer:
        written = await tracer.append(Draft(event, data, 0))
        known = await tracer.log_llm_request("p", 0, extra={"x_" + key: value for key, value in data.items()})
        path = tracer.get_trace_file_path()
    assert read_entries(path) == [written, known]
    assert written.data == data
    assert b"".join(encode(parse_line(line)) for _, line in iter_lines(path)) == path.read_bytes()


_APPEND_FOREVER = """
import asyncio, sys
from pathlib import Path
from tracer.conversation import ConversationTracer
class Plain:
    def redact_text(self, text): return text, {}
    def redact_value(self, value): return value, {}
async def main():
    root, resume = Path(sys.argv[1]), sys.argv[2]
    if resume:
        tracer = await ConversationTracer.open_existing(Path(resume), state_dir=root, session_id="s", redactor=Plain())
    else:
        tracer = ConversationTracer(state_dir=root, session_id="s", task_id="task-001", redactor=Plain())
    async def one(worker):
        n = 0
        while True:
            await tracer.log_llm_request("p" * (n % 700), n, subtask_id=f"w{worker}")
            print(f"w{worker} {n}", flush=True)
            n += 1
    if not resume:
        await tracer.log_user_request("x")
    print("ready", flush=True)
    await asyncio.gather(*(one(worker) for worker in range(3)))
asyncio.run(main())
"""


def kill_after(folder: Path, lines: int, resume: str) -> list[str]:
    """Start a writer, kill it for real once it has confirmed `lines` appends; what it confirmed."""
    with subprocess.Popen(
        [sys.executable, "-c", _APPEND_FOREVER, str(folder), resume],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        confirmed = [child.stdout.readline().strip() for _ in range(lines)]
        os.kill(child.pid, signal.SIGKILL)
        confirmed += [line.strip() for line in child.stdout if line.endswith("\n")]
    return confirmed


def check_kill(folder: Path, rng: random.Random, rounds: int) -> None:
    resume, earlier = "", 0
    for _ in range(rounds):
        confirmed = kill_after(folder, rng.randrange(1, 60), resume)
        path = next((folder / "traces").glob("conversation-*.jsonl"))
        entries = read_entries(path)
        recorded = [f"{one.subtask_id} {one.iteration_index}" for one in entries[earlier:] if one.subtask_id]
        assert len(recorded) == len(set(recorded)), "a fact twice"
        assert set(confirmed) <= set(recorded), "a confirmed fact is lost"
        assert check_chain(path).first_difference is None
        resume, earlier = str(path), len(entries)


def test_a_process_killed_after_appends_has_lost_no_confirmed_fact(tmp_path: Path) -> None:
    check_kill(tmp_path, random.Random(7), rounds=4)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(20))
def test_two_hundred_seeded_kills_lose_no_confirmed_fact(tmp_path: Path, seed: int) -> None:
    check_kill(tmp_path, random.Random(seed), rounds=10)


def test_stale_lock_files_hold_nothing(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path).ensure()
    state_dir.task_lock("task-001").write_text('{"pid": 1, "program": "gone"}')
    assert state_dir.writer_of("task-001") is None
