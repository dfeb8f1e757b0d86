"""What workers of `distill_many` share where there is much to read: the gate of all rules, compiled once (0.5 s).

Imported, like `warm`, by the server that workers are forked from; each worker compiled it for itself after 4 MB.
"""

from __future__ import annotations

import os
from pathlib import Path

from tracer.redaction.engine import build_redactor

__all__: list[str] = []

build_redactor(state_dir=Path(os.devnull), environ={}, host="", persons=()).prepare()
