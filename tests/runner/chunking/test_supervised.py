"""Subtasks with real files, real worktrees and the supervisor: conflicts, branches, approval, stops and leftovers."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.isolation.worktrees import GitWorktrees
from runner.workspace.git.refs import release_baselines
from tests.runner.chunking import project as support
from tests.runner.chunking.project import DONE, FILES, PLAN, files, left_over, replies, request, supervisor
from tests.runner.memory import run_task
from tests.runner.workspace.support import git
from tracer.clock import monotonic
from tracer.errors import UsageError
from tracer.journal.verify_trace import verify_trace


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return support.make(tmp_path)


def facts(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_bytes().split(b"\n") if line]


async def test_four_parts_two_of_them_on_one_line_end_as_one_clean_result(project: Path) -> None:
    (project / "notes.txt").write_text("the person's own\n")
    git(project, "add", "notes.txt")
    (project / "mine.txt").write_text("untracked\n")
    git(project, "status")
    index, head = (project / ".git" / "index").read_bytes(), git(project, "rev-parse", "HEAD")
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project))
    assert (outcome.status, outcome.reason) == ("COMPLETE", "passed")
    assert outcome.files_modified == ("alpha.py", "app.py", "delta.py")
    assert files(project) == {**DONE, "notes.txt": "the person's own\n", "mine.txt": "untracked\n"}
    assert (project / ".git" / "index").read_bytes() == index
    assert git(project, "rev-parse", "HEAD") == head
    assert left_over(project) == []
    assert verify_trace(outcome.trace_file).findings == ()
    conflicts = [fact for fact in facts(outcome.trace_file) if fact["data"].get("conflict")]
    assert [fact["data"]["conflict"] for fact in conflicts] == [["app.py"]]
    assert all("subtask_id" in fact for fact in facts(outcome.trace_file) if fact["event"] == "LLM_REQUEST")
    assert [one.status for one in outcome.subtasks] == ["done"] * 4


async def test_a_result_for_a_branch_leaves_every_file_alone(project: Path) -> None:
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project, into="result"))
    assert outcome.status == "COMPLETE"
    assert files(project) == FILES
    assert git(project, "show", "result:app.py") == DONE["app.py"]
    assert git(project, "log", "--format=%s", "main..result").splitlines() == ["Result of task-001"]
    assert facts(outcome.trace_file)[-1]["data"]["branch"] == "result"


async def test_a_branch_that_exists_is_refused_before_any_agent_is_asked(project: Path) -> None:
    git(project, "branch", "taken")
    async with supervisor(project) as tasks:
        task = await tasks.submit(request(project, into="taken"))
        with pytest.raises(UsageError, match="taken"):
            await tasks.wait(task)
        assert "LLM_REQUEST" not in [fact["event"] for fact in facts(tasks.look(task).trace_file)]


async def test_without_git_subtasks_run_one_after_another_in_the_folder(tmp_path: Path) -> None:
    project = support.make(tmp_path, is_repository=False)
    script = [reply for reply in replies() if "to gamma" not in reply.get("match", "")]
    gamma = {"match": "to gamma", "output": "Changed app.py", "files": {"app.py": DONE["app.py"]}}
    support.write_script(project, [*script, gamma])
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project))
    assert outcome.status == "COMPLETE"
    assert files(project) == DONE
    plan = next(fact["data"] for fact in facts(outcome.trace_file) if fact["event"] == "CHUNKING_PLAN")
    assert plan["isolation"] == "direct"
    assert "not in a git repository" in plan["why"]
    loops = [fact["subtask_id"] for fact in facts(outcome.trace_file) if "subtask_id" in fact]
    assert len([n for n, one in enumerate(loops) if n == 0 or loops[n - 1] != one]) == 4


@pytest.mark.torture
async def test_what_the_person_changed_on_the_same_line_meanwhile_is_never_overwritten(project: Path) -> None:
    async with supervisor(project) as tasks:
        task = await tasks.submit(request(project))
        while "ITERATION_END" not in Path(tasks.look(task).trace_file).read_text():
            await asyncio.sleep(0.02)
        (project / "app.py").write_text('VALUE = "mine"\n')
        waits = await tasks.wait(task)
        assert (waits.status, waits.reason, waits.isolation.conflicts) == ("AWAITING_RESPONSE", "conflict", ("app.py",))
        assert files(project) == {**FILES, "app.py": 'VALUE = "mine"\n'}
        with pytest.raises(UsageError):  # the subtasks are merged
            await tasks.respond(task, "hint", text="keep mine")
        outcome = await tasks.wait(await tasks.resume(task, into="result"))
    assert outcome.status == "COMPLETE"
    assert files(project) == {**FILES, "app.py": 'VALUE = "mine"\n'}
    assert git(project, "show", "result:app.py") == DONE["app.py"]
    assert left_over(project) == []


async def test_a_plan_waits_and_an_impossible_one_is_refused_with_nothing_recorded(project: Path) -> None:
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project, approve_plan=True))
        assert (outcome.status, outcome.reason) == ("AWAITING_RESPONSE", "plan")
        before = facts(outcome.trace_file)
        bad = {"subtasks": [{"description": "a", "dependencies": [1]}]}
        with pytest.raises(UsageError, match="cannot be carried out"):
            await tasks.respond(outcome.task_id, "continue", plan=bad)
        assert facts(outcome.trace_file) == before
        edited = {"subtasks": PLAN["subtasks"][:2]}
        outcome = await tasks.wait(await tasks.respond(outcome.task_id, "continue", plan=edited))
        assert outcome.status == "COMPLETE"
        assert files(project) == {**FILES, "alpha.py": DONE["alpha.py"], "app.py": 'VALUE = "b"\n'}
        with pytest.raises(UsageError):
            await tasks.submit(request(project, plan=bad))


@pytest.mark.torture
async def test_a_stop_in_the_middle_ends_every_agent_and_a_resume_goes_on(project: Path) -> None:
    support.write_script(project, replies(delay_ms=60_000))
    async with supervisor(project) as tasks:
        task = await tasks.submit(request(project))
        while "ITERATION_END" not in Path(tasks.look(task).trace_file).read_text():
            await asyncio.sleep(0.02)
        await tasks.stop(task)
        stopped = await tasks.wait(task)
        assert stopped.status == "UNFINISHED"
        assert files(project) == FILES
    support.write_script(project, replies())
    async with supervisor(project) as tasks:
        outcome = await tasks.wait(await tasks.resume(task))
    assert outcome.status == "COMPLETE"
    assert files(project) == DONE
    assert left_over(project) == []
    asked = [fact["subtask_id"] for fact in facts(outcome.trace_file) if fact["event"] == "LLM_RESPONSE"]
    assert asked.count("task-001-sub-1") == 1


async def test_an_incomplete_task_hands_nothing_over_and_a_resume_keeps_what_was_done(project: Path) -> None:
    script = [reply for reply in replies() if "delta" not in reply.get("match", "")]
    lazy = {"match": "delta", "output": "TODO: create it"}
    support.write_script(project, [*script, lazy])
    async with supervisor(project) as tasks:
        first = await run_task(tasks, request(project, max_iterations=1))
        assert (first.status, first.reason) == ("INCOMPLETE", "max_iterations")
        assert files(project) == FILES
        assert git(project, "worktree", "list").count("\n") == 1
    support.write_script(project, [*script, lazy, replies()[-1]])
    async with supervisor(project) as tasks:
        outcome = await tasks.wait(await tasks.resume("task-001", overrides={"max_iterations": 3}))
    assert outcome.status == "COMPLETE"
    assert files(project) == DONE
    assert left_over(project) == []
    asked = [fact.get("subtask_id") for fact in facts(outcome.trace_file) if fact["event"] == "LLM_REQUEST"]
    assert set(asked) == {"task-001-sub-4"}


@pytest.mark.torture
async def test_what_a_killed_process_left_of_an_ended_task_goes_with_the_next_start(project: Path) -> None:
    async with supervisor(project) as tasks:
        await run_task(tasks, request(project))
    apart = GitWorktrees(project, state_dir=project / ".pm-orchestrator", task_id="task-001")
    await apart.begin()
    await apart.open("task-001-sub-1")
    (project / ".pm-orchestrator" / "locks" / "task-001.lock").write_text("{}")
    assert len(left_over(project)) > 4
    async with supervisor(project):
        assert left_over(project) == []


def two_parts(**alpha: Any) -> list[dict[str, Any]]:
    """Answers to the first two parts, the first one's as told."""
    beta = {"match": "to beta", "output": "Changed app.py", "files": {"app.py": DONE["app.py"]}}
    return [beta, {"match": "Create alpha.py", "output": "Created alpha.py", **alpha}]


TWO = {"subtasks": PLAN["subtasks"][:2]}
UNFINISHED = {"files": {"alpha.py": "# TODO\n"}}


@pytest.mark.torture
async def test_two_worktrees_of_one_repository_never_share_a_task_of_the_same_id(project: Path) -> None:
    support.write_script(project, two_parts(**UNFINISHED))
    async with supervisor(project) as tasks:
        first = await run_task(tasks, request(project, plan=TWO, max_iterations=1))
    assert first.status == "INCOMPLETE"
    other = project.parent / "elsewhere" / "other"
    git(project, "worktree", "add", "-q", str(other))
    support.write_script(other, two_parts(files={"alpha.py": "ALPHA = 2\n"}))
    async with supervisor(other) as tasks:
        second = await run_task(tasks, request(other, plan=TWO))
    assert (second.task_id, second.status) == (first.task_id, "COMPLETE")
    assert (other / "alpha.py").read_text() == "ALPHA = 2\n"
    release_baselines(other, [second.task_id], state_dir=other / ".pm-orchestrator")
    support.write_script(project, [*two_parts(**UNFINISHED), two_parts(files={"alpha.py": DONE["alpha.py"]})[1]])
    async with supervisor(project) as tasks:
        ended = await tasks.wait(await tasks.resume(first.task_id))
    assert ended.status == "COMPLETE"
    assert (project / "alpha.py").read_text() == DONE["alpha.py"]
    plan = next(fact["data"] for fact in facts(ended.trace_file) if fact["event"] == "CHUNKING_PLAN")
    assert plan["done"] == ["task-001-sub-2"]


@pytest.mark.torture
async def test_a_task_takes_up_nothing_of_an_earlier_one_whose_record_was_removed(project: Path) -> None:
    support.write_script(project, two_parts(**UNFINISHED))
    async with supervisor(project) as tasks:
        assert (await run_task(tasks, request(project, plan=TWO, max_iterations=1))).status == "INCOMPLETE"
    shutil.rmtree(project / ".pm-orchestrator")
    (project / "notes.txt").write_text("changed since\n")
    alpha = two_parts(files={"alpha.py": "ALPHA = 1\n"})[1]
    beta = {"match": "to beta", "output": "Changed app.py", "files": {"app.py": 'VALUE = "new"\n'}}
    support.write_script(project, [alpha, beta])
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project, plan=TWO))
    assert outcome.status == "COMPLETE"
    assert outcome.files_modified == ("alpha.py", "app.py")
    assert (project / "app.py").read_text() == 'VALUE = "new"\n'


async def test_a_task_of_which_nothing_is_done_is_continued_on_the_files_as_they_are_now(project: Path) -> None:
    refused = {"error": {"kind": "auth", "message": "no key"}}
    script = [{"match": "Create alpha.py", **refused}, {"match": "to beta", **refused}]
    support.write_script(project, script)
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project, plan=TWO))
        assert (outcome.status, outcome.reason) == ("ERROR", "auth")
        (project / "notes.txt").write_text("changed since\n")
        support.write_script(project, [*script, *two_parts(files={"alpha.py": "ALPHA = 1\n"})])
        outcome = await tasks.wait(await tasks.resume(outcome.task_id))
    assert outcome.status == "COMPLETE"
    assert outcome.files_modified == ("alpha.py", "app.py")


@pytest.mark.torture
async def test_the_test_command_judges_each_part_and_the_whole(project: Path) -> None:
    """A check that only the merged result can pass: every part alone fails it until it is made for parts too."""
    seen = project.parent / "seen.txt"
    command = f"sh -c 'pwd >> {seen}; test ! -e alpha.py || grep -q . alpha.py'"
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project, checks={"given": {"test": command}}))
    assert outcome.status == "COMPLETE"
    places = seen.read_text().split()
    assert len(places) >= 5
    assert str(project) not in places  # on copies: of each part, and of the whole


@pytest.mark.torture
async def test_a_check_ends_with_the_tasks_time_verifies_nothing_and_is_on_record_while_it_runs(project: Path) -> None:
    seen = project.parent / "seen.txt"
    command = f"cat {project}/.pm-orchestrator/control/processes/*.json > {seen}; sleep 30"
    checks = {"given": {"test": command}}
    async with supervisor(project) as tasks:
        began = monotonic()
        outcome = await run_task(
            tasks, request(project, prompt="Create alpha.py", plan=None, chunk="never", timeout_s=1.0, checks=checks)
        )
        took = monotonic() - began
    assert [one.why for one in outcome.not_verified] == ["the tests ran out of time"]
    assert took < 25
    assert json.loads(seen.read_text())["label"] == "check of task-001"


@pytest.mark.torture
async def test_a_persons_plan_may_give_a_subtask_to_another_agent_and_a_models_plan_may_not(project: Path) -> None:
    parts = [{**PLAN["subtasks"][0], "executor": "replay", "model": "m2"}, PLAN["subtasks"][1]]
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project, plan={"subtasks": parts}))
        asked = [fact["data"] for fact in facts(outcome.trace_file) if fact["event"] == "LLM_REQUEST"]
        assert [(one["executor"], one["model"]) for one in asked] == [("replay", "m2"), ("scripted", None)]
        with pytest.raises(UsageError, match="cannot be carried out"):
            await tasks.submit(request(project, plan={"subtasks": [{**parts[0], "executor": "nobody"}, parts[1]]}))
    support.write_script(project, [{"output": json.dumps({"subtasks": parts})}, *replies()])
    async with supervisor(project) as tasks:
        outcome = await run_task(tasks, request(project, plan=None, chunk="always"))
    assert {f["data"]["executor"] for f in facts(outcome.trace_file) if f["event"] == "LLM_REQUEST"} == {"scripted"}
