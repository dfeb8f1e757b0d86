"""Merging trees inside the object store: nothing on disk changes, and a conflict is known before anything does."""

from __future__ import annotations

import re
from typing import NamedTuple

from runner.workspace.git import Git, GitError, parse_raw
from runner.workspace.git_snapshot import FIXED_PERSON
from runner.workspace.model import safe_text

__all__ = ["MergeConflict", "changed_paths", "commit_tree", "merge_commits"]

_HUNK = re.compile(rb"^<<<<<<< [^\n]*\n.*?^>>>>>>> [^\n]*$", re.DOTALL | re.MULTILINE)
_MOST_HUNK_BYTES = 8000


class MergeConflict(NamedTuple):
    """The paths that do not merge, each with its hunks as text."""

    places: list[tuple[str, str]]


def commit_tree(git: Git, tree: str, *parents: str, message: str) -> str:
    """A commit of `tree` that is the same whoever makes it and whenever."""
    named = [part for parent in parents for part in ("-p", parent)]
    return git.run("commit-tree", tree, *named, "-m", message, env=FIXED_PERSON).decode().strip()


def merge_commits(git: Git, ours: str, theirs: str) -> str | MergeConflict:
    """The tree that joins both, or where they do not agree.

    Raises:
        GitError: git is older than 2.38, or an object is missing.

    """
    out = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs, ok_codes=(0, 1))
    tree, *rest = out.split(b"\0")
    if not re.fullmatch(rb"[0-9a-f]{40,64}", tree):
        raise GitError(f"git merge-tree said {out[:200]!r}")
    end = rest.index(b"") if b"" in rest else len(rest)  # then come the messages
    paths, messages = rest[:end], rest[end + 1 :]
    if not paths and not any(message.startswith(b"CONFLICT") for message in messages):
        return tree.decode()
    return MergeConflict([(safe_text(path), _hunks(git, tree, path)) for path in dict.fromkeys(paths)])


def _hunks(git: Git, tree: bytes, path: bytes) -> str:
    kind = git.run("ls-tree", "-z", tree.decode(), "--", path.decode("utf-8", "surrogateescape"))
    if b" blob " not in kind:
        return ""
    content = git.run("cat-file", "blob", kind.split(b"\t", 1)[0].split(b" ")[2].decode())
    if b"\0" in content[:8000]:
        return ""
    text = b"\n".join(_HUNK.findall(content))
    return text[:_MOST_HUNK_BYTES].decode("utf-8", "replace")


def changed_paths(git: Git, before: str, after: str) -> tuple[str, ...]:
    """The paths that differ between two trees or commits."""
    raw = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after)
    return tuple(safe_text(entry.path) for entry in parse_raw(raw))
