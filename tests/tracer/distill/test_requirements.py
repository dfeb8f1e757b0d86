"""The seed's requirements that no other test holds, and that each row of their table names tests that there are."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.tracer.distill.support import lines_of, of_type
from tests.tracer.distill.test_shapes import SID, Claude, distilled, stamp, write
from tracer.distill.one import distill_session

ROOT = Path(__file__).parents[3]


def test_each_requirement_of_the_seed_names_its_tests():
    text = (ROOT / "docs" / "agentic-traces.md").read_text(encoding="utf-8")
    table = text.partition("## What was asked for, and what holds it")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "::" in line]
    named = [name for row in rows for name in re.findall(r"`([\w/]+\.py)::(\w+)`", row)]
    assert len(rows) >= 20
    for file, name in named:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in found, f"{file}::{name}"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-" + "api03-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
        "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
        "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
        "Bearer " + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4",
    ],
)
def test_the_four_kinds_of_keys_that_the_seed_names_are_gone(tmp_path, secret):
    claude = Claude()
    records = [
        claude.said(0, "Task"),
        claude.thought(1, f"It says {secret} here", "m1"),
        claude.call(2, "A", "Bash", {"command": f"curl -H 'Authorization: {secret}' x"}, "m1"),
        claude.result(3, "A", f"error: {secret}", {"stdout": "", "stderr": f"error: {secret}"}, error=True),
    ]
    path = write(tmp_path / f"{SID}.jsonl", records)
    made = distill_session(path, provider="claude", project_root=tmp_path, output_dir=tmp_path / "out")
    assert secret.split()[-1] not in made.path.read_text()
    assert made.path.read_text().count("[REDACTED:") == 3


def test_progress_snapshots_and_undo_state_leave_nothing_behind(tmp_path):
    claude = Claude()
    noise = [
        {"type": "progress", "uuid": "p1", "sessionId": SID, "timestamp": stamp(1), "data": {"type": "bash_progress"}},
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {"trackedFileBackups": {"a.py": "NOISE"}}},
        {"type": "queue-operation", "operation": "enqueue", "timestamp": stamp(1), "content": "NOISE"},
        {"type": "system", "subtype": "informational", "uuid": "s1", "timestamp": stamp(2), "content": "NOISE"},
    ]
    records = [claude.said(0, "Task"), *noise, claude.thought(3, "Think", "m1")]
    path = write(tmp_path / f"{SID}.jsonl", records)
    meta, *lines = distilled(path, "claude")
    assert [line["type"] for line in lines] == ["thought"]
    assert "NOISE" not in json.dumps([meta, *lines])


def test_of_a_success_the_tail_is_kept_and_of_a_failure_the_lines_that_say_why(tmp_path):
    claude = Claude()
    fine = "".join(f"line {number}\n" for number in range(500))
    failed = "start\nE   AssertionError: 1 != 2\n" + fine
    records = [
        claude.said(0, "Task"),
        claude.call(1, "A", "Bash", {"command": "make"}, "m1"),
        claude.result(2, "A", fine, {"stdout": fine, "stderr": ""}),
        claude.call(3, "B", "Bash", {"command": "make test"}, "m2"),
        claude.result(4, "B", failed, {"stdout": failed, "stderr": ""}, error=True),
        claude.call(5, "C", "Bash", {"command": "make it"}, "m3"),
        claude.result(6, "C", "built", {"stdout": "built\n", "stderr": "warning: x is unused\n"}),
    ]
    ok, bad, warned = of_type(distilled(write(tmp_path / f"{SID}.jsonl", records), "claude"), "tool")
    assert ok["output_tail"].splitlines() == [f"line {number}" for number in range(495, 500)]
    assert "diagnostics" not in ok
    assert len(bad["output_tail"].splitlines()) == 20
    assert any("AssertionError: 1 != 2" in line for line in bad["diagnostics"])
    assert warned["output_tail"] == "built\nwarning: x is unused"
    assert lines_of(next((tmp_path / "out").glob("*.jsonl")))[0]["errors"] == 1


def test_the_meta_line_tells_when_what_and_for_how_much(tmp_path):
    claude = Claude()
    replies = [claude.thought(1, "Think", "m1"), claude.block(75, {"type": "text", "text": "Done"}, "m2", "end_turn")]
    for record in replies:
        record["message"]["model"] = "claude-sonnet-4-5-20250929"
    meta, *_ = distilled(
        write(tmp_path / f"{SID}.jsonl", [claude.said(0, "Task"), *replies]), "claude", label="fix:calc"
    )
    assert (meta["ts"], meta["duration_sec"]) == ("2026-11-21T10:01:15", 75.0)
    assert (meta["label"], meta["provider"], meta["model"]) == ("fix:calc", "anthropic", "claude-sonnet-4-5-20250929")
    # Two replies of 10 tokens at $3, 3 cached at $0.30 and 5 written at $15 a million.
    assert (meta["success"], meta["cost_usd"]) == (True, 0.000212)


@pytest.mark.parametrize("provider", ["claude", "codex", "gemini"])
def test_a_thought_is_kept_to_its_last_character_however_long(tmp_path, provider):
    text = "  A blank first.\n" + "".join(f"Step {number}: …\n\n" for number in range(20_000)) + "The last. \n"
    path = tmp_path / f"rollout-2026-11-21T10-00-00-{SID}.jsonl"
    match provider:
        case "claude":
            claude = Claude()
            path = write(tmp_path / f"{SID}.jsonl", [claude.said(0, "Task"), claude.thought(1, text, "m1")])
        case "codex":
            item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": None}
            meta = {"id": SID, "timestamp": stamp(0), "cwd": "/home/dev/proj", "cli_version": "0.169.0"}
            records = [{"type": "session_meta", "payload": meta}, {"type": "response_item", "payload": item}]
            write(path, [{"timestamp": stamp(number), **record} for number, record in enumerate(records)])
        case "gemini":
            thought = {"subject": "A step", "description": text, "timestamp": stamp(1)}
            reply = {"id": "g1", "timestamp": stamp(1), "type": "gemini", "content": "", "thoughts": [thought]}
            history = {"sessionId": SID, "startTime": stamp(0), "lastUpdated": stamp(1), "messages": [reply]}
            path = write(tmp_path / "chats" / f"session-2026-11-21T10-00-{SID[:8]}.json", [history])
            text = f"**A step**\n\n{text}"
    assert [line["text"] for line in of_type(distilled(path, provider), "thought")] == [text]


def test_contents_of_files_written_and_edited_are_gone_and_their_lines_are_counted(tmp_path):
    claude, body = Claude(), "BODY = 1\nBODY += 1\nBODY += 2\n"
    shown = "has been updated. Here's the result of running `cat -n` on a snippet:\n     1\tBODY = 1"
    rich = {"filePath": "/home/dev/proj/a.py", "originalFile": body, "structuredPatch": [{"lines": ["-BODY", "+BODY"]}]}
    edit = {"file_path": "/home/dev/proj/a.py", "old_string": "BODY = 1", "new_string": "BODY = 2"}
    records = [
        claude.said(0, "Task"),
        claude.call(1, "A", "Write", {"file_path": "/home/dev/proj/a.py", "content": body}, "m1"),
        claude.result(2, "A", f"The file {shown}", {"type": "create", "content": body, **rich}),
        claude.call(3, "B", "Edit", edit, "m2"),
        claude.result(4, "B", f"The file {shown}", rich),
    ]
    meta, *lines = distilled(write(tmp_path / f"{SID}.jsonl", records), "claude")
    assert [line["args_summary"] for line in lines] == ["a.py (3 lines)", "a.py (1 replacements)"]
    assert "BODY" not in json.dumps([meta, *lines])


def test_a_subagent_that_is_given_the_task_itself_repeats_no_prompt(tmp_path):
    claude = Claude()
    spawn = {"description": "all of it", "prompt": "Mend half() in calc.py", "subagent_type": "general-purpose"}
    records = [
        claude.said(0, "Mend half() in calc.py"),
        claude.call(1, "T1", "Task", spawn, "m1"),
        claude.said(2, "Mend half() in calc.py", isSidechain=True, agentId="a1"),
        claude.thought(3, "Look", "a1", isSidechain=True, agentId="a1"),
    ]
    meta, *lines = distilled(write(tmp_path / f"{SID}.jsonl", records), "claude")
    assert [agent["prompt_sha256"] for agent in meta["agents"]] == [meta["prompt_sha256"]]
    assert "Mend half()" not in json.dumps([meta, *lines])
