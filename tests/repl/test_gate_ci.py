"""The gate in CI: the Action's own script on a shallow clone, pinned steps, and hooks of pre-commit that run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from runner.hosts import HOSTS
from tests.repl.support import command_line, environment, pm
from tests.repl.test_gate_command import MENDED, OLD_MARK, SCHEMA, git, shop
from tests.repl.test_gate_hooks import Session
from tests.support.machine import PYTEST

pytestmark = pytest.mark.torture  # seconds a test: programs are really run

__all__ = ["shop"]
ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "pm"
    start = " ".join(f"'{word}'" for word in command_line())
    path.write_text(f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {start} "$@"\n')
    path.chmod(0o755)
    return path


def run_action(clone: Path, program: Path, **inputs: str) -> tuple[int, str, dict[str, str]]:
    """The Action's gate step as the runner runs it: its `run` in bash, with its `env` filled in."""
    step = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "gate")
    given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | inputs
    known = {f"inputs.{name}": value for name, value in given.items()}
    known |= {"github.action_path": str(ROOT), "runner.temp": str(program.parent)}
    env = {
        name: re.sub(r"\$\{\{ *(.*?) *\}\}", lambda found: known[found[1]], text) for name, text in step["env"].items()
    }
    output, summary = program.parent / "output", program.parent / "summary"
    output.write_text("")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env |= {"PM": str(program), "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary), "PATH": path}
    env |= {"RUNNER_TEMP": str(program.parent), "HOME": str(program.parent)}
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(words, cwd=clone, env=env, capture_output=True, text=True, check=False)
    told = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return done.returncode, done.stdout + done.stderr, told


def pull_request(shop: Path, content: str) -> tuple[Path, str]:
    """A shallow clone of a branch with this change, as actions/checkout makes it, and the base's commit."""
    base = git(shop, "rev-parse", "main").strip()
    git(shop, "checkout", "-qb", "topic")
    (shop / "calc.py").write_text(content)
    git(shop, "commit", "-qam", "a change")
    git(shop, "config", "uploadpack.allowAnySHA1InWant", "true")
    clone = shop.parent / "clone"
    git(shop.parent, "clone", "-q", "--depth=1", "--branch", "topic", f"file://{shop}", str(clone))
    return clone, base


@pytest.mark.parametrize(
    ("content", "code", "verification"),
    [
        (OLD_MARK + MENDED, 0, "verified"),
        pytest.param(OLD_MARK + MENDED + "# TODO: the rest\n", 1, "failed", marks=pytest.mark.torture),
    ],
)
def test_invariant_14_a_pull_request_gets_the_verdict_that_the_session_got(
    shop: Path, program: Path, content: str, code: int, verification: str
) -> None:
    (shop / ".pm-orchestrator").mkdir()
    (shop / ".pm-orchestrator" / "config.toml").write_text(f'[run]\ntest = "{PYTEST}"\n[gate]\nstrength_time = 0\n')
    git(shop, "add", "-f", ".pm-orchestrator/config.toml")
    git(shop, "commit", "-qm", "policy")
    pm("config", "trust", "--yes", cwd=shop)
    session = Session("claude", shop)
    session.prompt()
    (shop / "calc.py").write_text(content)
    session.stop()
    hooked = session.facts()[-1]
    clone, base = pull_request(shop, content)
    ended, said, told = run_action(clone, program, base=base)
    assert (ended, told["verification"]) == (code, verification), said
    assert (hooked["verification"], hooked["tree"]) == (
        verification,
        json.loads((program.parent / "pm-gate.json").read_text())["tree"],
    )
    jsonschema.validate(json.loads(Path(told["sarif"]).read_text()), json.loads(SCHEMA.read_text()))
    assert ("::error file=calc.py,line=4" in said) == bool(code)
    assert f"## pm gate: {verification}" in (program.parent / "summary").read_text()


def test_what_is_not_verified_fails_the_job_unless_that_is_allowed(shop: Path, program: Path) -> None:
    git(shop, "rm", "-q", "test_calc.py")
    git(shop, "commit", "-qm", "no tests")
    clone, base = pull_request(shop, OLD_MARK + MENDED)
    (clone / "Makefile").write_text("test:\n\ttrue\n")  # a command that only the change has is none of the base's
    assert run_action(clone, program, base=base)[0] == 6
    allowed = {"base": base, "allow-not-verified": "true"}
    assert run_action(clone, program, **allowed)[0] == 0
    code, said, told = run_action(clone, program, base="0" * 40)
    assert (code != 0, told["verification"]) == (True, "not_verified"), said


def test_the_baseline_of_an_action_is_the_one_that_the_base_commit_holds(shop: Path, program: Path) -> None:
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: known\n")
    assert pm("gate", "--write-baseline", "known.json", cwd=shop).code == 0
    git(shop, "checkout", "-q", "calc.py")
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "a baseline")
    clone, base = pull_request(shop, OLD_MARK + MENDED + "# TODO: known\n")
    assert run_action(clone, program, base=base, fast="true")[0] == 1
    assert run_action(clone, program, base=base, fast="true", baseline="known.json")[0] == 0
    before = git(shop, "rev-parse", f"{base}~1").strip()  # its own baseline is none of this pull request's
    assert run_action(clone, program, base=before, fast="true", baseline="known.json")[0] == 1


def test_the_plugin_holds_the_hooks_that_the_command_installs() -> None:
    hooks = json.loads((ROOT / "plugins" / "claude" / "hooks" / "hooks.json").read_text())["hooks"]
    assert hooks == {event: [HOSTS["claude"].entry("pm gate hook claude", event)] for event in HOSTS["claude"].events}


def test_the_steps_are_pinned_and_the_hooks_of_pre_commit_run(shop: Path, program: Path) -> None:
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert used
    assert all(re.search(r"@[0-9a-f]{40}$", one) for one in used)
    python = next(step["with"] for step in ACTION["runs"]["steps"] if "setup-python" in step.get("uses", ""))
    assert python["update-environment"] is False  # the tests run with the job's own Python
    (shop / ".pm-orchestrator").mkdir()
    (shop / ".pm-orchestrator" / "config.toml").write_text(f'[run]\ntest = "{PYTEST}"\n[gate]\nstrength_time = 0\n')
    git(shop, "add", "-f", ".pm-orchestrator/config.toml")
    git(shop, "commit", "-qm", "policy")
    pm("config", "trust", "--yes", cwd=shop)
    fast, full = (shlex.split(hook["entry"]) for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()))
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    git(shop, "add", "-A")
    path = {**environment(), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    assert subprocess.run(fast, cwd=shop, env=path, check=False).returncode == 0
    git(shop, "commit", "-qm", "mended")  # at a push nothing is staged
    pushed = {**path, "PRE_COMMIT_FROM_REF": "HEAD~1", "PRE_COMMIT_TO_REF": "HEAD"}
    assert subprocess.run(full, cwd=shop, env=pushed, check=False).returncode == 0
    lacking = program.parent / "python3"  # as pre-commit's environment for pm: its interpreter has no pytest
    lacking.write_text("#!/bin/sh\nexit 1\n")
    lacking.chmod(0o755)
    named = subprocess.run(full, cwd=shop, env={**pushed, "PM_TEST": "python3 -m pytest -q"}, check=False)
    assert named.returncode == 0
