"""The model's tools (read, write, edit, run) and the `run` command with its sandbox and allow-list."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from runner.executors.executor_port import Permissions
from runner.executors.workspace_files import Refused, WorkspaceFiles
from runner.processes.command import allowed_words, run_command
from runner.processes.environment import command_environment
from tracer.redaction.cuts import beginning

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
        if (words := allowed_words(command, self.allowed)) is not None:
            return words
        raise Refused(
            f"this command is not run: {self.why_no_sandbox}, so only these are allowed, without shell operators: "
            + "; ".join(self.allowed)
        )


EDITING: Final = frozenset({"write", "edit"})


@cache
def _tools() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[
        "tool"
    ]
    return listed


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool call came to; `summary` is one short line for users."""

    text: str
    ok: bool
    summary: str


class Toolbox:
    """The tools over one workspace."""

    def __init__(self, files: WorkspaceFiles, commands: CommandTool, permissions: Permissions) -> None:
        self._files = files
        self._commands = commands
        self._permissions = permissions

    def definitions(self) -> list[dict[str, Any]]:
        """As sent in `tools`, always in the same order so that the prompt cache holds."""
        allowed = {"read"} if self._permissions == "read" else {"read", "write", "edit", "run"}
        return [dict(tool) for tool in _tools() if tool["name"] in allowed]

    async def perform(self, name: str, arguments: object) -> Outcome:
        """Carry out one call; only cancellation gets out as an exception."""
        given = arguments if isinstance(arguments, Mapping) else {}
        summary = _summary(name, given)
        if name not in {tool["name"] for tool in self.definitions()}:
            return Outcome(
                f"there is no tool {name!r} under permissions {self._permissions!r}", ok=False, summary=summary
            )
        try:
            if name == "run":
                text, ok = await self._commands.run(_text(given, "command"), timeout_s=_number(given, "timeout_s"))
                return Outcome(text, ok=ok, summary=summary)
            return Outcome(await asyncio.to_thread(self._on_files, name, given), ok=True, summary=summary)
        except Refused as refusal:
            return Outcome(str(refusal), ok=False, summary=summary)

    def _on_files(self, name: str, given: Mapping[str, Any]) -> str:
        path = _text(given, "path")
        if name == "read":
            return self._files.read(
                path, first_line=_number(given, "first_line") or 1, line_count=_number(given, "line_count")
            )
        if name == "write":
            return self._files.write(path, _text(given, "content"))
        return self._files.edit(
            path, _text(given, "old_text"), _text(given, "new_text"), everywhere=given.get("everywhere") is True
        )


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise Refused(f"the argument {name!r} is missing or not a text")
    return value


def _number(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"the argument {name!r} is not a whole number")
    return value


def _summary(name: str, given: Mapping[str, Any]) -> str:
    told = str(given.get("command" if name == "run" else "path", ""))
    if name == "write" and isinstance(given.get("content"), str):
        told = f"{told} ({given['content'].count(chr(10)) + 1} lines)"
    return beginning(told, 500)
