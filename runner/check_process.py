"""One run of a check command: in the workspace, within its time, its whole process tree ended, its output bounded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple

__all__ = ["Ran", "run"]

_KEEP = 256 * 1024


class Ran(NamedTuple):
    """How the run ended; `output` is the last 256 kB of stdout and stderr together."""

    exit_code: int | None
    output: str
    duration_s: float
    timed_out: bool


async def run(command: str, workspace: Path, timeout_s: float) -> Ran:
    """Run `command` by the shell in `workspace`; nothing it started is left when this returns or is cancelled."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=workspace,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    kept = bytearray()
    timed_out = False
    try:
        async with asyncio.timeout(timeout_s):
            await _read(process, kept)
            await process.wait()
    except TimeoutError:
        timed_out = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())
    code = None if timed_out else process.returncode
    return Ran(code, bytes(kept).decode("utf-8", "replace"), loop.time() - started, timed_out)


async def _read(process: asyncio.subprocess.Process, kept: bytearray) -> None:
    if process.stdout is None:
        return
    while chunk := await process.stdout.read(65536):
        kept += chunk
        del kept[:-_KEEP]
