"""Reading a trace with validation and fold beside `orjson.loads` of the same lines, and the memory of one huge line.

The mix follows real tasks: many short judgments and ends, prompts and answers of a few kB, some of tens of kB; lines
of 0.3 to 60 kB, mean 3 kB. PM_BENCH_EVENTS sets how many events are read (default 200,000).
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from benchmarks.harness import Figure, heading, show
from runner.core.evolve import evolve
from runner.core.state import EMPTY
from tracer.events import parse_line
from tracer.journal.reading import iter_lines

_FACTS = 6000  # to a file; 18 MB
_ROUNDS = 5
_HUGE = 100_000_000
_SAMPLE = (
    "def return import self value error test file path line user login token check if not None True raise for in with"
    " \n    \t \"text\" 'x' é – 残り => {} [] () # the and result of a to is it that was added removed changed"
)


def _text(rng: random.Random, length: int) -> str:
    """About `length` characters of what agents write: words, code, line breaks, quotes, some non-ASCII."""
    words = rng.choices(_SAMPLE.split(" "), k=max(1, length // 5))
    return " ".join(words)[:length]


def _length(rng: random.Random) -> int:
    """Characters of a prompt or answer: log-normal, most a few kB, at most 58 kB."""
    return min(58_000, int(rng.lognormvariate(7.9, 1.05)))


def make_lines(count: int, seed: int = 1) -> list[bytes]:
    """`count` facts of one long task, seven to an iteration."""
    rng = random.Random(seed)
    lines = [_line("USER_REQUEST", {"prompt": _text(rng, 300), "limits": {"max_iterations": 1 << 30}}, None)]
    index = 0
    while len(lines) < count:
        results = [
            {"id": f"Q{number}", "name": "No Omission Markers", "passed": number != 2, "reason": _text(rng, 30)}
            for number in range(1, 7)
        ]
        files = [f"src/module_{number}.py" for number in range(rng.randint(0, 12))]
        usage = {"input_tokens": 21_000, "output_tokens": 900}
        fix, verdict = _text(rng, _length(rng)), {"judgment": "REJECT", "summary": "REJECT: Q2"}
        answer = {"output": _text(rng, _length(rng)), "status": "COMPLETE", "files_modified": files, "usage": usage}
        lines += [
            _line("LLM_REQUEST", {"prompt": _text(rng, _length(rng)), "attempt": 0, "base": "0" * 40}, index),
            _line("LLM_RESPONSE", {**answer, "cost_usd": 0.01, "duration_ms": 5100}, index),
            _line("QUALITY_JUDGMENT", {**verdict, "criteria_results": results}, index),
            _line("REJECTION_DETAILS", {"criteria_failed": ["Q2"], "modification_prompt": fix}, index),
            _line("ITERATION_END", {"iteration_index": index, "judgment": "REJECT", "pad": "x" * 120}, index),
        ]  # fmt: skip
        index += 1
    return lines[:count]


def _line(event: str, data: dict[str, object], index: int | None) -> bytes:
    fields: dict[str, object] = {
        "timestamp": "2025-01-23T10:30:00.000Z",
        "event": event,
        "session_id": "sess-5f1c9a77",
        "task_id": "task-001",
    }
    if index is not None:
        fields["iteration_index"] = index
    return orjson.dumps({**fields, "data": data}, option=orjson.OPT_APPEND_NEWLINE)


def _loads(path: Path) -> None:
    loads = orjson.loads
    with path.open("rb") as file:
        for line in file:
            loads(line)


def _parse(path: Path) -> None:
    for _, line in iter_lines(path):
        parse_line(line)


def _fold(path: Path) -> None:
    state = EMPTY
    for _, line in iter_lines(path):
        state = evolve(state, parse_line(line))


def _ratio(path: Path, passes: int) -> tuple[float, float, float]:
    """Seconds of (orjson.loads, parse, parse and fold) over `passes` readings, interleaved."""
    spent = [0.0, 0.0, 0.0]
    for _ in range(passes):
        for place, work in enumerate((_loads, _parse, _fold)):
            started = time.perf_counter()
            work(path)
            spent[place] += time.perf_counter() - started
    return spent[0], spent[1], spent[2]


_MEMORY = """
import os, resource, sys
sys.path.insert(0, ".")
from tracer.journal.reading import read_entries

def peak():
    if os.path.exists("/proc/self/status"):  # Linux counts the parent's pages in ru_maxrss of a child
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak()
assert len(read_entries(sys.argv[1])) == 1
print(peak() - before)
"""


def main() -> None:
    """Print reading ratios and the memory of one 100 MB line."""
    events = int(os.environ.get("PM_BENCH_EVENTS", "200000"))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "trace.jsonl"
        lines = make_lines(_FACTS)
        path.write_bytes(b"".join(lines))
        sizes = sorted(map(len, lines))
        heading(f"reading: {events:,} events, mean {statistics.mean(sizes):,.0f} bytes, {sizes[0]} to {sizes[-1]:,}")
        rounds = [_ratio(path, max(1, events // _FACTS // _ROUNDS)) for _ in range(_ROUNDS)]
        base = statistics.median(one[0] for one in rounds)
        parsed = statistics.median(loads / parse for loads, parse, _ in rounds)
        folded = statistics.median(loads / fold for loads, _, fold in rounds)
        per_line = base / (max(1, events // _FACTS // _ROUNDS) * _FACTS) * 1e6
        sys.stdout.write(f"orjson.loads alone: {per_line:.2f} us a line\n")
        show(Figure("reading with validation: speed / orjson.loads", parsed, 0.25, "higher"))
        show(Figure("reading with validation and fold: speed / orjson.loads", folded, 0.25, "higher"))
        path.write_bytes(_line("LLM_RESPONSE", {"output": "x" * _HUGE, "status": "COMPLETE"}, 0))
        done = subprocess.run(
            [sys.executable, "-c", _MEMORY, str(path)], capture_output=True, text=True, check=True, cwd=Path.cwd()
        )
        show(Figure("memory of reading one 100 MB line / the line", int(done.stdout) / _HUGE, 4))


if __name__ == "__main__":
    main()
