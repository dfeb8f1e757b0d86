"""The `run` tool: under bubblewrap any command, without it only commands from the allow-list, else refused with why.

In the sandbox the workspace is writable, the system read-only, the home hidden, and there is no network unless it was
configured. Permissions `full` run commands as the user would. Time and output are bounded; the whole tree is ended.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.executors.anthropic.files import Refused
from runner.executors.port import Permissions
from runner.processes import command_environment, run_command

__all__ = ["DEFAULT_ALLOWED", "CommandTool", "Wrap"]

DEFAULT_ALLOWED: Final = ("pwd", "ls", "git status", "git status --short", "git diff", "git log --oneline -20")
_DEFAULT_TIMEOUT_S = 120
_MAX_TIMEOUT_S = 1800
_KEEP_BYTES = 64_000
_MAX_OUTPUT_BYTES = 64 << 20

Wrap = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTool:
    """Runs commands for the model. `wrap` puts an argument list into the sandbox; None where there is no sandbox.

    An entry of `allowed` is a whole command; one that ends in ` *` permits any further arguments.
    """

    workspace: Path
    wrap: Wrap | None
    why_no_sandbox: str = "bubblewrap cannot be used here"
    permissions: Permissions = "edit"
    allowed: tuple[str, ...] = DEFAULT_ALLOWED
    state_dir: Path | None = None
    label: str = ""

    async def run(self, command: str, *, timeout_s: int | None) -> tuple[str, bool]:
        """The text for the model and whether the command succeeded; Refused where it may not run."""
        if not command.strip() or "\0" in command:
            raise Refused("the command is empty or holds a NUL byte")
        seconds = float(min(max(timeout_s or _DEFAULT_TIMEOUT_S, 1), _MAX_TIMEOUT_S))
        result = await run_command(
            self._arguments(command),
            cwd=self.workspace,
            env=command_environment(),
            timeout_s=seconds,
            keep_bytes=_KEEP_BYTES,
            max_output_bytes=_MAX_OUTPUT_BYTES,
            state_dir=self.state_dir,
            label=self.label,
        )
        match result.kind:
            case "timeout":
                return f"ended after {seconds:.0f} s, its time limit\n{result.text}", False
            case "output":
                return f"ended: it wrote more than {_MAX_OUTPUT_BYTES} bytes\n{result.text}", False
            case "signal":
                return f"ended by signal {result.signal}\n{result.text}", False
            case _:
                return f"exit code {result.exit_code}\n{result.text}", result.ok

    def _arguments(self, command: str) -> list[str]:
        shell = ["/bin/sh", "-c", command]
        if self.permissions == "full":
            return shell
        if self.wrap is not None:
            return self.wrap(shell)
        return self._from_allow_list(command)

    def _from_allow_list(self, command: str) -> list[str]:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise Refused(f"the command cannot be read: {error}") from error
        for entry in self.allowed:
            wanted = shlex.split(entry)
            if words == wanted or (wanted[-1:] == ["*"] and words[: len(wanted) - 1] == wanted[:-1]):
                return words
        raise Refused(
            f"this command is not run: {self.why_no_sandbox}, so only these are allowed, without shell operators: "
            + "; ".join(self.allowed)
        )
