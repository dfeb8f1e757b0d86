"""What `pm run` adds to an agent's own session: wall time beside the bare command, in the same run.

The agent is a stand-in for Claude Code that writes its records and sleeps (`--seconds`, 1 and 60 by default). Promised:
at most 0.6 s on a session of 1 s, at most 2 % on one of 60 s. Best of `--repeat` runs each, alternating.

    python benchmarks/executors.py [--seconds 1 60] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support import fake_agent  # noqa: E402 - found through the line above

SESSION = "11111111-2222-4333-8444-555555555555"
PM = (sys.executable, "-c", "import sys; from repl.cli import main; sys.exit(main())")


def steps(seconds: float) -> list[dict[str, object]]:
    block = {"type": "text", "text": "Done."}
    message = {"id": "msg_1", "model": "claude-sonnet-4-5-20250929", "content": [block], "usage": {}}
    result = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "I wrote made.py.",
        "total_cost_usd": 0.001,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }
    return [
        {"line": {"type": "system", "subtype": "init", "session_id": SESSION, "model": "claude-sonnet-4-5-20250929"}},
        {"sleep": seconds},
        {"files": {"made.py": f"VALUE = {time.time_ns()}\n"}},
        {"line": {"type": "assistant", "session_id": SESSION, "message": message}},
        {"line": result},
    ]


def timed(argv: list[str], folder: Path, env: dict[str, str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    taken = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{argv[0]} ended with {done.returncode}: {done.stderr.decode()[-800:]}")
    return taken


def measure(seconds: float, repeat: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as base:
        project = Path(base, "project")
        project.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
        program = fake_agent.install(
            Path(base), "claude", steps(seconds), version="2.1.329", package="@anthropic-ai/claude-code"
        )
        env = {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "HOME": base,
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_API_KEY": "sk-ant-test-0123456789",
        }
        asked = [*PM, "run", "--executor", "claude", "--max-iterations", "1", "Create made.py with VALUE"]
        bare, through = [], []
        for number in range(repeat + 1):  # the first round warms the caches and is not counted
            program.with_name("claude.json").write_text(json.dumps([steps(seconds if number else 0)]))
            one = timed([str(program)], project, env)
            project.joinpath("made.py").unlink()
            other = timed(asked, project, env)
            if number:
                bare.append(one)
                through.append(other)
    return {"bare_s": round(min(bare), 3), "pm_s": round(min(through), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, nargs="+", default=[1, 60])
    parser.add_argument("--repeat", type=int, default=3)
    chosen, _ = parser.parse_known_args()
    for seconds in chosen.seconds:
        told = measure(seconds, chosen.repeat if seconds < 10 else 1)
        added = told["pm_s"] - told["bare_s"]
        allowed = 0.6 if seconds < 10 else 0.02 * told["bare_s"]
        verdict = "ok" if added <= allowed else "TOO SLOW"
        row = {"session_s": seconds, **told, "added_s": round(added, 3), "allowed_s": round(allowed, 3)}
        print(json.dumps({**row, "verdict": verdict}))


if __name__ == "__main__":
    main()
