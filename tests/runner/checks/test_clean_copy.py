"""Copies that are given out again: what commands did in one never reaches the next run."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.checks.clean_copy import CleanCopy, Copies
from runner.gate.criterion import ChangedFile
from runner.processes.bubblewrap import probe
from tests.support.tools import need

FILES = {"a.py": b"a = 1\n", "b/c.py": b"c = 2\n", "b/d/e.txt": b"text\n", "link": None}


def lay_out(tree: Path) -> None:
    for name, content in FILES.items():
        place = tree / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content) if content is not None else place.symlink_to("a.py")


class _Folder:
    """A workspace that is laid out anew each time, and counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    async def lay_out(self, base: str, folder: Path, *, changed: object) -> str:
        self.count += 1
        lay_out(folder)
        return ""


def seen(tree: Path) -> dict[str, object]:
    """Everything below `tree` that a command can see."""
    found: dict[str, object] = {}
    for path in sorted(tree.rglob("*")):
        fact = path.lstat()
        is_file = stat.S_ISREG(fact.st_mode)
        content = path.read_bytes() if is_file else os.readlink(path) if path.is_symlink() else None  # noqa: PTH115
        found[str(path.relative_to(tree))] = (fact.st_mode, content)
    return found


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    need(probe().available, "bwrap", how="apt-get install bubblewrap; user namespaces must be allowed")
    folder = tmp_path / "project"
    folder.mkdir()
    lay_out(folder)
    return Copies(_Folder(folder), links=(), state_dir=tmp_path / "state")


CHANGED = (
    ChangedFile("a.py", b"a = 1\n", b"a = 10\n"),
    ChangedFile("b/c.py", b"c = 2\n", None),
    ChangedFile("new/x.py", None, b"x = 1\n"),
)


@pytest.mark.machine
async def test_invariant_18_a_copy_given_back_is_given_out_as_it_was_laid_out(copies: Copies, tmp_path: Path) -> None:
    async with copies.opened("git:1@0", changed=CHANGED) as copy:
        first, before = copy.tree, seen(copy.tree)
    async with copies.opened("git:1@0", changed=CHANGED, keep=CHANGED, written={"b/d/e.txt": b"other\n"}) as copy:
        assert copy.tree == first
        assert (copy.tree / "a.py").read_bytes() == b"a = 10\n"
        (copy.tree / "build" / "deep").mkdir(parents=True)
        (copy.tree / "build" / "deep" / "out.bin").write_bytes(b"1")
        (copy.tree / "b" / "d" / "left.txt").write_text("left")
        (copy.reports / "report.xml").write_text("<old/>")
    async with copies.opened("git:1@1", changed=CHANGED) as copy:
        assert (copy.tree, seen(copy.tree)) == (first, before), "the state of git's index is no other base"
        assert not list(copy.reports.iterdir())
    async with copies.opened("git:2@0", changed=()) as copy:
        assert copy.tree != first
    await copies.close()
    assert not first.exists()
    assert not list((tmp_path / "state" / "control" / "copies").iterdir())


def rewritten_in_place(tree: Path) -> None:
    """With the size and the times that it had."""
    place = tree / "b" / "d" / "e.txt"
    fact = place.stat()
    place.write_bytes(b"tex1\n")
    os.utime(place, ns=(fact.st_atime_ns, fact.st_mtime_ns))


def linked_away(tree: Path) -> None:
    shutil.move(tree / "b", tree.parent / "elsewhere")
    (tree / "b").symlink_to(tree.parent / "elsewhere")


def deleted(tree: Path) -> None:
    (tree / "b" / "d" / "e.txt").unlink()


def relinked(tree: Path) -> None:
    (tree / "link").unlink()
    (tree / "link").symlink_to("/etc/passwd")


def locked(tree: Path) -> None:
    (tree / "b").chmod(0o500)


def folder_in_place(tree: Path) -> None:
    (tree / "a.py").unlink()
    (tree / "a.py").mkdir()


@pytest.mark.machine
@pytest.mark.parametrize("harm", [rewritten_in_place, linked_away, deleted, relinked, locked, folder_in_place])
async def test_invariant_18_what_cannot_be_undone_is_laid_out_anew(
    copies: Copies, harm: Callable[[Path], None]
) -> None:
    async with copies.opened("git:1@0", changed=CHANGED) as copy:
        first, before = copy.tree, seen(copy.tree)
        harm(copy.tree)
    async with copies.opened("git:1@0", changed=CHANGED) as copy:
        assert (copy.tree != first, seen(copy.tree)) == (True, before)
    await copies.close()


@pytest.mark.machine
async def test_a_run_that_breaks_off_leaves_no_copy(copies: Copies, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended"):
        async with copies.opened("git:1@0", changed=()) as copy:
            raise RuntimeError("ended")
    assert not copy.tree.exists()
    assert not list((tmp_path / "state" / "control" / "copies").iterdir())


_NAMES = st.sampled_from(["a.py", "b/c.py", "b/d/e.txt", "b/new.py", "x/y.py", "link", "b", "b/d"])
_ACTS = st.sampled_from(["write", "delete", "mkdir", "link", "chmod", "append"])


@given(acts=st.lists(st.tuples(_ACTS, _NAMES), max_size=6), kept=st.booleans())
def test_invariant_18_it_is_as_it_was_or_is_not_used_again(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, str]], kept: bool
) -> None:
    own = tmp_path_factory.mktemp("own")
    tree, reports = own / "tree", own / "reports"
    tree.mkdir()
    reports.mkdir()
    lay_out(tree)
    copy = CleanCopy(tree, own / "project", reports=reports, mounted=True, state_dir=own / "state")
    copy.take_stock()
    before = seen(tree)
    if kept:
        copy.put(CHANGED)
    for act, name in acts:
        place = tree / name
        try:
            if act == "write":
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(b"written\n")
            elif act == "append":
                with place.open("ab") as file:
                    file.write(b"#")
            elif act == "delete":
                shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
            elif act == "mkdir":
                place.mkdir(parents=True)
            elif act == "link":
                place.symlink_to("a.py")
            else:
                place.chmod(0o700)
        except OSError:
            continue
    if copy.restore():
        assert seen(tree) == before
    elif not acts:
        pytest.fail("what was put was not undone")
    shutil.rmtree(own)
