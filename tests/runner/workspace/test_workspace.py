"""What changed on disk is found, with git and without, whatever was done to the repository meanwhile."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from runner.workspace.changes import ComparisonError, Limits
from runner.workspace.git.repository import find_repository
from runner.workspace.workspace import Workspace, open_workspace
from tests.runner.workspace.support import MemoryBlobs, git, kinds_of, repository, state_dir, write
from tracer.clock import now_epoch_ms


@pytest.fixture(params=["git", "plain"])
def project(request, tmp_path) -> Path:
    folder = tmp_path / "project"
    files = {"a.py": "a = 1\n", "b.py": "b = 1\n", "sub/c.py": "c = 1\n"}
    if request.param == "git":
        return repository(folder, files)
    for name, text in files.items():
        write(folder / name, text)
    return folder


def opened(folder: Path, **options) -> Workspace:
    return open_workspace(folder, state_dir=state_dir(folder), blobs=MemoryBlobs(), **options)


async def test_nothing_changed_is_no_change(project):
    workspace = opened(project)
    base = await workspace.baseline("task-001/0")
    changes = await workspace.changes(base)
    assert (changes.paths, changes.diff, changes.notes) == ((), b"", ())


async def test_added_modified_and_deleted_files_come_with_both_contents(project):
    workspace = opened(project)
    base = await workspace.baseline("task-001/0")
    write(project / "a.py", "a = 2\n")
    (project / "b.py").unlink()
    write(project / "new/d.py", "d = 1\n")
    changes = await workspace.changes(base)
    assert kinds_of(changes) == {"a.py": "modified", "b.py": "deleted", "new/d.py": "added"}
    assert [(file.path, file.before, file.after) for file in changes.files] == [
        ("a.py", b"a = 1\n", b"a = 2\n"),
        ("b.py", b"b = 1\n", None),
        ("new/d.py", None, b"d = 1\n"),
    ]


async def test_a_rename_is_both_paths(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    (project / "a.py").rename(project / "z.py")
    assert kinds_of(await workspace.changes(base)) == {"a.py": "deleted", "z.py": "added"}


async def test_work_that_was_there_before_is_not_a_change_of_the_task(project):
    write(project / "untracked.py", "u = 1\n")
    write(project / "a.py", "a = 'mine'\n")
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / "untracked.py", "u = 2\n")
    changes = await workspace.changes(base)
    assert [(file.path, file.before) for file in changes.files] == [("untracked.py", b"u = 1\n")]


async def test_the_state_dir_is_left_out(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / ".pm-orchestrator" / "traces" / "x.jsonl", "{}\n")
    assert (await workspace.changes(base)).paths == ()


async def test_a_base_outlives_the_process_that_took_it(project):
    blobs = MemoryBlobs()
    first = open_workspace(project, state_dir=state_dir(project), blobs=blobs)
    base = await first.baseline("t")
    write(project / "a.py", "a = 2\n")
    again = open_workspace(project, state_dir=state_dir(project), blobs=blobs)
    assert (await again.changes(base)).paths == ("a.py",)


async def test_the_diff_applies_to_what_was_there(project, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(project, copy, symlinks=True)
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / "a.py", "a = 2\n\n# no newline at the end")
    (project / "b.py").unlink()
    write(project / "new.py", "one\ntwo\n")
    changes = await workspace.changes(base)
    git(copy, "apply", "--unsafe-paths", f"--directory={copy}", "-", stdin=changes.diff)
    for name in ("a.py", "new.py"):
        assert (copy / name).read_bytes() == (project / name).read_bytes()
    assert not (copy / "b.py").exists()


async def test_names_that_are_not_utf8_and_contents_that_are_not_text_are_compared(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    with open(os.fsencode(project) + b"/caf\xe9.bin", "wb") as file:  # noqa: PTH123 - the name is no text
        file.write(b"\x00\xff\x00")
    changes = await workspace.changes(base)
    assert changes.paths == ("caf\\xe9.bin",)
    assert changes.files[0].after == b"\x00\xff\x00"


async def test_links_pipes_and_loops_do_no_harm(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    (project / "loop").symlink_to(".")
    (project / "sub" / "up").symlink_to("..")
    (project / "away").symlink_to("/etc/passwd")
    os.mkfifo(project / "pipe")
    changes = await workspace.changes(base)
    assert kinds_of(changes) == {"loop": "added", "sub/up": "added", "away": "added"}
    assert all(file.after == b"" for file in changes.files)


async def test_a_file_made_executable_is_a_change(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    (project / "a.py").chmod(0o755)
    assert kinds_of(await workspace.changes(base)) == {"a.py": "modified"}


async def test_a_change_of_the_same_size_that_sets_the_time_back_is_seen(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    before = (project / "a.py").stat()
    write(project / "a.py", "a = 7\n")
    os.utime(project / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await workspace.changes(base)).paths == ("a.py",)


@pytest.mark.parametrize("inside", ["", "inner"])
async def test_a_large_file_that_git_knows_and_that_was_only_touched_is_no_change(tmp_path, inside):
    folder = repository(tmp_path / "p", {"a.py": "a = 1\n"})
    where = repository(folder / inside, {"b.py": "b\n"}) if inside else folder
    write(where / "large.bin", "l" * 2000)
    git(where, "add", "large.bin")
    git(where, "commit", "-qm", "large")
    limits = Limits(stored=1000)
    workspace = open_workspace(folder, state_dir=state_dir(folder), blobs=MemoryBlobs(), limits=limits)
    base = await workspace.baseline("t")
    os.utime(where / "large.bin", (1e9, 1e9))
    changes = await workspace.changes(base)
    assert (changes.paths, changes.diff) == ((), b"")
    write(where / "new.py", "n = 1\n")
    changes = await workspace.changes(base)
    assert changes.paths == (Path(inside, "new.py").as_posix(),)
    assert b"large.bin" not in changes.diff
    (where / "new.py").unlink()
    (where / "large.bin").chmod(0o755)
    large = Path(inside, "large.bin").as_posix()
    assert (await workspace.changes(base)).paths == (large,)
    (where / "large.bin").chmod(0o644)
    write(where / "large.bin", "m" * 2000)
    assert kinds_of(await workspace.changes(base)) == {large: "modified"}


@pytest.mark.parametrize("known", ["committed", "changed", "inside"])
async def test_such_a_change_is_seen_within_the_second_in_which_the_file_changed_before(known, tmp_path):
    folder = repository(tmp_path / "p", {"a.py": "a = 1\n"})
    where = repository(folder / "inner", {"b.py": "b = 1\n"}) if known == "inside" else folder
    workspace = open_workspace(folder, state_dir=state_dir(folder), blobs=MemoryBlobs())
    time.sleep(1 - now_epoch_ms() % 1000 / 1000)
    write(where / "a.py", "a = 2\n")
    os.utime(where / "a.py", (1e9, 1e9))
    if known != "changed":
        git(where, "add", "-A")
        git(where, "commit", "-qm", "second")
    base = await workspace.baseline("t")
    write(where / "a.py", "a = 3\n")
    os.utime(where / "a.py", (1e9, 1e9))
    path = "inner/a.py" if known == "inside" else "a.py"
    assert kinds_of(await workspace.changes(base)) == {path: "modified"}


async def test_a_touched_file_is_no_change(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    os.utime(project / "a.py", (1, 1))
    assert (await workspace.changes(base)).paths == ()


async def test_a_file_and_a_folder_can_change_places(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    (project / "a.py").unlink()
    write(project / "a.py" / "inner.py", "x\n")
    shutil.rmtree(project / "sub")
    write(project / "sub", "now a file\n")
    changes = await workspace.changes(base)
    assert kinds_of(changes) == {"a.py": "deleted", "a.py/inner.py": "added", "sub": "added", "sub/c.py": "deleted"}


async def test_a_large_file_is_compared_by_hash_and_not_kept(project):
    from runner.workspace.changes import Limits

    workspace = opened(project, limits=Limits(file=1000, stored=2000))
    write(project / "big.txt", "x" * 5000)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    write(project / "big.txt", "x" * 4999 + "y")
    file = (await workspace.changes(base)).files[0]
    assert (file.path, file.too_large, len(file.after)) == ("big.txt", True, 1000)


def test_only_what_a_baseline_holds_is_waited_for_until_it_is_on_disk(tmp_path):
    found = find_repository(repository(tmp_path / "project"))
    assert found is not None
    asked = ("config", "core.fsyncMethod")
    assert found.line(*asked) == found.with_index(None).line(*asked) == "batch"
    passing = found.in_passing()
    assert passing.line(*asked) == passing.with_index(None).line(*asked) == "writeout-only"


@pytest.mark.parametrize("kind", ["plain", "detached", "sha256", "linked", "worktree", "empty", "damaged", "below"])
def test_a_repository_is_found_where_git_finds_it(tmp_path, kind):
    folder = repository(tmp_path / "project", {"a.py": "a = 1\n", "sub/b.py": "b = 1\n"})
    asked = folder
    if kind == "detached":
        git(folder, "checkout", "-q", "--detach")
    elif kind == "sha256":
        asked = tmp_path / "other"
        git(tmp_path, "init", "-q", "--object-format=sha256", str(asked))
    elif kind == "linked":
        (folder / ".git").rename(tmp_path / "elsewhere")
        (folder / ".git").symlink_to(tmp_path / "elsewhere")
    elif kind == "worktree":
        asked = tmp_path / "tree"
        git(folder, "worktree", "add", "-q", str(asked))
    elif kind == "empty":
        asked = folder / "sub"
        (asked / ".git").mkdir()
    elif kind == "damaged":
        asked = folder / "sub"
        git(asked, "init", "-q")
        (asked / ".git" / "HEAD").write_text("what?\n")
    elif kind == "below":
        asked = folder / "sub"
    found = find_repository(asked)
    assert found is not None
    assert str(found.git_dir) == git(asked, "rev-parse", "--absolute-git-dir").strip()
    assert str(found.top) == git(asked, "rev-parse", "--show-toplevel").strip()


async def test_a_comparison_that_is_stopped_leaves_no_error_that_nobody_asked_for(project, monkeypatch):
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    workspace = opened(project)
    stopping = threading.Event()

    def stopped(*_: Any) -> None:
        stopping.wait(10)
        raise ComparisonError("the comparison was stopped")

    monkeypatch.setattr(workspace, "_changes", stopped)
    comparing = asyncio.create_task(workspace.changes("git:x"))
    await asyncio.sleep(0.05)
    comparing.cancel()
    asyncio.get_running_loop().call_later(0.05, stopping.set)
    await asyncio.wait({comparing})
    assert comparing.cancelled()
    del comparing
    gc.collect()
    assert told == []
