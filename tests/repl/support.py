"""Runs `pm` as a shell would: a real process, real pipes."""

from __future__ import annotations

import io
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


def pm(*words: str, cwd: Path, stdin: str | bytes = "", **extra: str) -> Ran:
    """Run `pm WORDS` inside this process (its imports are paid once) with streams and environment of its own."""
    from repl.cli import main

    out, err = _Stream(), _Stream()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    before = (sys.stdin, sys.stdout, sys.stderr, Path.cwd(), dict(os.environ))
    os.environ.update({name: value for name, value in extra.items() if value is not None})
    sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    sys.stdout, sys.stderr = out.text, err.text
    os.chdir(cwd)
    try:
        code = main(list(words))
        out.text.flush()
        err.text.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before[:3]
        os.chdir(before[3])
        os.environ.clear()
        os.environ.update(before[4])
    return Ran(code, out.bytes().decode("utf-8", "replace"), err.bytes().decode("utf-8", "replace"), out.bytes())


class _Stream:
    """A captured text stream whose bytes can be read."""

    def __init__(self) -> None:
        self._raw = io.BytesIO()
        self.text = io.TextIOWrapper(self._raw, encoding="utf-8", write_through=True)

    def bytes(self) -> bytes:
        return self._raw.getvalue()


def pm_process(*words: str, cwd: Path | None = None, stdin: str | bytes = "", timeout: float = 90, **extra: str) -> Ran:
    """Run `pm WORDS` as a process of its own and wait for it."""
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
