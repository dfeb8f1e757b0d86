"""What subtasks cost: the engine alone beside bare asyncio, and real worktrees beside bare git, each in the same run.

Run: `python -m benchmarks.chunking`. The engine has the in-memory isolation of the contract suite and a model that
answers after 50 ms (or at once); every fact is durable in a real trace. The worktrees are those of a real repository.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import worktrees
from benchmarks.harness import Figure, heading, show
from runner.core.evolve import fold
from runner.core.state import TaskState
from runner.executors.executor_port import Answer, Ask, LiveSink
from runner.isolation.isolation_port import Isolation
from runner.isolation.worktrees import GitWorktrees
from runner.loop import TaskLoop
from tests.runner.chunking.memory import MemoryEffects, MemoryWorld
from tracer.conversation import ConversationTracer
from tracer.drafts import Draft
from tracer.statedir import StateDir

_SUBTASKS = 1000
_AT_ONCE = 100
_DELAY_S = 0.05
_ROUNDS = 5
_MOST_RATIO = 1.25
_LEAST_PER_S = 2000.0
_MOST_WORKTREES = 1.3


def _answer(_ask: Ask, _folder: dict[str, bytes]) -> Answer:
    return Answer(output="done", status="COMPLETE", cost_usd=0.001)


async def _engine(folder: Path, *, delay_s: float) -> float:
    """Seconds for a thousand durable subtasks, from the plan to the last merged one."""
    state_dir = StateDir(folder / ".pm-orchestrator")
    plan = {"subtasks": [{"description": f"part {number}"} for number in range(_SUBTASKS)]}
    data = {
        "prompt": "All of it",
        "workspace": str(folder),
        "plan": plan,
        "executor": {"name": "scripted"},
        "limits": {"parallel": _AT_ONCE},
    }
    world = MemoryWorld(_answer, delay_s=delay_s)
    async with ConversationTracer(state_dir=state_dir, session_id="sess-bench", task_id="task-001") as tracer:
        first = await tracer.append(Draft("USER_REQUEST", data))
        loop = TaskLoop(append=tracer.append, effects=world.here(None), live=lambda _update: None)
        started = time.perf_counter()
        state = await loop.run(fold([first]))
        took = time.perf_counter() - started
        _check(state, world, Path(tracer.get_trace_file_path()))
    return took


def _check(state: TaskState, world: MemoryWorld, trace: Path) -> None:
    """The run is what it claims to be: complete, bounded, and every fact on disk."""
    if state.final is None or state.final.data["status"] != "COMPLETE" or world.most_asking > _AT_ONCE:
        raise RuntimeError((state.final, world.most_asking))
    facts = trace.read_bytes().count(b"\n")
    if facts != state.facts or facts < 4 * _SUBTASKS:
        raise RuntimeError((facts, state.facts))


async def _bare() -> float:
    """The same waiting with asyncio alone."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one() -> None:
        async with gate:
            await asyncio.sleep(_DELAY_S)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_SUBTASKS):
            group.create_task(one())
    return time.perf_counter() - started


def engine() -> None:
    """Rounds of bare asyncio and engine in turn; the median of each."""
    ideal = _SUBTASKS * _DELAY_S / _AT_ONCE
    bare, waiting, at_once = [], [], []
    for _ in range(_ROUNDS):
        bare.append(asyncio.run(_bare()))
        for delay_s, found in ((_DELAY_S, waiting), (0.0, at_once)):
            with tempfile.TemporaryDirectory() as name:
                found.append(asyncio.run(_engine(Path(name), delay_s=delay_s)))
    heading(f"engine: {_SUBTASKS} subtasks, {_AT_ONCE} at once, {_DELAY_S * 1000:.0f} ms each ({os.cpu_count()} cores)")
    show(Figure("bare asyncio / ideal", statistics.median(bare) / ideal))
    took = statistics.median(waiting)
    note = f"{took * 1000:.0f} ms, best {min(waiting) * 1000:.0f} ms"
    show(Figure("engine, every fact durable / ideal", took / ideal, _MOST_RATIO, note=note))
    rate = _SUBTASKS / statistics.median(at_once)
    note = f"best {_SUBTASKS / min(at_once):.0f}"
    show(Figure("engine, answers at once: durable subtasks a second", rate, _LEAST_PER_S, better="higher", note=note))


class _InFolder(MemoryEffects):
    """An agent that waits and writes one file into a real working tree; judging costs nothing here."""

    def __init__(self, world: MemoryWorld, folder: Path, apart: Isolation) -> None:
        super().__init__(world, None)
        self._in, self._apart = folder, apart
        self.workspace = str(folder)

    async def ask(self, request: Ask, live: LiveSink) -> Answer:  # noqa: ARG002 - the port's shape
        await asyncio.sleep(worktrees.WORK_S)
        (self._in / f"{request.subtask_id}.txt").write_text("done\n")
        return Answer(output="done", status="COMPLETE", cost_usd=0.001)

    async def isolation(self, state: TaskState) -> Isolation:  # type: ignore[override]  # noqa: ARG002 - the port's shape
        return self._apart

    def within(self, folder: Path) -> _InFolder:
        return _InFolder(self.world, folder, self._apart)


async def _ours(folder: Path, names: list[str]) -> float:
    """The engine with real worktrees, from the request to the person's files and nothing left behind."""
    state_dir = StateDir(folder / ".pm-orchestrator")
    world = MemoryWorld(_answer)

    apart = GitWorktrees(folder, state_dir=state_dir.root, task_id="task-001")
    plan = {"subtasks": [{"description": name} for name in names]}
    data = {
        "prompt": "All of it",
        "workspace": str(folder),
        "plan": plan,
        "executor": {"name": "scripted"},
        "limits": {"parallel": worktrees.AT_ONCE},
    }
    async with ConversationTracer(state_dir=state_dir, session_id="sess-bench", task_id="task-001") as tracer:
        first = await tracer.append(Draft("USER_REQUEST", data))
        loop = TaskLoop(append=tracer.append, effects=_InFolder(world, folder, apart), live=lambda _update: None)
        started = time.perf_counter()
        state = await loop.run(fold([first]))
        took = time.perf_counter() - started
    if (
        state.final is None
        or state.final.data["status"] != "COMPLETE"
        or len(list(folder.glob("task-*.txt"))) < len(names)
    ):
        raise RuntimeError(state.final)
    return took


def in_worktrees(subtasks: int) -> None:
    """By hand with git, and through the engine, each in a repository of its own."""
    names = [f"sub-{number}" for number in range(subtasks)]

    async def measure(*, bare: bool) -> float:
        with tempfile.TemporaryDirectory() as folder:
            await worktrees.make(Path(folder))
            os.sync()  # what was written before is no part of either side
            return await (worktrees.bare if bare else _ours)(Path(folder), names)

    took: dict[bool, list[float]] = {True: [], False: []}
    for bare in (True, False, False, True, True, False):  # in turns: the disk remembers who came before
        took[bare].append(asyncio.run(measure(bare=bare)))
    by_hand, through = statistics.median(took[True]), statistics.median(took[False])
    heading(f"{subtasks} subtasks in worktrees, {worktrees.AT_ONCE} at once, {worktrees.WORK_S} s each, three times")
    runs = " ".join(f"{seconds:.1f}" for seconds in took[True]), " ".join(f"{seconds:.1f}" for seconds in took[False])
    note = f"bare {by_hand:.2f} s ({runs[0]}), engine {through:.2f} s ({runs[1]})"
    show(Figure("engine with real worktrees / bare git", through / by_hand, _MOST_WORKTREES, note=note))


def main(subtasks: int = 100) -> None:
    """Both figures."""
    engine()
    in_worktrees(subtasks)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
