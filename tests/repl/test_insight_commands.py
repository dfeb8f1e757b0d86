"""`pm sessions insights` and `pm compare` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.repl.scripts import script
from tests.repl.support import pm


@pytest.fixture
def traces(project: Path) -> Path:
    folder = project / ".pm-orchestrator" / "agentic-traces"
    folder.mkdir(parents=True)
    for number in range(6):
        for sha, seconds, prompt in (("aaaa11", 10, "a"), ("bbbb22", 90, "b")):
            call = {
                "type": "tool",
                "ts": "2026-01-01T10:00:00",
                "name": "Bash",
                "args_summary": "make",
                "status": "error",
            }
            meta = {
                "type": "meta",
                "ts": f"2026-01-01T10:0{number}:00",
                "label": f"op:{prompt}",
                "provider": "anthropic",
            }
            meta |= {"duration_sec": seconds + number, "prompt_sha256": sha + "0" * 58, "success": True}
            lines = [meta, *([call] * (3 if prompt == "b" else 1))]
            name = f"trace_20260101_100{number}_op__{prompt}_anthropic.jsonl"
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_loops_and_failures_of_the_project_are_told(project: Path, traces: Path) -> None:
    ran = pm("sessions", "insights", "--json", cwd=project)
    assert ran.code == 0
    told = json.loads(ran.out)
    assert told["traces"] == 12
    assert [(loop["kind"], loop["times"]) for loop in told["loops"]] == [("repeat", 3)] * 6
    assert (told["failed_commands"][0]["failed"], told["failed_commands"][0]["traces"]) == (24, 12)
    text = pm("sessions", "insights", "trace_20260101_1000*", cwd=project)
    assert "2 traces" in text.out
    assert "3 x repeat" in text.out


def test_two_prompts_are_compared_by_the_beginning_of_their_hash(project: Path, traces: Path) -> None:
    ran = pm("compare", "aaaa11", "bbbb22", "--json", cwd=project)
    measures = {row["measure"]: row for row in json.loads(ran.out)["measures"]}
    assert (measures["duration"]["a"]["n"], measures["duration"]["verdict"]) == (6, "higher")


def test_two_single_runs_are_too_few(project: Path, traces: Path) -> None:
    names = [path.name for path in sorted(traces.glob("*_1000_*"))]
    ran = pm("compare", *names, cwd=project)
    assert ran.code == 0
    assert "too few runs" in ran.out
    assert "higher" not in ran.out


def test_what_is_not_there_is_not_found(project: Path, traces: Path) -> None:
    assert pm("compare", "cccc33", "aaaa11", cwd=project).code == 7
    assert pm("sessions", "insights", "trace_none", cwd=project).code == 7


def test_a_project_without_traces_says_what_to_do(project: Path) -> None:
    ran = pm("sessions", "insights", cwd=project)
    assert (ran.code, ran.out.splitlines()[0]) == (0, "0 traces")
    assert "pm distill" in ran.err


def test_captures_are_compared_with_tasks(project: Path) -> None:
    reply = script(project, {"output": "Wrote it", "files": {"hello.py": "print('hi')\n"}})
    assert pm("run", "write hello.py", "--script", str(reply), "--executor", "scripted", cwd=project).code == 0
    made = json.loads(pm("capture", "from-task", "1", "--consent", "all", "--json", cwd=project).out)
    ran = pm("compare", made["trace_id"][:8], "1", "--json", cwd=project)
    assert ran.code == 0, ran.err
    measures = {row["measure"]: row for row in json.loads(ran.out)["measures"]}
    assert (measures["tool calls"]["a"]["median"], measures["tool calls"]["b"]["median"]) == (1, 0)


def test_a_session_is_read_by_the_beginning_of_its_name(project: Path, traces: Path) -> None:
    name = "trace_20260102_1000_op__c_anthropic.jsonl"
    lines = [
        {"type": "meta", "provider": "anthropic", "success": False},
        {"type": "thought", "ts": "2026-01-02T10:00:00", "text": "the sum is \u001b[31mwrong\nlook there"},
        {"type": "tool", "ts": "2026-01-02T10:01:05", "name": "Bash", "args_summary": "make", "status": "error",
         "output_tail": ["no rule"]},
    ]  # fmt: skip
    (traces / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = pm("sessions", "show", "trace_20260102", cwd=project)
    told = [line.split() for line in ran.out.splitlines() if line]
    assert [line[-1] for line in told] == ["failed", "thought", "\\x1b[31mwrong", "there", "failed", "rule"]
    assert "+1 min 05 s" in ran.out
    assert "\x1b" not in ran.out
    alone = pm("sessions", "show", name, "--thoughts", cwd=project)
    assert "Bash" not in alone.out
