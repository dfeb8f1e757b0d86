"""Undoing a task of 1,000 changed files against `git checkout` of the same files, in the same run.

Run: `python -m benchmarks.undo [files]`. Limit: 2 times.
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
from runner.undo.undo import undo_task
from runner.workspace.workspace import open_workspace
from tracer.blobs import DirectoryBlobs
from tracer.conversation import ConversationTracer
from tracer.statedir import StateDir

_ROUNDS = 5


def _names(folder: Path, files: int) -> list[Path]:
    return [folder / f"part{number // 100:03d}" / f"file{number % 100:02d}.py" for number in range(files)]


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=b", "-c", "user.email=b", *arguments], cwd=folder, check=True)


def _change(names: list[Path], word: str) -> None:
    for path in names:
        path.write_text(f"answer = '{word} {path.name}'\n" * 20)


async def _task(folder: Path, state: StateDir, names: list[Path], number: int) -> str:
    """A finished task that changed every file."""
    workspace = open_workspace(folder, state_dir=state.root, blobs=DirectoryBlobs(state.blobs))
    task_id = f"task-{number:03d}"
    async with ConversationTracer(state_dir=state, session_id="bench", task_id=task_id) as trace:
        await trace.log_user_request("change", extra={"workspace": str(folder)})
        base = await workspace.baseline(f"{task_id}/main/0")
        await trace.log_llm_request("change", 0, extra={"base": base})
        _change(names, f"task {number}")
        changes = await workspace.changes(base)
        await trace.log_llm_response("Done.", "COMPLETE", changes.paths, 0, extra={"left_blob": changes.left})
        await trace.log_final_summary("COMPLETE", 1, changes.paths)
    return task_id


def main(files: int = 1000) -> None:
    """Print the figure."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = _names(folder, files)
        for path in names:
            path.parent.mkdir(exist_ok=True)
        _change(names, "start")
        (folder / ".gitignore").write_text("/.pm-orchestrator/\n")
        _git(folder, "init", "-q")
        _git(folder, "add", "-A")
        _git(folder, "commit", "-qm", "start")
        state = StateDir(folder / ".pm-orchestrator").ensure()
        bare, ours = [], []
        for number in range(1, _ROUNDS + 1):
            _change(names, f"round {number}")
            started = time.perf_counter()
            _git(folder, "checkout", "-q", "--", ".")
            bare.append(time.perf_counter() - started)
            task_id = asyncio.run(_task(folder, state, names, number))
            started = time.perf_counter()
            done = undo_task(state, task_id)
            ours.append(time.perf_counter() - started)
            assert len(done.files) == files, done
            assert done.whole, done
        heading(f"undo of {files} files")
        once, undone = statistics.median(bare), statistics.median(ours)
        note = f"git checkout {once * 1000:.0f} ms, undo {undone * 1000:.0f} ms"
        show(Figure("undo / git checkout", undone / once, 2.0, note=note))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
