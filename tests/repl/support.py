"""Runs `pm` as a shell would: a real process, real pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_START = "import sys; from repl.cli import main; sys.exit(main())"


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str
    raw: bytes = b""


def command_line(*words: str) -> list[str]:
    """The argument list that runs this checkout's `pm`."""
    return [sys.executable, "-X", "utf8", "-c", _START, *words]


def environment(**extra: str) -> dict[str, str]:
    """The test's environment with this checkout importable from any folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}


def pm(*words: str, cwd: Path | None = None, stdin: str | bytes = "", timeout: float = 40, **extra: str) -> Ran:
    """Run `pm WORDS` and wait for it."""
    done = subprocess.run(
        command_line(*words),
        cwd=cwd,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=timeout,
        env=environment(**extra),
        check=False,
    )
    return Ran(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), done.stdout
    )
