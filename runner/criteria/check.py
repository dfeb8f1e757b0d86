"""`pm check` without its effects: files and an answer judged by Q1-Q4 and Q6, outside any task.

Everything counts as new: there is no task whose change it could be measured by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from runner.criteria.judge import judge
from runner.criteria.model import ChangedFile, ClaimedPath, Criterion, Evidence, Verdict
from runner.criteria.registry import BUILT_IN

__all__ = ["CheckReport", "check", "is_excluded"]

_OF_FILES = {"Q2", "Q3", "Q4"}
_OF_ANSWER = {"Q1", "Q2", "Q3", "Q4", "Q6"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was judged and how: `files` is how many, `verdict` has the places."""

    files: int
    verdict: Verdict

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return self.verdict.judgment == "PASS"


def check(
    *,
    files: Sequence[ChangedFile],
    answer: str | None = None,
    claims: Sequence[ClaimedPath] = (),
    options: Mapping[str, Any] | None = None,
    team: Sequence[Criterion] = (),
) -> CheckReport:
    """Judge `files` whole (as `after`), and `answer` where there is one."""
    wanted = _OF_FILES if answer is None else _OF_ANSWER
    criteria = [criterion for criterion in BUILT_IN if criterion.id in wanted]
    evidence = Evidence(
        request="",
        answer=answer or "",
        files=tuple(files),
        claims=tuple(claims),
        options={**(options or {}), "answer_alone": answer is not None},
    )
    return CheckReport(files=len(files), verdict=judge(evidence, [*criteria, *team]))


def is_excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path relative to the project is left out: a name, a folder, or a pattern with `*`."""
    return any(
        path == pattern or path.startswith(pattern.rstrip("/") + "/") or fnmatch(path, pattern) for pattern in patterns
    )
