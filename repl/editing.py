"""Text edited by the user: in `$VISUAL` or `$EDITOR`, and long pastes folded in the input line."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tracer.errors import UnavailableError


def edit_text(text: str, environ: Mapping[str, str], *, suffix: str = ".md") -> str:
    """`text` as the user left it; blocks while the editor has the terminal.

    Raises UnavailableError: the editor cannot be started, or ended with an error.
    """
    command = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="pm-edit-") as folder:
        path = Path(folder) / f"text{suffix}"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        try:
            ended = subprocess.run([*command, str(path)], env=dict(environ), check=False)
        except OSError as error:
            raise UnavailableError(
                f"the editor {command[0]!r} could not be started", why=str(error), next_step="set EDITOR"
            ) from error
        if ended.returncode != 0:
            raise UnavailableError(f"the editor {command[0]!r} ended with {ended.returncode}: nothing was changed")
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
