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
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import Figure, heading, show
from tracer.journal.record_file import RecordFile
from tracer.statedir import StateDir

_ROUNDS = 15
_KEYS = 60
_EVENTS_A_SECOND = 100
_BARE = "from prompt_toolkit import PromptSession\nPromptSession('pm> ').prompt()\n"
_LINE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from repl.cli import main; "
    "sys.exit(main(['--line', *sys.argv[1:]]))"
)


class _Shown:
    """A program on a pty of 100x30 that is answered where its cursor is."""

    def __init__(self, code: str, folder: Path, *words: str) -> None:
        self.handle, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", "PM_EXECUTOR": "claude"}
        self.seen = b""
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(Path(__file__).parent.parent), *words],
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


def _echo(folder: Path, *words: str) -> list[float]:
    """How long each key takes to be shown at a prompt that was started with `words`."""
    shown = _Shown(_LINE, folder, *words)
    shown.until(b"pm>")
    time.sleep(1.5)  # the last session is shown, and what a command needs is loaded
    taken = []
    for number in range(_KEYS):
        shown.quiet(0.003)
        key = "ßðþæ"[number % 4].encode()  # nothing else that is shown holds them
        os.write(shown.handle, key)
        taken.append(shown.until(key))
        time.sleep(0.03)
    shown.end()
    return taken


@contextmanager
def _busy(state_dir: StateDir, task_id: str) -> Iterator[None]:
    """A task of another process that records a hundred events a second."""
    head = f'{{"timestamp":"2025-01-23T10:31:00.000Z","event":"%s","session_id":"s","task_id":"{task_id}",'
    path = state_dir.traces / f"conversation-{task_id}-2025-01-23T10-31-00.jsonl"
    done = threading.Event()

    def write() -> None:
        with path.open("a") as file:
            index = 0
            while not done.wait(1 / _EVENTS_A_SECOND):
                data = '"data":{"judgment":"RETRY","criteria_results":[],"summary":"busy","issues":[]}}'
                file.write(head % "QUALITY_JUDGMENT" + f'"iteration_index":{index},{data}\n')
                file.flush()
                index += 1

    record = RecordFile.create(path, lock_path=state_dir.task_lock(task_id))
    path.write_text(head % "USER_REQUEST" + '"data":{"prompt":"busy"}}\n')
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()
        record.close()


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
        _show_echo("key to echo, ms at the median", _echo(folder), limit=30.0)
        with _busy(StateDir(folder / ".pm-orchestrator"), "task-101"):
            taken = _echo(folder, "--resume", "task-101")
        _show_echo(f"the same with {_EVENTS_A_SECOND} events a second", taken, limit=20.0)


def _show_echo(name: str, taken: list[float], *, limit: float) -> None:
    note = f"worst {max(taken) * 1000:.0f} ms"
    show(Figure(name, statistics.median(taken) * 1000, limit, note=note))


if __name__ == "__main__":
    main()
