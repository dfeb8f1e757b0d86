"""How soon line mode shows its first prompt, beside a bare prompt_toolkit prompt in the same rounds; what a key costs.

Real processes on a real pty, in a project with a hundred tasks. Printed as multiples of the bare prompt.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from benchmarks.harness import Figure, heading, show
from tracer.statedir import StateDir

_ROUNDS = 15
_KEYS = 60
_BARE = "from prompt_toolkit import PromptSession\nPromptSession('pm> ').prompt()\n"
_LINE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from repl.cli import main; sys.exit(main(['--line']))"


class _Shown:
    """A program on a pty of 100x30 that is answered where its cursor is."""

    def __init__(self, code: str, folder: Path) -> None:
        self.handle, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", "PM_EXECUTOR": "claude"}
        self.seen = b""
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(Path(__file__).parent.parent)],
            cwd=folder,
            env=environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, text: bytes) -> float:
        """Seconds from the call until `text` is written."""
        called, start = time.perf_counter(), len(self.seen)
        while text not in self.seen[start:]:
            if not select.select([self.handle], [], [], 20)[0]:
                raise SystemExit(f"no {text!r} in {self.seen[-2000:]!r}")
            data = os.read(self.handle, 65536)
            self.seen += data
            if b"\x1b[6n" in data:
                os.write(self.handle, b"\x1b[3;1R")
        return time.perf_counter() - called

    def quiet(self, seconds: float) -> None:
        """Read until nothing more comes for `seconds`."""
        while select.select([self.handle], [], [], seconds)[0]:
            self.seen += os.read(self.handle, 65536)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.handle)


def _first_prompt(code: str, folder: Path) -> float:
    shown = _Shown(code, folder)
    shown.until(b"pm>")
    taken = time.perf_counter() - shown.began
    shown.end()
    return taken


def _echo(folder: Path) -> list[float]:
    shown = _Shown(_LINE, folder)
    shown.until(b"pm>")
    shown.quiet(1.5)
    taken = []
    for number in range(_KEYS):
        key = b"zqkx"[number % 4 : number % 4 + 1]
        os.write(shown.handle, key)
        taken.append(shown.until(key))
        shown.quiet(0.03)
    shown.end()
    return taken


def _make_tasks(state_dir: StateDir) -> None:
    state_dir.ensure()
    for number in range(1, 101):
        head = f'{{"timestamp":"2025-01-23T10:30:00.000Z","event":"%s","session_id":"s","task_id":"task-{number:03d}",'
        lines = (
            head % "USER_REQUEST" + f'"data":{{"prompt":"change number {number}"}}}}',
            head % "FINAL_SUMMARY" + '"data":{"status":"COMPLETE","total_iterations":0,"files_modified":[]}}',
        )
        path = state_dir.traces / f"conversation-task-{number:03d}-2025-01-23T10-30-00.jsonl"
        path.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Print the first prompt's time as a multiple of the bare prompt's, and the median echo of a key."""
    heading("line mode, beside a bare prompt_toolkit prompt")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_tasks(StateDir(folder / ".pm-orchestrator"))
        for code in (_BARE, _LINE):
            _first_prompt(code, folder)  # the first of each warms the caches
        bare, ratios = [], []
        for _round in range(_ROUNDS):
            bare.append(_first_prompt(_BARE, folder))
            ratios.append(_first_prompt(_LINE, folder) / bare[-1])
        note = f"bare {statistics.median(bare) * 1000:.0f} ms"
        show(Figure("first prompt of line mode", statistics.median(ratios), 1.5, note=note))
        taken = _echo(folder)
        note = f"worst {max(taken) * 1000:.0f} ms"
        show(Figure("key to echo, ms at the median", statistics.median(taken) * 1000, 30.0, note=note))


if __name__ == "__main__":
    main()
