"""Invariant 8: what changed is what differs between the disk and a durable baseline, with git and without."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.workspace.workspace import open_workspace
from tests.runner.workspace.support import MemoryBlobs, git, kinds_of, repository, state_dir, tree_in, write

# A short alphabet of paths, so that files, folders and names that differ in one byte collide all the time.
_NAMES = st.sampled_from(["a", "b", "a/x", "a/y", "a/x/z", "c d", "é", "b/long name", ".hidden", "c.py"])
_BYTES = st.sampled_from([b"", b"1\n", b"2\n", b"1\n2\n", b"no newline", b"\x00\xff", b"1\r\n", b"#!/bin/sh\n"])
_WRITE = st.tuples(st.just("write"), _NAMES, _BYTES)
_DELETE = st.tuples(st.just("delete"), _NAMES, st.just(b""))
_MOVE = st.tuples(st.just("move"), _NAMES, _NAMES)
_LINK = st.tuples(st.just("link"), _NAMES, _NAMES)
_CHMOD = st.tuples(st.just("chmod"), _NAMES, st.just(b""))
_OPERATIONS = st.lists(st.one_of(_WRITE, _WRITE, _DELETE, _MOVE, _LINK, _CHMOD), max_size=8)
_AGENT_GIT = st.sampled_from(
    ["", "commit", "stash", "switch", "reset", "add", "gc", "rm-cached", "ignore", "index-lock", "orphan", "tag-refs"]
)

# From which size on an index is too large to be written again: every one, or none of these.


def _perform(folder: Path, operation: tuple[str, str, object]) -> None:
    kind, name, what = operation
    path = folder / name
    if kind == "write":
        assert isinstance(what, bytes)
        _clear(folder, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(what)
    elif kind == "delete" and os.path.lexists(path):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    elif kind == "chmod" and path.is_file() and not path.is_symlink():
        path.chmod(path.stat().st_mode ^ 0o100)
    elif kind == "link":
        _clear(folder, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(str(what))
    elif kind == "move" and os.path.lexists(path) and not (folder / str(what)).is_relative_to(path):
        target = folder / str(what)
        if not path.is_relative_to(target):
            _clear(folder, target)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)


def _clear(folder: Path, path: Path) -> None:
    """Make room for a file at `path`: neither it nor a file where its folders must be."""
    for part in [*reversed(path.relative_to(folder).parents), path.relative_to(folder)]:
        there = folder / part
        if part != Path() and os.path.lexists(there) and (there == path or not there.is_dir() or there.is_symlink()):
            shutil.rmtree(there) if there.is_dir() and not there.is_symlink() else there.unlink()


def _truth(folder: Path) -> dict[str, tuple[str, bytes]]:
    found = {}
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in {".git", ".pm-orchestrator"}]
        for name in [*files, *(name for name in folders if Path(here, name).is_symlink())]:
            path = Path(here, name)
            if path.is_symlink():
                kind, content = "link", os.fsencode(path.readlink())
            else:
                kind, content = ("run" if path.stat().st_mode & 0o100 else "file"), path.read_bytes()
            found[str(path.relative_to(folder))] = (kind, content)
    return found


def _held(folder: Path, base: str) -> dict[str, tuple[str, bytes]]:
    """What the baseline holds, as git reads it back."""
    kinds = {"120000": "link", "100755": "run", "100644": "file"}
    found = {}
    for line in git(folder, "ls-tree", "-r", "-z", tree_in(base)).split("\0"):
        if line:
            facts, _, name = line.partition("\t")
            mode, _, blob = facts.split(" ")
            found[name] = (kinds[mode], git(folder, "cat-file", "blob", blob).encode("utf-8", "surrogateescape"))
    return found


def _agents_git(folder: Path, what: str) -> None:
    """What an agent may do with git; none of it changes what the disk holds, but for what the truth sees as well."""
    match what:
        case "commit":
            git(folder, "add", "-A")
            git(folder, "commit", "-qm", "mine", "--allow-empty")
        case "stash":
            git(folder, "stash", "-q", "-u")
        case "switch":
            git(folder, "switch", "-q", "-c", "other")
        case "reset":
            git(folder, "reset", "-q", "--hard")
        case "add":
            git(folder, "add", "-A")
        case "gc":
            git(folder, "gc", "-q", "--prune=now")
        case "rm-cached":
            git(folder, "rm", "-rq", "--cached", ".")
        case "ignore":
            (folder / ".git" / "info").mkdir(exist_ok=True)
            (folder / ".git" / "info" / "exclude").write_text("nothing-of-this-name\n")
        case "index-lock":
            (folder / ".git" / "index.lock").write_text("")
        case "orphan":
            git(folder, "switch", "-q", "--orphan", "empty")
        case "tag-refs":
            git(folder, "tag", "v1")
        case _:
            return


async def _check(root: Path, *, with_git: bool, before: list, after: list, agent: str, restart: bool) -> None:
    folder = root / "project"
    if with_git:
        repository(folder, {"a": "1\n", "b/keep": "k\n", "c.py": "c = 1\n"})
    else:
        for name in ("a", "b/keep", "c.py"):
            write(folder / name, "1\n")
    for operation in before:
        _perform(folder, operation)
    blobs = MemoryBlobs()
    workspace = open_workspace(folder, state_dir=state_dir(folder), blobs=blobs)
    time.sleep(0.01)  # from here on the file system's clock shows another time: folders may be trusted
    base = await workspace.baseline("task-001/0")
    assert base.startswith("git:" if with_git else "manifest:sha256:")
    if with_git:
        assert _held(folder, base) == _truth(folder)
    then = _truth(folder)
    for operation in after:
        _perform(folder, operation)
    if with_git:
        with suppress(subprocess.CalledProcessError):  # what git refuses to the agent is no change either
            _agents_git(folder, agent)
    now = _truth(folder)
    if restart:
        workspace = open_workspace(folder, state_dir=state_dir(folder), blobs=blobs)
    changes = await workspace.changes(base)
    expected = {
        name: "added" if name not in then else "deleted" if name not in now else "modified"
        for name in then.keys() | now.keys()
        if then.get(name) != now.get(name)
    }
    assert kinds_of(changes) == expected
    for file in changes.files:
        for side, truth in ((file.before, then), (file.after, now)):
            kind, content = truth.get(file.path, (None, None))
            assert side == (b"" if kind == "link" else content)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=_OPERATIONS, after=_OPERATIONS, agent=_AGENT_GIT, restart=st.booleans())
def test_invariant_08_changes_are_the_truth_of_the_disk_in_a_repository(before, after, agent, restart):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_check(Path(folder), with_git=True, before=before, after=after, agent=agent, restart=restart))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=_OPERATIONS, after=_OPERATIONS, restart=st.booleans())
def test_invariant_08_changes_are_the_truth_of_the_disk_without_git(before, after, restart):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_check(Path(folder), with_git=False, before=before, after=after, agent="", restart=restart))


@pytest.mark.torture
@pytest.mark.timeout(900)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=_OPERATIONS,
    after=_OPERATIONS,
    agent=_AGENT_GIT,
    restart=st.booleans(),
    with_git=st.booleans(),
)
def test_invariant_08_changes_are_the_truth_of_the_disk_in_a_long_campaign(before, after, agent, restart, with_git):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_check(Path(folder), with_git=with_git, before=before, after=after, agent=agent, restart=restart))
