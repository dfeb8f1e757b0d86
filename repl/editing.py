"""Text edited by the user: their own programs, which have the terminal for a while, and long pastes folded."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tracer.errors import UnavailableError

_GRACE_S = 1.5


def program_of(kind: str, environ: Mapping[str, str]) -> list[str]:
    """The user's own `editor` or `pager`."""
    if kind == "pager":
        return shlex.split(environ.get("PAGER") or "less")
    return shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi")


async def run_program(command: list[str], environ: Mapping[str, str]) -> int:
    """The exit code of a program that has the terminal; tasks go on behind it. Cancelling this ends the program.

    Raises UnavailableError: it cannot be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(*command, env=dict(environ))
    except OSError as error:
        next_step = "set EDITOR or PAGER"
        raise UnavailableError(f"{command[0]!r} could not be started", why=str(error), next_step=next_step) from error
    # It shares our process group, so that Ctrl+Z stops and `fg` continues both; Ctrl+C there is the program's alone.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        from runner.processes.process_table import entry_of
        from runner.processes.tree import ProcessTree, end_tree

        entry = entry_of(process.pid)
        await end_tree(ProcessTree("-", process.pid, entry.start if entry else ""), grace_s=_GRACE_S)
        await process.wait()
        raise
    finally:
        signal.signal(signal.SIGINT, before)


async def edit_text(text: str, environ: Mapping[str, str], *, kind: str = "editor", suffix: str = ".md") -> str:
    """`text` as the user left it, in a private file that is removed afterwards.

    Raises UnavailableError: the program cannot be started, or ended with an error.
    """
    command = program_of(kind, environ)
    with tempfile.TemporaryDirectory(prefix="pm-edit-") as folder:
        path = Path(folder) / f"text{suffix}"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        if (code := await run_program([*command, str(path)], environ)) != 0:
            raise UnavailableError(f"{command[0]!r} ended with {code}: nothing was changed")
        return path.read_text(encoding="utf-8", errors="replace")


def kept_aside(text: str, *, suffix: str) -> Path:
    """A private file that holds `text`, for a user to mend what was refused."""
    handle, name = tempfile.mkstemp(prefix="pm-", suffix=suffix)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


FOLD_LINES = 20


class Pastes:
    """The folded pastes of the line being edited."""

    def __init__(self) -> None:
        self._folded: dict[str, str] = {}

    def insert(self, text: str) -> str:
        """What to put into the line for a paste: the text itself, or its mark where it is longer than 20 lines."""
        clean = text.replace("\r\n", "\n").replace("\r", "\n")
        count = clean.rstrip("\n").count("\n") + 1
        if count <= FOLD_LINES:
            return clean
        mark, number = f"[pasted {count} lines]", 2
        while mark in self._folded:
            mark, number = f"[pasted {count} lines #{number}]", number + 1
        self._folded[mark] = clean.rstrip("\n")
        return mark

    def expand(self, line: str) -> str:
        """`line` with every mark replaced by what was pasted; marks a user typed stay."""
        for mark, text in self._folded.items():
            line = line.replace(mark, text, 1)
        return line

    def clear(self) -> None:
        self._folded.clear()
