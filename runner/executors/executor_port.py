"""The executor port: one question to an agent, one answer back, live updates on the side.

An executor never retries, never judges and never records: every call is one LLM_REQUEST and one LLM_RESPONSE, and
the loop decides what follows. Cancellation is asyncio's: a cancelled `ask` ends the whole process tree or connection
before it re-raises. Live updates are lossy decoration; nothing may depend on having seen one.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from tracer.names import AnswerStatus, ErrorKind

if TYPE_CHECKING:
    from tracer.prices import Tokens

EXECUTOR_NAMES = ("scripted", "replay", "anthropic", "claude", "codex", "gemini", "acp")
AGENT_NAMES = ("claude", "codex", "gemini")

Permissions = Literal["read", "edit", "full"]
PermissionAnswer = Literal["yes", "always", "no"]


async def ignore_session(_session_ref: str) -> None:
    """For when nobody keeps a record."""


class Ask(NamedTuple):
    """One request. `workspace` is absolute; `history` holds the session_refs of all recorded answers, oldest first.

    `executor` is the name of the agent that is meant, where a plan gives subtasks to several of them.
    `session_ref` is the reference of the agent's own session to go on in, or None to start afresh.
    `timeout_s` and `budget_usd` are what is left for this task (None: no limit), `whole_budget_usd` is what the user
    gave it. `answer_schema` is the JSON Schema
    that the answer is to follow: a model that can be held to it is, others read it in the prompt.
    `session_began` is awaited with the reference of the agent's own session as soon as it has one; an error that it
    raises ends the agent and is raised by `ask`.
    """

    task_id: str
    prompt: str
    workspace: str
    iteration_index: int = 0
    attempt: int = 0
    subtask_id: str | None = None
    executor: str | None = None
    model: str | None = None
    rules: str = ""
    permissions: Permissions = "edit"
    session_ref: str | None = None
    history: tuple[str, ...] = ()
    timeout_s: float | None = None
    budget_usd: float | None = None
    whole_budget_usd: float | None = None
    thinking: bool = True
    options: Mapping[str, Any] = MappingProxyType({})
    answer_schema: Mapping[str, Any] | None = None
    session_began: Callable[[str], Awaitable[None]] = ignore_session


class Usage(NamedTuple):
    """Token counts of one answer; None is unknown, never 0. Counts are the provider's own (docs/executors.md)."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thinking_tokens: int | None = None
    cache_write_tokens: int | None = None

    @classmethod
    def of(cls, counts: Iterable[Tokens], *, thinking: int | None = None) -> Usage:
        """The sums of several requests' counts."""
        told = list(counts)
        return cls(
            input_tokens=sum(tokens.fresh for tokens in told),
            output_tokens=sum(tokens.output for tokens in told),
            cached_tokens=sum(tokens.cached for tokens in told),
            cache_write_tokens=sum(tokens.cache_write + tokens.cache_write_1h for tokens in told),
            thinking_tokens=thinking,
        )

    def to_dict(self) -> dict[str, int | None]:
        """As stored in `LLM_RESPONSE.data.usage`."""
        counts = self._asdict()
        if self.cache_write_tokens is None:
            del counts["cache_write_tokens"]
        return counts


class AnswerError(NamedTuple):
    """Why there is no good answer; `retry_after_s` is the provider's own wish in seconds."""

    kind: ErrorKind
    message: str
    retry_after_s: float | None = None
    next_step: str = ""


class Answer(NamedTuple):
    """What came back. `stop_reason` is the provider's own word (`end_turn`, `max_tokens` …), None where untold.

    `report` is what the agent said of its work apart from the text (`runner.agent_report`).
    `extra` goes into `LLM_RESPONSE.data` as it is (JSON values only, e.g. `native_session`, `tool_calls`).
    """

    output: str
    status: AnswerStatus
    model: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    session_ref: str | None = None
    stop_reason: str | None = None
    error: AnswerError | None = None
    report: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def failed(cls, kind: ErrorKind, message: str, next_step: str = "", *, status: AnswerStatus = "ERROR") -> Answer:
        """An answer without output that says what went wrong."""
        return cls(output="", status=status, error=AnswerError(kind=kind, message=message, next_step=next_step))


class Live(NamedTuple):
    """One live update: `text` carries the delta, the tool's name and summary, or the notice.

    `usage` is cumulative for this answer; `wait_s` is the countdown of a `waiting` notice, `attempt` of `attempts` the
    try that follows it (None where that is not told).
    """

    kind: Literal["text", "thinking", "tool_started", "tool_finished", "usage", "notice", "waiting"]
    text: str = ""
    tool: str = ""
    ok: bool | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    wait_s: float | None = None
    attempt: int | None = None
    attempts: int | None = None
    task_id: str = ""
    subtask_id: str | None = None


LiveSink = Callable[[Live], None]


def ignore_live(_update: Live) -> None:
    """A sink for when nobody watches."""


def live_of(request: Ask, live: LiveSink) -> LiveSink:
    """The sink for updates of `request`: they carry its task and subtask, and paths as seen from its workspace."""
    above = f"{request.workspace}/"

    def tell(update: Live) -> None:
        told = update if update.kind == "text" else update._replace(text=update.text.replace(above, ""))
        live(told._replace(task_id=request.task_id, subtask_id=request.subtask_id))

    return tell


def over_budget(request: Ask, cost_usd: float | None) -> bool:
    """Whether the answer has cost more than is left for the task."""
    return request.budget_usd is not None and cost_usd is not None and cost_usd > request.budget_usd


def budget_error(request: Ask) -> AnswerError:
    """Says that the answer was stopped at its budget: the one that the user gave, and what was left of it."""
    left, whole = request.budget_usd or 0.0, request.whole_budget_usd
    message = f"stopped at the budget of {_dollars(left if whole is None else whole)}"
    if whole is not None and left < whole:
        message += f", of which {_dollars(left)} was left"
    return AnswerError(kind="budget", message=message, next_step="raise --budget-usd")


def _dollars(amount: float) -> str:
    return f"${amount:.{2 if round(amount, 4) == round(amount, 2) else 4}f}"


class BudgetSpentError(Exception):
    """The money for this answer is used up."""


class Executor(Protocol):
    """An agent that can be asked. `name` is what `--executor` selects."""

    name: str

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """Answer `request`; trouble is an Answer with an error, never an exception of the provider's library.

        Raises:
            asyncio.CancelledError: after everything that was started has ended.

        """
        ...

    async def close(self) -> None:
        """Release connections and processes; safe to call twice."""
        ...


class PermissionQuestion(NamedTuple):
    """What an agent asks permission for. Texts are the agent's own words: escape them where they are shown.

    `always` says what the agent will no longer ask for; empty where it offers nothing of the kind: then only the very
    same request is allowed without a question for the rest of the task.
    """

    task_id: str
    subtask_id: str | None
    agent: str
    title: str
    always: str = ""


PermissionAsker = Callable[[PermissionQuestion], Awaitable[PermissionAnswer]]
"""Asks a user. Safe to cancel; whoever asks settles how long to wait, and then answers `no`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """What an executor is made from. Times are seconds; None is no limit, "" is not set.

    `state_dir`: where running programs are registered (ended by the next `pm` if this one is killed).
    `script`: the file of `scripted`, or the trace of `replay`.
    `agents`: ACP agents by name, each the command as a list; `agent` picks one for `acp`.
    `fallback`: executors to ask, in order, where the one named is unavailable (and only then).
    `base_url`: of `anthropic` alone; `base_urls`: of the command lines by name, where they should not use their own.
    `programs`: paths of command lines that are not on PATH, e.g. {"claude": "/opt/claude"}.
    `extra_environment`: further names (or patterns) that the agent's environment may hold.
    `allow_commands`: what `anthropic` may run without a sandbox, beside its short default.
    `sandbox`: `auto` (where present), `on` (required) or `off`: bubblewrap around agent command lines and `run`.
    `ask_person`: who answers what an ACP agent asks permission for and the permissions do not settle; None refuses.
    """

    state_dir: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    script: Path | None = None
    model: str | None = None
    base_url: str | None = None
    base_urls: Mapping[str, str] = field(default_factory=dict)
    key_file: Path | None = None
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    agent: str = ""
    fallback: tuple[str, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    extra_environment: tuple[str, ...] = ()
    allow_commands: tuple[str, ...] = ()
    sandbox: str = "off"
    network: bool = False
    silence_s: float | None = 900.0
    ask_person: PermissionAsker | None = None
