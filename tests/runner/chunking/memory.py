"""A world of subtasks in memory: folders are mappings, agents are functions, every effect is repeatable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.core.state import LoopState, TaskState
from runner.core.steps import Judge
from runner.effects_port import Changed
from runner.executors.executor_port import Answer, Ask, LiveSink
from runner.gate.criterion import Models, Verdict
from runner.isolation.isolation_port import Conflict, Merged
from tests.runner.memory_isolation import MemoryIsolation
from tracer.facts import Entry, LlmRequest, entry_of

Work = Callable[[Ask, dict[str, bytes]], Answer]
"""What an agent does: it is given the request and the folder, changes the folder and answers."""


class MemoryWorld:
    """The effects of a task over `MemoryIsolation`. It outlives a crash, as disks do."""

    def __init__(
        self,
        work: Work,
        *,
        files: Mapping[str, bytes] | None = None,
        reject: Callable[[Judge], str] = lambda _step: "",
        delay_s: float = 0.0,
        parallel: bool = True,
    ) -> None:
        self.isolation = MemoryIsolation(dict(files or {}))
        self.work = work
        self.reject = reject
        self.delay_s = delay_s
        self.parallel = parallel
        self.asking: set[str | None] = set()
        self.most_asking = 0
        self.asked: list[Ask] = []
        self.closed: list[bool] = []
        self.handed: list[str] = []

    def here(self, subtask_id: str | None) -> MemoryEffects:
        return MemoryEffects(self, subtask_id)


class MemoryEffects:
    """The loop's effects in one folder; None is the person's."""

    answer_at_hand = False

    def __init__(self, world: MemoryWorld, subtask_id: str | None) -> None:
        self.world = world
        self.subtask_id = subtask_id
        self.workspace = f"/memory/{subtask_id}" if subtask_id else "/project"

    def folder(self) -> dict[str, bytes]:
        isolation = self.world.isolation
        return isolation.files if self.subtask_id is None else isolation.folder(self.subtask_id)

    async def rules(self) -> str:
        return "Finish."

    async def baseline(self, label: str) -> str:
        return f"memory:{label}"

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
        return Changed((self.subtask_id,) if self.subtask_id else ())

    async def ask(self, request: Ask, live: LiveSink) -> Answer:
        world = self.world
        assert request.subtask_id not in world.asking, "one subtask asked twice at once"
        world.asked.append(request)
        world.asking.add(request.subtask_id)
        world.most_asking = max(world.most_asking, len(world.asking))
        try:
            async with asyncio.timeout(request.timeout_s):
                await asyncio.sleep(world.delay_s)
            folder = self.folder() if request.answer_schema is None else {}
            return world.work(request, folder)
        except TimeoutError:
            return Answer(output="", status="TIMEOUT")
        finally:
            world.asking.discard(request.subtask_id)

    async def judge(self, state: TaskState, step: Judge, models: Models) -> Verdict:
        why = self.world.reject(step)
        result: dict[str, Any] = {"id": "Q5", "name": "Evidence Present", "passed": not why}
        if why:
            result["reason"] = why
        return Verdict(judgment="REJECT" if why else "PASS", criteria_results=(result,), summary=why or "Q5")

    async def distilled(self, answer: Answer, *, since_ms: int | None, spent_usd: float | None) -> str | None:
        return None

    async def ended(self, traces: Mapping[str, bool]) -> None:
        """No session was left."""

    async def interrupted(self, request: LlmRequest, loop: LoopState, *, since_ms: int) -> None:
        """No session was left."""

    async def isolation(self, state: TaskState) -> MemoryPlaces:
        return MemoryPlaces(self.world)

    def within(self, folder: Path) -> MemoryEffects:
        return self.world.here(folder.name)


class MemoryPlaces:
    """The isolation port over the world, which notes what was handed over and closed."""

    why = ""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        self.parallel = world.parallel

    async def begin(self, *, branch: str = "") -> str:
        return await self._world.isolation.begin(branch=branch)

    async def open(self, subtask_id: str, *, fresh: bool = False) -> Path:
        return await self._world.isolation.open(subtask_id, fresh=fresh)

    async def merge(self, subtask_id: str) -> Merged | Conflict:
        return await self._world.isolation.merge(subtask_id)

    async def merged(self) -> tuple[str, ...] | None:
        return await self._world.isolation.merged()

    async def whole(self) -> Path:
        return await self._world.isolation.whole()

    async def apply(self, *, branch: str = "") -> Merged | Conflict:
        self._world.handed.append(branch)
        return await self._world.isolation.apply(branch=branch)

    async def close(self, *, keep_results: bool = False) -> None:
        self._world.closed.append(keep_results)
        await self._world.isolation.close(keep_results=keep_results)


def request(plan: Sequence[Mapping[str, Any]] | None = None, **extra: Any) -> Entry:
    """A first fact; `plan` is given by the person."""
    limits = extra.pop("limits", {})
    data: dict[str, Any] = {
        "prompt": extra.pop("prompt", "Do all of it"),
        "workspace": "/project",
        "limits": limits,
        "executor": {"name": "x", "plans": extra.pop("plans", False)},
        "chunk": "always",
        **extra,
    }
    if plan is not None:
        data["plan"] = {"subtasks": list(plan)}
    return entry_of("2025-01-23T10:30:00.000Z", "USER_REQUEST", "sess-1", "task-001", data)


def writes(ask: Ask, folder: dict[str, bytes]) -> Answer:
    """An agent that writes one file of its own."""
    folder[f"{ask.subtask_id}.txt"] = b"done\n"
    return Answer(output=f"wrote {ask.subtask_id}.txt", status="COMPLETE", cost_usd=0.01)
