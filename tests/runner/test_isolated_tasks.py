"""Tasks in one folder: alone there a task works in it, beside another one in a worktree, and nothing is mixed up."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.core.request import Request
from runner.core.task import TaskOutcome
from runner.effects import TaskEffects
from runner.executors.scripted import ScriptedExecutor
from runner.isolation.folder_lease import FolderLease
from runner.supervisor import Supervisor
from runner.undo.review import decide, read_review
from runner.undo.undo import undo_task
from tests.runner.workspace.support import git, repository, write
from tracer.catalog.tasks import list_tasks
from tracer.drafts import executor_choice
from tracer.errors import ConflictError, UsageError
from tracer.facts import Limits
from tracer.journal.verify_trace import verify_trace
from tracer.names import Action
from tracer.statedir import StateDir

FILES = {"a.py": "A = 1\n", "b.py": "B = 1\n", ".gitignore": ".pm-orchestrator/\n.venv/\n", "dirty.txt": "old\n"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project", FILES)


def supervisor(project: Path) -> Supervisor:
    state_dir = StateDir(project / ".pm-orchestrator")

    def executor(request: Request) -> ScriptedExecutor:
        return ScriptedExecutor(Path(request.executor.script or ""), state_dir=state_dir.root)

    return Supervisor(state_dir, make_executor=executor, make_effects=TaskEffects)


def request(project: Path, *replies: dict[str, str | None] | str, isolation: str = "auto", **limits: Any) -> Request:
    """A task whose agent writes these files, one reply after another; a reply in words changes nothing."""
    script = project.parent / f"script-{len(list(project.parent.glob('script-*')))}.jsonl"
    told = [
        {"output": one} if isinstance(one, str) else {"output": f"Changed {', '.join(one)}", "files": one}
        for one in replies
    ]
    script.write_text("".join(json.dumps(one) + "\n" for one in told))
    return Request(
        prompt="Change the files",
        kind="change",
        workspace=str(project),
        executor=executor_choice("scripted", script=str(script)),
        limits=Limits(**limits),
        isolation=isolation,
    )


def lease(project: Path, task_id: str = "other") -> FolderLease:
    return FolderLease(project, state_dir=StateDir(project / ".pm-orchestrator").ensure(), task_id=task_id)


def left_over(project: Path) -> list[str]:
    return [
        *git(project, "worktree", "list").splitlines()[1:],
        *git(project, "for-each-ref", "--format=%(refname)", "refs/heads/pm", "refs/pm-orchestrator/*/chunk").split(),
        *(str(path) for path in (project / ".pm-orchestrator").glob("worktrees/*")),
    ]


async def until(found: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not found():
            await asyncio.sleep(0.02)


def status(project: Path) -> set[str]:
    return set(git(project, "status", "--porcelain").splitlines())


async def begun(tasks: Supervisor, task_id: str, event: str = "LLM_REQUEST") -> None:
    await until(lambda: event in Path(tasks.look(task_id).trace_file).read_text())


async def test_alone_a_task_works_in_the_folder_and_lets_go_of_it(project: Path) -> None:
    async with supervisor(project) as tasks:
        outcome = await tasks.wait(await tasks.submit(request(project, {"a.py": "A = 2\n"})))
    assert (outcome.status, outcome.isolation.where) == ("COMPLETE", "folder")
    assert "CHUNKING_PLAN" not in Path(outcome.trace_file).read_text()
    assert lease(project).take()


async def test_beside_another_task_it_works_apart_and_hands_over_when_the_folder_is_free(project: Path) -> None:
    write(project / "dirty.txt", "mine\n")
    write(project / "untracked.txt", "mine too\n")
    write(project / ".venv/bin/tool", "tool\n")
    other = lease(project)
    assert other.take()
    async with supervisor(project) as tasks:
        task = await tasks.submit(request(project, {"a.py": "A = 2\n", "untracked.txt": "changed\n"}))
        await begun(tasks, task, "ITERATION_END")
        (place,) = (project / ".pm-orchestrator/worktrees" / task).glob(f"{task}--*")
        assert (place / "dirty.txt").read_text() == "mine\n"
        assert (place / ".venv/bin/tool").exists() or not (place / ".venv").exists()
        write(project / "b.py", "B = 'of the other task'\n")
        assert (project / "a.py").read_text() == FILES["a.py"]
        other.release()
        outcome = await tasks.wait(task)
    assert (outcome.status, outcome.isolation.where) == ("COMPLETE", "worktree")
    assert [one.path for one in outcome.files] == ["a.py", "untracked.txt"]
    assert (project / "a.py").read_text() == "A = 2\n"
    assert (project / "b.py").read_text() == "B = 'of the other task'\n"
    assert left_over(project) == []
    assert verify_trace(Path(outcome.trace_file)).ok
    undo_task(StateDir(project / ".pm-orchestrator"), task)
    assert status(project) == {" M b.py", " M dirty.txt", "?? untracked.txt"}
    assert (project / "untracked.txt").read_text() == "mine too\n"


async def test_invariant_17_two_tasks_at_once_never_stand_in_each_others_diff_nor_undo(project: Path) -> None:
    state_dir = StateDir(project / ".pm-orchestrator")
    async with supervisor(project) as tasks:
        requests = [request(project, {f"{name}.txt": f"{name}\n"}) for name in ("one", "two", "three")]
        ids = [await tasks.submit(one) for one in requests]
        outcomes = [await tasks.wait(one) for one in ids]
    found = {name: outcome.files_modified for name, outcome in zip(("one", "two", "three"), outcomes, strict=True)}
    assert found == {"one": ("one.txt",), "two": ("two.txt",), "three": ("three.txt",)}
    assert {outcome.isolation.where for outcome in outcomes} == {"folder", "worktree"}
    for number, name in enumerate(("one", "two", "three")):
        assert [one.path for one in undo_task(state_dir, ids[number]).files] == [f"{name}.txt"]
    assert status(project) == set()


async def conflicting(project: Path, tasks: Supervisor, *replies: dict[str, str | None] | str) -> TaskOutcome:
    """A task in a worktree whose line the user changes before it is handed over."""
    other = lease(project)
    assert other.take()
    task = await tasks.submit(request(project, {"a.py": "A = 'theirs'\n"}, *replies))
    await begun(tasks, task, "ITERATION_END")
    write(project / "a.py", "A = 'mine'\n")
    other.release()
    outcome = await tasks.wait(task)
    assert (outcome.status, outcome.reason, outcome.isolation.conflicts) == ("AWAITING_RESPONSE", "conflict", ("a.py",))
    assert "A = 'theirs'" in outcome.isolation.text
    assert (project / "a.py").read_text() == "A = 'mine'\n"
    (row,) = list_tasks(StateDir(project / ".pm-orchestrator"))
    assert row.status == "AWAITING_RESPONSE"
    return outcome


async def test_a_conflict_waits_and_a_resume_tries_again(project: Path) -> None:
    async with supervisor(project) as tasks:
        task = (await conflicting(project, tasks)).task_id
        again = await tasks.wait(await tasks.resume(task))
        assert again.reason == "conflict"
        write(project / "a.py", FILES["a.py"])
        outcome = await tasks.wait(await tasks.resume(task))
    assert (outcome.status, outcome.judgments, outcome.isolation.conflicts) == ("COMPLETE", ("PASS",), ())
    assert (project / "a.py").read_text() == "A = 'theirs'\n"
    assert left_over(project) == []
    assert verify_trace(Path(outcome.trace_file)).ok


async def test_after_a_conflict_a_review_takes_in_what_is_kept_and_an_undo_takes_just_that_out(project: Path) -> None:
    async with supervisor(project) as tasks:
        task = (await conflicting(project, tasks)).task_id
    state_dir = StateDir(project / ".pm-orchestrator")
    review = await asyncio.to_thread(read_review, state_dir, task)
    assert review.away == "in a worktree"
    assert [(file.path, file.discarded, file.edited) for file in review.files] == [("a.py", {"a.py:1"}, True)]
    with pytest.raises(UsageError):
        await asyncio.to_thread(undo_task, state_dir, task)
    done = await asyncio.to_thread(decide, state_dir, task, keep=["."])
    assert [one.path for one in done.conflicts] == ["a.py"]
    write(project / "a.py", FILES["a.py"])
    await asyncio.to_thread(decide, state_dir, task, keep=["."])
    assert (project / "a.py").read_text() == "A = 'theirs'\n"
    await asyncio.to_thread(undo_task, state_dir, task)
    assert (project / "a.py").read_text() == FILES["a.py"]


async def test_after_a_conflict_a_hint_has_it_done_again_on_the_files_as_they_are(project: Path) -> None:
    async with supervisor(project) as tasks:
        task = (await conflicting(project, tasks, {"a.py": "A = 'both'\n"})).task_id
        outcome = await tasks.wait(await tasks.respond(task, "hint", text="keep mine too"))
    assert outcome.status == "COMPLETE"
    assert (project / "a.py").read_text() == "A = 'both'\n"
    asked = [line for line in Path(outcome.trace_file).read_text().splitlines() if "LLM_REQUEST" in line]
    assert "A = 'mine'" in asked[-1]
    assert verify_trace(Path(outcome.trace_file)).ok
    undo_task(StateDir(project / ".pm-orchestrator"), task)
    assert (project / "a.py").read_text() == "A = 'mine'\n"


async def test_after_a_conflict_the_result_can_go_to_a_branch_or_away(project: Path) -> None:
    async with supervisor(project) as tasks:
        task = (await conflicting(project, tasks)).task_id
        outcome = await tasks.wait(await tasks.resume(task, into="result"))
    assert outcome.status == "COMPLETE"
    assert (project / "a.py").read_text() == "A = 'mine'\n"
    assert git(project, "show", "result:a.py") == "A = 'theirs'\n"
    assert left_over(project) == []


async def test_an_incomplete_task_keeps_its_worktree_and_a_resume_hands_over_all_of_it(project: Path) -> None:
    half, rest = {"a.py": "A = 2  # TODO: the rest\n"}, {"a.py": "A = 2\n", "b.py": "B = 2\n"}
    async with supervisor(project) as tasks:
        task = await tasks.submit(request(project, half, rest, isolation="worktree", max_iterations=1))
        outcome = await tasks.wait(task)
        assert (outcome.status, outcome.files_modified) == ("INCOMPLETE", ("a.py",))
        assert status(project) == set()
    write(project / "dirty.txt", "later\n")
    async with supervisor(project) as tasks:
        outcome = await tasks.wait(await tasks.resume(task))
    assert (outcome.status, outcome.files_modified) == ("COMPLETE", ("a.py", "b.py"))
    assert left_over(project) == []
    undo_task(StateDir(project / ".pm-orchestrator"), task)
    assert status(project) == {" M dirty.txt"}


LINES = "".join(f"LINE_{number} = {number}\n" for number in range(12))


@pytest.mark.parametrize(("action", "text"), [("accept", "A = 'half'  # TODO: implement\n"), ("continue", "A = 2\n")])
async def test_invariant_17_what_the_user_does_while_a_task_waits_is_theirs(
    project: Path, action: Action, text: str
) -> None:
    half = {"a.py": "A = 'half'  # TODO: implement\n"}
    state_dir = StateDir(project / ".pm-orchestrator")
    async with supervisor(project) as tasks:
        task = await tasks.submit(request(project, half, {"a.py": text}, max_iterations=1, on_limit="ask"))
        assert (await tasks.wait(task)).status == "AWAITING_RESPONSE"
        (project / "b.py").unlink()
        write(project / "mine.txt", "mine\n")
        outcome = await tasks.wait(await tasks.respond(task, action))
    assert (outcome.status, outcome.files_modified) == ("COMPLETE", ("a.py",))
    assert (project / "a.py").read_text() == text
    undo_task(state_dir, task)
    assert (project / "a.py").read_text() == FILES["a.py"]
    assert not (project / "b.py").exists()
    assert (project / "mine.txt").exists()


@pytest.mark.parametrize("paused", ["waits", "stopped"])
async def test_invariant_17_a_task_that_left_the_folder_does_not_take_what_others_changed_there_for_its_work(
    project: Path, paused: str
) -> None:
    """It waits for the user, or was stopped while its agent worked; the other task changes the same file as well."""
    write(project / "long.py", LINES)
    first = {"long.py": LINES.replace("LINE_0 = 0", "LINE_0 = None  # TODO: implement"), "half.py": "HALF = 1\n"}
    theirs = LINES.replace("LINE_11 = 11", "LINE_11 = 'theirs'")
    last = {"long.py": theirs.replace("LINE_0 = 0", "LINE_0 = 'zero'")}
    limits = {"max_iterations": 1, "on_limit": "ask"} if paused == "waits" else {}
    asked = request(project, first, last, **limits)
    script = Path(asked.executor.script or "")
    whole = script.read_text()
    if paused == "stopped":
        script.write_text(
            whole.replace('"output"', '"delay_ms": 60000, "output"').replace('"delay_ms": 60000, ', "", 1)
        )
    async with supervisor(project) as tasks:
        mine = await tasks.submit(asked)
        await begun(tasks, mine, '"iteration_index":1' if paused == "stopped" else "ITERATION_END")
        if paused == "stopped":
            await tasks.stop(mine)
        await tasks.wait(mine)
        changes = {"long.py": first["long.py"].replace("LINE_11 = 11", "LINE_11 = 'theirs'"), "b.py": "B = 'theirs'\n"}
        other = await tasks.wait(await tasks.submit(request(project, changes)))
        assert (other.isolation.where, [one.path for one in other.files]) == ("folder", ["b.py", "long.py"])
    script.write_text(whole)
    async with supervisor(project) as tasks:
        if paused == "waits":
            await tasks.respond(mine, "continue", max_iterations=2)
        else:
            await tasks.resume(mine)
        outcome = await tasks.wait(mine)
    assert (outcome.status, [one.path for one in outcome.files]) == ("COMPLETE", ["half.py", "long.py"])
    assert (outcome.files[1].added, outcome.files[1].removed) == (1, 1)
    undo_task(StateDir(project / ".pm-orchestrator"), mine)
    assert (project / "long.py").read_text() == theirs
    assert (project / "b.py").read_text() == "B = 'theirs'\n"
    assert not list((project / ".pm-orchestrator/control").glob("left-*"))


async def test_without_git_a_task_waits_for_its_turn_and_a_worktree_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "plain"
    write(project / "a.py", "A = 1\n")
    other = lease(project)
    assert other.take()
    async with supervisor(project) as tasks:
        task = await tasks.submit(request(project, {"a.py": "A = 2\n"}))
        await begun(tasks, task, "SYSTEM_RULES")
        await asyncio.sleep(0.3)
        assert (project / "a.py").read_text() == "A = 1\n"
        other.release()
        assert (await tasks.wait(task)).status == "COMPLETE"
        with pytest.raises(UsageError, match="no worktree"):
            await tasks.wait(await tasks.submit(request(project, {"a.py": "A = 3\n"}, isolation="worktree")))
    assert (project / "a.py").read_text() == "A = 2\n"


def test_an_undo_does_not_touch_a_folder_that_a_task_works_in(project: Path) -> None:
    async def change() -> str:
        async with supervisor(project) as tasks:
            return (await tasks.wait(await tasks.submit(request(project, {"a.py": "A = 2\n"})))).task_id

    task = asyncio.run(change())
    other = lease(project)
    assert other.take()
    with pytest.raises(ConflictError, match="works in"):
        undo_task(StateDir(project / ".pm-orchestrator"), task)
    other.release()
    assert undo_task(StateDir(project / ".pm-orchestrator"), task).files


def test_a_folder_belongs_to_one_task_with_what_lies_above_and_below_until_its_process_ends(tmp_path: Path) -> None:
    for name in ("top/inner", "top/beside", "top/repository/.git", "top/repository/part", "top/repository/other"):
        (tmp_path / name).mkdir(parents=True)
    root = tmp_path / "top"
    held = lease(root / "inner")
    assert held.take()
    assert held.take()
    assert [lease(root / name).take() for name in ("inner", ".", "beside")] == [False, False, True]
    assert [lease(root / "repository" / name).take() for name in ("part", "other", ".")] == [True, False, False]
    code = (
        "import sys; from pathlib import Path; from runner.isolation.folder_lease import FolderLease; "
        "from tracer.statedir import StateDir; folder = Path(sys.argv[1]); "
        "one = FolderLease(folder, state_dir=StateDir(folder / '.pm-orchestrator').ensure(), task_id='task-009'); "
        "print(one.take(), flush=True); sys.stdin.read()"
    )
    held.release()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(root / "inner")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"True\n"
        assert not held.take()
        process.kill()
        process.wait()
    assert held.take()
