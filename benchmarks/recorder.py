"""What a recorded shell costs the person at it: first prompt, echo of a key, a flood of output, beside a bare shell."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pexpect

ROOT = Path(__file__).resolve().parents[1]
KEYS, FLOOD = 200, 300_000
PROMPT = "ready> "


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as place:
        home, repo = Path(place) / "home", Path(place) / "repo"
        home.mkdir()
        repo.mkdir()
        (home / ".bashrc").write_text(f"PS1='{PROMPT}'\nbind 'set enable-bracketed-paste off'\n")
        (repo / "a.py").write_text("x = 1\n")
        environ = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "SHELL": "/bin/bash", "TERM": "dumb"}
        for words in ("init -q .", "add -A", "-c user.name=a -c user.email=a@b.c commit -qm one"):
            subprocess.run(["git", *words.split()], cwd=repo, check=True, env=environ)
        start = "import sys; from repl.cli import main; sys.exit(main())"
        recorded = [sys.executable, "-c", start, "record", "--shell", "bash", "--consent", "output", "--title", "x"]
        print(f"{'':<22}{'first prompt':>14}{'echo p50':>12}{'echo p99':>12}{'flood':>10}")
        for name, words in (("bare bash", ["/bin/bash", "-i"]), ("pm record", [*recorded, "--no-upload"])):
            print(f"{name:<22}{measured(words, repo, environ)}")


def measured(words: list[str], repo: Path, environ: dict[str, str]) -> str:
    """One line of figures."""
    began = time.perf_counter()
    child = pexpect.spawn(words[0], words[1:], cwd=str(repo), env=environ, dimensions=(40, 120), timeout=60)
    child.delaybeforesend = None
    child.expect_exact(PROMPT)
    first = time.perf_counter() - began
    times = []
    for _ in range(KEYS):
        began = time.perf_counter()
        child.send("x")
        child.expect_exact("x")
        times.append(time.perf_counter() - began)
        child.send("\x7f")
        child.expect(r"\x08")
        time.sleep(0.005)
    child.send("\x15")
    began = time.perf_counter()
    child.send(f"seq 1 {FLOOD}; echo END\r")
    child.expect_exact("\r\nEND\r\n")
    flood = time.perf_counter() - began
    child.send("exit\r")
    child.expect(pexpect.EOF)
    times.sort()
    p50, p99 = statistics.median(times) * 1000, times[int(KEYS * 0.99)] * 1000
    return f"{first:>12.2f} s{p50:>9.2f} ms{p99:>9.2f} ms{flood:>8.2f} s"


if __name__ == "__main__":
    main()
