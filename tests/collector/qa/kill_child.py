"""A process that runs one long job in a sandbox, to be killed by a test: `kill_child.py KIND FOLDER MARK`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from collector.qa.sandbox.container import ContainerSandbox
from collector.qa.sandbox.port import Sandbox
from tests.collector.qa.support import job_of
from tests.support.containers import IMAGE, container_engine


async def _run(kind: str, folder: Path, mark: str) -> None:
    sandbox: Sandbox = BubblewrapSandbox() if kind == "bubblewrap" else ContainerSandbox(container_engine())
    await sandbox.run(job_of(folder, f"sleep {mark}", image=IMAGE))


asyncio.run(_run(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
