"""What checking by tests costs beside the bare suite: a warm git repository of 10,000 files, one file changed.

Run: `python -m benchmarks.checks [files]`. Limit: 1.3 times the suite's own time plus 1 s, without faults (Q11). Shown
besides, without a limit: the run on the base, once for a task, a change of tests, which takes runs A and B, a fix of
a test that failed, which is tried with other values, and one that compares with a value, tried without it as well.
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
from runner.checks.commands import PlannedCommand
from runner.checks.evidence import task_trials
from runner.workspace.workspace import Workspace, open_workspace
from tracer.blobs import DirectoryBlobs
from tracer.facts import CheckChoice

_ROUNDS = 3
_SUITE = 60
_MORE_S = 1.0
_COMMAND = f"{sys.executable} -m pytest -q -p no:cacheprovider tests"
_FIXES = {
    "mended": "found // 2 if found >= 100 else found",
    "compares": "found // 2 if found == 100 or found > 100 else found",
}
_TEST = """\
import time
from shop.part{0} import total


def test_total():
    time.sleep(0.04)
    assert total([1, 2]) == 3
"""


def _lay_out(folder: Path, files: int) -> None:
    for number in range(files - 2 * _SUITE):
        path = folder / f"assets/group{number // 100:03d}/file{number % 100:02d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"asset {number}\n" * 40)
    for place in ("shop", "tests"):
        (folder / place).mkdir()
    for number in range(_SUITE):
        (folder / f"shop/part{number}.py").write_text("def total(values):\n    return sum(values)\n")
        (folder / f"tests/test_part{number}.py").write_text(_TEST.format(number))
    (folder / ".gitignore").write_text("/.pm-orchestrator/\n__pycache__/\n")
    (folder / "conftest.py").write_text("")
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *words], cwd=folder, check=True)


def _bare(folder: Path) -> None:
    subprocess.run(_COMMAND, shell=True, cwd=folder, check=True, capture_output=True)


async def _measured(folder: Path) -> dict[str, list[float]]:
    state = folder / ".pm-orchestrator"
    workspace = open_workspace(folder, state_dir=state, blobs=DirectoryBlobs(state / "blobs"))
    found: dict[str, list[float]] = {"bare": [], "base": [], "change": [], "tests": [], **{name: [] for name in _FIXES}}
    command = PlannedCommand(kind="test", command=_COMMAND, origin="given")
    for number in range(_ROUNDS):
        started = time.perf_counter()
        await asyncio.to_thread(_bare, folder)
        found["bare"].append(time.perf_counter() - started)
        trials = task_trials(workspace, checks=CheckChoice({}), state_dir=state, task_id="task-001")
        base = await workspace.baseline(f"task-{number}/0")
        started = time.perf_counter()
        before = await trials.before(_COMMAND, base, limit_s=600)
        found["base"].append(time.perf_counter() - started)
        assert (before.run.outcome, before.not_isolated) == ("passed", ""), before
        (folder / "shop/part1.py").write_text(f"def total(values):\n    return sum(values) + {number} - {number}\n")
        for name in ("change", "tests"):
            files = (await workspace.changes(base)).files
            started = time.perf_counter()
            weighed = await trials.weigh(command, base, files, policy="add", limit_s=lambda: 600.0, request="mend it")
            found[name].append(time.perf_counter() - started)
            assert (weighed.passed, weighed.failing, weighed.not_isolated) == (_SUITE, (), ""), weighed
            with (folder / "tests/test_part2.py").open("a") as test:
                test.write(f"    # round {number}\n")
        await trials.close()
        for name, fix in _FIXES.items():
            found[name].append(await _mended(folder, workspace, state, f"{name}-{number}", fix))
    return found


async def _mended(folder: Path, workspace: Workspace, state: Path, label: str, fix: str) -> float:
    """The same for a fix of a test that fails: sums of 100 and more are halved."""
    test, part = folder / "tests/test_part3.py", folder / "shop/part3.py"
    test.write_text(_TEST.format(3).replace("total([1, 2]) == 3", "total([100, 200]) == 150, total([100, 200])"))
    part.write_text("def total(values):\n    return sum(values)\n")
    trials = task_trials(workspace, checks=CheckChoice({}), state_dir=state, task_id="task-002")
    base = await workspace.baseline(f"{label}/0")
    await trials.before(_COMMAND, base, limit_s=600)
    part.write_text(f"def total(values):\n    found = sum(values)\n    return {fix}\n")
    files = (await workspace.changes(base)).files
    command = PlannedCommand(kind="test", command=_COMMAND, origin="given")
    started = time.perf_counter()
    weighed = await trials.weigh(
        command, base, files, policy="add", limit_s=lambda: 600.0, request="halve sums of 100 and more"
    )
    took = time.perf_counter() - started
    assert (weighed.fixed, weighed.failing, weighed.bought) == (1, (), ()), weighed
    await trials.close()
    return took


def main(files: int = 10_000) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        folder.mkdir()
        _lay_out(folder, files)
        found = {name: statistics.median(times) for name, times in asyncio.run(_measured(folder)).items()}
    heading(f"checking by tests in a repository of {files} files; the bare suite takes {found['bare']:.2f} s")
    bare = found.pop("bare")
    for name, what in (
        ("change", "a change, judged"),
        ("base", "the run on the base"),
        ("tests", "a change of tests"),
        ("mended", "a fix of a failing test"),
        ("compares", "one that compares with a value"),
    ):
        target = 1.3 if name == "change" else None
        note = f"{found[name]:.2f} s, {found[name] - bare:+.2f} s"
        show(Figure(f"({what} - {_MORE_S:g} s) / bare", (found[name] - _MORE_S) / bare, target, note=note))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
