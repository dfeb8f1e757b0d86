"""Runs `pm` as a person would, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["pm_command", "run_pm"]

ROOT = Path(__file__).resolve().parents[3]


def pm_command(*words: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from repl.cli import main; sys.exit(main())", *words]


def environment(**environ: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **environ}


def run_pm(folder: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    done = subprocess.run(
        pm_command("-C", str(folder), *words), env=environment(**environ), capture_output=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
