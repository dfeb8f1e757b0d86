"""A defect of ours, written down so that a user can report it: one redacted file, mode 0600, and exit 10."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from repl.version import VERSION
from tracer.clock import now_iso, short_token
from tracer.errors import InternalError, PmError

if TYPE_CHECKING:
    from repl.context import Context


def report_defect(defect: BaseException, context: Context) -> InternalError:
    """Write the report and return the three-line error that names it."""
    text = "\n".join(
        [
            f"pm {VERSION} · Python {platform.python_version()} · {sys.platform} · {now_iso()}",
            f"command: {context.command}",
            "",
            "".join(traceback.format_exception(defect)),
        ]
    )
    path = _write(_redacted(text, context), context)
    where = f"report: {path}" if path else "no report could be written"
    return InternalError(
        f"internal error: {type(defect).__name__}",
        why=f"this is a defect of pm; recorded traces are intact\n{where}",
        next_step="send the report to the maintainers; it is redacted",
    )


def _folders(context: Context) -> list[Path]:
    folders = [Path(tempfile.gettempdir())]
    try:
        state = context.state_root
    except (PmError, OSError, ImportError):
        return folders
    return [state / "reports", *folders] if state.is_dir() else folders


def _write(text: str, context: Context) -> str:
    name = f"pm-report-{now_iso()[:19].replace(':', '-')}-{short_token(6)}.txt"
    for folder in _folders(context):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            continue
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return str(folder / name)
    return ""


def _redacted(text: str, context: Context) -> str:
    """The text without secrets; without a working redactor only the names of the frames are kept."""
    try:
        with tempfile.TemporaryDirectory() as key:
            return context.redactor(state_dir=Path(key), rewrite_paths=True).redact_text(text)[0]
    except (PmError, OSError, ImportError):
        kept = [line for line in text.splitlines() if line.startswith(("pm ", "command:", "  File "))]
        return "\n".join(kept)
