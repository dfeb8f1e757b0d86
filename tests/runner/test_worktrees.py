"""Worktrees in real repositories: what a person's repository keeps, what a kill leaves, what a conflict shows."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.isolation import worktrees
from runner.isolation.isolation_port import Conflict, Merged
from runner.isolation.worktrees import GitWorktrees, why_not_parallel
from runner.workspace.git.repository import Git
from tests.runner.workspace.support import git, repository, state_dir, write
from tracer.errors import UsageError

_FILES = {"a.txt": "".join(f"line {number}\n" for number in range(20)), "b.txt": "b\n", ".gitignore": "*.log\nbuild/\n"}


@pytest.fixture
def project(tmp_path) -> Path:
    folder = repository(tmp_path / "project", _FILES)
    state_dir(folder)
    return folder


def isolation(project: Path, **options) -> GitWorktrees:
    return GitWorktrees(project, state_dir=project / ".pm-orchestrator", task_id="task-001", **options)


def left_over(project: Path) -> list[str]:
    """Everything that could remind of a finished task."""
    worktrees = project / ".git" / "worktrees"
    return [
        *git(project, "worktree", "list").splitlines()[1:],
        *git(project, "for-each-ref", "--format=%(refname)", "refs/heads/pm", "refs/pm-orchestrator").split(),
        *(str(path) for path in project.rglob("*.lock")),
        *(str(path) for path in (project / ".pm-orchestrator").glob("worktrees/*")),
        *(str(path) for path in (project / ".pm-orchestrator").glob("control/workspace/*")),
        *(worktrees.iterdir() if worktrees.exists() else ()),
    ]


async def test_changes_to_different_parts_of_one_file_merge_and_the_same_lines_show_both_versions(project):
    apart = isolation(project)
    await apart.begin()
    folders = {name: await apart.open(name) for name in ("one", "two", "three")}
    write(folders["one"] / "a.txt", _FILES["a.txt"].replace("line 1\n", "first\n"))
    write(folders["two"] / "a.txt", _FILES["a.txt"].replace("line 18\n", "second\n"))
    write(folders["three"] / "a.txt", _FILES["a.txt"].replace("line 18\n", "third\n"))
    assert isinstance(await apart.merge("one"), Merged)
    assert isinstance(await apart.merge("two"), Merged)
    conflict = await apart.merge("three")
    assert isinstance(conflict, Conflict)
    assert "second" in conflict.reason()
    assert "third" in conflict.reason()
    await apart.apply()
    assert "first\n" in (project / "a.txt").read_text()
    assert "second\n" in (project / "a.txt").read_text()


async def test_a_deleted_file_that_another_subtask_changed_is_a_conflict(project):
    apart = isolation(project)
    await apart.begin()
    one, two = await apart.open("one"), await apart.open("two")
    (one / "b.txt").unlink()
    write(two / "b.txt", "changed\n")
    await apart.merge("one")
    conflict = await apart.merge("two")
    assert isinstance(conflict, Conflict)
    assert conflict.places[0].path == "b.txt"


async def test_the_persons_index_branch_and_ignored_files_are_never_touched_and_nothing_is_left(project):
    write(project / "a.txt", "staged\n")
    git(project, "add", "a.txt")
    write(project / "a.txt", "staged and more\n")
    write(project / "mine.txt", "untracked\n")
    write(project / "x.log", "ignored\n")
    git(project, "status")
    index, head = (project / ".git" / "index").read_bytes(), git(project, "rev-parse", "HEAD")
    apart = isolation(project)
    await apart.begin()
    folder = await apart.open("one")
    assert not (folder / "x.log").exists()
    write(folder / "b.txt", "one\n")
    await apart.merge("one")
    await apart.apply()
    await apart.close()
    assert (project / "b.txt").read_text() == "one\n"
    assert (project / "a.txt").read_text() == "staged and more\n"
    assert (project / ".git" / "index").read_bytes() == index
    assert git(project, "rev-parse", "HEAD") == head
    assert git(project, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert left_over(project) == []


async def test_a_repository_inside_the_persons_folder_is_not_missed_in_a_worktree(project):
    repository(project / "nested", {"n.py": "n = 1\n"})
    apart = isolation(project)
    await apart.begin()
    folder = await apart.open("one")
    assert not (folder / "nested" / "n.py").exists()
    write(folder / "b.txt", "one\n")
    merged = await apart.merge("one")
    assert isinstance(merged, Merged)
    assert merged.paths == ("b.txt",)
    await apart.apply()
    assert (project / "nested" / "n.py").read_text() == "n = 1\n"


async def test_an_ignored_file_of_the_person_is_never_overwritten(project):
    write(project / "x.log", "precious\n")
    apart = isolation(project)
    await apart.begin()
    folder = await apart.open("one")
    write(folder / "x.log", "from the agent\n")
    git(folder, "add", "-f", "x.log")
    write(folder / ".gitignore", "build/\n")
    await apart.merge("one")
    clash = await apart.apply()
    assert isinstance(clash, Conflict)
    assert clash.places[0].path == "x.log"
    assert (project / "x.log").read_text() == "precious\n"
    assert (project / ".gitignore").read_text() == _FILES[".gitignore"]


async def test_hooks_and_merge_programs_are_never_run(project, tmp_path):
    for name in ("post-checkout", "pre-commit", "reference-transaction", "post-merge"):
        hook = project / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
        hook.chmod(0o755)
    git(project, "config", "merge.trap.driver", f"touch {tmp_path}/sprung")
    git(project, "config", "filter.trap.smudge", f"touch {tmp_path}/sprung; cat")
    write(project / ".gitattributes", "*.txt merge=trap filter=trap\n")
    apart = isolation(project)
    await apart.begin()
    one, two = await apart.open("one"), await apart.open("two")
    write(one / "a.txt", _FILES["a.txt"].replace("line 1\n", "1\n"))
    write(two / "a.txt", _FILES["a.txt"].replace("line 18\n", "18\n"))
    await apart.merge("one")
    assert isinstance(await apart.merge("two"), Conflict)
    await apart.apply()
    await apart.close()
    assert not (tmp_path / "sprung").exists()


async def test_what_an_agent_commits_on_its_branch_counts_as_its_work(project):
    apart = isolation(project)
    await apart.begin()
    folder = await apart.open("one")
    assert git(folder, "branch", "--show-current").strip() == "pm/task-001/one"
    write(folder / "b.txt", "committed\n")
    git(folder, "commit", "-qam", "mine")
    write(folder / "c.txt", "not committed\n")
    result = await apart.merge("one")
    assert isinstance(result, Merged)
    assert result.paths == ("b.txt", "c.txt")


async def test_a_linked_folder_is_there_for_the_agent_and_not_part_of_its_work(project):
    write(project / "build" / "tool", "x\n")
    apart = isolation(project, link_ignored=["build"])
    await apart.begin()
    folder = await apart.open("one")
    assert (folder / "build" / "tool").read_text() == "x\n"
    result = await apart.merge("one")
    assert isinstance(result, Merged)
    assert result.paths == ()


async def test_pointers_of_large_files_stay_pointers_in_the_result(project):
    import hashlib

    media = b"\x00media" * 50
    pointer = (
        "version https://git-lfs.github.com/spec/v1\n"
        f"oid sha256:{hashlib.sha256(media).hexdigest()}\nsize {len(media)}\n"
    )
    write(project / "m.bin", pointer)
    write(project / ".gitattributes", "*.bin filter=lfs\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "pointer")
    (project / "m.bin").write_bytes(media)
    (project / ".git" / "lfs" / "objects").mkdir(parents=True)
    os.utime(project / "m.bin", (1, 1))
    git(project, "config", "filter.lfs.clean", f"printf '%s' '{pointer}'")
    git(project, "add", "-A")
    apart = isolation(project)
    await apart.begin()
    folder = await apart.open("one")
    assert (folder / "m.bin").read_bytes() == media
    write(folder / "b.txt", "one\n")
    result = await apart.merge("one")
    assert isinstance(result, Merged)
    assert result.paths == ("b.txt",)
    await apart.apply()
    assert (project / "m.bin").read_bytes() == media


async def test_a_branch_that_exists_is_not_overwritten(project):
    git(project, "branch", "taken")
    apart = isolation(project)
    await apart.begin()
    with pytest.raises(UsageError, match="taken"):
        await apart.apply(branch="taken")
    with pytest.raises(UsageError):
        await apart.apply(branch="no good..name")


async def test_a_workspace_below_the_top_works_in_the_same_place_of_its_worktree(tmp_path):
    project = repository(tmp_path / "project", {"top.txt": "t\n", "sub/a.txt": "a\n"})
    state_dir(project / "sub")
    apart = GitWorktrees(project / "sub", state_dir=project / "sub" / ".pm-orchestrator", task_id="task-001")
    await apart.begin()
    folder = await apart.open("one")
    assert (folder / "a.txt").read_text() == "a\n"
    write(folder / "a.txt", "one\n")
    await apart.merge("one")
    await apart.apply()
    await apart.close()
    assert (project / "sub" / "a.txt").read_text() == "one\n"


def test_where_subtasks_cannot_run_side_by_side_the_reason_is_told(tmp_path, project):
    (tmp_path / "plain").mkdir()
    assert "not in a git repository" in why_not_parallel(tmp_path / "plain")
    assert why_not_parallel(project) == ""
    library = repository(tmp_path / "library", {"lib.py": "l\n"})
    git(project, "submodule", "add", "-q", str(library), "lib")
    assert "submodules" in why_not_parallel(project)


def test_a_folder_that_the_repository_ignores_is_no_place_for_worktrees(project):
    write(project / "build" / "shop" / "app.py", "VALUE = 1\n")
    assert "ignores this folder" in why_not_parallel(project / "build" / "shop")
    write(project / "src" / "app.py", "VALUE = 1\n")
    assert why_not_parallel(project / "src") == ""


async def test_a_repository_without_a_commit_works_too(tmp_path):
    project = tmp_path / "fresh"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    write(project / "a.txt", "a\n")
    state_dir(project)
    apart = isolation(project)
    await apart.begin()
    folder = await apart.open("one")
    assert (folder / "a.txt").read_text() == "a\n"
    write(folder / "b.txt", "one\n")
    await apart.merge("one")
    await apart.apply()
    await apart.close()
    assert (project / "b.txt").read_text() == "one\n"
    assert left_over(project) == []


class Killed(BaseException):
    """As a kill: nothing of ours runs on but `finally`."""


def _view(project: Path) -> dict[str, object]:
    """Every file outside the repository with its kind, mode and content, and what is staged."""
    found: dict[str, object] = {"staged": git(project, "diff", "--cached")}
    for path in sorted(project.rglob("*")):
        name = path.relative_to(project).as_posix()
        if name.partition("/")[0] in {".git", ".pm-orchestrator"} or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = str(path.readlink()) if path.is_symlink() else (path.stat().st_mode & 0o100, path.read_bytes())
    return found


def _work(folder: Path) -> None:
    """Every kind of change that a task can make."""
    (folder / "binary").write_bytes(bytes(range(256)) * 9)
    (folder / "run.sh").chmod(0o755)
    (folder / "old name.txt").rename(folder / "new näme.txt")
    (folder / "link").unlink()
    (folder / "link").symlink_to("b.txt")
    shutil.rmtree(folder / "gone")
    shutil.rmtree(folder / "becomes-file")
    (folder / "becomes-file").write_text("a file\n")
    (folder / "becomes-folder").unlink()
    write(folder / "becomes-folder/inner.txt", "inner\n")
    write(folder / "deep/er/new.txt", "")
    write(folder / "a.txt", _FILES["a.txt"].replace("line 18\n", "of the task\n"))


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=[pytest.mark.torture, pytest.mark.timeout(600)])])
async def test_invariant_17_a_hand_over_that_is_killed_at_any_step_loses_nothing_and_is_finished_by_the_next(
    tmp_path, monkeypatch, every
):
    files = {"binary": "\0\1", "run.sh": "#!/bin/sh\n", "old name.txt": "moved\n" * 20, "gone/x.txt": "x\n"}
    files |= {"becomes-file/x.txt": "x\n", "becomes-folder": "y\n", "gone/deeper/y.txt": "y\n"}
    project = repository(tmp_path / "project", {**_FILES, **files})
    (project / "link").symlink_to("a.txt")
    state_dir(project)
    write(project / "b.txt", "staged\n")
    git(project, "add", "b.txt", "link")
    apart = isolation(project)
    await apart.begin()
    _work(await apart.open("one"))
    await apart.merge("one")
    write(project / "a.txt", _FILES["a.txt"].replace("line 1\n", "of the user\n"))
    write(project / "b.txt", "staged, and edited since\n")
    write(project / "gone/kept.log", "an ignored file\n")
    write(project / "untracked.txt", "untracked\n")
    mine = _view(project)
    shutil.copytree(project, tmp_path / "copy", symlinks=True)
    assert isinstance(await apart.apply(), Merged)
    wanted = _view(project)
    assert {name for name in mine.keys() | wanted.keys() if mine.get(name) != wanted.get(name)} == {
        "binary", "run.sh", "old name.txt", "new näme.txt", "link", "gone/x.txt", "gone/deeper/y.txt", "becomes-file",
        "becomes-file/x.txt", "becomes-folder", "becomes-folder/inner.txt", "deep/er/new.txt", "a.txt",
    }  # fmt: skip
    text = (project / "a.txt").read_text()
    assert ("of the user" in text, "of the task" in text) == (True, True)
    at, killed = 0, True
    while killed:
        shutil.rmtree(project)
        shutil.copytree(tmp_path / "copy", project, symlinks=True)
        at += every
        left = [at]

        def counted(real, left=left):
            def write(*arguments, **options):
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
                return real(*arguments, **options)

            return write

        with monkeypatch.context() as patch:
            for name in ("replace", "unlink", "mkdir", "rmdir"):
                patch.setattr(Path, name, counted(getattr(Path, name)))
            patch.setattr(Git, "run", counted(Git.run))
            try:
                await isolation(project).apply()
                killed = False
            except Killed:
                assert _view(project)["staged"] == mine["staged"], at
        assert isinstance(await isolation(project).apply(), Merged), at
        assert _view(project) == wanted, at
    assert at > 20


async def test_what_the_user_saves_while_a_result_is_handed_over_stays(project, monkeypatch):
    apart = isolation(project)
    await apart.begin()
    write(await apart.open("one") / "b.txt", "of the task\n")
    await apart.merge("one")
    real = worktrees.merge_commits

    def saved_meanwhile(*arguments):
        write(project / "b.txt", "just saved\n")
        return real(*arguments)

    monkeypatch.setattr(worktrees, "merge_commits", saved_meanwhile)
    clash = await apart.apply()
    assert isinstance(clash, Conflict)
    assert [place.path for place in clash.places] == ["b.txt"]
    assert (project / "b.txt").read_text() == "just saved\n"


_RUN = """
import asyncio, sys
from pathlib import Path
from runner.isolation.worktrees import GitWorktrees

async def main(project):
    apart = GitWorktrees(project, state_dir=project / ".pm-orchestrator", task_id="task-001")
    await apart.begin()
    async def work(name):
        if name not in await apart.merged():
            folder = await apart.open(name)
            (folder / f"{name}.txt").write_text(name)
            (folder / "b.txt").write_text((folder / "b.txt").read_text())
    names = ["one", "two", "three"]
    await asyncio.gather(*(work(name) for name in names))
    for name in names:
        await apart.merge(name)
    await apart.apply()
    await apart.close()

project = Path(sys.argv[1])
if not (project / ".pm-orchestrator" / "done").exists():
    asyncio.run(main(project))
    (project / ".pm-orchestrator" / "done").write_text("")
"""


def _kill_and_resume(project: Path, after_s: float) -> None:
    write(project / "mine.txt", "the person's\n")
    first = subprocess.Popen([sys.executable, "-c", _RUN, str(project)])
    time.sleep(after_s)
    first.send_signal(signal.SIGKILL)
    first.wait()
    subprocess.run([sys.executable, "-c", _RUN, str(project)], check=True)
    found = {path.name: path.read_text() for path in project.iterdir() if path.is_file()}
    assert found == {**_FILES, "one.txt": "one", "two.txt": "two", "three.txt": "three", "mine.txt": "the person's\n"}
    assert left_over(project) == []


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(4))
def test_after_a_kill_the_next_process_ends_with_the_same_tree_and_nothing_left(project, seed):
    _kill_and_resume(project, random.Random(seed).uniform(0.1, 1.0))


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 220))
def test_a_campaign_of_kills_ends_with_the_same_tree_and_nothing_left(project, seed):
    _kill_and_resume(project, random.Random(seed).uniform(0.05, 1.2))
