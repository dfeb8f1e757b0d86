"""What is read out of an index file is what git lists; of anything but an ordinary index nothing is said."""

from __future__ import annotations

import re
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.workspace.git.look import IndexFacts, read_index
from tests.runner.workspace.support import git, repository, write

_BYTES = {"sha1": 20, "sha256": 32}
_NAMES = ("a", "a.b", "a/b", "folder/a", "folder/deep/b", "é", "x" * 200, "y" * 200 + "/z", "TREE", "folder/link")
_LISTED = re.compile(r"(?P<tag>\S) (?P<mode>\d+) (?P<id>[0-9a-f]+) (?P<stage>\d)\t(?P<path>.*)", re.DOTALL)


def made(folder: Path, form: str, version: str, names: list[str]) -> Path:
    """A repository with these paths in an index of this version; its index file."""
    git(folder, "init", "-q", f"--object-format={form}")
    for name in names:
        if not any(other.startswith(f"{name}/") for other in names):
            write(folder / name, f"{name}\n")
    git(folder, "-c", f"index.version={version}", "add", "-A")
    git(folder, "update-index", "--index-version", version)
    return folder / ".git" / "index"


def is_ordinary(folder: Path) -> bool:
    """Whether git lists nothing but files without flags and conflicts."""
    entries = [_LISTED.fullmatch(line) for line in git(folder, "ls-files", "-s", "-v", "-z").split("\0") if line]
    return all(
        entry is not None and entry["tag"] == "H" and entry["stage"] == "0" and entry["mode"] != "160000"
        for entry in entries
    )


def _flag(folder: Path, what: str, path: str, form: str) -> None:
    digits = 2 * _BYTES[form]
    match what:
        case "assume" | "skip":
            git(folder, "update-index", "--assume-unchanged" if what == "assume" else "--skip-worktree", path)
        case "conflict":
            blob = git(folder, "rev-parse", f":{path}").strip()
            lines = [f"0 {'0' * digits}\t{path}", *(f"100644 {blob} {stage}\t{path}" for stage in (1, 2, 3))]
            git(folder, "update-index", "--index-info", stdin="\n".join(lines).encode())
        case "nested":
            git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * digits},zz-nested")
        case "intent":
            write(folder / "zz-intent", "i\n")
            git(folder, "add", "-N", "zz-intent")
        case "split":
            git(folder, "update-index", "--split-index")
        case "untracked":
            git(folder, "update-index", "--untracked-cache")
        case "threads":
            git(folder, "-c", "index.threads=2", "update-index", "--force-write-index")
        case "tree":
            git(folder, "write-tree")
        case _:
            return


_WHAT = st.sampled_from(["", "tree", "untracked", "threads", "assume", "skip", "conflict", "nested", "intent", "split"])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    form=st.sampled_from(["sha1", "sha256"]),
    version=st.sampled_from(["2", "4"]),
    names=st.lists(st.sampled_from(_NAMES), min_size=1, unique=True),
    marks=st.lists(_WHAT, max_size=2, unique=True),
    data=st.data(),
)
def test_an_index_is_ordinary_when_git_lists_nothing_else(form, version, names, marks, data):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        index = made(folder, form, version, names)
        paths = git(folder, "ls-files", "-z").split("\0")[:-1]
        for mark in marks:
            path = data.draw(st.sampled_from(paths))
            with suppress(subprocess.CalledProcessError):  # of a conflict there is no tree, nor can it have flags
                _flag(folder, mark, path, form)
        found = read_index(index.read_bytes(), id_bytes=_BYTES[form])
        if found is None:
            assert not is_ordinary(folder) or {"split", "intent"} & set(marks)  # these git does not list as such
        else:
            assert is_ordinary(folder)
            assert found.tree in {None, git(folder, "write-tree").strip()}
            assert "split" not in marks
        if marks in (["tree"], ["threads", "tree"]):
            assert found is not None
            assert found.tree == git(folder, "write-tree").strip()
            within = git(folder, "ls-tree", "-r", "-d", "-z", "--name-only", found.tree).split("\0")[:-1]
            assert sorted(found.folders) == sorted([b"", *(f"{name}/".encode() for name in within)])
        assert read_index(index.read_bytes(), id_bytes=52 - _BYTES[form]) is None


@pytest.fixture(scope="module", params=[("sha1", "2"), ("sha1", "4"), ("sha256", "2"), ("sha256", "4")], ids="-".join)
def whole(request, tmp_path_factory) -> tuple[Path, bytes, int]:
    """A folder, its index with a known tree, and how many bytes an id has."""
    form, version = request.param
    folder = tmp_path_factory.mktemp("whole")
    index = made(folder, form, version, [name for name in _NAMES if name != "a"])
    git(folder, "write-tree")
    return folder, index.read_bytes(), _BYTES[form]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_damaged_bytes_are_never_taken_for_something_that_git_does_not_see_in_them(whole, data):
    folder, content, id_bytes = whole
    at = data.draw(st.integers(0, len(content) - 1))
    kind = data.draw(st.sampled_from(["change", "change", "change", "cut", "insert", "drop"]))
    some = data.draw(st.binary(min_size=1, max_size=4))
    damaged = {
        "change": content[:at] + some + content[at + len(some) :],
        "cut": content[:at],
        "insert": content[:at] + some + content[at:],
        "drop": content[:at] + content[at + len(some) :],
    }[kind]
    if read_index(damaged, id_bytes=id_bytes) is None:
        return
    (folder / ".git" / "index").write_bytes(damaged)
    try:
        assert is_ordinary(folder)
    except subprocess.CalledProcessError:
        return  # git does not read it at all


@pytest.mark.parametrize("cut", [0, 3, 11, 12, 31, 32, 60, 100])
def test_an_index_that_was_cut_off_is_not_read(whole, cut):
    _folder, content, id_bytes = whole
    assert read_index(content[:cut], id_bytes=id_bytes) is None
    assert read_index(content[: len(content) - cut - 1], id_bytes=id_bytes) is None


def test_an_unknown_extension_an_unknown_version_and_a_second_tree_are_left_to_git(whole):
    _folder, content, id_bytes = whole
    body, checksum = content[:-id_bytes], content[-id_bytes:]
    assert read_index(content, id_bytes=id_bytes) is not None
    for more in (b"sdir\0\0\0\0", b"NEWS\0\0\0\0", b"TREE\0\0\0\0", b"UNTR\0\0\0\x09", b"UNTR"):
        assert read_index(body + more + checksum, id_bytes=id_bytes) is None
    assert read_index(body + b"UNTR\0\0\0\0" + checksum, id_bytes=id_bytes) is not None
    assert read_index(b"DIRC\0\0\0\5" + content[8:], id_bytes=id_bytes) is None
    assert read_index(b"dirc" + content[4:], id_bytes=id_bytes) is None


def test_after_a_change_the_index_knows_no_tree(tmp_path):
    folder = repository(tmp_path / "project", {"a.py": "a = 1\n", "sub/b.py": "b = 1\n"})
    index = folder / ".git" / "index"
    tree = git(folder, "rev-parse", "HEAD^{tree}").strip()
    assert read_index(index.read_bytes(), id_bytes=20) == IndexFacts(tree, (b"", b"sub/"))
    write(folder / "sub/b.py", "b = 2\n")
    git(folder, "add", "-A")
    assert read_index(index.read_bytes(), id_bytes=20) == IndexFacts(None, ())


def test_an_empty_index_is_ordinary(tmp_path):
    folder = repository(tmp_path / "project")
    git(folder, "read-tree", "--empty")
    assert read_index((folder / ".git" / "index").read_bytes(), id_bytes=20) is not None
