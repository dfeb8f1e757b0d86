"""How fast the full screen is, beside an empty Textual app in the same run. Real processes on a real pty.

    python benchmarks/viewer.py [--size 1e9] [--rounds 5] [--keep FILE]

Prints one line a figure: first screen of the viewer over a trace of realistic lines (4 kB to 2 MB), first prompt of the
full screen, jump to the end, memory, indexing, and key echo while 100 facts a second arrive.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import orjson

ROOT = Path(__file__).resolve().parents[1]
NAME = "conversation-task-001-2025-01-23T10-30-00.jsonl"
EMPTY = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("readyxyz")
Empty().run()
"""
VIEWER = """
import sys
from pathlib import Path
from repl.screen.trace.view import ViewerApp
ViewerApp(Path(sys.argv[1]), follow="-f" in sys.argv).run()
"""
PM = "import sys\nfrom repl.cli import main\nsys.exit(main(['--screen']))\n"
JUMP = """
import asyncio, resource, sys, time
from pathlib import Path
from repl.screen.trace.view import ViewerApp
app = ViewerApp(Path(sys.argv[1]))
async def run():
    async with app.run_test(size=(110, 30)):
        viewer = app.viewer
        began = time.perf_counter()
        viewer.action_last()
        [viewer.facts.render_line(y) for y in range(viewer.facts.size.height)]
        jump = time.perf_counter() - began
        assert not viewer.model.file.indexed
        while not viewer.model.file.indexed:
            await asyncio.sleep(0.02)
        indexed = time.perf_counter() - began
        while viewer.model.digest.done < viewer.model.file.index.count:
            await asyncio.sleep(0.02)
        print(jump, indexed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, viewer.model.file.count)
asyncio.run(run())
"""


def line(number: int, size: int, pool: str, source: random.Random) -> bytes:
    events = ("LLM_REQUEST", "LLM_RESPONSE", "QUALITY_JUDGMENT", "REJECTION_DETAILS", "ITERATION_END")
    event, iteration = events[number % 5], number // 5
    start = source.randrange(len(pool) - 100)
    text = (pool[start:] + pool * (size // len(pool) + 1))[:size]
    data: dict[str, object] = {"prompt": text}
    if event == "LLM_RESPONSE":
        data = {"output": text, "status": "COMPLETE", "files_modified": ["a.py"], "cost_usd": 0.01}
    elif event == "QUALITY_JUDGMENT":
        failed = {"id": "Q2", "name": "No TODO/FIXME", "passed": False, "reason": text[:100]}
        data = {"judgment": "REJECT", "criteria_results": [failed], "summary": text[:4000]}
    elif event == "REJECTION_DETAILS":
        data = {"criteria_failed": ["Q2"], "modification_prompt": text[:4000]}
    elif event == "ITERATION_END":
        data = {"iteration_index": iteration, "judgment": "REJECT"}
    stamp = f"2025-01-23T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z"
    fields = {"timestamp": stamp, "event": event, "session_id": "s", "task_id": "task-001"}
    return orjson.dumps({**fields, "iteration_index": iteration, "data": data}) + b"\n"


def generate(path: Path, total: int) -> int:
    """A trace of about `total` bytes with lines from 4 kB to 2 MB, most of them short; the number of lines."""
    source = random.Random(7)
    words = [
        "validate",
        "héllo",
        "日本語",
        "return",
        "TODO",
        "\n",
        "def f():",
        '"quoted"',
        *(f"w{n}" for n in range(400)),
    ]
    pool = " ".join(source.choice(words) for _ in range(500_000))
    written = number = 0
    with path.open("wb") as out:
        while written < total:
            written += out.write(line(number, int(4000 * 500 ** (source.random() ** 2.5)), pool, source))
            number += 1
    return number


class Shown:
    """A program on a pty of 110x30."""

    def __init__(self, code: str, *words: str, folder: str | None = None) -> None:
        self.handle, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "PM_EXECUTOR": "scripted"}
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            start_new_session=True, env=environ,
        )  # fmt: skip
        os.close(theirs)

    def until(self, text: bytes, limit: float = 60) -> float:
        """Seconds from now until `text` is written."""
        began, seen = time.perf_counter(), b""
        while text not in seen:
            if time.perf_counter() - began > limit:
                raise SystemExit(f"{text!r} never came; last: {seen[-500:]!r}")
            if select.select([self.handle], [], [], 0.5)[0]:
                seen = seen[-4000:] + os.read(self.handle, 65536)
        return time.perf_counter() - began

    def drain(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            if select.select([self.handle], [], [], left)[0]:
                os.read(self.handle, 65536)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.handle)


def first_paint(code: str, text: bytes, *words: str, folder: str | None = None) -> float:
    shown = Shown(code, *words, folder=folder)
    shown.until(text)
    taken = time.perf_counter() - shown.began
    shown.end()
    return taken


def key_echo(folder: Path, keys: int = 40) -> list[float]:
    """Seconds from a key to its echo in the viewer's input line while 100 facts a second arrive."""
    path = folder / NAME.replace("001", "002")
    fact = line(4, 100, "x " * 200, random.Random(1))
    path.write_bytes(fact * 50)
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.01):
            with path.open("ab") as out:
                out.write(fact)

    shown = Shown(VIEWER, str(path), "-f")
    shown.until(b"FOLLOW")
    threading.Thread(target=write, daemon=True).start()
    os.write(shown.handle, b"/")
    shown.drain(1.0)
    taken = []
    for number in range(keys):
        key = b"ZQKX"[number % 4 : number % 4 + 1]
        os.write(shown.handle, key)
        taken.append(shown.until(key))
        shown.drain(0.05)
    stop.set()
    shown.end()
    return taken


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--size", type=float, default=1e9)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--keep", type=Path)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = chosen.keep or folder / NAME
        lines = 0 if path.exists() else generate(path, int(chosen.size))
        print(f"trace           {path.stat().st_size / 1e6:,.0f} MB{f', {lines:,} lines' if lines else ''}")
        empty, viewer, prompt = [], [], []
        for _round in range(chosen.rounds):
            empty.append(first_paint(EMPTY, b"readyxyz"))
            viewer.append(first_paint(VIEWER, b"LLM_REQUEST", str(path)))
            prompt.append(first_paint(PM, b"pm>", folder=place))
        base = statistics.median(empty)
        print(f"empty app       {base * 1000:.0f} ms to its first paint")
        for name, taken, wanted in (("viewer", viewer, 1.3), ("full screen", prompt, 1.5)):
            middle = statistics.median(taken)
            print(f"{name:<15} {middle * 1000:.0f} ms, {middle / base:.2f} x empty (at most {wanted})")
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", JUMP, str(path)], capture_output=True, text=True, env=environ, check=True
        )
        jump, indexed, memory, count = done.stdout.split()
        print(f"jump to the end {float(jump) * 1000:.0f} ms, not yet indexed (100)")
        print(f"index           {float(indexed):.1f} s for {int(count):,} lines, in the background")
        print(f"memory          {float(memory):.0f} MB at most (100)")
        echo = key_echo(folder)
        middle, worst = statistics.median(echo) * 1000, max(echo) * 1000
        print(f"key echo        {middle:.0f} ms median, {worst:.0f} ms worst, while 100 facts/s arrive (30)")


if __name__ == "__main__":
    main()
