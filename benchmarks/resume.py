"""How often `pm resume` of a 31 MB unfinished trace opens it, and how long it blocks the event loop.

Resumed twice from the same trace: after a kill (the trace is first compared with its second copy, which is one open
more) and after a stop (there is no copy).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Figure, heading, scratch_repository, show

_ANSWERS = 36
_ANSWER_BYTES = 860_000
_WITHIN_S = 300.0
_DONE = {"output": "Done", "files": {"a.txt": "b"}}
_WATCHED = str(Path(__file__).with_name("_resume_watched.py"))


def _write_script(script: Path, answer: str, *, delay_ms: int) -> None:
    answers = [{"output": answer}] * _ANSWERS
    script.write_text("".join(json.dumps(one) + "\n" for one in [*answers, {**_DONE, "delay_ms": delay_ms}, _DONE]))


def _make_unfinished(project: Path, script: Path, environment: dict[str, str]) -> Path:
    """A task that was killed while it waited for the answer after `_ANSWERS` rejected ones; its trace."""
    _write_script(script, "TODO: implement this\n" + "word " * (_ANSWER_BYTES // 5), delay_ms=3_600_000)
    words = ["run", "--executor", "scripted", "--script", str(script), "--max-iterations", "60", "change a.txt"]
    command = [sys.executable, _WATCHED, *words]
    quiet = subprocess.DEVNULL
    running = subprocess.Popen(command, cwd=project, env=environment, stdout=quiet, stderr=quiet)
    try:
        until = time.monotonic() + _WITHIN_S
        while time.monotonic() < until and running.poll() is None:
            for trace in (project / ".pm-orchestrator" / "traces").glob("*.jsonl"):
                if trace.read_bytes().count(b'"event":"LLM_REQUEST"') > _ANSWERS:
                    return trace
            time.sleep(1)
        raise SystemExit("the task did not come to its last answer")
    finally:
        running.kill()
        running.wait()


def _resume(project: Path, environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, _WATCHED, "resume", "1"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print both figures for both."""
    with tempfile.TemporaryDirectory() as name:
        project, script = Path(name, "project"), Path(name, "script.jsonl")
        environment = {**os.environ, "XDG_STATE_HOME": str(Path(name, "state"))}
        project.mkdir()
        scratch_repository(project)
        trace = _make_unfinished(project, script, environment)
        _write_script(script, "short", delay_ms=0)  # reading 31 MB of script is not what is measured
        heading(f"pm resume of a trace of {trace.stat().st_size / 1e6:.0f} MB")
        shutil.copytree(project, kept := Path(name, "kept"))
        for how in ("after a kill", "after a stop"):
            found = _resume(project, environment)
            show(Figure(f"opens of the trace {how}", found["opens"], 2))
            show(Figure(f"longest block of the loop {how}, CPU ms", found["blocked_ms"], 20))
            shutil.rmtree(project)
            shutil.copytree(kept, project)


if __name__ == "__main__":
    main()
