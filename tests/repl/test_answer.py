"""The agent's answer, first of a task's results: in `pm run`, at both prompts, in `pm show`, and in JSON."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from repl.present.answer import answer_lines
from repl.present.blocks import Block, block_lines
from tests.repl.screen.running import enter, screen, until
from tests.repl.scripts import BAD, GOOD, run_scripted, script
from tests.repl.support import pm
from tests.repl.terminal import CTRL_D, ENTER, Terminal

HOSTILE = "\x1b[2J\x1b]0;title\x07\u202egone"
ANSWER = f"# Report\n\nIt is `greet()` for List<str> &amp; **all**.\n\n{HOSTILE}"
REPLY: dict[str, Any] = {**GOOD, "output": ANSWER}
TESTED = {"pyproject.toml": "[tool.pytest.ini_options]\n"}
NOT_RUN = "tests not run: folder not trusted (pm config trust)"


def plain(lines: list[str]) -> str:
    return "\n".join(re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines)


def test_into_a_pipe_the_answer_goes_as_it_was_given_whole_and_escaped() -> None:
    long = "\n".join(f"line {number}" for number in range(500))
    assert answer_lines(long, columns=0, whole_by="pm show 1") == long.split("\n")
    assert answer_lines(ANSWER, columns=0)[-1] == r"\x1b[2J\x1b]0;title\x07\u202egone"


@pytest.mark.parametrize("styled", [True, False])
def test_a_terminal_gets_forty_rows_and_the_command_that_shows_all(*, styled: bool) -> None:
    fits = "\n".join(f"- item {number}" for number in range(40))
    assert "more" not in plain(answer_lines(fits, columns=80, styled=styled, whole_by="pm show 1"))
    lines = answer_lines(f"{fits}\n- last\n- of all", columns=80, styled=styled, whole_by="pm show 1")
    assert lines[-1] == "  … 2 more lines   pm show 1 shows all"
    assert len(lines) == 41
    one = answer_lines("x" * 10_000, columns=80, styled=styled, whole_by="pm show 1")
    assert sum(-(-len(line) // 80) for line in one) < 50
    assert "last" in plain(answer_lines(f"{fits}\n- last", columns=80, styled=styled))


def test_markdown_hides_nothing_and_obeys_nothing() -> None:
    lines = answer_lines(f"{ANSWER}\n&#x202e; <script>x</script>\n\n[a]: http://b.c", columns=80, styled=True)
    text = plain(lines)
    for part in (
        "Report",
        "greet()",
        "List<str>",
        "&amp;",
        r"\x1b[2J",
        r"\u202egone",
        "&#x202e;",
        "<script>",
        "http://b.c",
    ):
        assert part in text
    assert "**" not in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_run_prints_the_answer_on_stdout_above_the_closing_line(project: Path) -> None:
    ran = run_scripted(project, BAD, REPLY)
    *answer, blank, closing = ran.out.splitlines()
    assert answer[0] == "# Report"
    assert answer[-1] == r"\x1b[2J\x1b]0;title\x07\u202egone"
    assert (blank, closing[:18]) == ("", "task-001 COMPLETE,")
    assert "implement this" not in ran.out  # only the last answer is a result


def test_the_answer_and_what_was_verified_stand_in_json_of_run_and_show(project: Path) -> None:
    for name, text in TESTED.items():
        (project / name).write_text(text)
    run_scripted(project, REPLY, words=("write hello.py", "--quiet"))
    told = json.loads(run_scripted(project, {**REPLY, "files": {"a.py": "A = 1\n"}}, words=("add a.py", "--json")).out)
    shown = json.loads(pm("show", "2", "--json", cwd=project).out)
    for record in (told, shown):
        assert record["kind"] == "change"
        assert record["answer"] == ANSWER
        assert record["verification"] == "not_verified"
        assert record["not_verified"] == [{"criterion": "Q7", "why": "folder not trusted", "next": "pm config trust"}]
    ended = json.loads(
        (next((project / ".pm-orchestrator" / "traces").glob("*task-002*.jsonl"))).read_text().splitlines()[-1]
    )
    assert (ended["event"], ended["data"]["verification"]) == ("FINAL_SUMMARY", "not_verified")
    assert ended["data"]["not_verified"] == told["not_verified"]


def test_a_test_command_of_an_untrusted_folders_own_settings_is_said_to_lack_trust(project: Path) -> None:
    """Nothing else tells of tests here: the settings name the only command."""
    state = project / ".pm-orchestrator"
    state.mkdir()
    (state / "config.toml").write_text('[run]\ntest = "echo 1 passed"\n')
    ran = run_scripted(project, GOOD)
    assert f"task-001 COMPLETE, {NOT_RUN} · 1 file" in ran.out
    (state / "config.local.toml").write_text('[run]\nlint = "true"\n')
    told = json.loads(run_scripted(project, {**GOOD, "files": {"a.py": "A = 1\n"}}, words=("add a.py", "--json")).out)
    lacking = {"why": "folder not trusted", "next": "pm config trust"}
    assert told["not_verified"] == [{"criterion": one, **lacking} for one in ("Q7", "Q8")]
    checks = json.loads(pm("doctor", "--json", cwd=project).out)["checks"]
    (tests,) = [check for check in checks if check["name"] == "tests"]
    assert tests["found"] == "echo 1 passed: found here, does not run while the folder is not trusted"
    assert tests["next_step"] == "pm config trust"
    assert "not run" in pm("criteria", "Q7", cwd=project).out
    assert "value" not in json.loads(pm("config", "show", "--json", cwd=project).out)["ignored"][0]
    pm("config", "trust", cwd=project)
    again = run_scripted(project, {**GOOD, "files": {"b.py": "B = 1\n"}}, words=("add b.py",))
    assert "folder not trusted" not in again.out + again.err


def test_changed_lines_that_no_test_reaches_are_told(project: Path) -> None:
    (project / "lcov.info").write_text("SF:hello.py\nDA:1,1\nDA:2,0\n")
    ran = run_scripted(project, GOOD, words=("write hello.py", "--coverage", "lcov.info"))
    assert "no test reaches hello.py:2" in ran.err
    assert json.loads(pm("show", "1", "--json", cwd=project).out)["unreached"] == ["hello.py:2"]
    assert "not reached hello.py:2" in pm("show", "1", cwd=project).out


def test_a_coverage_report_that_is_not_there_leaves_the_lines_unknown(project: Path) -> None:
    ran = run_scripted(project, GOOD, words=("write hello.py", "--coverage", "no.info"))
    assert "      which changed lines no test reaches is not known: 'no.info' is no file and ends with 127" in ran.err


def test_what_is_tried_with_faults_is_in_force_where_tests_run(project: Path) -> None:
    def told(seconds: str = "20") -> str:
        ran = pm("criteria", cwd=project, PM_GATE_STRENGTH_TIME=seconds)
        shown = (" ".join(line.split()) for line in ran.out.splitlines())
        return next(line for line in shown if line.startswith("Q11"))

    assert told() == "Q11 Tests Can Fail optional not in force"
    pm("config", "set", "run.test", "python -m pytest", cwd=project)
    pm("config", "trust", cwd=project)
    assert told() == "Q11 Tests Can Fail optional in force"
    assert told("0") == "Q11 Tests Can Fail optional not in force"


def test_a_run_that_ended_short_gives_its_answer_too(project: Path) -> None:
    told = json.loads(run_scripted(project, BAD, words=("write hello.py", "--max-iterations", "1", "--json")).out)
    assert (told["status"], told["answer"], told["verification"]) == ("INCOMPLETE", BAD["output"], "failed")
    path = str(script(project, BAD, GOOD))
    again = pm("resume", "1", "--max-iterations", "2", cwd=project, PM_SCRIPT=path)
    assert again.out.startswith(f"{GOOD['output']}\n\ntask-001 COMPLETE")
    assert pm("resume", "1", cwd=project).out.startswith(GOOD["output"])


def test_tests_that_did_not_run_are_said_in_the_verdict_the_closing_line_and_by_show(project: Path) -> None:
    for name, text in TESTED.items():
        (project / name).write_text(text)
    ran = run_scripted(project, GOOD)
    assert ran.code == 0
    assert f"  [0] PASS     Q1 Q2 Q3 Q4 Q5 Q6 Q10, {NOT_RUN}" in ran.err
    assert f"task-001 COMPLETE, {NOT_RUN} · 1 file" in ran.out
    assert f"task-001 COMPLETE (passed), {NOT_RUN}   write hello.py" in pm("show", "1", cwd=project).out
    assert f"QUALITY_JUDGMENT[0]: PASS ({NOT_RUN})" in pm("trace", "1", cwd=project).out
    assert pm("export", "1", "--format", "md", cwd=project).code == 0
    page = (project / "task-001.md").read_text().replace("\\", "")
    assert f"**COMPLETE**, {NOT_RUN}" in page
    assert "| Q7 Test Passed | NOT VERIFIED |" in page


def test_a_project_without_tests_is_told_so_and_a_question_is_not(project: Path) -> None:
    told = "COMPLETE, tests not run: no test command was found (pm config set run.test CMD) · 1 file"
    assert told in run_scripted(project, GOOD).out
    for name, text in TESTED.items():
        (project / name).write_text(text)
    asked = run_scripted(project, {"output": "It greets."}, words=("What does hello.py do?",))
    assert "tests not run" not in asked.err
    assert asked.out.startswith("It greets.\n\ntask-002 COMPLETE · ")


def test_a_trusted_folder_runs_its_tests_in_its_own_virtual_environment(project: Path) -> None:
    for name, text in TESTED.items():
        (project / name).write_text(text)
    (project / ".gitignore").write_text(".venv\n")
    (project / "test_greet.py").write_text("def test_greet():\n    assert True\n")
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    python = project / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\ntest "$VIRTUAL_ENV" = "${{0%/bin/python}}" && exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert pm("config", "trust", cwd=project).code == 0
    ran = run_scripted(project, GOOD, PATH="/usr/bin:/bin")
    assert "  tests before the task: 1 passed   python -m pytest -q\n" in ran.err
    assert "  [0] PASS     Q1 Q2 Q3 Q4 Q5 Q6 Q7 Q10, tests passed (1, none shows the change)\n" in ran.err
    assert "task-001 COMPLETE · tests passed (1, none shows the change) · " in ran.out
    python.unlink()
    nowhere = run_scripted(project, {**GOOD, "files": {"b.py": "B = 1\n"}}, PATH=_without_python(project.parent))
    assert "task-002 COMPLETE, tests not run: python not found (install it, or name another: --test CMD)" in nowhere.out


def _without_python(folder: Path) -> str:
    """A PATH with what a run needs and no Python."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("git", "sh", "env"):
        found = next(Path(part, name) for part in ("/usr/bin", "/bin", "/usr/local/bin") if Path(part, name).exists())
        (tools / name).symlink_to(found)
    return str(tools)


def test_line_mode_shows_the_answer_as_markdown_and_trust_counts_from_the_next_task_on(project: Path) -> None:
    (project / "Makefile").write_text("test:\n\t@printf '1..1\\nok 1 - greets\\n'\n")
    path = script(project, {**REPLY, "match": "hello"})
    with Terminal(project, "--line", PM_EXECUTOR="scripted", PM_SCRIPT=str(path)) as terminal:
        terminal.wait_for("n go on without (then Enter)?")
        terminal.send(b"n" + ENTER)
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        text = terminal.wait_for("task-001 COMPLETE, tests not run: folder not trusted (/config trust)")
        assert "  It is greet() for List<str> &amp; all." in text
        assert r"\x1b[2J" in text
        terminal.send(b"/config trust" + ENTER)
        terminal.wait_for("a change to these files ends the trust")
        (project / "hello.py").unlink()
        terminal.send(b"write hello.py again" + ENTER)
        terminal.wait_for("task-002 COMPLETE · tests passed")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


async def test_the_full_screen_shows_the_answer_in_its_transcript_and_on_the_tasks_page(project: Path) -> None:
    path = script(project, {**REPLY, "output": f"{ANSWER}\n[0] PASS Q1"})
    async with screen(project, PM_EXECUTOR="scripted", PM_SCRIPT=str(path)) as (app, pilot):
        await enter(pilot, "write hello.py")
        await until(pilot, lambda: "task-001 COMPLETE" in app.home.transcript.text)
        lines = app.home.transcript.text.split("\n")
        assert "# Report" in lines
        transcript = app.home.transcript
        rows = [transcript.render_line(y).text.rstrip() for y in range(transcript.size.height)]
        assert any(row.startswith("  │ ") and "Report" in row and "#" not in row for row in rows), "Markdown"
        assert any(r"\x1b[2J\x1b]0;title\x07\u202egone" in row for row in rows)
        assert any(row.startswith("  │ ") and "[0] PASS Q1" in row for row in rows)  # looks like no verdict of ours
        await until(pilot, lambda: app.home.all_rows)
        await pilot.press("escape", "enter")
        await until(pilot, lambda: "│ # Report" in str(app.screen.query_one("#task-lines").render()))


def test_a_closing_line_breaks_between_its_parts_where_the_terminal_is_narrow() -> None:
    told = "task-001 COMPLETE, tests not run: no test command was found (pm config set run.test CMD)"
    block = Block("task", f"{told} · 1 file +2 -0 · 1,500 tok · $0.01 · 4.5 s")
    assert block_lines(block, columns=80, colour=False) == [
        "task-001 COMPLETE, tests not run: no test command was found",
        "    (pm config set run.test CMD) · 1 file +2 -0 · 1,500 tok · $0.01 · 4.5 s",
    ]
    assert block_lines(block, columns=0, colour=False) == [block.text]
    assert block_lines(block, columns=200, colour=True) == [f"\x1b[1m{block.text}\x1b[0m"]
