"""The scripted executor, to the letter of contracts 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.executors.executor_port import Ask
from runner.executors.scripted import ScriptedExecutor
from tracer.errors import ConfigError, UsageError


def executor(tmp_path: Path, *replies: Any) -> ScriptedExecutor:
    path = tmp_path / "script.jsonl"
    path.write_text("\n".join(json.dumps(reply) for reply in replies) + "\n")
    return ScriptedExecutor(path, state_dir=tmp_path / ".pm-orchestrator")


def ask(tmp_path: Path, prompt: str = "do it", history: tuple[str, ...] = ()) -> Ask:
    return Ask(task_id="task-001", prompt=prompt, workspace=str(tmp_path), history=history)


async def test_replies_come_in_order_and_a_recorded_one_is_used_up(tmp_path: Path) -> None:
    scripted = executor(tmp_path, {"output": "one"}, {"output": "two"})
    first = await scripted.ask(ask(tmp_path))
    assert first.session_ref is not None
    again = executor(tmp_path, {"output": "one"}, {"output": "two"})
    assert (await again.ask(ask(tmp_path))).output == "one"
    resumed = executor(tmp_path, {"output": "one"}, {"output": "two"})
    assert (await resumed.ask(ask(tmp_path, history=(first.session_ref,)))).output == "two"


async def test_a_matching_reply_is_taken_first_and_once(tmp_path: Path) -> None:
    scripted = executor(tmp_path, {"output": "plain"}, {"output": "special", "match": "Q2"}, {"output": "last"})
    outputs = [(await scripted.ask(ask(tmp_path, prompt))).output for prompt in ("Q2 again", "Q2 again", "x")]
    assert outputs == ["special", "plain", "last"]


async def test_a_script_without_replies_left_answers_with_status_error(tmp_path: Path) -> None:
    scripted = executor(tmp_path, {"output": "one"})
    await scripted.ask(ask(tmp_path))
    answer = await scripted.ask(ask(tmp_path))
    assert answer.status == "ERROR"
    assert answer.error is not None
    assert "no reply left" in answer.error.message


async def test_files_are_written_and_deleted_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    scripted = executor(tmp_path, {"output": "done", "files": {"src/new.py": "x = 1\n", "old.txt": None}})
    await scripted.ask(ask(tmp_path))
    assert (tmp_path / "src" / "new.py").read_text() == "x = 1\n"
    assert not (tmp_path / "old.txt").exists()


@pytest.mark.parametrize("path", ["../out.txt", "/etc/x", "link/out.txt", ".pm-orchestrator/x", ".git/config", "a\0b"])
async def test_a_file_outside_the_workspace_is_an_error(tmp_path: Path, path: str) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"output": "done", "files": {path: "x"}}))
    scripted = ScriptedExecutor(script, state_dir=workspace / ".pm-orchestrator")
    answer = await scripted.ask(ask(workspace))
    assert answer.status == "ERROR"
    assert not (tmp_path / "out.txt").exists()


async def test_an_error_reply_carries_its_kind_and_the_wait(tmp_path: Path) -> None:
    scripted = executor(tmp_path, {"error": {"kind": "rate_limit", "message": "slow", "retry_after_s": 1}})
    answer = await scripted.ask(ask(tmp_path))
    assert answer.error is not None
    assert (answer.error.kind, answer.error.retry_after_s) == ("rate_limit", 1)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"status": "COMPLETE"}',
        '{"output": "x", "colour": 1}',
        '{"output": 1}',
        '{"output": "x", "status": "DONE"}',
        '{"output": "x", "delay_ms": -1}',
        '{"output": "x", "match": "("}',
        '{"error": {"kind": "gremlins"}}',
        '{"output": "x", "files": {"a": 1}}',
        '{"output": "x", "usage": {"input_tokens": "many"}}',
    ],
)
def test_a_line_that_is_no_reply_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"output": "fine"}\n' + line + "\n")
    with pytest.raises(ConfigError, match="line 2"):
        ScriptedExecutor(path)


def test_a_missing_script_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the script"):
        ScriptedExecutor(tmp_path / "none.jsonl")


async def test_a_reply_may_hold_a_report_which_must_be_one(tmp_path: Path) -> None:
    told = {"status": "partial", "left": ["docs"]}
    assert (await executor(tmp_path, {"output": "x", "report": told}).ask(ask(tmp_path))).report == told
    for bad in ({"left": []}, "done", {"status": "perfect"}, []):
        with pytest.raises(ConfigError, match="line 1"):
            executor(tmp_path, {"output": "x", "report": bad})
