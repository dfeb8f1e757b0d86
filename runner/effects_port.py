"""What the loops ask of the world: the ports that the real effects and the tests' ones implement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from runner.core.state import LoopState, TaskState
from runner.core.steps import Judge
from runner.executors.executor_port import Answer, Ask, LiveSink
from runner.gate.criterion import Models, Verdict
from runner.isolation.isolation_port import Isolation
from tracer.facts import FileCount, LlmRequest


class Changed(NamedTuple):
    """What differs from a baseline: workspace paths, and the blob that holds the unified diff (None: no change).

    `left` is the blob that an undo reads; `collateral` is what happened to the user's uncommitted files, repository
    and state dir, as LLM_RESPONSE records it.
    """

    paths: tuple[str, ...]
    diff_blob: str | None = None
    left: str | None = None
    collateral: tuple[dict[str, str], ...] = ()
    files: tuple[FileCount, ...] = ()


class Effects(Protocol):
    """What the loop asks of the world. Every method may raise PmError; nothing else.

    `answer_at_hand`: the answer to a request that an earlier process recorded is there, it need not be sent again.
    `workspace` is the folder that they work in.
    """

    answer_at_hand: bool
    workspace: str

    async def rules(self) -> str:
        """The mandatory rules' text."""

    async def enter(self, *, wait: bool) -> str:
        """Have the user's folder for this task alone until `leave`; who has it, where that is not waited for."""

    async def leave(self, *, done: bool) -> None:
        """Let others work in the user's folder; `done`: the task has come to its end."""

    async def paused(self) -> None:
        """Record how the user's folder is: what changes there until `taken_up` is none of the task's work."""

    async def taken_up(self, bases: Iterable[str]) -> Mapping[str, str]:
        """What replaces these baselines in the user's folder, with what others changed since this one left it."""

    async def baseline(self, label: str) -> str:
        """A durable baseline of the workspace; returns its id."""

    async def base_tests(self, base: str, *, limit_s: float | None) -> Mapping[str, Any] | None:
        """How the tests end on `base`, the workspace as it is; None where no test command is in force."""

    async def changed(self, base: str) -> Changed:
        """What differs from `base` now."""

    async def ask(self, request: Ask, live: LiveSink) -> Answer:
        """One question to the agent."""

    async def judge(self, state: TaskState, step: Judge, models: Models) -> Verdict:
        """Evidence gathered and judged; `models` is what criteria may ask."""

    async def consult(self, request: Ask, live: LiveSink) -> Answer:
        """One question to a model that may touch nothing: it works in an empty folder; its workspace is set here."""

    async def kept(self, question: str, *, before_ms: int) -> str | None:
        """The answer that was kept for a question of this hash, if it was there before then."""

    async def keep(self, question: str, text: str) -> None:
        """Keep an answer; trouble in doing so costs nothing but the next asking."""

    async def distilled(self, answer: Answer, *, since_ms: int | None, spent_usd: float | None) -> str | None:
        """The path of the agentic trace of the session behind `answer`, None where there is none.

        What the session held before `since_ms` (the task's beginning) is not this task's; `spent_usd` is what the
        task's earlier answers in it cost, None where that is unknown.
        """

    async def ended(self, traces: Mapping[str, bool]) -> None:
        """Tell the agentic traces of a task how it ended: whether what they did was accepted."""

    async def interrupted(self, request: LlmRequest, loop: LoopState, *, since_ms: int) -> Mapping[str, Any] | None:
        """What the session of a `request` without an answer did and cost, as SESSION_INTERRUPTED; None: none began.

        A session whose name was not recorded is looked for where the executor keeps its own. `since_ms` as above.
        """

    async def isolation(self, state: TaskState) -> Isolation:
        """Where the subtasks of the task work; the same for every call."""

    def within(self, folder: Path) -> Effects:
        """The same effects in another folder."""
