"""A task as callers hand it in and as they get it back: plain frozen values, all that a resume needs, no credential."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from runner.executors.executor_port import Permissions
from runner.gate.request_kind import AskedKind, settled_kind
from tracer.verification import Unverified, Verification

if TYPE_CHECKING:  # 40 ms that the first prompt does not wait for
    from runner.core.subtasks import Standing

PersonAction = Literal["continue", "hint", "accept", "stop"]
TaskStatus = Literal[
    "QUEUED", "RUNNING", "AWAITING_RESPONSE", "UNFINISHED", "COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """What is asked for. `workspace` is absolute; `timeout_s` in seconds and `budget_usd` in dollars, None: no limit.

    `fallback` names the executors to ask where `executor` is unavailable.
    `checks` holds `criteria` (a list of ids, or None for all in force), `given` and `configured` (commands by kind:
    test, lint, typecheck; from the command line and from the config), `detect` (whether detected commands may run,
    that is: the folder is trusted), `allow_test_changes`, `timeout_s` for each command, `options` for the criteria,
    `link` (ignored folders that every subtask's working tree gets a link to).
    `kind`: `auto` is settled by the words of `prompt` when the request is recorded.
    `chunk`: `auto` splits an explicit list of work, and asks a model about a long request; `always` splits wherever a
    plan of two or more subtasks can be made; a given `plan` (`runner.core.chunk_plan.read_plan`) runs in any case.
    `parallel` subtasks are asked at once; `approve_plan`: the plan waits for a person; `into`: the new branch that gets
    the result instead of the person's files; `partial`: what was merged is handed over though not all is COMPLETE.
    """

    prompt: str
    workspace: str
    title: str = ""
    kind: AskedKind = "auto"
    executor: str = "anthropic"
    model: str | None = None
    script: str | None = None
    permissions: Permissions = "edit"
    fallback: tuple[str, ...] = ()
    continue_session: bool = True
    thinking: bool = True
    max_iterations: int = 3
    timeout_s: float | None = None
    budget_usd: float | None = None
    on_limit: Literal["fail", "ask"] = "fail"
    chunk: Literal["auto", "always", "never"] = "auto"
    parallel: int = 3
    plan: Mapping[str, Any] | None = None
    approve_plan: bool = False
    into: str | None = None
    partial: bool = False
    task_id: str | None = None
    checks: Mapping[str, Any] = field(default_factory=dict)
    executor_options: Mapping[str, Any] = field(default_factory=dict)

    def to_data(self, *, continues_sessions: bool, plans: bool = False) -> dict[str, Any]:
        """USER_REQUEST's data (contracts 1); `plans`: the executor has a model that can plan."""
        data: dict[str, Any] = {
            "prompt": self.prompt,
            "trace_version": "1.0",
            "title": self.title or first_line(self.prompt),
            "kind": settled_kind(self.kind, self.prompt),
            "workspace": self.workspace,
            "limits": {
                "max_iterations": self.max_iterations,
                "timeout_s": self.timeout_s,
                "budget_usd": self.budget_usd,
                "on_limit": self.on_limit,
                "parallel": self.parallel,
            },
            "executor": {
                "name": self.executor,
                "model": self.model,
                "script": self.script,
                "permissions": self.permissions,
                "thinking": self.thinking,
                "continue_session": self.continue_session and continues_sessions,
                "options": dict(self.executor_options),
                "plans": plans,
                **({"fallback": list(self.fallback)} if self.fallback else {}),
            },
            "checks": dict(self.checks),
            "chunk": self.chunk,
        }
        if self.plan is not None:
            data["plan"] = dict(self.plan)
        if self.approve_plan:
            data["approve_plan"] = True
        if self.into:
            data["into"] = self.into
        if self.partial:
            data["partial"] = True
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """How a run of a task stands when the call returns; `status` may be AWAITING_RESPONSE or UNFINISHED (stopped).

    `next_step` is what would mend the trouble that ended it, empty where nobody said; `refused` tells a refused
    request from a refused key, whose `reason` is the same. `subtasks` says how each subtask of a chunked task stands.
    `answer` is the agent's last answer; `verification` says whether tests showed the result to be right, `not_verified`
    what could not be checked and why. `chain_head` is the hexadecimal sha256 after the last line, None where nothing is
    chained.
    """

    task_id: str
    status: TaskStatus
    reason: str = ""
    detail: str = ""
    answer: str = ""
    verification: Verification = "not_verified"
    not_verified: tuple[Unverified, ...] = ()
    next_step: str = ""
    refused: bool = False
    iterations: int = 0
    judgments: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    cost_usd: float | None = None
    usage: Mapping[str, int] | None = None
    duration_ms: int = 0
    trace_file: str = ""
    subtasks: tuple[Standing, ...] = ()
    chain_head: str | None = None

    def stopped(self) -> TaskOutcome:
        """The same, unless it has ended: stopped before its end, and resumable."""
        if self.status in {"COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED"}:
            return self
        return replace(self, status="UNFINISHED", reason="stopped")


def first_line(text: str, *, limit: int = 80) -> str:
    """The first non-empty line of `text`, cut to `limit` characters, as a title."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
