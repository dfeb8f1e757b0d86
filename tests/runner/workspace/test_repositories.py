"""Repositories as they are found in the wild, and what agents do to them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runner.workspace.changes import ComparisonError
from runner.workspace.git.refs import release_baselines
from runner.workspace.git.repository import listed_files
from runner.workspace.workspace import Workspace, open_workspace
from tests.runner.workspace.support import MemoryBlobs, git, kinds_of, repository, state_dir, tree_in, write
from tests.support.tools import need
from tracer.errors import PmError, RecordError
from tracer.statedir import user_state_folder


def opened(folder: Path) -> Workspace:
    return open_workspace(folder, state_dir=state_dir(folder), blobs=MemoryBlobs())


@pytest.fixture
def project(tmp_path) -> Path:
    return repository(tmp_path / "project", {"a.py": "a = 1\n", "sub/b.py": "b = 1\n", ".gitignore": "*.log\n"})


def user_view(folder: Path) -> tuple[str, ...]:
    """Everything of the repository that belongs to the user."""
    index = folder / ".git" / "index"
    return (
        git(folder, "status", "--porcelain"),
        git(folder, "for-each-ref", "refs/heads", "refs/tags", "refs/stash"),
        git(folder, "ls-files", "-s"),
        (folder / ".git" / "HEAD").read_text(),
        index.read_bytes().hex() if index.exists() else "",
    )


async def test_nothing_of_the_users_repository_changes_and_the_tree_is_kept_by_a_ref(project):
    write(project / "a.py", "a = 2\n")
    git(project, "add", "a.py")
    write(project / "a.py", "a = 3\n")
    write(project / "new.py", "n = 1\n")
    git(project, "status")  # git itself refreshes the index once
    before = user_view(project)
    workspace = opened(project)
    base = await workspace.baseline("task-001/0")
    await workspace.changes(base)
    assert user_view(project)[1:] == before[1:]
    refs = git(project, "for-each-ref", "--format=%(refname) %(objectname)", "refs/pm-orchestrator").split()
    assert refs == [f"refs/pm-orchestrator/task-001/0/{tree_in(base)}", tree_in(base)]
    assert git(project, "ls-tree", "-r", "--name-only", tree_in(base)).split() == [
        ".gitignore",
        "a.py",
        "new.py",
        "sub/b.py",
    ]
    assert list((project / ".pm-orchestrator" / "control" / "workspace").glob("snapshot-*")) == []


async def test_ignored_files_are_left_out_but_a_tracked_one_stays_in_view_when_it_becomes_ignored(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / "noise.log", "x\n")
    write(project / ".gitignore", "*.log\n*.py\n")
    write(project / "a.py", "a = 2\n")
    git(project, "rm", "-q", "--cached", "a.py")
    assert (await workspace.changes(base)).paths == (".gitignore", "a.py")


async def test_a_repository_without_a_commit(tmp_path):
    folder = repository(tmp_path / "empty")
    write(folder / "a.py", "a = 1\n")
    workspace = opened(folder)
    base = await workspace.baseline("t")
    assert base.startswith("git:")
    write(folder / "b.py", "b = 1\n")
    assert kinds_of(await workspace.changes(base)) == {"b.py": "added"}


async def test_a_workspace_below_the_top_of_its_repository(project):
    sub = project / "sub"
    workspace = opened(sub)
    base = await workspace.baseline("t")
    write(project / "a.py", "a = 2\n")
    write(sub / "b.py", "b = 2\n")
    write(sub / "c.py", "c = 1\n")
    again = opened(sub)
    for looked in (workspace, again):
        changes = await looked.changes(base)
        assert kinds_of(changes) == {"b.py": "modified", "c.py": "added"}
    assert b"a/b.py" in changes.diff


async def test_a_workspace_that_its_repository_ignores_is_compared_all_the_same(project):
    inside = project / "x.log"
    write(inside / "a.py", "a = 1\n")
    workspace = opened(inside)
    base = await workspace.baseline("t")
    assert base.startswith("manifest:")
    write(inside / "a.py", "a = 2\n")
    assert (await workspace.changes(base)).paths == ("a.py",)


async def test_a_worktree_of_a_repository(project, tmp_path):
    tree = tmp_path / "tree"
    git(project, "worktree", "add", "-q", str(tree), "-b", "side")
    workspace = opened(tree)
    base = await workspace.baseline("t")
    write(tree / "a.py", "a = 2\n")
    assert (await workspace.changes(base)).paths == ("a.py",)


async def test_files_inside_submodules_and_nested_repositories_are_compared(project, tmp_path):
    library = repository(tmp_path / "library", {"lib.py": "l = 1\n"})
    git(project, "submodule", "add", "-q", str(library), "vendor/lib")
    git(project, "commit", "-qm", "with library")
    repository(project / "nested", {"n.py": "n = 1\n"})
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    write(project / "vendor/lib/lib.py", "l = 2\n")
    write(project / "vendor/lib/more.py", "m = 1\n")
    write(project / "nested/n.py", "n = 2\n")
    git(project / "nested", "commit", "-qam", "the agent commits")
    changes = await workspace.changes(base)
    assert changes.notes == ()
    assert git(project / "vendor/lib", "for-each-ref", "refs/pm-orchestrator")
    assert kinds_of(changes) == {
        "nested/n.py": "modified",
        "vendor/lib/lib.py": "modified",
        "vendor/lib/more.py": "added",
    }
    assert [file.before for file in changes.files] == [b"n = 1\n", b"l = 1\n", None]
    assert b"+++ b/vendor/lib/lib.py" in changes.diff


async def test_a_repository_made_inside_a_folder_with_files_hides_nothing(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    repository(project / "sub", {"hidden.py": "h = 1\n"})
    write(project / "sub" / "b.py", "b = 2\n")
    assert kinds_of(await workspace.changes(base)) == {"sub/b.py": "modified", "sub/hidden.py": "added"}


def _change_file(nested: Path) -> None:
    write(nested / "n.py", "n = 2\n")


def _hide_file(nested: Path) -> None:
    git(nested, "update-index", "--assume-unchanged", "n.py")
    write(nested / "n.py", "n = 2\n")


def _remove_repository(nested: Path) -> None:
    shutil.rmtree(nested)


def _empty_repository(nested: Path) -> None:
    shutil.rmtree(nested)
    nested.mkdir()


@pytest.mark.parametrize(
    ("do", "kinds"),
    [
        (_change_file, {"nested/n.py": "modified"}),
        (_hide_file, {"nested/n.py": "modified"}),
        (_remove_repository, {"nested": "deleted"}),
        (_empty_repository, {"nested": "deleted"}),
    ],
)
async def test_a_repository_inside_is_compared_where_the_outer_one_knows_of_none(tmp_path, do, kinds):
    folder = repository(tmp_path / "outer", {"a.py": "a = 1\n"})
    repository(folder / "nested", {"n.py": "n = 1\n"})
    workspace = opened(folder)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    do(folder / "nested")
    assert kinds_of(await workspace.changes(base)) == kinds


async def test_a_submodule_that_was_emptied_is_deleted_and_one_that_was_not_fetched_has_no_files(project, tmp_path):
    other = repository(tmp_path / "other", {"s.py": "s = 1\n"})
    for name in ("mod", "late"):
        git(project, "submodule", "add", "-q", str(other), name)
    git(project, "commit", "-qm", "submodules")
    git(project, "submodule", "deinit", "-q", "-f", "late")
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    git(project, "submodule", "deinit", "-q", "-f", "mod")
    write(project / "late/s.py", "s = 1\n")
    assert kinds_of(await workspace.changes(base)) == {"late/s.py": "added", "mod": "deleted"}


def _replace_link(project: Path) -> None:
    (project / "link").unlink()
    (project / "link").write_text("a.py")


def _add_by_case(project: Path) -> None:
    write(project / "sub/B.py", "b = 2\n")
    write(project / "SUB/new.py", "n = 1\n")


def _make_executable(project: Path) -> None:
    (project / "a.py").chmod(0o755)


def _change_all(project: Path) -> None:
    for name in ("a.py", "sub/b.py", "mine.py"):
        write(project / name, "other\n")


_HIDING = [
    ("core.symlinks=false", _replace_link, {"link": "modified"}),
    ("core.ignoreCase=true", _add_by_case, {"SUB/new.py": "added", "sub/B.py": "added"}),
    ("core.ignoreStat=true", _change_all, {"a.py": "modified", "mine.py": "modified", "sub/b.py": "modified"}),
    ("core.trustctime=false", _change_all, {"a.py": "modified", "mine.py": "modified", "sub/b.py": "modified"}),
]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize(("setting", "do", "kinds"), _HIDING, ids=lambda part: part if isinstance(part, str) else "")
async def test_no_setting_hides_a_change(project, setting, do, kinds, when):
    (project / "link").symlink_to("a.py")
    git(project, "add", "link")
    git(project, "commit", "-qm", "link")
    write(project / "mine.py", "m = 1\n")
    write(project / "a.py", "a = 'mine'\n")
    if when == "before":
        git(project, "config", *setting.split("="))
    workspace = opened(project)
    base = await workspace.baseline("t")
    git(project, "config", *setting.split("="))
    do(project)
    assert kinds_of(await workspace.changes(base)) == kinds


async def test_who_may_execute_a_file_is_compared_unless_the_person_had_said_that_it_does_not_matter(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    git(project, "config", "core.fileMode", "false")
    _make_executable(project)
    assert kinds_of(await workspace.changes(base)) == {"a.py": "modified"}
    base = await workspace.baseline("t")
    (project / "a.py").chmod(0o644)
    assert kinds_of(await workspace.changes(base)) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere this may be git's own folder")
@pytest.mark.parametrize("name", ["git~1", ".git ", ".git\u200c"])
async def test_names_that_are_gits_own_elsewhere_are_compared(project, name):
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / "sub" / name / "x.py", "x = 1\n")
    assert kinds_of(await workspace.changes(base)) == {f"sub/{name}/x.py": "added"}


def _make_upper_case_folder(project: Path) -> None:
    write(project / "sub/.GIT/x.py", "x = 1\n")


def _make_link_to_modules(project: Path) -> None:
    (project / ".gitmodules").symlink_to("a.py")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere this may be git's own folder")
@pytest.mark.parametrize(
    ("make", "name"), [(_make_upper_case_folder, "sub/.GIT/x.py"), (_make_link_to_modules, ".gitmodules")]
)
async def test_a_name_that_git_never_takes_is_never_no_change(project, make, name):
    workspace = opened(project)
    base = await workspace.baseline("t")
    make(project)
    with pytest.raises(ComparisonError) as raised:
        await workspace.changes(base)
    assert name in str(raised.value.why)
    assert (await workspace.baseline("t")).startswith("manifest:")
    assert name in " ".join(workspace.notes)


async def test_known_files_behind_an_ignored_link_that_leads_in_a_circle_are_deleted(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / ".git/info/exclude", "/sub\n")
    shutil.rmtree(project / "sub")
    (project / "sub").symlink_to("sub")
    assert kinds_of(await workspace.changes(base)) == {"sub/b.py": "deleted"}


@pytest.mark.parametrize("where", ["", "nested"])
@pytest.mark.parametrize("restart", [False, True])
async def test_an_ignored_file_that_the_agent_adds_by_force_is_compared(project, restart, where):
    folder = repository(project / where, {"n.py": "n = 1\n", ".gitignore": "*.log\n"}) if where else project
    for name in ("known.log", "gone.log"):
        write(folder / name, "k\n")
    git(folder, "add", "-f", "known.log", "gone.log")
    git(folder, "commit", "-qm", "logs")
    (folder / "gone.log").unlink()
    write(folder / "other.log", "o\n")
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(folder / "new.log", "n\n")
    write(folder / "gone.log", "back\n")
    git(folder, "add", "-f", "new.log")
    git(folder, "commit", "-qm", "the agent's")
    looked = opened(project) if restart else workspace
    kinds = {Path(where, name).as_posix(): "added" for name in ("gone.log", "new.log")}
    assert kinds_of(await looked.changes(base)) == kinds


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
async def test_flags_of_the_users_index_hide_nothing(project, flag):
    git(project, "update-index", flag, "a.py")
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / "a.py", "a = 2\n")
    assert (await workspace.changes(base)).paths == ("a.py",)
    assert git(project, "ls-files", "-v", "a.py")[0] in "hS"


async def test_a_sparse_checkout_misses_only_what_is_not_there(project):
    git(project, "sparse-checkout", "set", "--cone", "--sparse-index", "other")
    assert not (project / "sub").exists()
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    write(project / "a.py", "a = 2\n")
    write(project / "sub" / "b.py", "b = 2\n")
    assert kinds_of(await workspace.changes(base)) == {"a.py": "modified", "sub/b.py": "modified"}


async def test_programs_named_in_git_settings_are_never_run(project, tmp_path):
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    write(project / ".gitattributes", "*.py filter=trap diff=trap\n*.txt text eol=crlf\n")
    workspace = opened(project)
    base = await workspace.baseline("t")
    for key in ("core.fsmonitor", "filter.trap.clean", "filter.trap.process", "diff.trap.textconv", "diff.external"):
        git(project, "config", key, str(trap))
    git(project, "config", "filter.trap.required", "true")
    git(project, "config", "core.worktree", str(tmp_path))
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction", "pre-commit"):
        shutil.copy(trap, hooks / name)
    write(project / "a.py", "a = 2\n")
    assert (await workspace.changes(base)).paths == ("a.py",)
    await workspace.baseline("t/1")
    assert not (tmp_path / "sprung").exists()


async def test_line_ending_conversion_makes_no_noise(project):
    git(project, "config", "core.autocrlf", "true")
    (project / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "dos")
    workspace = opened(project)
    base = await workspace.baseline("t")
    os.utime(project / "dos.txt", (1, 1))
    assert (await workspace.changes(base)).paths == ()
    (project / "dos.txt").write_bytes(b"one\r\nthree\r\n")
    assert (await workspace.changes(base)).paths == ("dos.txt",)


async def test_a_large_file_pointer_is_the_file_it_stands_for(project):
    """As with git-lfs: the index holds a pointer, the disk holds the bytes."""
    import hashlib

    media = b"\x00media\xff" * 100
    pointer = (
        "version https://git-lfs.github.com/spec/v1\n"
        f"oid sha256:{hashlib.sha256(media).hexdigest()}\nsize {len(media)}\n"
    )
    write(project / ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    write(project / "m.bin", pointer)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "pointer")
    (project / "m.bin").write_bytes(media)
    git(project, "config", "filter.lfs.clean", f"printf '%s' '{pointer}'")
    os.utime(project / "m.bin", (1, 1))  # long before the index was written, as in any real repository
    git(project, "add", "-A")
    assert git(project, "status", "--porcelain") == ""
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert git(project, "cat-file", "-p", f"{tree_in(base)}:m.bin") == pointer
    os.utime(project / "m.bin", (2, 2))
    assert (await workspace.changes(base)).paths == ()
    (project / "m.bin").write_bytes(media + b"more")
    assert (await workspace.changes(base)).paths == ("m.bin",)


async def test_a_conflict_in_progress_is_compared_as_it_lies_on_disk(project):
    git(project, "switch", "-q", "-c", "side")
    write(project / "a.py", "a = 'side'\n")
    git(project, "commit", "-qam", "side")
    git(project, "switch", "-q", "main")
    write(project / "a.py", "a = 'main'\n")
    git(project, "commit", "-qam", "main")
    with pytest.raises(Exception, match="returned non-zero"):
        git(project, "merge", "side")
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    write(project / "a.py", "a = 'solved'\n")
    assert (await workspace.changes(base)).paths == ("a.py",)
    assert git(project, "ls-files", "-u")


async def test_a_damaged_index_of_the_user_is_no_obstacle(project):
    (project / ".git" / "index").write_bytes(b"DIRCgarbage")
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert workspace.notes
    write(project / "a.py", "a = 2\n")
    assert (await workspace.changes(base)).paths == ("a.py",)


async def test_when_the_agent_deletes_the_repository_the_changed_files_are_still_known(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    shutil.rmtree(project / ".git")
    write(project / "a.py", "a = 2\n")
    write(project / "new.py", "n = 1\n")
    changes = await workspace.changes(base)
    assert kinds_of(changes) == {".git": "deleted", "a.py": "modified", "new.py": "added"}
    assert "the copy of it" in changes.notes[0]
    assert b"-a = 1" in changes.diff
    shutil.rmtree(user_state_folder(os.environ) / "repositories")
    for looked in (workspace, opened(project)):
        changes = await looked.changes(base)
        assert kinds_of(changes) == {".git": "deleted", "a.py": "modified", "new.py": "added"}
        assert "not at hand" in changes.notes[0]
    git(project, "init", "-q")
    assert kinds_of(await workspace.changes(base)) == {"a.py": "modified", "new.py": "added"}


async def test_a_base_that_nobody_knows_is_an_error_and_never_no_change(project):
    with pytest.raises(ComparisonError):
        await opened(project).changes("git:" + "0" * 40)
    with pytest.raises(ComparisonError):
        await opened(project).changes("manifest:sha256:" + "0" * 64)
    with pytest.raises(ComparisonError):
        await opened(project).changes("something")


async def test_a_repository_that_git_cannot_read_is_compared_without_it(tmp_path):
    folder = repository(tmp_path / "project", {"a.py": "a = 1\n"})
    git(folder, "config", "core.repositoryFormatVersion", "99")
    workspace = opened(folder)
    base = await workspace.baseline("t")
    assert base.startswith("manifest:")
    assert "git cannot be used" in workspace.notes[0]
    write(folder / "a.py", "a = 2\n")
    assert (await workspace.changes(base)).paths == ("a.py",)


async def test_a_machine_without_git_compares_without_it(project, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert base.startswith("manifest:")
    write(project / "a.py", "a = 2\n")
    assert (await workspace.changes(base)).paths == ("a.py",)


async def test_git_variables_of_the_caller_lead_nowhere(project, monkeypatch, tmp_path):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / "a.py", "a = 2\n")
    assert (await workspace.changes(base)).paths == ("a.py",)


async def test_a_repository_of_another_owner_is_compared(project):
    for path in [project, *project.rglob("*")]:
        os.lchown(path, 12345, 12345)
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert base.startswith("git:")


async def test_files_behind_a_link_that_leads_in_a_circle_are_deleted_however_many_links_there_are(project):
    for number in range(250):
        write(project / f"folder{number}" / "file.txt", "x")
    workspace = opened(project)
    base = await workspace.baseline("t")
    for number in range(250):
        shutil.rmtree(project / f"folder{number}")
        (project / f"folder{number}").symlink_to(f"folder{number}")
    kinds = kinds_of(await workspace.changes(base))
    assert sorted(kinds.values()) == ["added"] * 250 + ["deleted"] * 250


async def test_the_refs_of_a_forgotten_task_are_let_go_and_those_of_others_stay(project):
    repository(project / "nested", {"n.py": "n = 1\n"})
    workspace = opened(project)
    await workspace.baseline("task-001/main/0")
    await workspace.baseline("task-0010/main/0")
    assert release_baselines(project, ["task-001"], state_dir=project / ".pm-orchestrator") == 2
    for folder in (project, project / "nested"):
        refs = git(folder, "for-each-ref", "--format=%(refname)", "refs/pm-orchestrator").split()
        assert [ref.split("/")[2] for ref in refs] == ["task-0010"]


_AS_NOBODY = """
import asyncio, json, os, sys
import concurrent.futures.thread, encodings.idna, signal, subprocess, tempfile, threading
from pathlib import Path
import runner.workspace.manifest
from runner.workspace.workspace import open_workspace
from tests.runner.workspace.support import MemoryBlobs
os.setgroups([]); os.setgid(65534); os.setuid(65534)  # after the imports: the interpreter may be root's alone

async def main(folder):
    workspace = open_workspace(folder, state_dir=folder / ".pm-orchestrator", blobs=MemoryBlobs())
    base = await workspace.baseline("t")
    first = workspace.notes
    (folder / "a.py").write_text("a = 2")
    changes = await workspace.changes(base)
    print(json.dumps([base.split(":")[0], list(first), list(changes.paths)]))

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture
def public_folder():
    """A folder that another user can reach: pytest keeps its own closed to everybody else."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["git", "manifest"])
async def test_files_and_folders_that_may_not_be_read_are_named_and_the_rest_is_compared(public_folder, kind):
    need(os.getuid() == 0, "root", how="the test becomes another user")
    folder = public_folder / "project"
    files = {"a.py": "a = 1\n", "secret.txt": "s\n", "closed/inner.txt": "i\n"}
    if kind == "git":
        repository(folder, files)
        write(folder / "secret.txt", "newer\n")
    else:
        for name, text in files.items():
            write(folder / name, text)
    state_dir(folder)
    for path in [folder, *folder.rglob("*")]:
        os.lchown(path, 65534, 65534)
    (folder / "secret.txt").chmod(0)
    (folder / "closed").chmod(0)
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(folder)], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    (folder / "closed").chmod(0o755)
    assert done.returncode == 0, done.stderr
    used, notes, paths = json.loads(done.stdout)
    assert used == kind
    assert "secret.txt" in " ".join(notes)
    assert paths == ["a.py"]


async def test_a_state_dir_that_cannot_be_written_is_a_clear_error(project):
    state = state_dir(project)
    (state / "control").write_text("not a folder")
    with pytest.raises(PmError) as caught:
        await opened(project).baseline("t")
    assert caught.value.next_step


def test_files_are_listed_without_running_what_the_repository_names(tmp_path):
    folder = repository(tmp_path / "project", {"a.py": "a = 1\n", "sub/b.py": "b = 1\n", ".gitignore": "*.log\n"})
    write(folder / "sub/new.py", "n = 1\n")
    write(folder / "sub/noise.log", "l\n")
    git(folder, "config", "core.fsmonitor", f"touch {tmp_path / 'ran'};:")
    assert sorted(listed_files(folder) or []) == [".gitignore", "a.py", "sub/b.py", "sub/new.py"]
    assert sorted(listed_files(folder / "sub") or []) == ["b.py", "new.py"]
    assert not (tmp_path / "ran").exists()
    assert listed_files(tmp_path) is None


async def test_a_full_disk_is_told_as_that_and_not_as_a_damaged_repository(project, monkeypatch):
    workspace = opened(project)
    base = await workspace.baseline("t")

    def full(*_given, **_named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("runner.workspace.workspace.read_state", full)
    monkeypatch.setattr("runner.workspace.workspace.harm_since", full)
    with pytest.raises(RecordError) as raised:
        await workspace.changes(base)
    assert raised.value.next_step == "free space, then `pm resume`"
    assert "No space left" in str(raised.value.why)
