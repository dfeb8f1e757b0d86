"""One run of a check command: in the workspace, within its time, its whole process tree ended, its output bounded.

The command gets no provider's key: it runs code that the agent wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from runner.processes import run_command

__all__ = ["Ran", "run"]

_KEEP = 256 * 1024
_MOST_OUTPUT = 1 << 30


class Ran(NamedTuple):
    """How the run ended; `output` is the head and the tail of stdout and stderr together, 256 kB in all.

    `exit_code` is None where it did not end by itself; 127 where the program could not be found.
    """

    exit_code: int | None
    output: str
    duration_s: float
    timed_out: bool


async def run(command: str, workspace: Path, timeout_s: float) -> Ran:
    """Run `command` by the shell in `workspace`; nothing it started is left when this returns or is cancelled."""
    result = await run_command(
        command, cwd=workspace, timeout_s=timeout_s, keep_bytes=_KEEP, max_output_bytes=_MOST_OUTPUT, label="check"
    )
    return Ran(result.exit_code, result.text, result.duration_s, result.timed_out)
