"""One command, its output and how it ended: for tests, linters, type checkers and every other tool.

A text is given to `/bin/sh -c` as the user wrote it; a list is started as it is. Nothing of the command lives on
when the call returns or is cancelled.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner.processes.bounded import BoundedOutput
from runner.processes.process import Ending, EndingKind, Process
from tracer.errors import UsageError

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """What a command did. `output` holds standard output and error in the order written, cut in the middle.

    `kind`: `exit` (by itself), `signal`, `timeout`, `idle` (silent too long), `output` (wrote too much), `missing`
    (no such program, or not executable). `exit_code` is None unless it ended by itself or is missing.
    """

    kind: EndingKind | Literal["missing"]
    exit_code: int | None
    output: bytes
    signal: int | None = None
    dropped_bytes: int = 0
    total_bytes: int = 0
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Ended by itself with exit code 0."""
        return self.kind == "exit" and self.exit_code == 0

    @property
    def missing_tool(self) -> bool:
        """The program, or one that the shell was told to run, is not there."""
        return self.kind == "missing" or (self.kind == "exit" and self.exit_code == _NOT_FOUND)

    @property
    def timed_out(self) -> bool:
        """Ended by us for its time or its silence."""
        return self.kind in {"timeout", "idle"}

    @property
    def text(self) -> str:
        """The output as text; bytes that are not UTF-8 are shown as the replacement character."""
        return self.output.decode("utf-8", "replace")


async def run_command(
    command: Sequence[str] | str,
    *,
    cwd: Path | str,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    idle_timeout_s: float | None = None,
    keep_bytes: int = 256 << 10,
    max_output_bytes: int | None = None,
    stdin: bytes | None = None,
    grace_s: float = 2.0,
    state_dir: Path | None = None,
    label: str = "",
) -> ProcessResult:
    """Run `command` in `cwd` to its end or to a limit.

    `keep_bytes` bounds what is kept of the output, `max_output_bytes` what may be written at all (the command is ended
    beyond it). `env` is the whole environment, `command_environment()` by default.

    Raises:
        UsageError: `cwd` is not a folder.
        asyncio.CancelledError: after the whole process tree has ended.

    """
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    kept = BoundedOutput(keep_bytes)
    process = Process(
        argv,
        cwd=cwd,
        env=env,
        stdin=stdin,
        timeout_s=timeout_s,
        idle_timeout_s=idle_timeout_s,
        merge_stderr=True,
        grace_s=grace_s,
        state_dir=state_dir,
        label=label,
    )
    try:
        async with process:
            ending = await _collect(process, kept, max_output_bytes)
    except OSError as error:
        return _not_started(error, argv, cwd)
    return ProcessResult(
        kind=ending.kind,
        exit_code=ending.exit_code,
        signal=ending.signal,
        output=kept.value(),
        dropped_bytes=kept.dropped_bytes,
        total_bytes=kept.total_bytes,
        duration_s=ending.duration_s,
    )


def allowed_words(command: str, allowed: Iterable[str]) -> list[str] | None:
    """The command's words where an entry of `allowed` permits it, None where none does.

    An entry is a whole command; one that ends in ` *` permits any further arguments.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # a quote without its end
        return None
    for entry in allowed:
        wanted = shlex.split(entry)
        if words == wanted or (wanted[-1:] == ["*"] and words[: len(wanted) - 1] == wanted[:-1]):
            return words
    return None


async def _collect(process: Process, kept: BoundedOutput, max_output_bytes: int | None) -> Ending:
    async for chunk in process.chunks():
        kept.add(chunk)
        if max_output_bytes is not None and kept.total_bytes > max_output_bytes:
            return await process.end("output")
    return await process.wait()


def _not_started(error: OSError, argv: Sequence[str], cwd: Path | str) -> ProcessResult:
    """A program that is not there is a result; a folder that is not there is the caller's mistake."""
    if not Path(cwd).is_dir():
        raise UsageError(
            f"cannot run {argv[0]!r} in {str(cwd)!r}", why="it is not a folder", next_step="check the workspace path"
        ) from error
    if error.errno not in {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG}:
        raise error
    code = _NOT_FOUND if error.errno in {errno.ENOENT, errno.ENOTDIR} else _NOT_EXECUTABLE
    return ProcessResult(
        kind="missing", exit_code=code, output=f"{argv[0]}: {error.strerror}\n".encode("utf-8", "replace")
    )
