"""What the loop adds to an agent that answers at once: one iteration beside the appends it must make durable."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Figure, show
from runner.core.request import Request
from runner.effects import TaskEffects
from runner.executors.scripted import ScriptedExecutor
from runner.supervisor import Supervisor
from tracer.drafts import executor_choice
from tracer.facts import Limits
from tracer.statedir import StateDir

_ITERATIONS = 40


def _bare_appends(folder: Path, lines: list[bytes]) -> float:
    """Seconds to write and sync the same lines, one by one: the least any write-ahead log must spend."""
    started = time.perf_counter()
    with (folder / "bare.jsonl").open("wb", buffering=0) as file:
        for line in lines:
            file.write(line)
            os.fdatasync(file.fileno())
    return time.perf_counter() - started


async def _task(folder: Path, script: Path) -> tuple[float, Path]:
    state_dir = StateDir(folder / ".pm-orchestrator")

    def make(_request: Request) -> ScriptedExecutor:
        return ScriptedExecutor(script, state_dir=state_dir.root)

    async with Supervisor(state_dir, make_executor=make, make_effects=TaskEffects) as supervisor:
        request = Request(
            prompt="Write a.py",
            workspace=str(folder),
            executor=executor_choice("scripted", script=str(script)),
            limits=Limits(max_iterations=_ITERATIONS),
            kind="change",
        )
        started = time.perf_counter()
        outcome = await supervisor.wait(await supervisor.submit(request))
        return time.perf_counter() - started, Path(outcome.trace_file)


def main() -> None:
    """Print milliseconds an iteration, and the ratio to the bare appends of the same lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = folder / "project"
        workspace.mkdir()
        (workspace / "a.py").write_text("VALUE = 1\n")
        script = folder / "script.jsonl"
        reply = {"output": "TODO: implement this", "files": {"a.py": "# TODO: implement this\nVALUE = 2\n"}}
        script.write_text((json.dumps(reply) + "\n") * _ITERATIONS)
        seconds, trace = asyncio.run(_task(workspace, script))
        lines = trace.read_bytes().splitlines(keepends=True)
        bare = _bare_appends(folder, lines)
        each = seconds / _ITERATIONS * 1000
        show(Figure("loop: ms an iteration (5 facts, workspace compared 3 times)", each))
        show(Figure("loop: against write + fdatasync of the same lines", seconds / bare, note=f"bare {bare:.3f} s"))


if __name__ == "__main__":
    main()
