"""Bundles of repositories that are not as most are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from collector.final.bundle_trees import Trees
from tests.collector.recorder.support import git, repository
from tracer.errors import TraceError


def bundled(repo: Path, *revisions: str) -> Path:
    path = repo.parent / f"{len(list(repo.parent.iterdir()))}.bundle"
    git(repo, "bundle", "create", "--quiet", str(path), *revisions)
    return path


@pytest.mark.parametrize("depth", [1, 2])
def test_the_commits_of_a_shallow_clone_are_read_and_those_without_their_base_are_not(
    tmp_path: Path, depth: int
) -> None:
    whole = repository(tmp_path / "whole")
    for number in range(3):
        (whole / "n.txt").write_text(f"{number}\n", encoding="utf-8")
        git(whole, "add", "n.txt")
        git(whole, "commit", "-qm", f"{number}")
    subprocess.run(
        ["git", "clone", "-q", f"--depth={depth}", whole.as_uri(), str(tmp_path / "clone")], check=True, timeout=60
    )
    clone = tmp_path / "clone"
    base = git(clone, "rev-parse", "HEAD")
    (clone / "n.txt").write_text("fixed\n", encoding="utf-8")
    git(clone, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qam", "fix")
    last = bundled(clone, "HEAD", f"^{base}")
    git(clone, "update-ref", "refs/heads/base", base)
    first = bundled(clone, "refs/heads/base")
    (tmp_path / "trees").mkdir()
    trees = Trees(tmp_path / "trees", commit=base)
    with pytest.raises(TraceError, match="cannot be read"):
        trees.add_bundle(last.open("rb"), what="the last bundle")
    trees.add_bundle(first.open("rb"), what="the bundle")
    assert trees.commit(base, what="the base").read("n.txt") == b"2\n"
    trees.add_bundle(last.open("rb"), what="the last bundle")
    assert trees.commit(git(clone, "rev-parse", "HEAD"), what="the head").read("n.txt") == b"fixed\n"
