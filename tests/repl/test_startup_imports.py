"""What the quick commands may load: looked up in `sys.modules` of the very process that ran them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repl.scripts import GOOD, run_scripted
from tests.repl.support import environment

_HEAVY = {
    "anthropic",
    "fastapi",
    "textual",
    "prompt_toolkit",
    "pydantic",
    "asyncio",
    "rich",
    "orjson",
    "yaml",
    "tree_sitter",
    "tomlkit",
    "re2",
    "watchfiles",
    "dataclasses",
    "inspect",
    "logging",
    "subprocess",
    "socket",
    "tomllib",
}
_START = """
import atexit, sys
atexit.register(lambda: sys.stderr.write("MODULES" + " ".join(sorted(sys.modules))))
from pm_orchestrator.launch import main
sys.exit(main())
"""


def loaded_by(*words: str, cwd: Path) -> set[str]:
    """The modules in the process of `pm WORDS` when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", _START, *words], cwd=cwd, capture_output=True, check=False, timeout=60, env=environment()
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.decode().split("MODULES", 1)[1].split())


@pytest.mark.parametrize(
    "words", [["help"], ["help", "version"], ["--help"], ["version", "--help"], ["help", "exit-codes"]]
)
def test_help_loads_nothing_heavy(words: list[str], project: Path) -> None:
    assert loaded_by(*words, cwd=project) & (_HEAVY | {"sqlite3"}) == set()


def test_version_loads_nothing_but_its_own_two_modules(project: Path) -> None:
    # argparse, re and json would be welcome to no one here: each costs a third of the whole command.
    loaded = loaded_by("version", cwd=project)
    assert {name for name in loaded if name.startswith(("repl", "tracer", "runner"))} == {
        "repl",
        "repl.cli",
        "repl.version",
    }
    assert loaded & {"argparse", "sqlite3", "enum", "typing", *_HEAVY} == set()


@pytest.mark.parametrize(
    "words", [["tasks"], ["tasks", "--json"], ["trace", "1", "--raw"], ["__complete", "--", "show", ""]]
)
def test_tasks_and_raw_traces_run_on_json_and_sqlite_alone(words: list[str], project: Path) -> None:
    run_scripted(project, GOOD)
    loaded = loaded_by(*words, cwd=project)
    assert loaded & _HEAVY == set()
    assert "tracer.statedir" in loaded


@pytest.mark.parametrize("words", [["check", "a.py"], ["gate", "--fast"]])
def test_what_ci_calls_loads_no_screen_no_server_and_no_sdk(words: list[str], project: Path) -> None:
    (project / "a.py").write_text("def f():\n    return 1\n")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    unwanted = {"anthropic", "fastapi", "httpx2", "prompt_toolkit", "pydantic", "rich", "sqlite3", "textual"}
    assert loaded_by(*words, cwd=project) & unwanted == set()


def test_line_mode_s_first_prompt_loads_nothing_that_only_a_task_needs(project: Path) -> None:
    code = (
        "import asyncio, sys, repl.open_session, repl.line.view\n"
        "from pathlib import Path\n"
        "from tracer.statedir import StateDir\n"
        "from runner.supervisor import Supervisor\n"
        "async def go():\n"
        "    async with Supervisor(StateDir(Path('.pm-orchestrator')), make_executor=None, make_effects=None): pass\n"
        "asyncio.run(go())\n"
        "print(' '.join(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True, env=environment()
    )
    loaded = set(done.stdout.split())
    assert "prompt_toolkit.shortcuts" in loaded
    unwanted = {"textual", "pydantic", "anthropic", "re2", "watchfiles", "tree_sitter", "rich", "runner.processes"}
    assert (
        loaded & (unwanted | {"runner.isolation.worktrees", "runner.workspace", "runner.loop", "runner.core.outcome"})
        == set()
    )


def test_the_criteria_are_loaded_while_the_agent_works_and_not_before(project: Path) -> None:
    """They take 300 ms, which a session of a second hides."""
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from runner.effects import TaskEffects\n"
        "from runner.executors.executor_port import Answer, Ask\n"
        "from runner.core.request import Request\n"
        "from tracer.statedir import StateDir\n"
        "class Agent:\n"
        "    async def ask(self, request, *, live):\n"
        "        for _ in range(300):\n"
        "            yet.append('runner.gate.verdict' in sys.modules)\n"
        "            if 'runner.judging' in sys.modules and yet[-1]: break\n"
        "            await asyncio.sleep(0.1)\n"
        "        return Answer(output='', status='COMPLETE')\n"
        "async def go():\n"
        "    effects = TaskEffects(request=Request(), task_id='t', executor=Agent(), state_dir=StateDir(Path('s')))\n"
        "    await effects.ask(Ask(task_id='t', prompt='p', workspace='.'), lambda _update: None)\n"
        "yet = []\n"
        "asyncio.run(go())\n"
        "print(yet[0], yet[-1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout == "False True\n"


def test_a_request_is_durable_before_most_of_the_product_is_loaded(project: Path) -> None:
    script = project / "script.jsonl"
    script.write_text('{"output":"Done"}\n')
    counting = Path(__file__).parents[2] / "benchmarks" / "_count_until_request.py"
    words = ["run", "--executor", "scripted", "--script", str(script), "add a.txt"]
    done = subprocess.run(
        [sys.executable, str(counting), *words],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment(),
    )
    counts = json.loads(done.stdout.splitlines()[-1])
    assert 0 < counts["modules"] <= 110
    assert 0 < counts["functions"] <= 500
    [trace] = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    assert [json.loads(line)["event"] for line in trace.read_text().splitlines()] == ["USER_REQUEST"]


def test_a_folder_without_project_files_is_looked_at_without_what_reads_them(tmp_path: Path) -> None:
    """Before the first prompt: 6 ms of the 50 that are ours."""
    code = (
        "import sys; from pathlib import Path; from runner.checks.commands import detect_commands;"
        "print(detect_commands(Path(sys.argv[1])), {'orjson', 'tomllib'} & sys.modules.keys())"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60, env=environment())
    assert done.stdout.strip() == "() set()"
