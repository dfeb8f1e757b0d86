"""The executor port: one question to an agent, one answer back, live updates on the side.

An executor never retries, never judges and never records: every call is one LLM_REQUEST and one LLM_RESPONSE, and
the loop decides what follows. Cancellation is asyncio's: a cancelled `ask` ends the whole process tree or connection
before it re-raises. Live updates are lossy decoration; nothing may depend on having seen one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

AnswerStatus = Literal["COMPLETE", "INCOMPLETE", "ERROR", "BLOCKED", "TIMEOUT"]
ErrorKind = Literal[
    "timeout", "rate_limit", "overloaded", "network", "auth", "unavailable", "budget", "crash", "replies", "refusal"
]
Permissions = Literal["read", "edit", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request. `workspace` is absolute; `history` holds the session_refs of all recorded answers, oldest first.

    `executor` is the name of the agent that is meant, where a plan gives subtasks to several of them.
    `session_ref` is the reference of the agent's own session to go on in, or None to start afresh.
    `timeout_s` and `budget_usd` are what is left for this task (None: no limit). `answer_schema` is the JSON Schema
    that the answer is to follow: a model that can be held to it is, others read it in the prompt.
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
    thinking: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    answer_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one answer; None is unknown, never 0. Counts are the provider's own (docs/executors.md)."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thinking_tokens: int | None = None
    cache_write_tokens: int | None = None

    def to_dict(self) -> dict[str, int | None]:
        """As stored in `LLM_RESPONSE.data.usage`."""
        counts = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "thinking_tokens": self.thinking_tokens,
        }
        if self.cache_write_tokens is not None:
            counts["cache_write_tokens"] = self.cache_write_tokens
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerError:
    """Why there is no good answer; `retry_after_s` is the provider's own wish in seconds."""

    kind: ErrorKind
    message: str
    retry_after_s: float | None = None
    next_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `stop_reason` is the provider's own word (`end_turn`, `max_tokens` …), None where untold.

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
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
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
