"""kill -9 while tests run: nothing is left behind, the task goes on from its record, and the verdict is the right one.

`PM_TEST_KILLS=200 pytest -m torture tests/runner/checks/test_checks_killed.py` for the whole campaign.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.repl.support import command_line, environment, pm_process

KILLS = int(os.environ.get("PM_TEST_KILLS", "16"))
CALC = "add() { echo $(($1 - $2)); }\n"
RIGHT = CALC.replace("- $2", "+ $2")
TEST = '[ "$(add 2 2)" = 4 ] && echo "ok 1 - add" || { echo "not ok 1 - add"; bad=1; }\n'
RUN = """\
. ./calc.sh
sh -c 'echo {mark} >/dev/null; sleep 0.4'
. ./tests/t_add.sh
echo "1..1"
exit ${{bad:-0}}
"""
STILL = CALC + "# mended\n"
ENDS = {
    "honest": ({"calc.sh": RIGHT}, 0, "COMPLETE", "passed", "pass"),
    "not mended": ({"calc.sh": STILL}, 6, "INCOMPLETE", "max_iterations", "fail"),
    "expectation changed": (
        {"calc.sh": STILL, "tests/t_add.sh": TEST.replace("= 4", "= 0")},
        6, "INCOMPLETE", "not_verified", "not_verified",
    ),
}  # fmt: skip


def _project(folder: Path, files: dict[str, str], mark: str) -> Path:
    project = folder / "project"
    (project / "tests").mkdir(parents=True)
    (project / "calc.sh").write_text(CALC)
    (project / "tests" / "t_add.sh").write_text(TEST)
    (project / "tests" / "run.sh").write_text(RUN.format(mark=mark))
    (folder / "tmp").mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    answer = {"output": "add() adds now.", "files": files}
    (folder / "script.jsonl").write_text(json.dumps(answer) + "\n")
    return project


def _killed(project: Path, words: tuple[str, ...], after_s: float | None, env: dict[str, str]) -> bool:
    """Whether it was killed so long after a copy for a check was begun, or (None) when its end was on record.

    False: it ended before.
    """
    copies = project / ".pm-orchestrator" / "control" / "copies"
    running = subprocess.Popen(command_line(*words), cwd=project, env=env, stdout=-3, stderr=-3, stdin=-3)
    while running.poll() is None and not (
        _has_ended(project) if after_s is None else copies.is_dir() and any(_own(copies, running.pid))
    ):
        time.sleep(0.005)
    time.sleep(after_s or 0.0)
    running.kill()
    return running.wait() == -9


def _has_ended(project: Path) -> bool:
    """Whether the verdict is on record, though the process may not have come to its own end."""
    files = (project / ".pm-orchestrator").rglob("conversation-*.jsonl")
    return any(b'"FINAL_SUMMARY"' in path.read_bytes().rpartition(b"\n")[0] for path in files)


def _own(copies: Path, pid: int) -> list[str]:
    return [path.name for path in copies.iterdir() if f"-{pid}-" in path.name]


def _left(folder: Path, project: Path, mark: str) -> list[str]:
    """Whatever the runs left: processes, mounts, copies, records of them."""
    found = [str(path) for path in (folder / "tmp").iterdir()]
    for kind in ("copies", "processes"):
        found += [str(path) for path in (project / ".pm-orchestrator" / "control" / kind).glob("*")]
    found += [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        found += [f"{path}: {words!r}"] if mark.encode() in words else []
    return found


@pytest.mark.torture
@pytest.mark.machine  # with bubblewrap, where it is: copies are used again then
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("end", ENDS)
def test_checks_killed_at_any_moment_leave_nothing_and_come_to_the_right_verdict(tmp_path: Path, end: str) -> None:
    files, code, status, reason, outcome = ENDS[end]
    chance, kills, number = random.Random(end), 0, 0
    while kills < -(-KILLS // len(ENDS)):
        number += 1
        folder, mark = tmp_path / str(number), f"mark-{os.getpid()}-{end.replace(' ', '-')}-{number}"
        project = _project(folder, files, mark)
        env = environment(TMPDIR=str(folder / "tmp"))
        given = ("--executor", "scripted", "--script", str(folder / "script.jsonl"), "--max-iterations", "1")
        words: tuple[str, ...] = ("run", *given, "--test", "sh tests/run.sh", "--no-input", "add() must add")
        for _ in range(chance.randint(1, 6)):
            if not _killed(project, words, chance.uniform(0.0, 1.5) if number > 1 else None, env):
                break
            kills += 1
            words = ("resume", "1", "--no-input")
            if _has_ended(project):  # to resume it from here on is to try once more, in a new file
                break
        told, over = "", _has_ended(project)
        if not over:
            ended = pm_process(*words, cwd=project, timeout=120, TMPDIR=env["TMPDIR"])
            assert ended.code == code, ended.err
            told = ended.err
        shown = json.loads(pm_process("show", "1", "--json", cwd=project, TMPDIR=env["TMPDIR"]).out)
        assert (shown["status"], shown["reason"]) == (status, reason), told
        assert shown["tests"] is not None, told
        assert shown["tests"]["outcome"] == outcome, told
        if over:
            pm_process(*words, cwd=project, timeout=120, TMPDIR=env["TMPDIR"])  # the next pm clears up
        assert _left(folder, project, mark) == []
