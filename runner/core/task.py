"""How a run of a task stands, as callers get it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from tracer.facts import FileCount, Question, Strength, TestRun, Unverified
from tracer.names import FINAL_STATUSES, TaskStatus, Verification

if TYPE_CHECKING:  # 40 ms that the first prompt does not wait for
    from runner.core.subtasks import Standing


class Isolated(NamedTuple):
    """Where a task works, and why there; `conflicts` are the paths on which its result and the user's files differ.

    `text` shows both versions between conflict marks.
    """

    where: Literal["folder", "worktree"] = "folder"
    why: str = ""
    conflicts: tuple[str, ...] = ()
    text: str = ""


class TaskOutcome(NamedTuple):
    """How a run of a task stands when the call returns; `status` may be AWAITING_RESPONSE or UNFINISHED (stopped).

    `next_step` is what would mend the trouble that ended it, empty where nobody said. `subtasks` says how each subtask
    of a chunked task stands, `isolation` where the work is done. `kind` is what the request was taken for, `answer` is
    the agent's last answer, `question` what the user is asked (`asked`);
    `verification` says whether tests showed the result to be right, `not_verified` what could not be checked and why;
    `tests` what they showed, `allowable` whether the user may allow what they left open, `strength` what they noticed
    of faults that were tried on them, `unreached` the changed lines that no test reaches. `chain_head` is the
    hexadecimal sha256 after the last line, None where nothing is chained.
    """

    task_id: str
    status: TaskStatus
    reason: str = ""
    detail: str = ""
    kind: str = ""
    answer: str = ""
    verification: Verification = "not_verified"
    not_verified: tuple[Unverified, ...] = ()
    strength: Strength | None = None
    unreached: tuple[str, ...] = ()
    question: Question | None = None
    tests: TestRun | None = None
    allowable: bool = False
    next_step: str = ""
    iterations: int = 0
    judgments: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    files: tuple[FileCount, ...] = ()
    cost_usd: float | None = None
    usage: Mapping[str, int] | None = None
    duration_ms: int = 0
    trace_file: str = ""
    subtasks: tuple[Standing, ...] = ()
    isolation: Isolated = Isolated()
    chain_head: str | None = None

    def stopped(self) -> TaskOutcome:
        """The same, unless it has ended: stopped before its end, and resumable."""
        if self.status in FINAL_STATUSES:
            return self
        return self._replace(status="UNFINISHED", reason="stopped")
