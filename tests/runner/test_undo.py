"""`undo_task`: what a task changed is put back, later edits stay, and a killed undo is finished by the next."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from runner.undo.undo import UndoResult, undo_task
from runner.workspace.git.repository import Git
from runner.workspace.workspace import open_workspace
from tests.runner.chunking import project as parts
from tests.runner.workspace.support import git, repository, write
from tracer.blobs import DirectoryBlobs
from tracer.conversation import ConversationTracer
from tracer.errors import ConflictError, NotFoundError, UsageError
from tracer.journal.reading import scan
from tracer.lock import FileLock
from tracer.statedir import StateDir


def shell(folder: Path, command: str) -> None:
    subprocess.run(["sh", "-c", command], cwd=folder, check=True, capture_output=True)


async def _record(folder: Path, commands: tuple[str, ...], *, answered: bool) -> StateDir:
    state = StateDir(folder / ".pm-orchestrator").ensure()
    workspace = open_workspace(folder, state_dir=state.root, blobs=DirectoryBlobs(state.blobs))
    async with ConversationTracer(state_dir=state, session_id="s", task_id="task-001") as trace:
        await trace.log_user_request("do it", extra={"workspace": str(folder)})
        await trace.log_system_rules("rules")
        for number, command in enumerate(commands):
            base = await workspace.baseline(f"task-001/main/{number}")
            await trace.log_llm_request("do it", number, extra={"base": base})
            await asyncio.to_thread(shell, folder, command)
            if not answered:
                return state
            changes = await workspace.changes(base)
            extra = {"left_blob": changes.left} if changes.left else {}
            await trace.log_llm_response("Done.", "COMPLETE", changes.paths, number, extra=extra)
        await trace.log_final_summary("COMPLETE", len(commands), [])
    return state


def task(folder: Path, *commands: str, answered: bool = True) -> StateDir:
    """A finished task whose answers ran `commands`."""
    return asyncio.run(_record(folder, commands, answered=answered))


def files(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Every file with its kind and mode, but those of git and pm."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] in {".git", ".pm-orchestrator"} or (path.is_dir() and not path.is_symlink()):
            continue
        is_link = path.is_symlink()
        content = os.fsencode(path.readlink()) if is_link else path.read_bytes()
        found[name] = ("link" if is_link else "x" if path.stat().st_mode & 0o100 else "f", content)
    return found


def repository_view(folder: Path) -> tuple[str, ...]:
    """HEAD, refs, stash, status, settings and hooks as the user sees them."""
    asked = (
        ("symbolic-ref", "HEAD"),
        ("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags", "refs/stash"),
        ("stash", "list"),
        ("status", "--porcelain"),
        ("config", "--local", "--list"),
    )
    hooks = sorted(path.name for path in (folder / ".git" / "hooks").iterdir() if path.suffix != ".sample")
    return (*(git(folder, *words) for words in asked), *hooks)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "project", {"a.py": "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n", "sub/b.py": "b = 1\n"})
    write(folder / ".git" / "info" / "exclude", ".pm-orchestrator/\n")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "config", "user.name", "a")
    (folder / "data.bin").write_bytes(bytes(range(256)))
    write(folder / "run.sh", "#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("a.py")
    git(folder, "add", "run.sh", "link")
    write(folder / "notes.txt", "mine\n")
    write(folder / "a.py", "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n")
    return folder


WORK = (
    "printf 'a = 7\\nb = 2\\nc = 3\\nd = 4\\ne = 5\\nf = 6\\n' > a.py; rm -r sub; mkdir new; echo x > new/c.py; "
    "chmod -x run.sh; ln -sf b link; printf 'other' > data.bin; mv notes.txt 'notes with blanks.txt'"
)


@pytest.mark.parametrize("with_git", [True, False])
def test_everything_is_as_it_was_and_a_second_undo_puts_the_work_in_again(project: Path, with_git: bool) -> None:
    if not with_git:
        shutil.rmtree(project / ".git")
    before = files(project)
    state = task(project, WORK)
    after = files(project)
    assert after != before
    shown = undo_task(state, "task-001", dry_run=True)
    assert files(project) == after
    done = undo_task(state, "task-001")
    assert files(project) == before
    assert (done.kind, done.whole) == ("undo", True)
    assert shown.files == done.files
    assert {one.path: one.status for one in done.files}["sub/b.py"] == "restored"
    assert not (project / "new").exists()
    again = undo_task(state, "task-001")
    assert (again.kind, files(project)) == ("redo", after)
    assert undo_task(state, "task-001").kind == "undo"
    assert files(project) == before


@pytest.mark.parametrize("with_git", [True, False])
def test_invariant_16_later_edits_of_the_user_stay(project: Path, with_git: bool) -> None:
    if not with_git:
        shutil.rmtree(project / ".git")
    state = task(project, WORK)
    write(project / "a.py", "a = 7\nb = 2\nc = 3\nd = 4\ne = 5\nf = 'mine'\n")
    write(project / "later.txt", "later\n")
    done = undo_task(state, "task-001")
    assert done.whole
    assert (project / "a.py").read_text() == "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 'mine'\n"
    assert (project / "later.txt").exists()


def test_the_same_lines_are_a_conflict_that_keeps_both_versions(project: Path) -> None:
    state = task(project, WORK)
    write(project / "a.py", "a = 'mine'\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n")
    write(project / "new/c.py", "edited\n")
    done = undo_task(state, "task-001")
    assert {one.path: one.kept_as for one in done.conflicts} == {"a.py": "a.before-task-001.py", "new/c.py": ""}
    assert (project / "a.py").read_text().startswith("a = 'mine'")
    assert (project / "a.before-task-001.py").read_text().startswith("a = 1\n")
    assert (project / "sub/b.py").exists()


def test_one_iteration_is_undone_and_the_others_stay(project: Path) -> None:
    state = task(project, "echo one > one.txt; echo 0 > both.txt", "echo two > two.txt; echo 1 >> both.txt")
    undo_task(state, "task-001", iteration=0)
    assert not (project / "one.txt").exists()
    assert (project / "two.txt").exists()
    with pytest.raises(NotFoundError):
        undo_task(state, "task-001", iteration=7)
    undo_task(state, "task-001", iteration=0)
    assert (project / "one.txt").exists()
    undo_task(state, "task-001")
    assert not {"one.txt", "two.txt", "both.txt"} & files(project).keys()


@pytest.mark.parametrize(
    "command",
    [
        "git reset -q --hard; git clean -fdq",
        "git stash -u -q",
        "rm -rf .git",
        "rm -rf .git; git init -q; git add -A; git -c user.name=x -c user.email=x commit -qm new",
        "rm -rf .git/objects; mkdir .git/objects",
        "printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "git config core.hooksPath /tmp/x; rm -rf .git/hooks/own",
        "git add -A; git commit -qm theirs",
        "git checkout -q -b elsewhere; git commit -qam theirs; git branch -D main",
        "git stash drop -q; git reflog expire --expire=now --all; git gc -q --prune=now; rm -f notes.txt",
        "git update-ref HEAD $(git commit-tree HEAD^{tree} -m other </dev/null); git tag planted",
    ],
)
def test_what_collateral_damage_took_comes_back(project: Path, command: str) -> None:
    write(project / "sub/b.py", "b = 'stashed'\n")
    git(project, "stash", "push", "-q", "sub/b.py")
    write(project / ".git/hooks/own", "#!/bin/sh\n")
    view, before = repository_view(project), files(project)
    state = task(project, command)
    undo_task(state, "task-001", dry_run=True)
    done = undo_task(state, "task-001")
    assert files(project) == before
    assert repository_view(project) == view
    assert done.whole, done
    git(project, "fsck", "--connectivity-only", "--no-dangling")


def test_commits_that_the_user_made_since_stay_and_it_is_said(project: Path) -> None:
    state = task(project, "git add -A; git commit -qm theirs; echo x > x.txt")
    write(project / "later.txt", "x")
    git(project, "add", "later.txt")
    git(project, "commit", "-qm", "mine")
    head = git(project, "rev-parse", "HEAD")
    done = undo_task(state, "task-001")
    assert git(project, "rev-parse", "HEAD") == head
    assert any("main" in one for one in done.lost)
    assert not (project / "x.txt").exists()


def test_the_users_index_stays_where_the_task_did_not_touch_git(project: Path) -> None:
    state = task(project, "echo z > z.txt; echo more >> a.py")
    git(project, "add", "notes.txt")
    staged = git(project, "diff", "--cached")
    undo_task(state, "task-001")
    assert git(project, "diff", "--cached") == staged
    assert not (project / "z.txt").exists()


def test_the_index_comes_back_each_time_though_git_status_writes_it_anew(project: Path) -> None:
    git(project, "commit", "-qam", "all")
    state = task(project, "sed -i 's/a = 1/a = 7/' a.py; git commit -qam wip")
    git(project, "add", "data.bin")
    staged = git(project, "status", "--porcelain")
    git(project, "reset", "-q")
    left = (git(project, "rev-parse", "HEAD"), git(project, "status", "--porcelain"))
    for kind, seen in (("undo", None), ("redo", left), ("undo", None), ("redo", left)):
        os.utime(project / "sub" / "b.py", (1_000_000, 1_000_000 + len(kind)))
        git(project, "status")
        done = undo_task(state, "task-001")
        assert (done.kind, done.whole) == (kind, True)
        assert "the index" in done.repository
        assert git(project, "diff", "--cached") == ""
        assert seen is None or (git(project, "rev-parse", "HEAD"), git(project, "status", "--porcelain")) == seen
    git(project, "add", "data.bin")
    undo_task(state, "task-001")
    assert "A  data.bin" in staged
    assert "data.bin" in git(project, "diff", "--cached", "--name-only")  # what the user has staged since stays


def test_an_agent_that_was_killed_before_it_answered_is_undone_too(project: Path) -> None:
    before = files(project)
    state = task(project, WORK, answered=False)
    assert undo_task(state, "task-001").whole
    assert files(project) == before


def test_a_workspace_below_the_top_of_its_repository(project: Path) -> None:
    before = files(project)
    state = task(project / "sub", "echo x > b.py; echo y > y.py")
    assert [one.path for one in undo_task(state, "task-001").files] == ["b.py", "y.py"]
    shutil.rmtree(project / "sub" / ".pm-orchestrator")
    assert files(project) == before


def test_a_task_that_changed_nothing_or_runs_or_is_unknown(project: Path) -> None:
    state = task(project, "true")
    assert undo_task(state, "task-001") == UndoResult("task-001", "undo")
    with pytest.raises(NotFoundError):
        undo_task(state, "task-002")
    lock = FileLock(state.task_lock("task-001"))
    lock.acquire()
    with pytest.raises(ConflictError):
        undo_task(state, "task-001")
    with pytest.raises(ConflictError):
        undo_task(state, "task-001", dry_run=True)
    lock.release()
    shutil.move(project, project.with_name("moved"))
    with pytest.raises(UsageError):
        undo_task(StateDir(project.with_name("moved") / ".pm-orchestrator"), "task-001")


INSIDE = "printf 'i = 2\\n' > inner/i.py; rm inner/loose.bin; mv inner/old.py inner/new.py; chmod +x inner/new.py"
COMMITTED = "git -C inner -c user.name=x -c user.email=x commit -qam theirs"
GONE = "inner: the repository there is gone or cannot be read; nothing in it is put back"


def with_a_repository_inside(project: Path) -> dict[str, tuple[str, bytes]]:
    """A repository that the outer one does not know; the files that the user sees."""
    inner = repository(project / "inner", {"i.py": "i = 1\n", "old.py": "old = 1\n" * 9})
    (inner / "loose.bin").write_bytes(bytes(range(256)))
    return seen(project)


def seen(project: Path) -> dict[str, tuple[str, bytes]]:
    return {name: one for name, one in files(project).items() if "/.git/" not in name}


@pytest.mark.parametrize(
    ("command", "left"),
    [
        (INSIDE, ""),
        (f"{INSIDE}; {COMMITTED}", "inner: its HEAD has moved from"),
        ("git init -q born; echo b > born/b.py", "born/.git: the repository that the task made stays"),
        ("rm -rf inner/.git", GONE),
    ],
)
def test_files_of_a_repository_inside_are_put_back_and_what_stays_is_said(
    project: Path, command: str, left: str
) -> None:
    before = with_a_repository_inside(project)
    state = task(project, command)
    after = seen(project)
    done = undo_task(state, "task-001")
    assert seen(project) == before
    assert len(done.lost) == bool(left)
    assert "".join(done.lost).startswith(left)
    if done.files:
        undo_task(state, "task-001")
        assert seen(project) == after


@pytest.mark.parametrize("is_repository", [True, False])
def test_the_results_of_subtasks_are_undone_as_a_whole_beside_later_edits(tmp_path: Path, is_repository: bool) -> None:
    folder = parts.make(tmp_path, is_repository=is_repository)
    state = chunked(folder)
    after = parts.files(folder)
    write(folder / "notes.txt", "n\nmine\n")
    assert undo_task(state, "task-001").whole
    assert parts.files(folder) == {**parts.FILES, "notes.txt": "n\nmine\n"}
    assert undo_task(state, "task-001").kind == "redo"
    assert parts.files(folder) == {**after, "notes.txt": "n\nmine\n"}


def chunked(folder: Path) -> StateDir:
    """A finished task in four parts."""

    async def work() -> None:
        async with parts.supervisor(folder) as tasks:
            assert (await tasks.wait(await tasks.submit(parts.request(folder)))).status == "COMPLETE"

    asyncio.run(work())
    return StateDir(folder / ".pm-orchestrator")


_UNDO = """
import sys
from runner.undo.undo import undo_task
from tracer.statedir import StateDir
undo_task(StateDir(sys.argv[1]), "task-001")
"""


@pytest.mark.torture
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["git", "plain", "inside", "subtasks"])
def test_invariant_16_a_process_that_is_killed_again_and_again_while_it_undoes_loses_nothing(
    project: Path, kind: str, seed: int
) -> None:
    chance = random.Random(seed)
    if kind == "subtasks":
        project = parts.make(project.with_name("parts"))
    if kind == "plain":
        shutil.rmtree(project / ".git")
    before = with_a_repository_inside(project) if kind == "inside" else seen(project)
    state = chunked(project) if kind == "subtasks" else task(project, INSIDE if kind == "inside" else WORK)
    staged = "" if kind == "plain" else git(project, "diff", "--cached")
    write(project / "later.txt", "mine\n")
    record = state.traces / "undo-task-001.jsonl"
    patience_s = 0.05
    while not (record.exists() and b'"phase":"done"' in record.read_bytes()):
        child = subprocess.Popen([sys.executable, "-c", _UNDO, str(state.root)], cwd=Path(__file__).parents[2])
        with suppress(subprocess.TimeoutExpired):
            assert child.wait(timeout=chance.uniform(patience_s / 3, patience_s)) == 0
        child.kill()
        child.wait()
        patience_s *= 1.3  # it gets there in the end, however slow the machine is
    assert seen(project) == {**before, "later.txt": ("f", b"mine\n")}
    assert kind == "plain" or git(project, "diff", "--cached") == staged


class Killed(BaseException):
    """As a kill: nothing of ours runs on but `finally`."""


@pytest.mark.parametrize(
    "command",
    [
        WORK,
        *(
            pytest.param(f"{WORK}; {more}", marks=pytest.mark.torture)
            for more in ("git add -A; git commit -qm theirs", "rm -rf .git")
        ),
    ],
)
def test_invariant_16_an_undo_that_is_killed_at_any_write_is_finished_by_the_next(
    project: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, view = files(project), repository_view(project)
    state = task(project, command)
    copy = project.with_name("copy")
    shutil.copytree(project, copy, symlinks=True)
    at = 0
    while True:
        shutil.rmtree(project)
        shutil.copytree(copy, project, symlinks=True)
        at += 1
        left = [at]

        def counted(real, left=left):
            def write(*arguments, **options):
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
                return real(*arguments, **options)

            return write

        with monkeypatch.context() as patch:
            for name in ("replace", "unlink", "rename", "write_bytes"):
                patch.setattr(Path, name, counted(getattr(Path, name)))
            patch.setattr(Git, "run", counted(Git.run))
            try:
                undo_task(state, "task-001")
            except Killed:
                killed = True
            else:
                killed = False
        if killed:
            done = undo_task(state, "task-001")
            assert done.kind == "undo", at
        assert files(project) == before, at
        assert repository_view(project) == view, at
        if not killed:
            break
        at += 2  # every third write, beginning at another one for each command
    assert at > 10


def test_the_undo_is_a_record_of_its_own_and_the_trace_stays_as_it_was(project: Path) -> None:
    state = task(project, WORK)
    (trace,) = state.traces.glob("conversation-*.jsonl")
    was = trace.read_bytes()
    undo_task(state, "task-001")
    assert trace.read_bytes() == was
    (record,) = state.traces.glob("undo-*.jsonl")
    facts = scan(record).entries
    assert [one.data["phase"] for one in facts if one.event == "UNDO"] == ["begun", "planned", "done"]
    assert facts[-1].data["files"]
