"""What a fork server of `kill_child` has at hand before it starts a process: what a task loads, and compiled rules.

A start takes 0.2 s of computing then, not 0.7; no thread runs here, which a fork would lose.
"""

import os
import tempfile
from pathlib import Path

import runner.judging
import runner.loop
import runner.perform  # noqa: F401
import tests.runner.kill_child  # noqa: F401
from tracer.redaction.engine import build_redactor

with tempfile.TemporaryDirectory() as folder:
    build_redactor(state_dir=Path(folder), environ=os.environ, host="", persons=()).redact_text("ordinary")
