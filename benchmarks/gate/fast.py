"""How long `pm gate --fast` takes on a repository of 10,000 files: a process from its start to its exit.

Warm: again and again. Cold: no state directory yet, and the repository's files put out of the page cache.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, RUNS = 10_000, 15
WARM_MS, COLD_MS = 150, 400


def main() -> None:
    """Print both times, and what the process computed without its waits."""
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "repository"
        _make(repository)
        _run(repository)
        cold = []
        for _ in range(5):
            subprocess.run(["rm", "-rf", str(repository / ".pm-orchestrator")], check=True)
            _evict(repository)
            cold.append(_run(repository))
        warm = [_run(repository) for _ in range(RUNS)]
    for name, runs, goal in (("warm", warm, WARM_MS), ("cold", cold, COLD_MS)):
        wall, cpu = (statistics.median(run[place] for run in runs) for place in (0, 1))
        best = min(run[0] for run in runs)
        told = f"{name}  {wall:6.0f} ms median, {best:.0f} ms best, {cpu:.0f} ms of processor time; at most {goal} ms\n"
        sys.stdout.write(told)


def _make(repository: Path) -> None:
    for number in range(FILES):
        path = repository / "src" / f"p{number // 100}" / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def f{number}(x):\n    return x + {number}\n" * 5)
    for words in ("init -q", "add -A", "-c user.name=b -c user.email=b@example.org commit -qm start"):
        subprocess.run(["git", *words.split()], cwd=repository, check=True)
    with (repository / "src" / "p1" / "m101.py").open("a") as file:
        file.write("\n\ndef more(y):\n    return y * 2\n")
    time.sleep(1.1)  # git reads files once more that changed within the second of its index
    subprocess.run(["git", "status", "--short"], cwd=repository, check=True, capture_output=True)


def _run(repository: Path) -> tuple[float, float]:
    before, began = os.times(), time.perf_counter()
    words = [sys.executable, "-m", "pm_orchestrator", "gate", "--fast", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    took, after = time.perf_counter() - began, os.times()
    if done.returncode != 0:
        raise SystemExit(f"the gate ended with {done.returncode}: {done.stderr}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return took * 1000, cpu * 1000


def _evict(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
