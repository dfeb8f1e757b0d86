"""Whatever comes into a folder or goes from it is seen, also where times or rules of what to ignore changed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from runner.workspace.workspace import Workspace, open_workspace
from tests.runner.workspace.support import MemoryBlobs, git, kinds_of, repository, state_dir, write


def opened(folder: Path) -> Workspace:
    return open_workspace(folder, state_dir=state_dir(folder), blobs=MemoryBlobs())


def let_pass() -> None:
    """Let the file system's clock tick, so that what comes now is later than what was."""
    time.sleep(0.02)


@pytest.fixture
def project(tmp_path) -> Path:
    """A repository with an unknown folder that is empty and an ignored one; all of it settled."""
    folder = repository(
        tmp_path / "project",
        {"a.py": "a = 1\n", "sub/b.py": "b = 1\n", "sub/deep/c.py": "c = 1\n", ".gitignore": "*.log\n/made/\n"},
    )
    write(folder / "made/out.txt", "o\n")
    write(folder / "noise.log", "n\n")
    (folder / "empty" / "inner").mkdir(parents=True)
    state_dir(folder)
    let_pass()
    return folder


@pytest.mark.parametrize("where", ["sub", "sub/deep", "empty", "empty/inner", "."])
async def test_a_new_file_is_seen_although_all_times_are_set_back(project, where):
    workspace = opened(project)
    folder = project / where
    before = folder.stat()
    base = await workspace.baseline("t")
    write(folder / "new.py", "n = 1\n")
    os.utime(folder / "new.py", (1e9, 1e9))
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert folder.stat().st_mtime_ns == before.st_mtime_ns
    assert (await workspace.changes(base)).paths == (str(Path(where, "new.py")),)


async def test_what_was_unknown_before_is_still_compared_and_missed_when_it_goes(project):
    write(project / "sub/mine.py", "m = 1\n")
    write(project / "mine/too.py", "t = 1\n")
    write(project / "mine/gone.py", "g = 1\n")
    let_pass()
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    write(project / "sub/mine.py", "m = 2\n")
    (project / "mine/gone.py").unlink()
    assert kinds_of(await workspace.changes(base)) == {"mine/gone.py": "deleted", "sub/mine.py": "modified"}
    shutil.rmtree(project / "mine")
    kinds = {"mine/gone.py": "deleted", "mine/too.py": "deleted", "sub/mine.py": "modified"}
    assert kinds_of(await workspace.changes(base)) == kinds


def _loosen_tracked(project: Path) -> None:
    write(project / ".gitignore", "/made/\n")


def _loosen_personal(project: Path) -> None:
    write(project / ".git/personal", "\n")


def _loosen_setting(project: Path) -> None:
    git(project, "config", "core.excludesFile", str(project / ".git/nothing"))


def _loosen_exclude(project: Path) -> None:
    write(project / ".git/info/exclude", "\n")


def _loosen_ignored(project: Path) -> None:
    write(project / "sub/.gitignore", ".gitignore\n")


@pytest.mark.parametrize(
    ("loosen", "appears"),
    [
        (_loosen_tracked, "noise.log"),
        (_loosen_personal, "sub/personal.tmp"),
        (_loosen_setting, "sub/personal.tmp"),
        (_loosen_exclude, "sub/exclude.tmp"),
        (_loosen_ignored, "sub/ignored.tmp"),
    ],
)
async def test_what_a_rule_no_longer_ignores_comes_into_view(project, loosen, appears):
    write(project / ".git/personal", "personal.tmp\n")
    write(project / ".git/info/exclude", "exclude.tmp\n")
    write(project / "sub/.gitignore", ".gitignore\nignored.tmp\n")
    git(project, "config", "core.excludesFile", str(project / ".git/personal"))
    for name in ("personal", "exclude", "ignored"):
        write(project / "sub" / f"{name}.tmp", "x\n")
    let_pass()
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    loosen(project)
    assert appears in (await workspace.changes(base)).paths


async def test_rules_of_a_worktrees_repository_count_in_it(project, tmp_path):
    tree = tmp_path / "tree"
    git(project, "worktree", "add", "-q", str(tree), "-b", "side")
    write(project / ".git/info/exclude", "hidden.txt\n")
    write(tree / "sub/hidden.txt", "h\n")
    let_pass()
    workspace = opened(tree)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    write(project / ".git/info/exclude", "\n")
    assert (await workspace.changes(base)).paths == ("sub/hidden.txt",)


async def test_a_repository_in_a_folder_that_was_empty_is_followed_into(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    repository(project / "empty/inner", {"n.py": "n = 1\n"})
    assert kinds_of(await workspace.changes(base)) == {"empty/inner/n.py": "added"}


async def test_a_folder_that_became_a_link_or_a_file_is_seen(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    (project / "sub/deep").rename(project / "made/deep")
    (project / "sub/deep").symlink_to("../made/deep")
    (project / "empty/inner").rmdir()
    write(project / "empty/inner", "a file now\n")
    kinds = {"empty/inner": "added", "sub/deep": "added", "sub/deep/c.py": "deleted"}
    assert kinds_of(await workspace.changes(base)) == kinds


async def test_files_without_content_are_compared_without_a_repository_too(tmp_path):
    folder = tmp_path / "plain"
    write(folder / "gone.txt", "")
    workspace = opened(folder)
    base = await workspace.baseline("t")
    (folder / "gone.txt").unlink()
    write(folder / "new.txt", "")
    changes = await workspace.changes(base)
    assert {(file.path, file.before, file.after) for file in changes.files} == {
        ("gone.txt", b"", None),
        ("new.txt", None, b""),
    }
