"""Runs or resumes a scripted task and kills itself (SIGKILL) at a chosen append: before, after, or during it.

Tests start it from a fork server that has imported this module: what is killed is a process of its own all the same.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from runner.core.request import Request
from runner.effects import TaskEffects
from runner.executors.scripted import ScriptedExecutor
from runner.supervisor import Supervisor
from tracer.conversation import ConversationTracer
from tracer.drafts import executor_choice
from tracer.lookup import task_ids
from tracer.statedir import StateDir


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _main(workspace: Path, script: Path, where: str, after: int) -> str:
    appended = 0
    append = ConversationTracer.append

    async def deadly(self: ConversationTracer, draft: Any) -> Any:
        nonlocal appended
        if where == "before" and appended == after:
            die()
        if where == "during" and appended == after:
            asyncio.get_running_loop().call_soon(die)
        entry = await append(self, draft)
        appended += 1
        if where == "after" and appended == after:
            die()
        return entry

    ConversationTracer.append = deadly  # type: ignore[method-assign]
    state_dir = StateDir(workspace / ".pm-orchestrator")

    def executor(request: Any) -> ScriptedExecutor:
        return ScriptedExecutor(Path(request.executor.script or ""), state_dir=state_dir.root)

    async with Supervisor(state_dir, make_executor=executor, make_effects=TaskEffects) as supervisor:
        known = task_ids(state_dir)
        if known:
            task_id = await supervisor.resume(known[0])
        else:
            task_id = await supervisor.submit(
                Request(
                    prompt="Implement login.py",
                    workspace=str(workspace),
                    executor=executor_choice("scripted", script=str(script)),
                )
            )
        outcome = await supervisor.wait(task_id)
    return outcome.status


def run(workspace: Path, script: Path, where: str, after: int, told: Path) -> None:
    """The task's status at its end is in `told`."""
    told.write_text(asyncio.run(_main(workspace, script, where, after)))
