"""The two comparisons of one request (baseline, changes) against `git status`, in a repository of 100,000 files.

Run: `python -m benchmarks.workspace [files]`. Limit: baseline + changes at most 2 times `git status` of the same run.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Figure, heading, show
from runner.workspace.workspace import open_workspace
from tracer.blobs import DirectoryBlobs
from tracer.statedir import StateDir

_ROUNDS = 7


def make(folder: Path, files: int) -> None:
    """A repository of small source files, 100 a folder."""
    for number in range(files):
        path = folder / f"package{number // 5000:02d}" / f"part{number // 100:04d}" / f"file{number % 100:03d}.py"
        if number % 100 == 0:
            path.parent.mkdir(parents=True)
        path.write_text(f"def answer_{number}():\n    return {number}\n" * 4)
    for arguments in (
        ["init", "-q"],
        # Else the commit starts a collection of the loose objects in the background, which runs while we measure.
        ["config", "gc.auto", "0"],
        ["config", "maintenance.auto", "false"],
        ["add", "-A"],
        ["-c", "user.name=b", "-c", "user.email=b", "commit", "-qm", "start"],
        ["gc", "-q"],  # packed, as a repository of this size is that was not made just now
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


def timed_status(folder: Path) -> float:
    """Seconds of one `git status`."""
    started = time.perf_counter()
    subprocess.run(["git", "status", "--porcelain"], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


async def timed_comparisons(folder: Path, number: int) -> tuple[float, float]:
    """Seconds of the baseline and of the comparison, with ten files changed between them."""
    state = StateDir(folder / ".pm-orchestrator").ensure()
    workspace = open_workspace(folder, state_dir=state.root, blobs=DirectoryBlobs(state.blobs))
    started = time.perf_counter()
    base = await workspace.baseline(f"bench/{number}")
    middle = time.perf_counter()
    for each in range(10):
        (folder / "package00" / "part0000" / f"file{each:03d}.py").write_text(f"changed = {number}\n")
    again = time.perf_counter()
    changes = await workspace.changes(base)
    ended = time.perf_counter()
    assert len(changes.paths) == 10, changes.paths
    return middle - started, ended - again


def show_start(folder: Path, *, dirty: bool) -> None:
    """Measure in turns, so that the machine's moods hit both sides alike."""
    status, baseline, changes = [], [], []
    for number in range(_ROUNDS):
        if not dirty:
            subprocess.run(["git", "checkout", "-q", "."], cwd=folder, check=True)
            time.sleep(2)  # let the index's entries settle, as they have in any repository that is not seconds old
            timed_status(folder)  # which refreshes the index
        status.append(timed_status(folder))
        first, second = asyncio.run(timed_comparisons(folder, number))
        baseline.append(first)
        changes.append(second)
    per_status = statistics.median(status)
    both = statistics.median(one + two for one, two in zip(baseline, changes, strict=True))
    note = f"git status {per_status * 1000:.0f} ms, baseline {statistics.median(baseline) * 1000:.0f} ms, "
    note += f"changes {statistics.median(changes) * 1000:.0f} ms"
    start = "with ten files changed before" if dirty else "from a clean tree"
    show(Figure(f"baseline + changes / git status, {start}", both / per_status, 2.0, note=note))


def main(files: int = 100_000) -> None:
    """Both starts in one repository."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        make(folder, files)
        heading(f"workspace comparison, {files} files, ten of them changed")
        show_start(folder, dirty=False)
        show_start(folder, dirty=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
