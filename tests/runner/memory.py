"""An in-memory record and world for the loop: the same calls, no disk, every effect a function of what was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runner.core.evolve import fold
from runner.core.request import Request
from runner.core.state import LoopState, TaskState
from runner.core.steps import Judge
from runner.core.task import TaskOutcome
from runner.effects_port import Changed
from runner.executors.executor_port import Answer, Ask, Live
from runner.gate.criterion import Models, Verdict
from runner.loop import TaskLoop
from runner.supervisor import Supervisor
from tracer.drafts import Draft
from tracer.facts import Entry, LlmRequest, entry_of


async def run_task(supervisor: Supervisor, request: Request) -> TaskOutcome:
    """Submit and wait."""
    return await supervisor.wait(await supervisor.submit(request))


class Record:
    """Facts in memory; `crash_after` facts the next append raises as if the process had died."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.entries = list(entries)

    async def append(self, draft: Draft) -> Entry:
        entry = entry_of(
            f"2025-01-23T10:30:00.{len(self.entries):03d}Z",
            draft.event,
            "sess-1",
            "task-001",
            draft.data,
            draft.subtask_id,
            draft.iteration_index,
        )
        self.entries.append(entry)
        return entry


class World:
    """Answers by number of recorded answers, so that a resumed run is given what the first run was."""

    answer_at_hand = False
    workspace = "/project"

    def __init__(self, answers: Sequence[Answer], verdicts: Sequence[str]) -> None:
        self.answers = answers
        self.verdicts = verdicts
        self.asked: list[Ask] = []
        self.lost: dict[str, Any] | None = None
        self.dies = False

    async def rules(self) -> str:
        return "## Mandatory Rules\n- Finish."

    async def baseline(self, label: str) -> str:
        return f"base:{label}"

    async def enter(self, *, wait: bool) -> str:
        return ""

    async def leave(self, *, done: bool) -> None:
        """Nothing is held."""

    async def paused(self) -> None:
        """Nothing is held."""

    async def taken_up(self, bases: Iterable[str]) -> Mapping[str, str]:
        return {}

    async def base_tests(self, base: str, *, limit_s: float | None) -> None:
        del base, limit_s

    async def changed(self, base: str) -> Changed:
        return Changed((f"{base}.py",))

    async def ask(self, request: Ask, live: Any) -> Answer:
        self.asked.append(request)
        live(Live(kind="text", text="…"))
        answer = self.answers[request.iteration_index % len(self.answers)]
        if answer.session_ref is not None:
            await request.session_began(answer.session_ref)
        if self.dies:
            raise asyncio.CancelledError
        return answer

    async def judge(self, state: TaskState, step: Judge, models: Models) -> Verdict:
        passed = self.verdicts[step.iteration_index % len(self.verdicts)] == "PASS"
        result: dict[str, Any] = {"id": "Q2", "name": "No TODO/FIXME", "passed": passed}
        if not passed:
            result["reason"] = "TODO found"
        return Verdict(judgment="PASS" if passed else "REJECT", criteria_results=(result,), summary="Q2: TODO found")

    async def distilled(self, answer: Answer, *, since_ms: int | None, spent_usd: float | None) -> str | None:
        return None

    async def ended(self, traces: Mapping[str, bool]) -> None:
        """No session was left."""

    async def interrupted(self, request: LlmRequest, loop: LoopState, *, since_ms: int) -> dict[str, Any] | None:
        return None if self.lost is None else {"session_ref": loop.open_ref, "agentic_trace": None, **self.lost}


async def no_sleep(_seconds: float) -> None:
    """Wait not at all."""


async def run(record: Record, world: World) -> TaskState:
    """The loop over `record` to its next stop."""
    loop = TaskLoop(append=record.append, effects=world, live=lambda _update: None, sleep=no_sleep)
    return await loop.run(fold(record.entries))


def request(**limits: Any) -> Entry:
    """A first fact with these limits."""
    data = {"prompt": "Implement login feature", "workspace": "/project", "limits": limits, "executor": {"name": "x"}}
    return entry_of("2025-01-23T10:30:00.000Z", "USER_REQUEST", "sess-1", "task-001", data)


def person(action: str, **extra: Any) -> Entry:
    """A person's answer as a fact."""
    data = {"prompt": "", "action": action, **extra}
    return entry_of("2025-01-23T10:31:00.000Z", "USER_REQUEST", "sess-1", "task-001", data)
