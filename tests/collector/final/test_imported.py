"""Tasks and agents' sessions become captured sessions of the same schema."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.final.replay import UNKNOWN
from collector.imports.draft import FileStates
from collector.imports.session import changes_of, imported_session, payload_of
from collector.imports.session_reader import Item, ReadSession, read_session
from collector.imports.task import imported_task
from collector.patches import make_patch
from repl.cli import main
from tests.tracer.distill.support import SCENARIOS, unpack
from tracer.capture.document import trace_schema
from tracer.distill.locate.find import session_at
from tracer.facts import Entry, entry_of
from tracer.redaction.engine import build_redactor

# The beginnings of the sha256 of the files as the sessions really left them.
AFTERWARDS = {
    "README.md": "9e236bfbeaa6",
    "average.py": "0d60d8206508",
    "calc.py": "9779a9fc0f48",
    "stats.py": "5c1d05631894",
    "test_average.py": "58157ce61617",
    "test_stats.py": "0c7d346bd8f4",
}
BROKEN = "def total(items):\n    return sum(items) - 1\n"
TEST = """import unittest

import calc


class Total(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(calc.total([1]) > -1, True)
"""
FIXED = "def total(items):\n    return sum(items)\n"


def pm(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    return code, capsys.readouterr().out


@pytest.fixture
def finished(project: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A project whose task-001 went REJECT, PASS."""
    (project / "calc.py").write_text(BROKEN)
    (project / "test_calc.py").write_text(TEST)
    for words in (["init", "-q", "."], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", *identity, *words], cwd=project, check=True)
    (project / "notes.txt").write_text("not committed\n")
    replies = [
        {
            "output": "I changed calc.py.",
            "files": {"calc.py": FIXED.replace("    return", "    # TODO check\n    return")},
        },
        {"output": "Fixed the sum in calc.py.", "files": {"calc.py": FIXED, "new.py": "A = 1\n"}},
    ]
    (project / "script.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    code, _ = pm(
        capsys, "run", "fix the sum in calc.py and add new.py", "--executor", "scripted", "--script", "script.jsonl",
        "--test", "python3 -m unittest -q", "--no-input",
    )  # fmt: skip
    assert code == 0
    return project


def test_a_look_that_failed_is_left_out_and_counted(tmp_path: Path) -> None:
    looked = Item("call", 1, name="Read", operation="read", arguments={"file_path": "a.py"}, output="x", failed=False)
    missing = replace(looked, arguments={"file_path": "gone.py"}, output="no such file", failed=True)
    session = session_at(unpack(SCENARIOS[0], tmp_path / "home").path)
    read = ReadSession(items=(looked, missing), cli_version="1", left_out=0)
    made = imported_session(session, read, consent={})
    assert [each["payload"]["file_path"] for each in made.events if each["type"] == "navigation"] == ["a.py"]
    assert "left out: 1 x Read that failed" in made.notes


def test_what_cannot_be_rebuilt_of_a_tree_is_said(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = json.loads(pm(capsys, "capture", "from-task", "1", "--consent", "all", "--json")[1])
    document = json.loads(pm(capsys, "capture", "export", made["trace_id"], "--format", "json", "-o", "-")[1])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "whole.json").write_text(json.dumps(document))
    assert main(["-C", str(elsewhere), "capture", "verify", "whole.json", "--tree", "rebuilt"]) == 0
    assert "the final tree is in " in capsys.readouterr().err
    document["artifacts"]["blobs"] = []
    (elsewhere / "empty.json").write_text(json.dumps(document))
    assert main(["-C", str(elsewhere), "capture", "verify", "empty.json", "--tree", "nothing"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("not testable")
    said = shown.err
    assert not list((elsewhere / "nothing").iterdir())
    assert "no file of the final tree could be rebuilt: " in said
    assert "the final tree is in " not in said


def test_a_finished_task_becomes_a_session_that_proves_itself(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = pm(capsys, "capture", "from-task", "1", "--consent", "all", "--json")
    assert code == 0
    made = json.loads(said)
    assert (made["created"], made["edits"]) == (True, 3)
    code, said = pm(capsys, "capture", "verify", made["trace_id"][:8], "--tree", "rebuilt", "--json")
    report = json.loads(said)
    assert (code, report["status"], report["mismatches"], report["not_testable"]) == (0, "verified", 0, 0)
    assert (finished / "rebuilt" / "calc.py").read_text() == FIXED
    assert (finished / "rebuilt" / "notes.txt").read_text() == "not committed\n"
    code, said = pm(capsys, "capture", "export", made["trace_id"], "--format", "json", "-o", "-")
    document = json.loads(said)
    jsonschema.validate(document, trace_schema())
    kinds = Counter(event["type"] for event in document["events"])
    assert kinds == {"thought": 3, "file_edit": 3, "test_run": 2, "error": 1}
    assert pm(capsys, "capture", "from-task", "1", "--consent", "all", "--json")[1].find('"created":false') > 0


def test_what_was_imported_is_listed_read_narrowed_and_deleted_by_its_short_id_without_a_server(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = json.loads(pm(capsys, "capture", "from-task", "1", "--consent", "all", "--json")[1])
    short = made["trace_id"][:8]
    assert main(["capture", "from-task", "1", "--consent", "none"]) == 0
    assert "its consent stays as it was given: code, output, judge" in capsys.readouterr().err
    (listed,) = json.loads(pm(capsys, "capture", "list", "--json")[1])["captures"]
    assert (listed["trace_id"], listed["kind"], listed["state"]) == (made["trace_id"], "collected", "finalized")
    document = json.loads(pm(capsys, "capture", "get", short)[1])
    said = str(document["task"]["bug_report"]["description"])
    row = json.loads(pm(capsys, "capture", "export", short, "--format", "chat", "-o", "-")[1])
    assert row["messages"][1]["content"].count(said) == 1
    assert main(["capture", "judge", short, "--packet"]) == 0
    capsys.readouterr()
    left = json.loads(pm(capsys, "capture", "withdraw", short, "--consent", "code", "--json")[1])["consent"]
    assert left == {"store_raw_code": False, "store_terminal_output": True, "allow_llm_judge": True}
    assert json.loads(pm(capsys, "capture", "get", short, "--view", "metadata")[1])["repo"]["bundle_blob_id"] is None
    for _ in range(2):  # harmless when repeated
        assert pm(capsys, "capture", "delete", made["trace_id"], "--erase-now", "--yes")[0] == 0
    assert json.loads(pm(capsys, "capture", "list", "--json")[1])["captures"] == []


def test_tests_that_could_not_run_are_no_test_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "script.jsonl").write_text(json.dumps({"output": "Added new.py.", "files": {"new.py": "A = 1\n"}}))
    words = ("run", "add new.py", "--executor", "scripted", "--script", "script.jsonl", "--test", "no-such-runner")
    assert pm(capsys, *words, "--no-input")[0] == 0
    made = json.loads(pm(capsys, "capture", "from-task", "1", "--consent", "all", "--json")[1])
    document = json.loads(pm(capsys, "capture", "export", made["trace_id"], "--format", "json", "-o", "-")[1])
    assert {event["type"] for event in document["events"]} == {"thought", "file_edit"}


def test_without_consent_no_bundle_of_the_code_is_kept(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(pm(capsys, "capture", "from-task", "1", "--json")[1])
    _, said = pm(capsys, "capture", "verify", made["trace_id"], "--json")
    report = json.loads(said)
    assert report["base"].startswith("none")
    assert report["mismatches"] == 0


def test_a_task_that_has_not_ended_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pm(capsys, "capture", "from-task", "1")[0] == 7


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_agents_session_becomes_events_with_what_it_really_did(tmp_path: Path, scenario: str) -> None:
    native = unpack(scenario, tmp_path / "home")
    redactor = build_redactor(state_dir=tmp_path / "state", environ={}, host="", persons=[])
    session = session_at(native.path)
    imported = imported_session(session, read_session(session, redactor=redactor), consent={})
    assert imported.create["task"]["bug_report"]["description"].strip() == native.truth["prompt"].strip()
    main_steps = [step for step in native.truth["steps"] if step["agent"] == "main"]
    commands = [event for event in imported.events if event["type"] == "terminal_command"]
    asked = {step["meaning"]["command"] for step in main_steps if step.get("meaning", {}).get("op") == "shell"}
    assert asked <= {event["payload"]["command"] for event in commands}
    last: dict[str, str] = {}
    for event in imported.events:
        if event["type"] == "file_edit":
            last[event["payload"]["file_path"]] = event["payload"].get("post_hash") or ""
    assert last
    known = {path: hashed.removeprefix("sha256:")[:12] for path, hashed in last.items() if hashed}
    assert known or scenario.startswith("codex/bugfix")  # which reads parts of files only
    assert known == {path: AFTERWARDS[path] for path in known}


async def test_every_imported_session_is_taken_by_the_collector(tmp_path: Path) -> None:
    from repl.commands.captures.imports import _send
    from tests.collector.final.collecting import a_collector

    redactor = build_redactor(state_dir=tmp_path / "state", environ={}, host="", persons=[])
    consent = dict.fromkeys(("store_raw_code", "store_terminal_output", "allow_llm_judge"), False)
    async with a_collector(tmp_path / "collector") as collector:
        for number, scenario in enumerate(SCENARIOS):
            session = session_at(unpack(scenario, tmp_path / str(number)).path)
            imported = imported_session(session, read_session(session, redactor=redactor), consent=consent)
            assert await _send(collector, imported) is True
            assert await _send(collector, imported) is False


def test_an_edit_of_a_known_file_has_its_hashes_and_of_an_unknown_one_none() -> None:
    files = FileStates(lambda _path: UNKNOWN)
    (write,) = changes_of({"file_path": "a.py", "content": "x = 1\n"})
    (edit,) = changes_of({"file_path": "a.py", "old_string": "1", "new_string": "2"})
    (other,) = changes_of({"file_path": "b.py", "old_string": "1", "new_string": "2"})
    assert payload_of("a.py", write, files)["content_before"] == "unknown"
    second = payload_of("a.py", edit, files)
    assert second["pre_hash"]
    assert files.content("a.py") == b"x = 2\n"
    assert payload_of("b.py", other, files)["line_numbers"] == "unknown"


def test_the_patch_language_of_codex_is_read() -> None:
    text = (
        "*** Begin Patch\n*** Add File: n.py\n+a\n+b\n*** Update File: u.py\n*** Move to: v.py\n@@ def f():\n"
        " x\n-y\n+z\n*** Delete File: d.py\n*** End Patch"
    )
    add, update, delete = changes_of({"input": text})
    assert (add.path, add.content) == ("n.py", "a\nb\n")
    assert (update.path, update.pieces, update.moved_to) == ("u.py", (("x\ny\n", "x\nz\n", False),), "v.py")
    assert (delete.path, delete.removes) == ("d.py", True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["file_path", "content", "old_string", "new_string", "edits", "input", "command"]), inner),
    max_leaves=8,
)  # fmt: skip


@given(arguments=json_values | st.text(max_size=80).map(lambda text: f"*** Begin Patch\n{text}"))
@settings(max_examples=150)
def test_whatever_a_tool_was_told_is_read_or_left(arguments: Any) -> None:
    files = FileStates(lambda _path: UNKNOWN)
    for change in changes_of(arguments):
        if change.path:
            payload_of("f", change, files)


def test_what_the_agent_did_on_the_way_to_its_answers_is_taken_once(tmp_path: Path) -> None:
    def entry(event: str, second: int, **data: Any) -> Entry:
        return entry_of(f"2026-01-02T03:04:{second:02}.500Z", event, "s", "task-001", data)

    def line(kind: str, second: int, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "ts": f"2026-01-02T03:04:{second:02}", **fields}

    answer = {"output": "done", "status": "COMPLETE", "agentic_trace": "a.jsonl"}
    entries = [
        entry("USER_REQUEST", 1, prompt="fix it", workspace="/home/dev/shop", executor={"name": "claude"}),
        entry("LLM_RESPONSE", 10, **answer),
        entry("LLM_RESPONSE", 20, **answer),
        entry("FINAL_SUMMARY", 21, status="COMPLETE", total_iterations=2, files_modified=[]),
    ]
    session = [
        line("meta", 19, label="run:task-001"),
        line("thought", 2, text="look first"),
        line("tool", 3, name="Bash", args_summary="pytest -q", status="error", output_tail="1 failed"),
        line("tool", 4, name="Read", args_summary="a.py (3 lines)", status="ok", path="a.py"),
        line("tool", 5, name="Edit", args_summary="a.py (1 replacements)", status="ok", path="a.py"),
        line("thought", 15, text="again"),
    ]
    imported = imported_task(
        entries,
        consent={},
        read_blob=lambda _id: None,
        base=lambda _path: UNKNOWN,
        read_agentic=lambda _name: session,
    )
    kinds = [event["type"] for event in imported.events]
    assert kinds == [
        "thought", "terminal_command", "terminal_output", "navigation", "thought",  # up to the first answer
        "thought", "thought",
    ]  # fmt: skip
    assert imported.events[2]["context"]["parent_event_id"] == imported.events[1]["event_id"]


def test_of_a_task_split_into_subtasks_the_whole_change_is_taken_at_its_end() -> None:
    def entry(event: str, subtask: str | None = None, **data: Any) -> Entry:
        return entry_of("2026-01-02T03:04:05.000Z", event, "s", "task-001", data, subtask)

    part, whole = make_patch("a.py", b"1\n", b"2\n"), make_patch("a.py", b"1\n", b"3\n")
    blobs = {"part": part, "whole": whole}
    entries = [
        entry("USER_REQUEST", prompt="two things"),
        entry("CHUNKING_PLAN", subtasks=[{"id": "task-001-sub-1", "description": "one", "dependencies": []}]),
        entry("LLM_RESPONSE", "task-001-sub-1", output="did one", status="COMPLETE", diff_blob="part"),
        entry("FINAL_SUMMARY", status="COMPLETE", total_iterations=1, files_modified=["a.py"], diff_blob="whole"),
    ]
    imported = imported_task(entries, consent={}, read_blob=blobs.get, base=lambda _path: b"1\n")
    (edit,) = [event["payload"] for event in imported.events if event["type"] == "file_edit"]
    assert edit["post_hash"] == f"sha256:{hashlib.sha256(b'3' + bytes([10])).hexdigest()}"
    assert imported.final_state is not None
    assert imported.final_state["pr"]["diff"] == whole.decode()


def test_a_file_whose_name_is_no_text_is_left_out_and_told() -> None:
    entries = [
        entry_of("2026-01-02T03:04:05.000Z", "USER_REQUEST", "s", "task-001", {"prompt": "do"}),
        entry_of(
            "2026-01-02T03:04:05.000Z", "FINAL_SUMMARY", "s", "task-001", {"status": "COMPLETE", "diff_blob": "it"}
        ),
    ]
    diff = make_patch("a.py", b"1\n", b"2\n") + make_patch("caf\udce9.py", None, b"1\n")
    said = entry_of("2026-01-02T03:04:05.000Z", "LLM_RESPONSE", "s", "task-001",
                 {"output": "done", "status": "COMPLETE", "diff_blob": "it"})  # fmt: skip
    told = imported_task(
        [entries[0], said, entries[1]], consent={}, read_blob={"it": diff}.get, base=lambda _path: UNKNOWN
    )
    assert [event["payload"]["file_path"] for event in told.events if event["type"] == "file_edit"] == ["a.py"]
    assert told.notes == ("left out: 'caf\\\\xe9.py': its name is no text",)


def test_an_event_whose_time_is_damaged_is_taken_without_it() -> None:
    entries = [
        entry_of(time, event, "s", "task-001", data)
        for time, event, data in (
            ("2026-01-02T03:04:05.029Z", "USER_REQUEST", {"prompt": "do"}),
            ("soon", "LLM_RESPONSE", {"output": "done", "status": "COMPLETE"}),
            ("2026-01-02T03:04:06.000Z", "FINAL_SUMMARY", {"status": "COMPLETE"}),
        )
    ]
    told = imported_task(entries, consent={}, read_blob=lambda _id: None, base=lambda _path: UNKNOWN)
    assert [event["ts_ms"] for event in told.events] == [0]


def test_a_command_that_only_names_a_test_runner_is_no_test_run(tmp_path: Path) -> None:
    commands = ("pip install pytest", "cd app && python -m pytest -q", "make && make test", "grep -rn pytest .")
    items = [
        Item("call", 1, name="Bash", operation="shell", arguments={"command": command}, output="said\n", failed=True)
        for command in commands
    ]
    session = session_at(unpack(SCENARIOS[0], tmp_path / "home").path)
    read = ReadSession(items=tuple(items), cli_version="1", left_out=0)
    imported = imported_session(session, read, consent={})
    runs = [event["payload"] for event in imported.events if event["type"] == "test_run"]
    assert [(run["command"], run["exit_code"]) for run in runs] == [("cd app && python -m pytest -q", 1)]
