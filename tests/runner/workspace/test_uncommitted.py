"""What was changed, added and removed before a task is where it starts from, whatever kind of index the user has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from runner.workspace.workspace import Workspace, open_workspace
from tests.runner.workspace.support import MemoryBlobs, git, kinds_of, repository, state_dir, tree_in, write


def opened(folder: Path) -> Workspace:
    return open_workspace(folder, state_dir=state_dir(folder), blobs=MemoryBlobs())


@pytest.fixture
def project(tmp_path) -> Path:
    """A repository in which files were changed, added and removed before the task."""
    folder = repository(
        tmp_path / "project",
        {"a.py": "a = 1\n", "sub/b.py": "b = 1\n", "sub/deep/c.py": "c = 1\n", "gone/d.py": "d = 1\n"},
    )
    write(folder / "a.py", "a = 'mine'\n")
    write(folder / "sub/deep/mine.py", "m = 1\n")
    shutil.rmtree(folder / "gone")
    return folder


def listed(folder: Path, base: str) -> list[str]:
    return git(folder, "ls-tree", "-r", "--name-only", tree_in(base)).split()


async def test_the_baseline_holds_the_files_as_they_lie_on_disk_and_leaves_the_users_index_alone(project):
    index = project / ".git" / "index"
    before = index.read_bytes()
    base = await opened(project).baseline("task/0")
    assert listed(project, base) == ["a.py", "sub/b.py", "sub/deep/c.py", "sub/deep/mine.py"]
    assert index.read_bytes() == before
    assert not list((project / ".pm-orchestrator/control/workspace").glob("changed-*"))


async def test_the_index_of_the_newest_baseline_is_kept_however_old_the_users_is(project):
    os.utime(project / ".git" / "index", (1e9, 1e9))
    kept = set()
    for number in range(12):
        write(project / "a.py", f"a = {number}\n")
        if number == 9:
            git(project, "checkout", "-q", "--", ".")  # nothing is changed: the index is the user's in any case
            git(project, "clean", "-qfd")
            os.utime(project / ".git" / "index", (1e9, 1e9))
        base = await opened(project).baseline(f"t/{number}")
        kept = {path.name for path in (project / ".pm-orchestrator/control/workspace").glob("base-*.index")}
        assert f"base-{tree_in(base)}.index" in kept
    assert len(kept) == 8


async def test_only_what_the_task_did_is_a_change(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    write(project / "a.py", "a = 2\n")
    (project / "sub/deep/mine.py").unlink()
    write(project / "gone/d.py", "d = 1\n")  # as it was committed, but it was not there when the task began
    changes = await workspace.changes(base)
    assert kinds_of(changes) == {"a.py": "modified", "gone/d.py": "added", "sub/deep/mine.py": "deleted"}
    assert [file.before for file in changes.files] == [b"a = 'mine'\n", None, b"m = 1\n"]
    assert b"-a = 'mine'\n+a = 2\n" in changes.diff


async def test_a_file_put_back_as_it_was_committed_is_a_change_of_what_the_person_had(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    git(project, "checkout", "-q", "--", "a.py", "gone")
    git(project, "commit", "-q", "--allow-empty", "-m", "the agent's")
    assert kinds_of(await workspace.changes(base)) == {"a.py": "modified", "gone/d.py": "added"}


async def test_an_unknown_file_stays_in_view_when_the_agent_ignores_it(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / ".git" / "info" / "exclude", "mine.py\n")
    write(project / "sub/deep/mine.py", "m = 2\n")
    assert (await workspace.changes(base)).paths == ("sub/deep/mine.py",)


@pytest.mark.parametrize("restart", [False, True])
async def test_without_the_repository_the_changed_files_are_still_known(project, restart):
    workspace = opened(project)
    base = await workspace.baseline("t")
    shutil.rmtree(project / ".git")
    write(project / "sub/b.py", "b = 2\n")
    (project / "sub/deep/mine.py").unlink()
    looked = opened(project) if restart else workspace
    kinds = kinds_of(await looked.changes(base))
    assert kinds == {".git": "deleted", "sub/b.py": "modified", "sub/deep/mine.py": "deleted"}


async def test_a_repository_that_came_meanwhile_is_followed_into(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    repository(project / "sub" / "deep", {"inner.py": "i = 1\n"})
    write(project / "a.py", "a = 2\n")
    assert kinds_of(await workspace.changes(base)) == {"a.py": "modified", "sub/deep/inner.py": "added"}


async def test_line_ends_that_the_index_decides_about_are_those_that_git_would_commit(project):
    (project / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    git(project, "add", "dos.txt")
    git(project, "config", "core.autocrlf", "true")
    (project / "dos.txt").write_bytes(b"one\r\nthree\r\n")
    (project / "new.txt").write_bytes(b"one\r\n")
    base = await opened(project).baseline("task/0")
    git(project, "add", "-A", "--", ".", ":!.pm-orchestrator")
    assert tree_in(base) == git(project, "write-tree").strip()


@pytest.mark.torture
async def test_many_files_are_written_into_the_index_at_once(project):
    for number in range(600):
        write(project / f"many/{number}.txt", str(number))
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert len(listed(project, base)) == 604
    write(project / "many/7.txt", "other")
    assert (await workspace.changes(base)).paths == ("many/7.txt",)


@pytest.mark.parametrize(
    "setting",
    [
        ("update-index", "--split-index"),
        ("update-index", "--index-version", "4"),
        ("update-index", "--untracked-cache"),
        ("config", "core.fileMode", "false"),
        ("config", "feature.manyFiles", "true"),
        ("add", "-N", "sub/deep/mine.py"),
        ("update-index", "--assume-unchanged", "a.py"),
        ("update-index", "--skip-worktree", "sub/b.py"),
    ],
    ids=lambda setting: " ".join(setting[:2]),
)
async def test_the_users_kind_of_index_makes_no_difference_and_stays_as_it_is(project, setting):
    git(project, *setting)
    index = project / ".git" / "index"
    before = index.read_bytes()
    workspace = opened(project)
    base = await workspace.baseline("task/0")
    write(project / "a.py", "a = 2\n")
    write(project / "sub/b.py", "b = 2\n")
    assert kinds_of(await workspace.changes(base)) == {"a.py": "modified", "sub/b.py": "modified"}
    assert index.read_bytes() == before


async def test_a_folder_whose_name_has_a_line_break_is_compared_through_an_index(project):
    write(project / "two\nlines" / "x.py", "x = 1\n")
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / "two\nlines" / "x.py", "x = 2\n")
    assert len((await workspace.changes(base)).paths) == 1


async def test_a_folder_whose_name_ends_in_a_carriage_return_is_not_taken_for_the_one_without(project):
    write(project / "sub\r" / "x.py", "x = 1\n")
    base = await opened(project).baseline("t")
    files = git(project, "ls-tree", "-r", "-z", "--name-only", tree_in(base)).split("\0")
    assert [path for path in files if "\r" in path] == ["sub\r/x.py"]


async def test_an_index_that_knows_a_tree_which_the_repository_has_lost_is_written_again(project):
    tree = git(project, "rev-parse", "HEAD^{tree}").strip()
    git(project, "stash", "-qu")
    (project / ".git" / "objects" / tree[:2] / tree[2:]).unlink()  # as the index still names it
    base = await opened(project).baseline("t")
    assert listed(project, base) == ["a.py", "gone/d.py", "sub/b.py", "sub/deep/c.py"]
