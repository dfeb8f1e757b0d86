"""Asks a program something short: its version, or whether it works on this machine. Blocks."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_probe(
    argv: Sequence[str], *, limit_s: float, env: Mapping[str, str] | None = None, cwd: Path | str | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The ended program with what it wrote, without standard input; `env` None is ours.

    Raises:
        OSError: it could not be started, or did not end within `limit_s`; the text says which.

    """
    try:
        return subprocess.run(
            argv, capture_output=True, timeout=limit_s, stdin=subprocess.DEVNULL, env=env, cwd=cwd, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(str(error)) from error
