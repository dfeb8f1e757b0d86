"""The task API's bodies (contracts 7). Response models are what the OpenAPI promises; requests refuse unknown keys."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tracer.names import Action, TaskStatus


def _whole(value: object) -> object:
    """JSON Schema calls 1.0 an integer and neither true nor "1": hold input to that."""
    if isinstance(value, bool | str) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("must be a whole number")
    return value


def _offered(value: str) -> str:
    if not re.fullmatch(_OFFERED, value):
        raise ValueError(f"executor {value!r} is not offered over HTTP")
    return value


_OFFERED = "^(anthropic|claude|codex|gemini|acp(:[A-Za-z0-9_-]{1,50})?)$"
Offered = Annotated[str, Field(json_schema_extra={"pattern": _OFFERED}), AfterValidator(_offered)]
Iterations = Annotated[int, Field(ge=1, le=100), BeforeValidator(_whole)]


class TaskRowModel(BaseModel):
    """One task of the list. Times are ISO 8601 UTC; `cost_usd` null is unknown.

    `verification`: whether tests showed the result to be right (`verified`, `not_verified` or `failed`); empty before
    the end, and in old traces.
    """

    task_id: str
    title: str
    status: TaskStatus
    iterations: int
    cost_usd: float | None
    created_at: str
    updated_at: str
    verification: str = ""


class TaskPage(BaseModel):
    """A page of tasks, newest first; `next` is the cursor of the following page, null on the last one."""

    tasks: list[TaskRowModel]
    next: str | None


class SubtaskModel(BaseModel):
    """How one subtask stands; numbers count from 1, `cost_usd` null is unknown, `spent_ms` is milliseconds.

    `phase` says what a running one does now, `verdict` its last rejection, `detail` why one failed or was skipped.
    """

    subtask_id: str
    number: int
    title: str
    status: Literal["wait", "run", "done", "failed", "skipped", "ask"]
    iterations: int
    phase: str
    verdict: str
    reason: str
    detail: str
    dependencies: list[int]
    cost_usd: float | None
    spent_ms: int


class IsolationModel(BaseModel):
    """Where a task works, and why; `conflicts` and `text`: what of its result does not merge, with both versions."""

    where: Literal["folder", "worktree"]
    why: str
    conflicts: list[str]
    text: str


class UnverifiedModel(BaseModel):
    """A criterion that could not be checked, why, and what lets it be checked; `ran`: it ran, and settled nothing."""

    criterion: str
    why: str
    next: str
    ran: bool = False


class ChangedFileModel(BaseModel):
    """A changed file and its lines; null where they were not counted."""

    path: str
    status: str
    added: int | None
    removed: int | None


class TaskDetail(TaskRowModel):
    """One task: the list's row and what its newest trace says; `subtasks` is empty for a task in one piece.

    `question` is what the user is asked (POST …/respond, action `hint`), `choices` answers that the agent named. `kind`
    is what the request was taken for, `tests` what they showed (the keys of `pm show --json`), null where none ran.
    """

    judgments: list[str]
    executor: str
    model: str
    reason: str
    last_event: str
    facts: int
    trace_file: str
    older_files: list[str]
    answer: str = ""
    question: str | None = None
    choices: list[str] = []
    kind: str | None = None
    not_verified: list[UnverifiedModel] = []
    tests: dict[str, Any] | None = None
    files: list[ChangedFileModel] = []
    subtasks: list[SubtaskModel] = []
    isolation: IsolationModel


class TraceSummary(BaseModel):
    """Seed 001, 5.2; `final_status` is null without FINAL_SUMMARY."""

    total_iterations: int
    judgments: list[str]
    final_status: str | None


class TraceDocument(BaseModel):
    """The conversation of a task (seed 001, 5.2); `trace_file` is relative to the project."""

    task_id: str
    trace_file: str
    entries: list[dict[str, Any]]
    summary: TraceSummary


class NewTask(BaseModel):
    """A task to start. Executor `scripted` is refused over HTTP: its script could name any file."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"prompt": "add input validation to the signup form"}]}
    )

    prompt: str = Field(min_length=1, max_length=200_000)
    title: str | None = Field(default=None, max_length=200)
    executor: Offered | None = None
    model: str | None = Field(default=None, max_length=100)
    max_iterations: Iterations | None = None
    chunk: Literal["auto", "always", "never"] | None = Field(
        default=None, description="split the task into subtasks: auto where it lists several pieces of work or is long"
    )
    isolation: Literal["auto", "folder", "worktree"] | None = Field(
        default=None, description="where it works: auto takes a worktree where another task works in the folder"
    )
    criteria: list[str] | None = Field(default=None, max_length=50)


class UserAnswer(BaseModel):
    """A user's answer to a waiting task; `text` is the hint, or answers its question."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"action": "hint", "text": "the validator is in forms.py"}]}
    )

    action: Action
    text: str = Field(default="", max_length=100_000)
    max_iterations: Iterations | None = None


class Accepted(BaseModel):
    """The task that was started or goes on."""

    task_id: str


class Answered(BaseModel):
    """Whether there was something to do."""

    task_id: str
    done: bool


class Health(BaseModel):
    """`ok` or the reason why not."""

    status: str
