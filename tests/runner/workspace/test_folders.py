"""Folders are not walked again while nothing came into or went from them, and always where that is not certain."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.workspace.changes import Limits
from runner.workspace.git import folders
from runner.workspace.git.folders import (
    Scope,
    Start,
    Watched,
    walk,
    walk_again,
    watch,
)
from runner.workspace.git.repository import Git, find_repository
from runner.workspace.workspace import Workspace, open_workspace
from tests.runner.workspace.support import MemoryBlobs, git, repository, state_dir, write

_EXACT = Limits(clock_ns=0)


def opened(folder: Path, limits: Limits = _EXACT) -> Workspace:
    return open_workspace(folder, state_dir=state_dir(folder), blobs=MemoryBlobs(), limits=limits)


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


@pytest.fixture
def walks(monkeypatch) -> list[tuple[str, ...]]:
    """The pathspecs of all walks over folders."""
    seen: list[tuple[str, ...]] = []
    run = Git.run

    def recorded(self, *arguments, **options):
        if "--others" in arguments and arguments[0] == "ls-files":
            seen.append(arguments[arguments.index("--exclude-standard") + 1 :])
        return run(self, *arguments, **options)

    monkeypatch.setattr(Git, "run", recorded)
    return seen


async def test_when_only_files_change_no_folder_is_walked_a_second_time(project, walks):
    workspace = opened(project)
    base = await workspace.baseline("t")
    assert walks == [()]
    write(project / "sub/b.py", "b = 2\n")
    assert (await workspace.changes(base)).kinds == {"sub/b.py": "modified"}
    assert walks == [()]


async def test_only_a_folder_that_changed_is_walked_again(project, walks):
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(project / "sub/deep/new.py", "n = 1\n")
    (project / "made/more.txt").write_text("ignored\n")
    assert (await workspace.changes(base)).kinds == {"sub/deep/new.py": "added"}
    assert walks[1:] == [("--", "sub/deep/")]
    write(project / "top.py", "t = 1\n")
    assert (await workspace.changes(base)).kinds == {"sub/deep/new.py": "added", "top.py": "added"}
    assert walks[2:] == [()]


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
    workspace = opened(project, Limits(clock_ns=0, large_index=0))
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    write(project / "sub/mine.py", "m = 2\n")
    (project / "mine/gone.py").unlink()
    assert (await workspace.changes(base)).kinds == {"mine/gone.py": "deleted", "sub/mine.py": "modified"}
    shutil.rmtree(project / "mine")
    kinds = {"mine/gone.py": "deleted", "mine/too.py": "deleted", "sub/mine.py": "modified"}
    assert (await workspace.changes(base)).kinds == kinds


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


async def test_a_folder_that_changed_just_before_is_walked_again(project, walks):
    workspace = opened(project, Limits())
    base = await workspace.baseline("t")
    assert (await workspace.changes(base)).paths == ()
    assert walks == [(), ()]


async def test_a_repository_in_a_folder_that_was_empty_is_followed_into(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    repository(project / "empty/inner", {"n.py": "n = 1\n"})
    assert (await workspace.changes(base)).kinds == {"empty/inner/n.py": "added"}


async def test_a_folder_that_became_a_link_or_a_file_is_seen(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    (project / "sub/deep").rename(project / "made/deep")
    (project / "sub/deep").symlink_to("../made/deep")
    (project / "empty/inner").rmdir()
    write(project / "empty/inner", "a file now\n")
    kinds = {"empty/inner": "added", "sub/deep": "added", "sub/deep/c.py": "deleted"}
    assert (await workspace.changes(base)).kinds == kinds


def watched(
    folder: Path, hints: list[bytes], *, meanwhile: Callable[[], None] | None = None
) -> tuple[Watched | None, Git, Scope]:
    """What is watched in a repository, from a file of now in its state dir; `meanwhile` comes just after that file."""
    found = find_repository(folder)
    assert found is not None
    store = state_dir(folder) / "control"
    store.mkdir(exist_ok=True)
    let_pass()
    shutil.copy2(folder / ".git" / "index", store / "own.index")
    own = found.with_index(store / "own.index")
    scope = Scope(folder, folder, excluded=[folder / ".pm-orchestrator"])
    start = Start.of(store / "own.index", clock_ns=0)
    if meanwhile is not None:
        meanwhile()
    return watch(own, scope, hints, start=start), own, scope


_CLAIMS = st.lists(
    st.sampled_from(
        [b"sub/", b"sub/deep/", b"sub/./", b"sub/../", b"./", b"../", b"sub//", b"not/", b"made/", b"a.py/"]
    )
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hints=_CLAIMS)
def test_whatever_an_index_claims_every_folder_is_watched(project, hints):
    found, _own, _scope = watched(project, hints)
    assert found is not None
    assert {b"", b"sub/", b"sub/deep/", b"empty/", b"empty/inner/"} <= found.folders.keys()
    assert b".git/" not in found.folders
    assert b".pm-orchestrator/" not in found.folders


_PLACES = st.sampled_from(["", "sub", "sub/deep", "empty", "empty/inner", "made", "new", "new/inner", "sub/more"])
_DEEDS = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "folder", "move", "rule", "back"]), _PLACES, _PLACES), max_size=6
)


def _do(folder: Path, deed: tuple[str, str, str]) -> None:
    kind, name, other = deed
    here, there = folder / name, folder / other
    if kind == "write" and (here.is_dir() or not os.path.lexists(here)):
        write(here / "file.txt", f"{other}\n")
    elif kind == "delete" and name and here.is_dir():
        shutil.rmtree(here)
    elif kind == "folder":
        here.mkdir(parents=True, exist_ok=True)
    elif kind == "move" and name and here.is_dir() and not there.exists() and there.parent.is_dir():
        if not there.is_relative_to(here):
            here.rename(there)
    elif kind == "rule" and here.is_dir():
        write(here / ".gitignore", "file.txt\n" if other else "\n")
    elif kind == "back" and here.is_dir():
        os.utime(here, (1e9, 1e9))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=_DEEDS, after=_DEEDS)
def test_a_walk_over_what_changed_finds_what_a_walk_over_everything_finds(before, after):
    with tempfile.TemporaryDirectory() as name:
        folder = repository(Path(name) / "p", {"sub/b.py": "b\n", "sub/deep/c.py": "c\n", ".gitignore": "/made/\n"})
        for deed in before:
            _do(folder, deed)
        found, own, scope = watched(folder, [b"", b"sub/", b"sub/deep/"])
        assert found is not None
        found = found._replace(others=frozenset(walk(own, ())))
        for deed in after:
            _do(folder, deed)
        assert walk_again(own, scope, found) == walk(own, ())


def test_nothing_is_watched_where_it_would_prove_nothing(project, monkeypatch):
    look = folders._lstat

    def one_link(path: bytes) -> os.stat_result | None:
        facts = look(path)
        if facts is None:
            return None
        exact = {"st_mtime_ns": facts.st_mtime_ns, "st_ctime_ns": facts.st_ctime_ns}
        return os.stat_result((*facts[:3], 1, *facts[4:10]), exact)

    assert watched(project, [])[0] is not None
    with monkeypatch.context() as patched:  # a file system that does not count the folders in a folder
        patched.setattr(folders, "_lstat", one_link)
        assert watched(project, [])[0] is None
    with monkeypatch.context() as patched:  # one that does not keep what time it was told
        patched.setattr(folders.os, "utime", lambda *_arguments, **_options: None)
        assert watched(project, [])[0] is None
    git(project, "config", "core.excludesFile", "relative/to/what")
    assert watched(project, [])[0] is None
    git(project, "config", "--unset", "core.excludesFile")
    assert watched(project, [])[0] is not None
    (project / "empty/inner/.git").mkdir()  # which may become a repository without a change to its folder
    assert watched(project, [])[0] is None


def test_a_file_that_comes_while_the_folders_are_walked_is_seen_later(project):
    found, own, scope = watched(project, [], meanwhile=lambda: write(project / "sub/deep/late.py", "l = 1\n"))
    assert found is not None
    assert {path for path, was in found.folders.items() if was is None} == {b"sub/deep/"}
    assert b"sub/deep/late.py" in walk_again(own, scope, found)  # `others`, found before, does not have it


def test_too_many_unknown_folders_are_not_watched(project):
    for number in range(600):
        (project / "many" / str(number)).mkdir(parents=True)
    assert watched(project, [])[0] is None
    write(project / ".gitignore", "/many/\n/made/\n")
    found = watched(project, [])[0]
    assert found is not None
    assert b"many/" not in found.folders
