"""The words of the record, once: events, statuses, judgments, kinds of error. It imports nothing but typing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

LAST: Final = "--last"  # the newest task of a project
PLAN_SUFFIX: Final = "-plan"  # the loop that asks for a plan is `<task>-plan`; it has no judgments
REVIEW: Final = "review"  # purpose of a request that a criterion makes
REVIEW_SUFFIX: Final = "-review"  # the loop of such requests is `<task or subtask>-review`; it has no judgments

EventName = Literal[
    "USER_REQUEST",
    "SYSTEM_RULES",
    "CHUNKING_PLAN",
    "LLM_REQUEST",
    "LLM_RESPONSE",
    "QUALITY_JUDGMENT",
    "REJECTION_DETAILS",
    "ITERATION_END",
    "FINAL_SUMMARY",
]
EVENT_NAMES: Final[tuple[EventName, ...]] = get_args(EventName)
# Between a request and its answer: the agent's own session, and what it did where the answer never came.
SessionEventName = Literal["SESSION_STARTED", "SESSION_INTERRUPTED"]
SESSION_EVENTS: Final[tuple[SessionEventName, ...]] = get_args(SessionEventName)

PACK_EVENTS: Final = (
    "SESSION_START",
    "SESSION_END",
    "TASK_START",
    "TASK_STATE_CHANGE",
    "TASK_END",
    "EXECUTOR_CALL",
    "EXECUTOR_RESULT",
    "VERIFICATION_START",
    "VERIFICATION_RESULT",
    "ERROR",
    "WARNING",
)  # a session's log (TracePack)

AnswerStatus = Literal["COMPLETE", "INCOMPLETE", "ERROR", "BLOCKED", "TIMEOUT"]
ANSWER_STATUSES: Final[tuple[AnswerStatus, ...]] = get_args(AnswerStatus)
FinalStatus = Literal["COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED"]
FINAL_STATUSES: Final[tuple[FinalStatus, ...]] = get_args(FinalStatus)
TaskStatus = Literal["QUEUED", "RUNNING", "AWAITING_RESPONSE", "UNFINISHED", FinalStatus]
TASK_STATUSES: Final[tuple[TaskStatus, ...]] = get_args(TaskStatus)
OPEN_STATUSES: Final = frozenset({"RUNNING", "AWAITING_RESPONSE", "UNFINISHED"})  # no end is recorded
BAD_STATUSES: Final = frozenset({"INCOMPLETE", "ERROR", "BLOCKED", "TIMEOUT", "CANCELLED"})
Judgment = Literal["PASS", "REJECT", "RETRY"]
JUDGMENTS: Final[tuple[Judgment, ...]] = get_args(Judgment)
Action = Literal["continue", "hint", "accept", "allow", "stop"]  # a user's answer to a task that waits
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
ReportStatus = Literal["done", "partial", "question", "blocked", "nothing_to_do"]  # what an agent says of its work
Outcome = Literal["pass", "fail", "not_verified"]
Verification = Literal["verified", "not_verified", "failed"]

ErrorKind = Literal[
    "timeout",
    "rate_limit",
    "overloaded",
    "network",
    "auth",
    "unavailable",
    "budget",
    "context",
    "crash",
    "replies",
    "refusal",
]
ERROR_KINDS: Final[tuple[ErrorKind, ...]] = get_args(ErrorKind)
OVERLOAD: Final = frozenset({"rate_limit", "overloaded"})  # the provider's load, which passes
TRANSIENT: Final = OVERLOAD | {"timeout", "network"}  # the same request may succeed later
REFUSALS: Final = OVERLOAD | {"auth", "unavailable", "context"}  # nothing was said, done or charged

CHECKS: Final[Mapping[str, str]] = {"Q7": "test", "Q8": "lint", "Q9": "typecheck"}  # criteria that run a command
