"""The commits that a session tells of: how they lead to the final one, and what each says it changed. Pure.

Not all that stands in the working folder is committed (`git add -p`, or only some of the files). A file of the final
commit is proved by the edits, or by the diffs of the commits, applied one after the other to where they began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from collector.patches import FilePatch, PatchError, apply_patch, parse_patch
from collector.replay import UNKNOWN, Content
from tracer.capture.events import Commit

__all__ = ["LEFT_OUT", "CommitDiff", "Commits", "content_by_commits", "read_diff"]

LEFT_OUT: Final = "left_out"
"""The key of a commit's `extra` that names the files of which the recorder keeps nothing."""


class Commits:
    """The commits of one trace, in order of seq."""

    def __init__(self) -> None:
        self._made: dict[str, Commit] = {}
        self.left_out: set[str] = set()

    def take(self, commit: Commit) -> None:
        """The next commit."""
        self._made[commit.commit_sha] = commit
        named = commit.extra.get(LEFT_OUT)
        self.left_out.update(path for path in named if isinstance(path, str)) if isinstance(named, list) else None

    def __contains__(self, sha: str) -> bool:
        return sha in self._made

    def leading_to(self, sha: str) -> list[Commit]:
        """The commits that end with `sha`, oldest first, each the parent of the next; empty where it was not made."""
        found: list[Commit] = []
        at: str | None = sha
        while at is not None and at in self._made and len(found) < len(self._made):
            found.append(self._made[at])
            at = self._made[at].parent_sha
        return found[::-1]


class CommitDiff(NamedTuple):
    """The diff of one commit by path; `redacted` where placeholders may stand in it."""

    files: Mapping[str, FilePatch]
    redacted: bool


def read_diff(diff: bytes, *, redacted: bool) -> CommitDiff:
    """A commit's diff; one that cannot be read tells of no file."""
    try:
        files = parse_patch(diff)
    except PatchError:
        files = ()
    return CommitDiff({file.path.decode("utf-8", "surrogateescape"): file for file in files}, redacted)


def content_by_commits(path: str, before: Content, diffs: Sequence[CommitDiff]) -> tuple[Content, bool]:
    """What the diffs make of the file, and whether redaction may stand in the way; UNKNOWN where they do not say."""
    content, redacted = before, False
    for diff in diffs:
        change = diff.files.get(path)
        if change is None:
            continue
        redacted |= diff.redacted
        if change.binary or not (isinstance(content, bytes) or content is None):
            return UNKNOWN, redacted
        try:
            content = apply_patch(content, change)
        except PatchError:
            return UNKNOWN, redacted
    return content, redacted
