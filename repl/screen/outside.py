"""Programs of the user's own, in place of the screen for a while: editor and pager.

The text goes into a private temporary file that is removed afterwards. Control sequences are escaped for the pager.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from repl.present.text import escape


def open_outside(app: App[Any], text: str, *, program: str) -> None:
    """Show `text` in the `editor` or the `pager`; changes made there are not taken over."""
    _with_text(app, escape(text) if program == "pager" else text, _command(program))


def edit_outside(app: App[Any], text: str, *, suffix: str = ".md") -> str | None:
    """`text` as the user left it in the editor; None where the editor could not be run or failed."""
    return _with_text(app, text, _command("editor"), suffix=suffix)


def run_outside(app: App[Any], path: str, *, program: str) -> bool:
    """Open the file at `path` in the `editor` or the `pager`; whether that ended well."""
    return _run(app, [*_command(program), path])


def _command(program: str) -> list[str]:
    if program == "pager":
        return shlex.split(os.environ.get("PAGER") or "less")
    return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")


def _with_text(app: App[Any], text: str, command: list[str], *, suffix: str = ".md") -> str | None:
    with tempfile.TemporaryDirectory(prefix="pm-") as folder:
        path = Path(folder) / f"text{suffix}"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return path.read_text(encoding="utf-8", errors="replace") if _run(app, [*command, str(path)]) else None


def _run(app: App[Any], command: list[str]) -> bool:
    try:
        with app.suspend():
            ended = subprocess.run(command, check=False)
    except (OSError, SuspendNotSupported) as error:
        app.notify(f"{command[0]} could not be started: {error}", severity="error", markup=False)
        return False
    if ended.returncode != 0:
        app.notify(f"{command[0]} ended with {ended.returncode}", severity="warning", markup=False)
    return ended.returncode == 0
