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
    ]
    ok, bad = of_type(distilled(write(tmp_path / f"{SID}.jsonl", records), "claude"), "tool")
    assert ok["output_tail"].splitlines() == [f"line {number}" for number in range(495, 500)]
    assert "diagnostics" not in ok
    assert len(bad["output_tail"].splitlines()) == 20
    assert any("AssertionError: 1 != 2" in line for line in bad["diagnostics"])
    assert lines_of(next((tmp_path / "out").glob("*.jsonl")))[0]["errors"] == 1
