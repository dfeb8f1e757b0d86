"""A task in subtasks as people see it: the plan, its approval, the table, the trace, the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from repl.present.progress import Progress
from repl.present.subtasks import SubtaskBoard
from tests.repl.screen.running import enter, notices, screen, until
from tests.repl.scripts import USAGE, script
from tests.repl.support import Ran, pm
from tests.repl.terminal import CTRL_D, ENTER, Terminal
from tests.repl.test_trace_commands import check_golden
from tests.service.support import serving
from tracer.facts import read_fact

PLAN = {
    "subtasks": [
        {"id": "a", "title": "schema", "description": "write the schema", "files_expected": ["schema.py"]},
        {"id": "b", "title": "API", "description": "write the API", "dependencies": ["a"], "acceptance": "it answers"},
        {"id": "c", "title": "tests", "description": "write tests", "dependencies": ["a", "b"]},
    ]
}
REPLIES: tuple[dict[str, Any], ...] = (
    {"match": "write the schema", "output": "Done: schema", "files": {"schema.py": "S = 1\n"}, **USAGE},
    {"match": "write the API", "output": "TODO later", "files": {"api.py": "# TODO: later\nA = 1\n"}, **USAGE},
    {"match": "write the API", "output": "Done: api", "files": {"api.py": "A = 1\n"}, **USAGE},
    {"match": "write tests", "output": "Done: tests", "files": {"test_api.py": "T = 1\n"}, **USAGE},
)
HOSTILE = "\x1b[2J\u202eevil"


def environ(folder: Path, *replies: dict[str, Any], plan: dict[str, Any] | None = None) -> dict[str, str]:
    path = folder.parent / "plan.json"
    path.write_text(json.dumps(plan or PLAN), encoding="utf-8")
    made = script(folder, *(replies or REPLIES))
    return {"PM_EXECUTOR": "scripted", "PM_SCRIPT": str(made), "PM_PLAN": str(path)}


def editor(folder: Path, command: str) -> str:
    path = folder.parent / "editor"
    path.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def facts(folder: Path) -> list[dict[str, Any]]:
    (path,) = (folder / ".pm-orchestrator" / "traces").glob("*.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Ran]]:
    """A project without git, so that the subtasks run one after another in a known order."""
    folder = tmp_path_factory.mktemp("parts") / "shop"
    folder.mkdir()
    home = {"HOME": str(folder.parent), "XDG_CONFIG_HOME": str(folder.parent / "config")}
    known = {**home, **environ(folder)}
    ran = {
        "plan-waits": pm("run", "--approve-plan", "build the shop", cwd=folder, **known),
        "plan-shown": pm("plan", cwd=folder, **known),
        "plan-show-waits": pm("show", "--last", cwd=folder, **known),
        "plan-approved": pm("plan", "--approve", cwd=folder, **known),
        "plan-done": pm("plan", cwd=folder, **known),
    }
    return folder, ran


@pytest.mark.parametrize("name", ["plan-waits", "plan-shown", "plan-show-waits", "plan-approved", "plan-done"])
def test_the_plan_is_shown_waits_and_runs(parts: tuple[Path, dict[str, Ran]], name: str) -> None:
    check_golden(name, parts[1][name], parts[0])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chunked-show", ("show", "1")),
        ("chunked-trace-subtask", ("trace", "1", "--subtask", "2")),
        ("chunked-trace-latest", ("trace", "1", "--latest")),
        ("chunked-trace-no-subtask", ("trace", "1", "--subtask", "9")),
        ("chunked-plan-json", ("plan", "1", "--json")),
    ],
)
def test_a_task_in_subtasks_is_looked_at(parts: tuple[Path, dict[str, Ran]], name: str, words: tuple[str, ...]) -> None:
    check_golden(name, pm(*words, cwd=parts[0]), parts[0])


def test_latest_is_the_latest_iteration_of_each_subtask(parts: tuple[Path, dict[str, Ran]]) -> None:
    lines = pm("trace", "1", "--latest", "--raw", cwd=parts[0]).out.splitlines()
    answers = [json.loads(line) for line in lines if '"LLM_RESPONSE"' in line]
    seen = [(fact["subtask_id"], fact["iteration_index"]) for fact in answers]
    assert seen == [("task-001-sub-1", 0), ("task-001-sub-2", 1), ("task-001-sub-3", 0)]


def test_an_approved_plan_cannot_be_changed_any_more(parts: tuple[Path, dict[str, Ran]]) -> None:
    ran = pm("plan", "1", "--approve", cwd=parts[0])
    assert ran.code == 2
    assert "has no plan that waits" in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing listed here", "the plan cannot be carried out"),
        ('{"subtasks": [{"description": "a", "dependencies": ["z"]}]}', "not in the plan"),
        ('{"subtasks": [{"id": 1, "description": "a", "dependencies": [1]}]}', "wait for each other"),
        ("{", "not JSON"),
    ],
)
def test_a_plan_file_that_cannot_be_carried_out_is_refused_before_anything_is_written(
    project: Path, text: str, said: str
) -> None:
    known = environ(project)
    (project.parent / "plan.json").write_text(text)
    ran = pm("run", "build", cwd=project, **known)
    assert ran.code == 2
    assert said in ran.err
    assert not (project / ".pm-orchestrator" / "traces").exists()


def test_a_list_in_a_text_file_is_a_plan_and_never_chunking_ignores_lists(project: Path) -> None:
    known = environ(project)
    listed = project.parent / "plan.txt"
    listed.write_text("1. write the schema\n2. write the API\n")
    assert pm("run", "--plan", str(listed), "build", cwd=project, **known).code == 0
    assert [len(fact["data"]["subtasks"]) for fact in facts(project) if fact["event"] == "CHUNKING_PLAN"] == [2]
    prompt = "Do both:\n1. write the schema in schema.py\n2. write the API in api.py"
    never = {name: value for name, value in environ(project).items() if name != "PM_PLAN"}
    ran = pm("run", "--chunk", "never", "--task-id", "task-900", prompt, cwd=project, **never)
    assert "plan " not in ran.err


def test_the_plan_is_edited_in_the_editor_and_what_was_saved_runs(project: Path) -> None:
    known = {**environ(project), "EDITOR": editor(project, 'sed -i \'s/"tests"/"the tests"/\' "$1"')}
    assert pm("run", "--approve-plan", "build", cwd=project, **known).code == 6
    ran = pm("plan", "--edit", cwd=project, **known)
    assert ran.code == 0, ran.err
    plans = [fact["data"] for fact in facts(project) if fact["event"] == "CHUNKING_PLAN"]
    assert [(plan.get("mode"), plan["subtasks"][2]["title"]) for plan in plans] == [
        ("given", "tests"),
        ("edited", "the tests"),
    ]


def test_an_unchanged_plan_does_not_run_and_a_broken_one_is_kept_aside(project: Path) -> None:
    known = environ(project)
    assert pm("run", "--approve-plan", "build", cwd=project, **known).code == 6
    same = pm("plan", "--edit", cwd=project, **known, EDITOR="true")
    assert (same.code, same.err.strip()) == (0, "the plan is as it was   pm plan --approve runs it")
    broken = pm("plan", "--edit", cwd=project, **known, EDITOR=editor(project, 'echo "{broken" > "$1"'))
    assert broken.code == 2
    kept = Path(broken.err.split("correct ")[1].split(",")[0])
    assert kept.read_text() == "{broken\n"
    kept.unlink()
    assert pm("plan", "--edit", cwd=project, **known, EDITOR="false").code == 5
    assert [fact["event"] for fact in facts(project)][-1] == "CHUNKING_PLAN"


def test_at_a_terminal_the_plan_is_asked_about_and_edited_before_it_runs(project: Path) -> None:
    known = {**environ(project), "EDITOR": editor(project, 'sed -i \'s/"tests"/"the tests"/\' "$1"')}
    with Terminal(project, "run", "--approve-plan", "build", **known) as terminal:
        terminal.wait_for("y run it, e edit it, h TEXT plan again, s stop, Enter later?")
        terminal.send(b"e" + ENTER)
        terminal.wait_for("wait  3 the tests")
        terminal.send(b"y" + ENTER)
        text = terminal.wait_for("task-001 COMPLETE")
        assert "done  3 the tests" in text
        assert "whole PASS" in text
        assert terminal.ends() == 0


@pytest.mark.torture
def test_line_mode_repaints_one_table_and_leaves_it_finished(project: Path) -> None:
    slow = [{**reply, "delay_ms": 700} for reply in REPLIES]
    with Terminal(project, "--line", **environ(project, *slow)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"build the shop" + ENTER)
        terminal.wait_for("/3 subtasks · ")
        terminal.wait_for("it 1   REJECT Q2, asking again")
        text = terminal.wait_for("task-001 COMPLETE")
        terminal.pump(0.5)
        text = terminal.text()
        assert text.count(" 1 schema") == 1, "the table was repainted in place"
        assert "done  2 API             2 it" in text
        terminal.send(b"/plan" + ENTER)
        terminal.wait_for("task-001 plan · 3 subtasks · given")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_line_mode_edits_and_approves_a_plan(project: Path) -> None:
    known = environ(project)
    known |= {"EDITOR": editor(project, 'sed -i \'s/"tests"/"the tests"/\' "$1"'), "PM_APPROVE_PLAN": "true"}
    with Terminal(project, "--line", **known) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"build the shop" + ENTER)
        terminal.wait_for("/plan 1 --approve")
        terminal.send(b"/plan --edit" + ENTER)
        terminal.wait_for("3 the tests")
        terminal.wait_for("task-001 COMPLETE")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
async def test_the_full_screen_shows_subtasks_and_answers_a_waiting_plan_with_a(project: Path) -> None:
    known = {**environ(project), "PM_APPROVE_PLAN": "true"}
    known.pop("PM_SCRIPT")
    async with screen(project, *({**reply, "delay_ms": 400} for reply in REPLIES), **known) as (app, pilot):
        await enter(pilot, "build the shop")
        await until(pilot, lambda: "/plan 1 --approve" in app.home.transcript.text)
        await until(pilot, lambda: [row.status for row in app.home.all_rows] == ["AWAITING_RESPONSE"])
        await pilot.press("escape", "a")
        await pilot.pause(0.1)
        await pilot.press("enter")
        await until(pilot, lambda: any("/3 subtasks · " in line for line in app.home.transcript.live))
        await until(pilot, lambda: any("REJECT Q2, asking again" in line for line in app.home.transcript.live))
        await until(pilot, lambda: "task-001 COMPLETE" in app.home.transcript.text)
        assert "done  3 tests" in app.home.transcript.text
        await until(pilot, lambda: app.home.all_rows[0].status == "COMPLETE")
        app.home.action_do("open")
        await until(pilot, lambda: "3/3 subtasks" in str(pilot.app.screen.query("#task-lines").first().render()))
        assert "error" not in notices(pilot)


def test_http_tells_how_each_subtask_stands_and_the_page_shows_it(project: Path) -> None:
    prompt = (
        "Do all of it:\n1. write the schema in schema.py\n2. write the API in api.py\n3. write tests in test_api.py"
    )
    with serving(project, [dict(reply) for reply in REPLIES]) as served:
        answer = served.client.post("/api/tasks", json={"prompt": prompt, "chunk": "always"})
        assert answer.status_code == 202, answer.text
        task = served.until_ended("task-001")
        assert task["status"] == "COMPLETE", task
        assert [(one["number"], one["status"], one["iterations"]) for one in task["subtasks"]] == [
            (1, "done", 1), (2, "done", 2), (3, "done", 1),
        ]  # fmt: skip
        page = served.client.get("/tasks/task-001").text
        assert "Subtasks (3 of 3 done)" in page
        assert 'id="subtask-2"' in page
        named = served.client.get("/api/tasks/task-001/trace", params={"subtask": "2"}).json()
        assert {entry["subtask_id"] for entry in named["entries"]} == {"task-001-sub-2"}


def fact(event: str, subtask: str | None = None, index: int | None = None, **data: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"timestamp": "2026-01-01T00:00:00.000Z", "event": event, "session_id": "s"}
    found |= {"task_id": "task-015", "data": data}
    return {
        **found,
        **({"subtask_id": subtask} if subtask else {}),
        **({} if index is None else {"iteration_index": index}),
    }


def planned(count: int) -> list[dict[str, Any]]:
    subtasks = [
        {"id": f"task-015-sub-{n}", "title": f"part {n} {HOSTILE}", "dependencies": []} for n in range(1, count + 1)
    ]
    request = {
        "prompt": "x",
        "workspace": "/w",
        "limits": {"max_iterations": 3, "parallel": 3},
        "executor": {"name": "e"},
    }
    return [fact("USER_REQUEST", **request), fact("SYSTEM_RULES", rules=""), fact("CHUNKING_PLAN", subtasks=subtasks)]


def test_a_thousand_subtasks_show_those_that_matter_and_count_the_rest() -> None:
    board = SubtaskBoard()
    for one in planned(1000):
        board.fact(read_fact(one), now=0)
    board.fact(read_fact(fact("LLM_REQUEST", "task-015-sub-700", 0, prompt="x")), now=1)
    lines = board.table(now=5, most=8)
    assert len(lines) == 8
    assert lines[-1].startswith("  …     993 more: 993 wait")
    assert any(line.startswith("  run   700 part 700") and line.endswith("it 0   asking   4 s") for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)


def test_a_conflict_says_where_and_that_it_is_asked_again() -> None:
    progress = Progress("task-015", table=False)
    for one in planned(2):
        progress.fact(read_fact(one), now=0)
    name = "task-015-sub-2"
    merge = [{"id": "MERGE", "name": "Merges Cleanly", "passed": False}]
    told: list[str] = []
    for one in (
        fact("LLM_REQUEST", name, 0, prompt="x"),
        fact("LLM_RESPONSE", name, 0, output="done", status="COMPLETE", files_modified=["a.py"]),
        fact("QUALITY_JUDGMENT", name, 0, judgment="PASS", criteria_results=[{"id": "Q1", "passed": True}]),
        fact("QUALITY_JUDGMENT", name, 0, judgment="REJECT", criteria_results=merge, conflict=["a.py"]),
        fact("REJECTION_DETAILS", name, 0, criteria_failed=["MERGE"], modification_prompt="merge"),
        fact("ITERATION_END", name, 0, iteration_index=0, judgment="REJECT"),
    ):
        told += progress.fact(read_fact(one), now=1)
    assert [line.split("  ")[-1].strip() for line in told][-1] == "conflict in a.py, asking again"


def test_facts_that_are_no_facts_leave_the_board_as_it_was() -> None:
    board = SubtaskBoard()
    for one in planned(2):
        board.fact(read_fact(one), now=0)
    for bad in ({}, {"event": "LLM_REQUEST"}, {"event": 3, "data": []}, fact("LLM_REQUEST", "nobody", 0)):
        board.fact(read_fact(bad), now=1)
    assert [one.status for one in board.standings] == ["wait", "wait"]
