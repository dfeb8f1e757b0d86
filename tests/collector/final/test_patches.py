"""A patch is read, applied and made to the byte, and agrees with git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.patches import PatchError, apply_patch, make_patch, parse_patch

_PIECES = [
    b"a\n",
    b"b\n",
    b"c\n",
    b"\n",
    b"x\r\n",
    b"\xe2\x80\xa8\n",
    b"\x0c\n",
    b"--- a\n",
    b"+++ b\n",
    b"@@ -1 +1 @@\n",
]
lines = st.lists(st.sampled_from(_PIECES), max_size=12)
tails = st.sampled_from([b"", b"end", b"\r", b"\\ No newline"])
contents = st.builds(lambda body, tail: b"".join(body) + tail, lines, tails)


def _only(patch: bytes):
    (file,) = parse_patch(patch)
    return file


@given(before=st.none() | contents, after=st.none() | contents)
@settings(max_examples=300)
def test_a_patch_that_was_made_leads_to_the_other_content(before: bytes | None, after: bytes | None) -> None:
    patch = make_patch("src/naïve file.py", before, after)
    if before == after:
        assert patch == b""
        return
    read = _only(patch)
    assert apply_patch(before, read) == after
    assert read.path == "src/naïve file.py".encode()
    assert (read.creates, read.deletes) == (before is None, after is None)


@given(before=contents, after=contents)
@settings(max_examples=12)
def test_git_applies_what_is_made_and_its_own_diff_is_read(tmp_path_factory, before: bytes, after: bytes) -> None:
    folder = tmp_path_factory.mktemp("git")
    (folder / "f.txt").write_bytes(before)
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    subprocess.run(["git", "add", "f.txt"], cwd=folder, check=True)
    (folder / "f.txt").write_bytes(after)
    theirs = subprocess.run(
        ["git", "-c", "core.autocrlf=false", "diff", "--text"], cwd=folder, check=True, capture_output=True
    ).stdout
    if before != after:
        assert apply_patch(before, _only(theirs)) == after
        (folder / "f.txt").write_bytes(before)
        ours = make_patch("f.txt", before, after)
        subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=folder, check=True, input=ours)
        assert (folder / "f.txt").read_bytes() == after


def test_a_large_file_is_diffed_in_one_exact_hunk() -> None:
    before = b"".join(b"%d\n" % number for number in range(9000))
    after = before.replace(b"4500\n", b"four\n").replace(b"7000\n", b"")
    patch = make_patch("big", before, after)
    assert patch.count(b"@@ -") == 1
    assert apply_patch(before, _only(patch)) == after


def test_a_patch_that_does_not_fit_says_which_hunk() -> None:
    patch = make_patch("f", b"one\ntwo\n", b"one\n2\n")
    with pytest.raises(PatchError) as refused:
        apply_patch(b"one\nzwei\n", _only(patch))
    assert "hunk 1 at line 1" in refused.value.why


@pytest.mark.parametrize(
    ("patch", "what"),
    [
        (b"", "not a unified diff"),
        (b"hello\n", "not a unified diff"),
        (b"@@ -1,2 +1 @@\n-a\n", "cut off"),
        (b"@@ -1,x +1 @@\n-a\n", "cannot be read"),
        (b"@@ -1 +1 @@\n?a\n+b\n", "without a mark"),
        (b"@@ -1,1 +1,0 @@\n a\n", "other lines"),
    ],
)
def test_what_is_no_patch_is_refused(patch: bytes, what: str) -> None:
    with pytest.raises(PatchError) as refused:
        parse_patch(patch)
    assert what in refused.value.what


@given(junk=st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_read_or_refused(junk: bytes) -> None:
    for patch in (junk, b"@@ -1 +1 @@\n" + junk, b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n" + junk):
        try:
            for file in parse_patch(patch):
                apply_patch(b"a\nb\n", file)
        except PatchError:
            pass


def test_names_are_read_as_git_writes_them() -> None:
    quoted = b'diff --git "a/\\303\\244.txt" "b/\\303\\244.txt"\nnew file mode 100644\n'
    file = _only(quoted)
    assert file.path == "ä.txt".encode()
    assert file.creates
    assert _only(b"--- a/x\t2026-01-01\n+++ b/x\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n").path == b"x"


def test_several_files_in_one_diff_are_told_apart() -> None:
    patch = make_patch("a", b"1\n", b"2\n") + make_patch("b", None, b"new\n") + make_patch("c", b"old\n", None)
    a, b, c = parse_patch(patch)
    assert [a.path, b.path, c.path] == [b"a", b"b", b"c"]
    assert b.creates
    assert c.deletes


def test_a_binary_patch_is_not_applied(tmp_path: Path) -> None:
    file = _only(b"diff --git a/x b/x\nBinary files a/x and b/x differ\n")
    with pytest.raises(PatchError):
        apply_patch(b"\0", file)
