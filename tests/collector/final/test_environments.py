"""Proven fixes as environments: folders that Harbor's models take, rows as SWE-bench has them, and their rewards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.final.consent import FLAGS, withdraw
from collector.handover.environments import instance_id, programs
from collector.handover.sets import PROVEN, SetRequest, export_set
from collector.qa.pipeline import run_qa
from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from collector.qa.sandbox.choose import SandboxChooser
from collector.qa.sandbox.port import Sandbox
from tests.collector.qa.rigs import RUNNER, TEST, a_collector, a_repository, quick_settings, send_session
from tests.collector.qa.test_forged import BASE as FORGED_BASE
from tests.collector.qa.test_forged import TEST as FORGED_TEST
from tests.collector.qa.test_forged import WAYS
from tests.collector.qa.test_forged_elsewhere import KINDS
from tests.collector.qa.test_forged_elsewhere import WAYS as OTHER_WAYS
from tests.support.containers import IMAGE, container_engine
from tests.support.tools import need, need_program
from tracer.errors import NotFoundError
from tracer.redaction.engine import build_redactor

FORGERY = 'mkdir -p .pm-report; echo \'<s><testcase name="half" classname="tests.half"/></s>\' > .pm-report/junit.xml'
CHEATS: dict[str, dict[str, str | None]] = {
    "the runner says yes": {"run.sh": f"{FORGERY}; exit 0\n"},
    "the tests are gone": {"tests/half.sh": None, "tests/zero.sh": None},
    "a test that says yes": {"tests/half.sh": "true\n"},
    "a report that was brought along": {
        ".pm-report/junit.xml": "<s><testcase name='half' classname='tests.half'/></s>"
    },
    "the product ends the runner": {"divisor.txt": "$(kill $PPID)\n"},
    "code that looks for the tests": {"calc.py": "import os\nHALF = 3 if 'PYTEST_CURRENT_TEST' in os.environ else 2\n"},
    "a settings file of the runner": {"conftest.py": "", "pytest.ini": "[pytest]\n"},
    "a link out": {"divisor.txt": None, "other.txt": "2\n"},
    "a folder in a file's place": {"divisor.txt": None, "divisor.txt/x": "2\n"},
    "a file in the tests' place": {"tests": "2\n"},
    "a folder in the place of what runs the tests": {"run.sh": None, "run.sh/x": "exit 0\n"},
    "everything taken away": {"divisor.txt": None, "run.sh": None},
    "nothing": {},
}


def boxed() -> Callable[[str], Awaitable[Sandbox]]:
    need_program("bwrap", how="apt-get install bubblewrap")
    box = BubblewrapSandbox()

    async def choose(_image: str) -> Sandbox:
        return box

    return choose


async def exported(folder: Path, choose: Any, *, profile: Any = None, **repository: Any) -> tuple[Path, Path]:
    """Sets of one capture that its tests prove: a Harbor task, and a row."""
    redactor = build_redactor(
        state_dir=folder / "audit", environ={}, host="", persons=[], rewrite_paths=True, truncate=False
    )
    async with a_collector(folder) as collector:
        trace_id = await send_session(collector, a_repository(folder, **repository), profile=profile)

        async def export(form: Any) -> Path:
            await export_set(
                SetRequest(where=PROVEN, form=form),
                store=collector.store,
                contents=collector.contents,
                redactor=redactor,
                target=folder / form,
            )
            return folder / str(form)

        with pytest.raises(NotFoundError, match="no trace"):
            await export("harbor")  # it is not proven yet
        settings = quick_settings(folder)
        settings = replace(settings, lists=replace(settings.lists, commands=("*",), build_commands=("*",)))
        await run_qa(trace_id, collector=collector, settings=settings, judge=None, sandbox=choose)
        return await export("harbor"), await export("swebench")


def reward(task: Path, folder: Path, act: Callable[[Path], object]) -> tuple[int, dict[str, Any], str]:
    """What the verifier says after `act` on the agent's tree, in folders as Harbor's two environments have them."""
    code, pristine = folder / "code", folder / "pristine"
    shutil.copytree(task / "environment/code", code)
    act(code)
    shutil.copytree(task / "tests/code", pristine)
    said = subprocess.run(
        # -S: as in the task's image, where none of our packages are, this repository least of all
        [sys.executable, "-I", "-S", task / "tests/verify.py", "--code", code, "--pristine", pristine,
         "--logs", folder],
        check=True, capture_output=True, text=True, cwd=folder, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    ctrf = json.loads((folder / "ctrf.json").read_text())["results"]
    return json.loads((folder / "reward.json").read_text())["reward"], ctrf, said.stdout


def solve(task: Path) -> Callable[[Path], object]:
    return lambda code: subprocess.run(["sh", task / "solution/solve.sh", code], check=True)


def change(files: dict[str, str | None]) -> Callable[[Path], object]:
    def act(code: Path) -> None:
        for name, text in files.items():
            path = code / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(text)

    return act


@pytest.mark.machine  # bubblewrap
async def test_a_proven_fix_whose_code_was_withdrawn_is_left_out_for_the_consent(tmp_path: Path) -> None:
    redactor = build_redactor(
        state_dir=tmp_path / "audit", environ={}, host="", persons=[], rewrite_paths=True, truncate=False
    )
    async with a_collector(tmp_path) as collector:
        repository = a_repository(tmp_path)
        made = [await send_session(collector, repository) for _ in range(2)]
        for trace_id in made:
            await run_qa(trace_id, collector=collector, settings=quick_settings(tmp_path), judge=None, sandbox=boxed())
        await withdraw(collector, made[0], [FLAGS["code"]])
        await export_set(
            SetRequest(where=PROVEN, form="harbor"),
            store=collector.store, contents=collector.contents, redactor=redactor, target=tmp_path / "set",
        )  # fmt: skip
    (left_out,) = json.loads((tmp_path / "set/manifest.json").read_text())["left_out"]
    assert left_out["trace_id"] == made[0]
    assert left_out["reason"].startswith(
        "consent: its code is gone: consent to it (store_raw_code) was withdrawn on 20"
    )


@pytest.mark.machine  # bubblewrap
async def test_a_tree_with_git_of_another_file_system_is_left_out_and_the_set_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("core.protectNTFS", "core.protectHFS")):  # who sends it has switched them off
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", name)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", "false")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    head: dict[str, str | None] = {"divisor.txt": "2\n", "tests/half.sh": TEST}
    with pytest.raises(NotFoundError, match="no trace"):  # of this set there is nothing else
        await exported(tmp_path, boxed(), base={"git~1/config": "x\n"}, head=head)


LONG = "a message that is cut in the report " * 40
SPOKEN = {
    "JUnit": f"<s><testcase name='half' classname='tests'/><testcase name='old' classname='tests'><failure>{LONG}"
    "</failure></testcase></s>",
    "TAP": f"TAP version 14\nok 1 - half\nnot ok 2 - old\n  ---\n  message: {LONG}\n  ...\n1..2\n",
    "CTRF": json.dumps({"results": {"tool": {"name": "t"}, "summary": {}, "tests": [
        {"name": "half", "status": "passed"}, {"name": "old", "status": "failed", "message": LONG}]}}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("repo_id", "name"),
    [
        ("calc", "calc-5ec7edaf"),
        ("example.org/shop/api", "example.org__shop__api-5ec7edaf"),
        ("bash proj", "bash-proj-5ec7edaf"),
        ("日本 zsh", "zsh-5ec7edaf"),
        ("日本", "repository-5ec7edaf"),
    ],
)
def test_a_row_s_id_may_name_an_image_and_a_file(repo_id: str, name: str) -> None:
    assert instance_id(repo_id, "5ec7edaf-0000-4000-8000-000000000000") == name


@pytest.mark.parametrize("form", SPOKEN)
def test_the_verifier_of_a_task_reads_reports_with_nothing_but_the_standard_library(form: str, tmp_path: Path) -> None:
    task = tmp_path / "task"
    for name, text in programs().items():
        place = task / "tests" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    (task / "environment/code").mkdir(parents=True)
    (task / "tests/code").mkdir()
    (task / "tests/code/report").write_text(SPOKEN[form])
    wanted = "tests::half" if form == "JUnit" else "half"
    measure = {
        "fail_to_pass": [wanted], "pass_to_pass": [], "build": [], "command": ["cp", "report", "said.xml"],
        "reports": ["said.*"], "report_folder": "/code/.pm-report", "environment": {}, "told_by_output": False,
        "timeout": 60, "protected": "^tests/", "looks": "PYTEST_CURRENT", "left_out": [".pm-report"],
        "never_unequal": "a^", "base": [],
    }  # fmt: skip
    (task / "tests/task.json").write_text(json.dumps(measure))
    (tmp_path / "run").mkdir()
    said, ctrf, why = reward(task, tmp_path / "run", change({}))
    assert (said, ctrf["summary"]["passed"], ctrf["summary"]["failed"]) == (1, 1, 1), why


@pytest.mark.machine  # bubblewrap
@pytest.mark.torture
async def test_a_proven_fix_becomes_a_task_that_gives_1_to_it_and_0_to_nothing_and_to_every_cheat(
    tmp_path: Path,
) -> None:
    head: dict[str, str | None] = {
        "divisor.txt": "2\n",
        "old.txt": None,
        "tests/half.sh": "test $((6 / $(cat divisor.txt))) = 3\n",
        "tests/zero.sh": "test $((0 / $(cat divisor.txt))) = 0\n",
    }
    found, rows = await exported(tmp_path, boxed(), base={"old.txt": "x\n"}, head=head)
    manifest = json.loads((found / "manifest.json").read_bytes())
    task = found / manifest["shards"][0]["path"]
    assert manifest["traces"][0]["verdict"] == "proven"
    assert (task / "instruction.md").read_text().startswith("half is a third")
    assert not (task / "environment/code/tests").exists(), "the agent must not see the fix's tests"
    said, ctrf, why = reward(task, tmp_path / "oracle", solve(task))
    assert (said, ctrf["summary"]["passed"]) == (1, 2), why
    for number, (name, files) in enumerate(CHEATS.items()):
        said, _, why = reward(task, tmp_path / f"cheat{number}", change(files))
        assert (name, said) == (name, 0), why
    found = json.loads((task / "tests/task.json").read_text())
    assert (found["fail_to_pass"], found["pass_to_pass"]) == (["tests.half::half"], ["tests.zero::zero"])
    assert RUNNER.splitlines()[0] in (task / "tests/code/run.sh").read_text()
    _rows_apply(rows, tmp_path)
    _models_take(task)


@pytest.mark.machine  # bubblewrap
@pytest.mark.torture
@pytest.mark.xdist_group("bombs")
async def test_a_task_with_a_build_gives_1_to_its_fix_and_0_to_code_that_ends_its_tests(tmp_path: Path) -> None:
    kind = KINDS["ctest"]
    need_program(kind.program, how="apt-get install cmake")
    found, _ = await exported(
        tmp_path, boxed(), profile=dict(kind.profile), base=dict(kind.base), head={**kind.tests, **kind.fix}
    )
    task = found / json.loads((found / "manifest.json").read_bytes())["shards"][0]["path"]
    said, _, why = reward(task, tmp_path / "oracle", solve(task))
    assert said == 1, why
    for number, (name, files) in enumerate(OTHER_WAYS["ctest"].items()):
        said, _, why = reward(task, tmp_path / f"way{number}", change(dict(files)))
        assert (name, said) == (name, 0), why


OVERWRITTEN = """import os
import pathlib
import time


def half(x):
    return x / 3


if os.fork() == 0:
    os.setsid()
    for _ in range(3000):
        time.sleep(0.01)
        pathlib.Path.cwd().with_name("logs").joinpath("reward.json").write_text('{"reward": 1}')
    os._exit(0)
"""
ENDED = """import os
import pathlib


def half(x):
    return x / 3


logs = pathlib.Path.cwd().with_name("logs")
for name in os.listdir("/proc"):
    if name.isdigit() and b"verify.py" in pathlib.Path("/proc", name, "cmdline").read_bytes():
        os.kill(int(name), 9)
logs.joinpath("reward.json").write_text('{"reward": 1}')
"""
READER = """import pathlib

for file in pathlib.Path.cwd().parent.glob("tests/reader/*"):
    file.write_text("def read_reports(*_, **__): raise SystemExit")
"""
RIGHT = "def half(x):\n    return x / 2\n"
ALL = """cd /way; for way in *; do
  cp -R /task/tests $way; mkdir $way/logs; cd $way
  python3 tests/verify.py --code code --pristine tests/code --logs logs > said 2>&1; cd ..
done; sleep 0.1
"""


@pytest.mark.container
@pytest.mark.torture
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("bombs")  # it runs programs as nobody, and one limit holds for all of a user's
async def test_a_forged_pass_of_an_exported_task_gives_0(tmp_path: Path) -> None:
    """Those that no QA proves, and three that go for the verifier itself."""
    engine = container_engine()
    found, _ = await exported(
        tmp_path, SandboxChooser(engine), profile={"runner": "pytest", "command": "python -m pytest -q"},
        base=FORGED_BASE, head={"tests/test_calc.py": FORGED_TEST, "calc.py": RIGHT},
    )  # fmt: skip
    task = found / json.loads((found / "manifest.json").read_bytes())["shards"][0]["path"]
    ways: dict[str, Any] = {
        **WAYS, "a reward that is overwritten": {"calc.py": OVERWRITTEN}, "a reader of one's own": {"calc.py": READER},
        "a verifier that is ended": {"calc.py": ENDED},
        "the fix": {"calc.py": RIGHT},
    }  # fmt: skip
    for number, files in enumerate(ways.values()):
        code = tmp_path / "ways" / str(number) / "code"
        shutil.copytree(task / "environment/code", code)
        change(files)(code)
    mounts = [f"--volume={tmp_path / 'ways'}:/way", f"--volume={task}:/task:ro"]
    done = subprocess.run(
        [engine, "run", "--rm", "--network=none", *mounts, IMAGE, "sh", "-c", ALL], capture_output=True, check=False
    )
    said = {name: tmp_path / "ways" / str(number) for number, name in enumerate(ways)}
    rewards = {name: json.loads((place / "logs/reward.json").read_bytes())["reward"] for name, place in said.items()}
    told = {name: (place / "said").read_text() for name, place in said.items() if rewards[name] != (name == "the fix")}
    assert not told, done.stderr
    assert "1 tests passed" not in (said["a report and an end"] / "said").read_text()


def _models_take(task: Path) -> None:
    python = os.environ.get("PM_TEST_HARBOR")
    need(python, "harbor", how="PM_TEST_HARBOR=$(tests/support/install_harbor.sh) (Python 3.12)")
    text = (
        "import sys; from harbor.models.task.task import Task; t = Task(sys.argv[1]);"
        "print(t.config.verifier.environment_mode.value, t.config.artifacts[0].source, Task.is_valid_dir(sys.argv[1]))"
    )
    read = subprocess.run([str(python), "-c", text, task], check=False, capture_output=True, text=True)
    assert read.stdout.split() == ["separate", "/code", "True"], read.stderr[-2000:]


def _rows_apply(found: Path, folder: Path) -> None:
    (line,) = next(found.glob("*/*.jsonl")).read_text().splitlines()
    row = json.loads(line)
    assert json.loads(row["FAIL_TO_PASS"]) == ["tests.half::half"]
    assert row["problem_statement"].startswith("half is a third")
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", "-b", "base", folder / "repository", clone], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, check=True, capture_output=True, text=True)
    assert head.stdout.strip() == row["base_commit"]
    for name in ("patch", "test_patch"):
        subprocess.run(["git", "apply", "-"], cwd=clone, check=True, input=row[name], text=True)
    assert (clone / "divisor.txt").read_text() == "2\n"
    assert not (clone / "old.txt").exists()
    assert "tests/" not in row["patch"]
    assert (clone / "tests/half.sh").exists()
