"""What pm says of its own accord never holds a secret: errors quote what was typed and what stood in a file."""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.errors import PmError

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

__all__ = ["without_secrets"]


def without_secrets(text: str) -> str:
    """`text` with its secrets replaced (60 ms the first time); as it is where redaction itself is the trouble."""
    try:
        redacted: str = _redactor(frozenset(os.environ.items())).redact_text(text)[0]
    except (PmError, OSError, ImportError):
        return text
    return redacted


@lru_cache(maxsize=1)  # one error asks for each of its parts
def _redactor(environ: frozenset[tuple[str, str]]) -> ProjectRedactor:
    from tracer.redaction.engine import build_redactor

    with tempfile.TemporaryDirectory() as key:  # an error makes no state folder
        return build_redactor(state_dir=Path(key), environ=dict(environ), host="", persons=(), pii=False)
