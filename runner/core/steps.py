"""What `decide` can ask for: one value for each kind of step. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tracer.drafts import Draft
from tracer.facts import LlmResponse


class Append(NamedTuple):
    """Record `draft`: it follows from the state."""

    draft: Draft


class RecordRules(NamedTuple):
    """Read the mandatory rules and record them as SYSTEM_RULES."""


class AskAgent(NamedTuple):
    """Take a baseline (unless `base` is that of an earlier attempt), record LLM_REQUEST, ask, record LLM_RESPONSE.

    `retry` is how many times in a row the same request has failed for a passing reason; 0 means ask at once. `fresh`:
    the subtask's folder is made anew on what is merged. `purpose` is `plan` or `repair` (a plan that was no good) for
    a request that asks for a plan; it has no baseline, no judgment, and may change nothing.
    """

    prompt: str
    iteration_index: int
    attempt: int
    base: str | None = None
    session_ref: str | None = None
    subtask_id: str | None = None
    retry: int = 0
    retry_after_s: float | None = None
    retry_kind: str = ""
    fresh: bool = False
    purpose: str = ""


class Judge(NamedTuple):
    """Gather evidence for the last answer, judge it, record QUALITY_JUDGMENT; `whole`: for all merged subtasks.

    `left_s` is what the task's time limit leaves for the checks; whoever performs the step fills it in.
    """

    iteration_index: int
    answer: LlmResponse
    first_base: str | None
    subtask_id: str | None = None
    whole: bool = False
    left_s: float | None = None


class Merge(NamedTuple):
    """Merge what the subtask did; record ITERATION_END PASS, or on a conflict QUALITY_JUDGMENT REJECT."""

    subtask_id: str
    iteration_index: int


class RecordPlan(NamedTuple):
    """Record CHUNKING_PLAN; where it holds subtasks and is not only proposed, take the common start first."""

    subtasks: Sequence[Mapping[str, Any]]
    reason: str
    mode: str
    proposed: bool = False
    done: Sequence[str] = ()
    base: str | None = None


class RunSubtasks(NamedTuple):
    """Run every subtask that may start, side by side, until none can go on."""


class AwaitPerson(NamedTuple):
    """The limit is reached and a person is to be asked: nothing happens until a further USER_REQUEST."""

    reason: str


class Finish(NamedTuple):
    """Compare the workspace with the task's first baseline and record FINAL_SUMMARY."""

    status: str
    reason: str
    detail: str = ""


Step = Append | RecordRules | RecordPlan | RunSubtasks | AskAgent | Judge | Merge | AwaitPerson | Finish
