"""What pm says of its own accord never holds a secret: errors quote what was typed and what stood in a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tracer.errors import PmError

__all__ = ["without_secrets"]


def without_secrets(text: str) -> str:
    """`text` with its secrets replaced (60 ms the first time); as it is where redaction itself is the trouble."""
    try:
        from tracer.redaction.engine import build_redactor

        with tempfile.TemporaryDirectory() as key:  # an error makes no state folder
            redactor = build_redactor(state_dir=Path(key), environ=os.environ, host="", persons=(), pii=False)
            return redactor.redact_text(text)[0]
    except (PmError, OSError, ImportError):
        return text
