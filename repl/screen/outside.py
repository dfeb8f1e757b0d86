"""Programs of the person's own, in place of the screen for a while: editor and pager.

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

from repl.present.escape import escape

__all__ = ["edit_outside", "open_outside"]


def open_outside(app: App[Any], text: str, *, program: str) -> None:
    """Show `text` in the `editor` or the `pager`; changes made there are not taken over."""
    command = _editor() if program == "editor" else shlex.split(os.environ.get("PAGER") or "less")
    _run(app, escape(text) if program == "pager" else text, command)


def edit_outside(app: App[Any], text: str) -> str | None:
    """`text` as the person left it in the editor; None where the editor could not be run or failed."""
    return _run(app, text, _editor())


def _editor() -> list[str]:
    return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")


def _run(app: App[Any], text: str, command: list[str]) -> str | None:
    with tempfile.TemporaryDirectory(prefix="pm-") as folder:
        path = Path(folder) / "text.md"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        try:
            with app.suspend():
                ended = subprocess.run([*command, str(path)], check=False)
        except (OSError, SuspendNotSupported) as error:
            app.notify(f"{command[0]} could not be started: {error}", severity="error", markup=False)
            return None
        if ended.returncode != 0:
            app.notify(f"{command[0]} ended with {ended.returncode}", severity="warning", markup=False)
            return None
        return path.read_text(encoding="utf-8", errors="replace")
