"""How long `pm version`, `pm tasks` with 10,000 tasks and `pm trace --raw` take, in starts of an empty interpreter.

And how much of our code `pm run` executes until the request is durable: that is counted, so it is the same on every
machine. All run by the launcher, from this tree, with the interpreter that runs the benchmark. An editable install adds
a finder hook of two interpreter starts, so only a wheel shows what users feel; the ratios here are of our code alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Figure, heading, scratch_repository, show
from tracer.statedir import StateDir

_TASKS = 10_000
_ROUNDS = 15
_PM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pm_orchestrator.launch import main; sys.exit(main())"


def _make_tasks(state_dir: StateDir) -> None:
    """Ten thousand traces of five facts; every fiftieth is unfinished."""
    state_dir.ensure()
    for number in range(1, _TASKS + 1):
        task_id = f"task-{number:03d}"
        head = f'{{"timestamp":"2025-01-23T10:30:00.000Z","event":"%s","session_id":"s","task_id":"{task_id}",'
        index = '"iteration_index":0,'
        lines = [
            head % "USER_REQUEST" + f'"data":{{"prompt":"change number {number}"}}}}',
            head % "LLM_REQUEST" + index + f'"data":{{"prompt":"{"p" * 900}"}}}}',
            head % "LLM_RESPONSE" + index + '"data":{"output":"done","status":"COMPLETE","files_modified":[]}}',
            head % "QUALITY_JUDGMENT" + index + '"data":{"judgment":"PASS","criteria_results":[]}}',
            head % "ITERATION_END" + index + '"data":{"iteration_index":0,"judgment":"PASS"}}',
        ]
        if number % 50:
            final = '"data":{"status":"COMPLETE","total_iterations":1,"files_modified":[]}}'
            lines.append(head % "FINAL_SUMMARY" + final)
        path = state_dir.traces / f"conversation-{task_id}-2025-01-23T10-30-00.jsonl"
        path.write_text("\n".join(lines) + "\n")


def _seconds(command: list[str], folder: Path) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    if done.returncode != 0:
        raise SystemExit(done.stderr.decode())
    return time.perf_counter() - started


def _count_until_request() -> None:
    """Print what of ours `pm run` executes until its first line is durable."""
    heading("pm run until the request is durable")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scratch_repository(folder)
        script = folder / "script.jsonl"
        script.write_text('{"output":"Done"}\n')
        words = ["run", "--executor", "scripted", "--script", str(script), "add a.txt"]
        command = [sys.executable, str(Path(__file__).with_name("_count_until_request.py")), *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout.splitlines()[-1])
    show(Figure("modules of ours executed", counts["modules"], 110))
    show(Figure("functions of ours entered", counts["functions"], 500, note=f"{counts['calls']:,} calls"))


def main() -> None:
    """Print what `pm run` executes, and each command's median time as a multiple of `python -c pass`."""
    _count_until_request()
    heading("start-up, in starts of an empty interpreter")
    root = str(Path(__file__).parent.parent)
    commands = {
        "pm version": (["version"], 3.0),
        "pm --help": (["--help"], None),
        f"pm tasks --limit 20 of {_TASKS:,} tasks": (["tasks", "--limit", "20"], 10.0),
        f"pm tasks of {_TASKS:,} tasks": (["tasks"], 10.0),
        "pm trace 77 --raw": (["trace", "77", "--raw"], None),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_tasks(StateDir(folder / ".pm-orchestrator"))
        started = time.perf_counter()
        _seconds([sys.executable, "-c", _PM, root, "tasks", "--limit", "1"], folder)
        sys.stdout.write(f"first `pm tasks`, reading {_TASKS:,} traces: {time.perf_counter() - started:.2f} s\n")
        time.sleep(3)  # a folder that changed within two seconds is looked at file by file
        for label, (words, target) in commands.items():
            ratios, floors = [], []
            for _ in range(_ROUNDS):
                floor = _seconds([sys.executable, "-c", "pass"], folder)
                ratios.append(_seconds([sys.executable, "-c", _PM, root, *words], folder) / floor)
                floors.append(floor)
            note = f"floor {statistics.median(floors) * 1000:.0f} ms"
            show(Figure(label, statistics.median(ratios), target, note=note))


if __name__ == "__main__":
    main()
