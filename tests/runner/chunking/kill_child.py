"""A process that runs the four-part request in real worktrees and may kill itself: `project where after [whole]`.

`where`: before, during or after the append of that number; `never`. Started again, it goes on where it was.
`whole`: the request runs in one piece, in a worktree of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.runner.chunking.project import request, supervisor
from tracer.conversation import ConversationTracer
from tracer.lookup import task_ids
from tracer.statedir import StateDir


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(where: str, after: int) -> None:
    """Make the append of number `after` the last thing that happens."""
    append, started, ended = ConversationTracer.append, 0, 0

    async def deadly(self: ConversationTracer, draft: Any) -> Any:
        nonlocal started, ended
        started += 1
        if where == "before" and started == after:
            die()
        if where == "during" and started == after:
            asyncio.get_running_loop().call_soon(die)
        entry = await append(self, draft)
        ended += 1
        if where == "after" and ended == after:
            die()
        return entry

    ConversationTracer.append = deadly  # type: ignore[method-assign]


async def main(project: Path, *, whole: bool) -> None:
    wanted = request(project, plan=None, isolation="worktree") if whole else request(project)
    async with supervisor(project) as tasks:
        known = task_ids(StateDir(project / ".pm-orchestrator"))
        task = await tasks.resume(known[0]) if known else await tasks.submit(wanted)
        sys.stdout.write((await tasks.wait(task)).status)


if __name__ == "__main__":
    arm(sys.argv[2], int(sys.argv[3]))
    asyncio.run(main(Path(sys.argv[1]), whole=sys.argv[4:] == ["whole"]))
