"""`trace`, `tasks`, `show`, `diff` and `trace verify` over one project with three tasks."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.repl.scripts import BAD, GOOD, USAGE, run_scripted
from tests.repl.support import Ran, pm

GOLDEN = Path(__file__).with_name("golden")
_NOISE = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?", "<TIME>"),
    (r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d", "<STAMP>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<CLOCK>"),
    (r"\d{4}-\d\d-\d\d", "<DATE>"),
    (r"\b[0-9a-f]{64}\b", "<SHA256>"),
    (r"sess-[0-9a-f]+", "<SESSION>"),
    (r"\d+\.\d s\b", "<SECONDS>"),
    (r"\d+(\.\d+)? (B|kB|MB|GB)\b", "<SIZE>"),
    (r"\b(now|\d+ min)\b", "<AGE>"),
    (r"  sections: [a-z, ]+", "  sections: <SECTIONS>"),  # whoever adds a setting need not touch this page
    (r'"(duration|spent|worked)_ms":\d+', r'"\1_ms":0'),
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a task that was rejected once, one at its limit, one refused by its executor."""
    folder = tmp_path_factory.mktemp("shop") / "shop"
    folder.mkdir()
    home = {"HOME": str(folder.parent), "XDG_CONFIG_HOME": str(folder.parent / "config")}
    assert run_scripted(folder, {**BAD, **USAGE}, {**GOOD, **USAGE}, **home).code == 0
    assert run_scripted(folder, BAD, words=("write more\x1b[31m", "--max-iterations", "1"), **home).code == 6
    refused = {"error": {"kind": "auth", "message": "key refused"}}
    assert run_scripted(folder, refused, words=("never answered",), **home).code == 4
    return folder


def cleaned(text: str, shop: Path) -> str:
    text = text.replace(str(shop), "<PROJECT>").replace(str(shop.parent), "<HOME>")
    text = text.replace(os.environ["XDG_CONFIG_HOME"], "<CONFIG>").replace(os.environ["HOME"], "<HOME>")
    for pattern, mark in _NOISE:
        text = re.sub(pattern, mark, text)
    return re.sub(r" +$", "", re.sub(r"  +", "  ", text), flags=re.MULTILINE)


def check_golden(name: str, ran: Ran, shop: Path) -> None:
    """Compare with the stored bytes; PM_TEST_UPDATE_GOLDEN=1 writes them anew."""
    text = f"exit {ran.code}\n--- stdout\n{cleaned(ran.out, shop)}--- stderr\n{cleaned(ran.err, shop)}"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("PM_TEST_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


COMMANDS = {
    "tasks": ["tasks"],
    "tasks-json": ["tasks", "--json"],
    "tasks-filter": ["tasks", "more"],
    "tasks-status": ["tasks", "--status", "ERROR"],
    "tasks-none": ["tasks", "nothing-like-it"],
    "show": ["show", "1"],
    "show-incomplete": ["show", "2"],
    "show-json": ["show", "1", "--json"],
    "trace": ["trace", "task-001"],
    "trace-latest": ["trace", "1", "--latest"],
    "trace-event": ["trace", "1", "--event", "quality_judgment", "--event", "FINAL_SUMMARY"],
    "trace-iteration": ["trace", "1", "--iteration", "0"],
    "trace-error": ["trace", "3"],
    "trace-unknown": ["trace", "99"],
    "trace-verify": ["trace", "verify", "1"],
    "trace-verify-head": ["trace", "verify", "1", "--head", "ab" * 32],
    "diff": ["diff", "1"],
    "diff-iteration": ["diff", "1", "--iteration", "0"],
    "diff-side-by-side": ["diff", "1", "--side-by-side", "--iteration", "1"],
    "diff-no-iteration": ["diff", "1", "--iteration", "7"],
    "files": ["files", "1"],
    "criteria": ["criteria"],
    "criteria-one": ["criteria", "Q2"],
    "config-path": ["config", "path"],
    "config-get": ["config", "get", "run.max_iterations"],
    "config-show-run": ["config", "show", "run.max"],
    "config-validate": ["config", "validate"],
    "config-unknown": ["config", "get", "run.max_iteration"],
    "prune": ["admin", "prune", "tasks", "--keep", "1"],
    "gc": ["admin", "prune", "blobs"],
    "version": ["version"],
    "version-json": ["version", "--json"],
    "help-version": ["help", "version"],
    "help-exit-codes": ["help", "exit-codes"],
    "completion-bash": ["completion", "bash"],
    "completion-zsh": ["completion", "zsh"],
    "completion-fish": ["completion", "fish"],
    "complete-tasks": ["__complete", "--", "show", ""],
    "usage-error": ["trace", "1", "--lates"],
    "stop-ended": ["stop", "1"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_the_golden_one(name: str, shop: Path) -> None:
    check_golden(name, pm(*COMMANDS[name], cwd=shop), shop)


def test_a_question_reads_the_same_wherever_it_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    reply = '```pm-report\n{"status": "question", "question": "Round up?", "choices": ["up", "down"]}\n```'
    asks = {"output": f"I read the code.\n\n{reply}", **USAGE}
    check_golden("question-asked", run_scripted(folder, asks, GOOD, words=("mend half()",)), folder)
    check_golden("question-show", pm("show", "1", cwd=folder), folder)
    check_golden("question-trace", pm("trace", "1", cwd=folder), folder)
    check_golden("question-answered", pm("respond", "1", "hint", "up", cwd=folder), folder)


def test_raw_is_the_files_bytes(shop: Path) -> None:
    (path,) = (shop / ".pm-orchestrator" / "traces").glob("conversation-task-001-*.jsonl")
    assert pm("trace", "task-001", "--raw", cwd=shop).raw == path.read_bytes()


def test_latest_and_raw_combine_to_the_stored_lines_of_the_last_iteration(shop: Path) -> None:
    (path,) = (shop / ".pm-orchestrator" / "traces").glob("conversation-task-001-*.jsonl")
    raw = pm("trace", "1", "--latest", "--raw", cwd=shop).raw
    assert raw in path.read_bytes()
    assert json.loads(raw.splitlines()[0])["event"] == "LLM_REQUEST"
    assert raw.splitlines()[-1] == path.read_bytes().splitlines()[-1]


def test_json_of_trace_has_the_seeds_shape(shop: Path) -> None:
    record = json.loads(pm("trace", "1", "--json", cwd=shop).out)
    assert record["summary"] == {"total_iterations": 2, "judgments": ["REJECT", "PASS"], "final_status": "COMPLETE"}
    assert record["trace_file"].startswith(".pm-orchestrator/traces/conversation-task-001-")
    assert record["entries"][0]["event"] == "USER_REQUEST"


def test_full_shows_the_prompt_and_the_answer_whole(shop: Path) -> None:
    out = pm("trace", "1", "--full", cwd=shop).out
    assert "      prompt:" in out
    assert "output: Done: greet() in hello.py" in out


def test_nothing_recorded_reaches_the_terminal_as_a_control_sequence(shop: Path) -> None:
    for words in (["trace", "2"], ["tasks"], ["show", "2"], ["trace", "2", "--full"]):
        out = pm(*words, cwd=shop).out
        assert "\x1b" not in out
        assert "\\x1b" in out


def test_following_an_ended_task_prints_it_and_ends(shop: Path) -> None:
    followed = pm("trace", "1", "--follow", cwd=shop)
    assert followed.out == pm("trace", "1", cwd=shop).out
    lines = pm("trace", "1", "--follow", "--jsonl", cwd=shop).raw.splitlines(keepends=True)
    (path,) = (shop / ".pm-orchestrator" / "traces").glob("conversation-task-001-*.jsonl")
    assert b"".join(lines[:-1]) == path.read_bytes()
    assert json.loads(lines[-1])["type"] == "result"


def test_a_torn_tail_is_one_line_on_stderr_and_verify_ends_8(project: Path) -> None:
    run_scripted(project, GOOD)
    (path,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:41])
    ran = pm("trace", cwd=project)
    assert ran.code == 0
    assert f"line {len(lines)} incomplete (41 bytes), {len(lines) - 1} events read" in ran.err
    assert "unfinished after ITERATION_END[0]   pm resume task-001" in ran.err
    assert pm("trace", "verify", cwd=project).code == 8
    assert pm("resume", "1", cwd=project).code == 0
    assert pm("trace", "verify", cwd=project).code == 8 or path.read_bytes().count(b"FINAL_SUMMARY") == 1


def test_a_task_that_could_be_several_lists_them(project: Path) -> None:
    run_scripted(project, GOOD, words=("write hello.py", "--task-id", "alpha-1"))
    run_scripted(project, GOOD, words=("write hello.py again", "--task-id", "alpha-2"))
    ran = pm("show", "alpha", cwd=project)
    assert ran.code == 7
    assert "alpha-1" in ran.err
    assert "alpha-2" in ran.err


def test_an_id_that_a_task_has_is_given_to_no_other(project: Path) -> None:
    run_scripted(project, GOOD, words=("write hello.py", "--task-id", "alpha-1"))
    before = list((project / ".pm-orchestrator" / "traces").iterdir())
    ran = pm("run", "write other.py", "--executor", "scripted", "--task-id", "alpha-1", cwd=project)
    assert ran.code == 2
    assert "alpha-1 is recorded already" in ran.err
    assert "pm resume alpha-1" in ran.err
    assert list((project / ".pm-orchestrator" / "traces").iterdir()) == before


def test_nothing_is_deleted_without_yes(shop: Path) -> None:
    before = sorted((shop / ".pm-orchestrator" / "traces").iterdir())
    pm("admin", "prune", "tasks", "--keep", "0", cwd=shop)
    assert sorted((shop / ".pm-orchestrator" / "traces").iterdir()) == before


def test_prune_with_yes_deletes_finished_tasks(project: Path) -> None:
    run_scripted(project, GOOD)
    assert pm("admin", "prune", "tasks", "--keep", "0", "--yes", cwd=project).code == 0
    assert "no tasks in this project" in pm("tasks", cwd=project).err


def test_verify_of_a_session_without_an_id_checks_the_last_one(project: Path) -> None:
    run_scripted(project, GOOD)
    ran = pm("trace", "verify", "--session", cwd=project)
    assert ran.code == 0, ran.err
    assert ran.out == pm("trace", "verify", "--session", "last", cwd=project).out


def test_a_head_that_is_no_hash_is_a_usage_error_and_no_fact_that_fits_is_said(shop: Path) -> None:
    assert pm("trace", "verify", "1", "--head", "zz", cwd=shop).code == 2
    shown = pm("trace", "1", "--event", "NOPE", cwd=shop)
    assert shown.code == 0
    assert "no event fits; the trace has" in shown.err


def test_files_of_an_answer_that_is_not_there_are_not_found(shop: Path) -> None:
    ran = pm("files", "1", "--iteration", "9", cwd=shop)
    assert (ran.code, ran.out) == (7, "")
    assert "task-001 has no answer 9\n  its answers are 0 to 1" in ran.err


@pytest.mark.parametrize("form", ["md", "json", "html"])
def test_an_export_takes_its_format_as_a_second_word(shop: Path, tmp_path: Path, form: str) -> None:
    ran = pm("export", "1", form, "-o", str(tmp_path / "copy"), cwd=shop)
    assert ran.code == 0, ran.err
    assert (tmp_path / "copy").read_text().startswith({"md": "# task-001", "json": "{", "html": "<!doctype"}[form])


def test_a_dash_sends_an_export_to_stdout(shop: Path) -> None:
    ran = pm("export", "1", "--format", "md", "-o", "-", cwd=shop)
    assert (ran.code, ran.out[:10]) == (0, "# task-001")
    assert not (shop / "-").exists()
    assert pm("export", "1", "-o", "-", "--json", cwd=shop).code == 2


def test_a_dash_sends_a_redacted_copy_to_stdout(shop: Path) -> None:
    (shop / "notes.txt").write_text("nothing secret\n")
    ran = pm("redact", "notes.txt", "-o", "-", cwd=shop)
    assert (ran.code, ran.out) == (0, "nothing secret\n")
    assert not (shop / "-").exists()


def test_a_torn_tail_behind_a_complete_trace_is_moved_aside_by_resume_as_verify_says(project: Path) -> None:
    run_scripted(project, GOOD)
    (trace,) = (project / ".pm-orchestrator" / "traces").glob("conversation-*.jsonl")
    whole = trace.read_bytes()
    trace.write_bytes(whole + b'{"timestamp":"2025')
    verified = pm("trace", "verify", "1", cwd=project)
    assert verified.code == 8
    assert "pm resume task-001" in verified.err
    assert pm("resume", "1", cwd=project).code == 0
    assert trace.read_bytes() == whole
    assert pm("trace", "verify", "1", cwd=project).code == 0
