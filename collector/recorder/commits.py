"""Commits made while a session is recorded, read from the log of HEAD: what git noted is told apart from checkouts.

`Head.moved` answers what happened since it was last asked. A repository without such a log is compared by its commit.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from collector.recorder.facts import head_commit
from runner.workspace.git import Git, GitError

__all__ = ["Head", "Made"]

_COMMITTING: Final = ("commit", "cherry-pick", "revert", "merge", "rebase", "pull", "am")
_LINE: Final = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [^\t]*?(\d{1,12}) [-+]\d{4}(?:\t(.*))?")
_MOST: Final = 100


class Made(NamedTuple):
    """A commit that was made: its id, its first parent (empty for the first) and its message."""

    sha: str
    parent: str
    message: str


class Head:
    """HEAD of one repository. `commit` and `branch` are as they were at the last look.

    `since_ms` (a recording that goes on) takes what the log holds from that time on, else only what comes from now on.
    """

    def __init__(self, git: Git, *, since_ms: int | None = None) -> None:
        self._git = git
        self._log = _log_path(git)
        self._at = self._log.stat().st_size if self._log is not None and since_ms is None else 0
        self._since_s = (since_ms or 0) // 1000
        self.commit = head_commit(git)
        self.branch = self._branch()

    def moved(self) -> list[Made]:
        """The commits made since the last look, oldest first."""
        before = self.commit
        self.commit, self.branch = head_commit(self._git), self._branch()
        made = self._from_log() if self._log is not None else self._from_history(before)
        return [commit for commit in (self._made(sha) for sha in made[-_MOST:]) if commit is not None]

    def _from_log(self) -> list[str]:
        if self._log is None:
            return []
        try:
            with self._log.open("rb") as file:
                if self._log.stat().st_size < self._at:
                    self._at = 0
                file.seek(self._at)
                new = file.read()
        except OSError:
            return []
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        found: list[str] = []
        for line in whole.splitlines():
            match = _LINE.fullmatch(line)
            what = (match[4] or b"").decode("utf-8", "replace") if match else ""
            word = re.split(r"[ :(]", what, maxsplit=1)[0]
            if match and word in _COMMITTING and not _moves_only(what) and int(match[3]) >= self._since_s:
                found.append(match[2].decode("ascii"))
        return list(dict.fromkeys(found))

    def _from_history(self, before: str) -> list[str]:
        if not before or before == self.commit:
            return []
        try:
            said = self._git.line("rev-list", "--reverse", "--first-parent", f"--max-count={_MOST}", f"{before}..HEAD")
        except GitError:
            return []
        return said.split()

    def _made(self, sha: str) -> Made | None:
        try:
            said = self._git.run("show", "--no-patch", "--no-notes", "--no-show-signature", "--format=%H%n%P%n%B", sha)
        except GitError:
            return None
        first, parents, message = [*said.decode("utf-8", "replace").split("\n", 2), "", ""][:3]
        return Made(first, parents.split(" ")[0], message.strip("\n"))

    def _branch(self) -> str:
        try:
            return self._git.line("symbolic-ref", "--short", "--quiet", "HEAD")
        except GitError:
            return ""


def _moves_only(what: str) -> bool:
    """Whether a line of the log tells of HEAD being set to a commit that is there already (what it says first)."""
    act, _, outcome = what.partition(": ")
    return act.endswith(("(start)", "(finish)", "(abort)")) or (
        act.startswith(("merge", "pull")) and outcome == "Fast-forward"
    )


def _log_path(git: Git) -> Path | None:
    path = git.git_dir / "logs" / "HEAD"
    return path if path.is_file() else None
