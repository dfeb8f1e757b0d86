"""Programs started for real: how they end, what is kept of their output, what is left of them afterwards."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from pathlib import Path

import pytest

from runner.processes import process_table, tree
from runner.processes.command import run_command
from runner.processes.environment import command_environment
from runner.processes.process import Process
from runner.processes.process_table import entry_of
from tests.support.tools import need
from tracer.errors import UsageError


def _gone(pid: int) -> bool:
    return entry_of(pid) is None


async def _pid_from(path: Path) -> int:
    for _ in range(200):
        if path.exists() and (text := path.read_text().strip()):
            return int(text)
        await asyncio.sleep(0.02)
    raise AssertionError(f"{path} never appeared")


async def test_a_shell_command_ends_by_itself_with_its_exit_code(tmp_path):
    result = await run_command("echo out; echo err >&2; exit 3", cwd=tmp_path)
    assert (result.kind, result.exit_code, result.ok) == ("exit", 3, False)
    assert result.output == b"out\nerr\n"


async def test_a_list_is_never_given_to_a_shell(tmp_path):
    result = await run_command(["echo", "$HOME; exit 4"], cwd=tmp_path)
    assert (result.exit_code, result.output) == (0, b"$HOME; exit 4\n")


async def test_a_program_that_is_not_there_is_told_apart_from_one_that_fails(tmp_path):
    assert (await run_command(["no-such-program-here"], cwd=tmp_path)).kind == "missing"
    assert (await run_command("no-such-program-here", cwd=tmp_path)).missing_tool
    assert not (await run_command("exit 1", cwd=tmp_path)).missing_tool


async def test_a_folder_that_is_not_there_is_the_callers_mistake(tmp_path):
    with pytest.raises(UsageError):
        await run_command(["true"], cwd=tmp_path / "nowhere")


async def test_a_signal_is_told_apart_from_an_exit(tmp_path):
    result = await run_command("kill -9 $$", cwd=tmp_path)
    assert (result.kind, result.exit_code, result.signal) == ("signal", None, 9)


async def test_the_time_limit_ends_the_whole_tree_even_children_with_their_own_session(tmp_path):
    command = "setsid sh -c 'trap \"\" TERM; echo $$ > inner; while :; do sleep 0.1; done' & sleep 60"
    result = await run_command(command, cwd=tmp_path, timeout_s=0.4, grace_s=0.2)
    assert (result.kind, result.exit_code, result.timed_out) == ("timeout", None, True)
    assert _gone(await _pid_from(tmp_path / "inner"))


async def test_a_child_left_in_the_background_ends_with_its_command(tmp_path):
    started = time.monotonic()
    result = await run_command("(setsid sleep 60 & echo $! > pid) ; echo done", cwd=tmp_path, grace_s=0.2)
    assert (result.kind, result.exit_code, result.output) == ("exit", 0, b"done\n")
    assert time.monotonic() - started < 10
    assert _gone(await _pid_from(tmp_path / "pid"))


async def test_a_silent_command_is_noticed_and_one_that_writes_is_not(tmp_path):
    assert (await run_command("echo a; sleep 60", cwd=tmp_path, idle_timeout_s=0.3, grace_s=0.1)).kind == "idle"
    lively = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done"
    assert (await run_command(lively, cwd=tmp_path, idle_timeout_s=0.5)).kind == "exit"


async def test_output_is_kept_at_both_ends_and_counted_between(tmp_path):
    script = "import sys; sys.stdout.write('HEAD' + 'x' * 3_000_000 + 'TAIL')"
    result = await run_command([sys.executable, "-c", script], cwd=tmp_path, keep_bytes=4096)
    assert result.output.startswith(b"HEAD")
    assert result.output.endswith(b"TAIL")
    assert result.total_bytes == 3_000_008
    assert result.dropped_bytes == 3_000_008 - 4096
    assert len(result.output) < 4200


async def test_a_flood_beyond_the_output_limit_is_ended(tmp_path):
    result = await run_command("yes", cwd=tmp_path, max_output_bytes=1 << 20, grace_s=0.1)
    assert result.kind == "output"


async def test_cancelling_ends_the_tree_before_the_cancellation_goes_on(tmp_path):
    task = asyncio.create_task(
        run_command("trap '' TERM; sleep 60 & echo $! > pid; while :; do sleep 0.1; done", cwd=tmp_path, grace_s=0.2)
    )
    pid = await _pid_from(tmp_path / "pid")
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()  # an impatient second time
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _gone(pid)


async def test_input_is_closed_unless_given(tmp_path):
    assert (await run_command("cat; echo end", cwd=tmp_path, timeout_s=10)).output == b"end\n"
    assert (await run_command("cat", cwd=tmp_path, stdin=b"x" * 300_000)).total_bytes == 300_000


async def test_a_command_sees_no_key_of_any_provider(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-secret")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    shown = (await run_command("env", cwd=tmp_path)).text
    assert "secret" not in shown
    assert "PYTHONPATH=/somewhere" in shown


async def test_lines_come_as_they_are_written_and_only_the_newline_byte_ends_one(tmp_path):
    script = "printf 'one\\r\\ntwo\\342\\200\\250still two\\n'; sleep 0.2; printf 'rest'; echo problem >&2; exit 2"
    async with Process(["sh", "-c", script], cwd=tmp_path) as process:
        lines = [line.data async for line in process.lines()]
        ending = await process.wait()
        assert await process.stderr_tail() == b"problem\n"
    assert lines == [b"one\r", b"two\xe2\x80\xa8still two", b"rest"]
    assert (ending.kind, ending.exit_code) == ("exit", 2)


async def test_one_huge_line_is_cut_and_the_next_one_is_whole(tmp_path):
    script = "import sys; w = sys.stdout.write\nfor _ in range(50): w('x' * 1_000_000)\nw('\\nnext\\n')"
    async with Process([sys.executable, "-c", script], cwd=tmp_path, line_limit=1000) as process:
        lines = [line async for line in process.lines()]
    assert [len(line.data) for line in lines] == [1000, 4]
    assert lines[0].dropped_bytes == 50_000_000 - 1000


async def test_leaving_the_block_early_ends_the_program(tmp_path):
    async with Process(["sh", "-c", "while :; do echo x; done"], cwd=tmp_path, grace_s=0.2) as process:
        async for _ in process.lines():
            break
        pid = process.pid
    assert _gone(pid)


async def test_input_can_stay_open_for_a_conversation(tmp_path):
    async with Process(["cat"], cwd=tmp_path, stdin="open") as process:
        lines = process.lines()
        await process.write(b"hello\n")
        assert (await anext(lines)).data == b"hello"
        process.close_stdin()
        assert [line async for line in lines] == []
        assert (await process.wait()).exit_code == 0


def test_the_environment_list_can_be_extended_by_name_and_pattern():
    source = {"PATH": "/bin", "DATABASE_URL": "x", "APP_TOKEN": "y", "OPENAI_API_KEY": "z"}
    assert command_environment(source) == {"PATH": "/bin"}
    assert command_environment(source, extra_names=["DATABASE_URL", "APP_*"]) == {
        "PATH": "/bin",
        "DATABASE_URL": "x",
        "APP_TOKEN": "y",
    }


async def test_no_handle_is_left_open(tmp_path):
    await run_command("true", cwd=tmp_path)
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(5):
        await run_command("echo x; echo y >&2", cwd=tmp_path, stdin=b"z")
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_an_address_with_a_password_in_it_is_kept_back_but_for_proxies():
    source = {"PIP_INDEX_URL": "https://me:pw@host/simple", "UV_CACHE_DIR": "/c", "HTTPS_PROXY": "http://me:pw@proxy:1"}
    assert command_environment(source) == {"UV_CACHE_DIR": "/c", "HTTPS_PROXY": "http://me:pw@proxy:1"}


async def test_without_a_proc_file_system_the_tree_is_found_through_ps(tmp_path, monkeypatch):
    need(shutil.which("ps"), "ps", how="apt-get install procps")
    monkeypatch.setattr(process_table, "uses_proc", lambda: False)
    command = "setsid sh -c 'echo $$ > inner; sleep 60' & sleep 60"
    result = await run_command(command, cwd=tmp_path, timeout_s=0.6, grace_s=0.3)
    assert result.kind == "timeout"
    monkeypatch.undo()
    assert _gone(await _pid_from(tmp_path / "inner"))


async def test_a_child_that_is_just_becoming_another_program_is_waited_for_and_ended(tmp_path, monkeypatch):
    """Between two programs a process shows no environment, so no mark; it must not get away in that moment."""
    environment, asked = process_table._environment, []

    def hidden_at_first(pid: int) -> bytes:
        if entry_of(pid) is not None and str(pid) == _text_of(tmp_path / "pid"):
            asked.append(pid)
            if len(asked) <= 3:
                return b""
        return environment(pid)

    monkeypatch.setattr(process_table, "_environment", hidden_at_first)
    monkeypatch.setattr(process_table, "_is_between_programs", lambda pid: str(pid) == _text_of(tmp_path / "pid"))
    command = "(setsid sh -c 'echo $$ > pid; exec sleep 60' &); until [ -s pid ]; do sleep 0.01; done"
    result = await run_command(command, cwd=tmp_path, grace_s=0.2)
    assert result.kind == "exit"
    assert len(asked) > 3
    assert _gone(await _pid_from(tmp_path / "pid"))


async def test_on_a_busy_machine_strangers_that_start_programs_are_not_waited_for(monkeypatch):
    strangers = (process_table.ProcessEntry(pid, 1, pid, pid, str(pid)) for pid in range(1, 1_000))
    looks = []

    def one_stranger_a_look(_tree):
        looks.append(next(strangers))
        return tree._Seen([], frozenset(looks[-1:]))

    monkeypatch.setattr(tree, "_look", one_stranger_a_look)
    assert await tree.wait_until_empty(tree.ProcessTree("a-mark", None, ""), limit_s=5)
    assert await tree.end_tree(tree.ProcessTree("a-mark", None, ""), grace_s=0)
    assert len(looks) == 4


def test_a_program_that_is_just_being_started_is_followed_when_its_parent_ends(monkeypatch):
    entries = [process_table.ProcessEntry(7, parent, 7, 7, "70") for parent in (5, 1, 1)]
    looks = [
        tree._Seen([], frozenset([entries[0]])),
        tree._Seen([], frozenset([entries[1]])),
        tree._Seen(entries[2:], frozenset()),
    ]
    monkeypatch.setattr(tree, "_look", lambda _tree: looks.pop(0))
    assert tree.tree_members(tree.ProcessTree("a-mark", None, "")) == entries[2:]


def test_only_a_process_within_exec_counts_as_between_programs(tmp_path, monkeypatch):
    def stat(pid: int, *, flags: int, env_start: int, state: str = "R") -> None:
        fields = ["0"] * 50
        fields[0], fields[6], fields[47] = state, str(flags), str(env_start)
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")
        (tmp_path / str(pid) / "environ").write_bytes(b"")

    stat(1, flags=0x400000, env_start=0)
    stat(2, flags=0x400000, env_start=140_000_000)  # started with an empty environment
    stat(3, flags=0x200040, env_start=0)  # the kernel's own
    stat(4, flags=0x400004, env_start=0)  # ending
    stat(5, flags=0x400000, env_start=0, state="Z")
    monkeypatch.setattr(process_table, "_PROC", tmp_path)
    monkeypatch.setattr(process_table, "uses_proc", lambda: True)
    assert process_table.marked([1, 2, 3, 4, 5, 6], "a-mark") == (set(), {1})


def _text_of(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
