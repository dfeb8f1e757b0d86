"""What every worker of `distill_many` needs, loaded once: imported by the server that workers are forked from.

The readers take 130 ms to import, the redaction rules 80 ms to load; each worker paid both.
"""

from __future__ import annotations

import os
from pathlib import Path

import tracer.distill.one  # noqa: F401 - for being loaded
from tracer.distill.readers import claude, codex, copilot, gemini, opencode  # noqa: F401 - likewise
from tracer.redaction.engine import build_redactor

__all__: list[str] = []

# No text, so that no key is asked for: only the rules that all projects share are loaded.
build_redactor(state_dir=Path(os.devnull), environ={}, host="", persons=()).redact_text("")
