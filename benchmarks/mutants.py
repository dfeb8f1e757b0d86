"""Mutants: how fast they are made, and how many of them the standard library's own tests notice (`runner/checks`).

The rate is that of real modules against their real tests, so it says how much noise the survivors of a well-tested
change would hold. Python must have its `test` package; Debian's has not.
"""

from __future__ import annotations

import asyncio
import importlib.util
import statistics
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.harness import Figure, heading, median_s, show
from runner.checks.mutants import in_turns, targets_of
from runner.checks.strength import Outcome, measure_strength
from runner.gate.criterion import ChangedFile, Strength
from runner.processes.command import run_command

_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
_LARGE = ("argparse", "dataclasses", "inspect", "statistics", "zipfile/__init__")
_TESTED = ("textwrap", "shlex", "fnmatch", "colorsys", "graphlib", "bisect")
_BUDGET_S = 60.0


def main() -> None:
    heading("Mutants made in a second")
    files = [_file(name) for name in _LARGE if (_LIBRARY / f"{name}.py").exists()]
    made = sum(1 for _ in in_turns(targets_of(files)))
    seconds = median_s(lambda: targets_of(files))
    show(Figure("mutants a second", made / seconds, 1000.0, "higher", f"{made} of {len(files)} large modules"))
    if importlib.util.find_spec("test.test_textwrap") is None:
        sys.stdout.write("the standard library's tests are not installed: rates left out\n")
        return
    heading(f"Mutants noticed by the standard library's tests, {_BUDGET_S:.0f} s a module")
    for name in _TESTED:
        found, usual_s = asyncio.run(_strength(name))
        kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(one.kind for one in found.survivors).items())
        note = f"{found.killed} of {found.total}, {found.untried} untried; a run takes {usual_s:.2f} s; left: {kinds}"
        show(Figure(f"{name}: percent noticed", found.percent, None, "higher", note))


def _file(name: str) -> ChangedFile:
    return ChangedFile(path=f"{name}.py", before=None, after=(_LIBRARY / f"{name}.py").read_bytes())


async def _strength(name: str) -> tuple[Strength, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = _file(name)
        (Path(folder) / file.path).write_bytes(file.after or b"")

        async def run(limit_s: float) -> Outcome:
            command = [sys.executable, "-m", "unittest", "-f", f"test.test_{name}"]
            ended = await run_command(command, cwd=folder, timeout_s=limit_s)
            return "timeout" if ended.timed_out else "passed" if ended.ok else "failed"

        times = []
        for _round in range(3):
            began = time.perf_counter()
            if await run(60.0) != "passed":
                raise SystemExit(f"the tests of {name} fail without a fault")
            times.append(time.perf_counter() - began)
        usual_s = statistics.median(times)
        texts = {file.path: file.after or b""}
        found = await measure_strength(
            targets_of([file]), texts, root=Path(folder), run=run, usual_s=usual_s, budget_s=_BUDGET_S
        )
        if not isinstance(found, Strength):
            raise SystemExit(f"{name}: {found}")
        return found, usual_s


if __name__ == "__main__":
    main()
