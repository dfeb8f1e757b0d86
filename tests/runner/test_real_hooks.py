"""The real command lines with our hooks in them, against a model on loopback: sent back, mended, let go.

A repository with 300 old TODOs and a red old suite; the hooks are put in by the one command.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.repl.support import command_line
from tests.repl.test_gate_ci import pull_request, run_action
from tests.repl.test_gate_command import git
from tests.support.clis import HOSTS, ROOT, VERSIONS, cli_environment, cli_program
from tests.support.machine import PYTEST
from tests.support.model_server import Call, ModelServer, Turn
from tests.support.tools import need
from tracer.distill.native import PROVIDER_NAMES

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(240)]

BROKEN, MENDED = "def half(x):\n    return x / 3\n", "def half(x):\n    return x / 2\n"
MARKED = "def half(x):\n    # TODO: finish\n    return x / 2\n"
OLD = "def test_old():\n    assert 1 == 2\n"
TESTS = "from calc import half\n\n\ndef test_half():\n    assert half(4) == 2\n"


class Place:
    """One command line in a home of its own, its hooks installed, and the legacy repository."""

    def __init__(self, name: str, program: Path, base: Path) -> None:
        self.name, self.program = name, program
        self.home, self.project = base / "home", base / "shop"
        (self.home / ".gemini").mkdir(parents=True)
        (self.home / ".codex").mkdir()
        trusted = {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}}
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(trusted))
        self.project.mkdir()
        (self.project / "calc.py").write_text(BROKEN)
        (self.project / "legacy.py").write_text(
            "".join(f"# TODO: old {number}\nX{number} = 1\n" for number in range(300))
        )
        (self.project / "test_calc.py").write_text(TESTS)
        (self.project / "test_old.py").write_text(OLD)
        for words in ("init -q -b main", "add -A", "-c user.name=t -c user.email=t@example.org commit -qm start"):
            subprocess.run(["git", *words.split()], cwd=self.project, check=True)
        self.pm = base / "bin" / "pm"
        self.pm.parent.mkdir()
        start = " ".join(f"'{word}'" for word in command_line())
        self.pm.write_text(f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {start} "$@"\n')
        self.pm.chmod(0o755)

    def environ(self, server: ModelServer) -> dict[str, str]:
        found = cli_environment(self.program, home=self.home, server=server)
        return {
            **found,
            "COPILOT_PROVIDER_BASE_URL": server.url,
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": "sk-test-0123456789",
            "COPILOT_MODEL": "claude-sonnet-4.5",
            "COPILOT_OFFLINE": "true",
            "PATH": f"{self.pm.parent}:{found['PATH']}",
            "IS_SANDBOX": "1",
            "PM_TEST": PYTEST,
        }

    def install(self, server: ModelServer, *words: str) -> None:
        words = words or ("gate", "install", self.name, "--user", "--yes")
        done = subprocess.run(
            [self.pm, *words], check=False, cwd=self.project, env=self.environ(server), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    def run(self, server: ModelServer, prompt: str) -> tuple[int, str]:
        provider = f'name="mine",base_url="{server.url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"'
        common = {
            "claude": ["-p", prompt, "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"],
            "gemini": ["-p", prompt, "-o", "stream-json", "--yolo", "-m", "gemini-2.5-pro"],
            "copilot": ["-p", prompt, "--allow-all-tools", "--allow-all-paths"],
            "codex": [
                *("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
                *("--dangerously-bypass-hook-trust", "-m", "gpt-5.5", "-c", 'model_provider="mine"', "-c"),
                f"model_providers.mine={{{provider}}}",
                prompt,
            ],
        }
        done = subprocess.run(
            [self.program, *common[self.name]],
            check=False,
            cwd=self.project,
            env={**self.environ(server), "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
        )
        return done.returncode, done.stdout + done.stderr

    def writes(self, content: str) -> Sequence[Call]:
        """The calls by which a model of this make replaces calc.py."""
        path = str(self.project / "calc.py")
        match self.name:
            case "claude":
                return [Call("Read", {"file_path": path}), Call("Write", {"file_path": path, "content": content})]
            case "copilot":
                command = f"cat >calc.py <<'END'\n{content}END"
                return [Call("bash", {"command": command, "description": "write calc.py"})]
            case "gemini":
                return [Call("write_file", {"file_path": path, "content": content})]
        added = "".join(f"+{line}\n" for line in content.splitlines())
        patches = ("*** Delete File: calc.py\n", f"*** Add File: calc.py\n{added}")
        return [Call("apply_patch", {}, freeform=f"*** Begin Patch\n{patch}*** End Patch\n") for patch in patches]

    def facts(self) -> list[dict[str, Any]]:
        traces = sorted((self.project / ".pm-orchestrator" / "traces").glob("*.jsonl"))
        return [json.loads(line) for trace in traces for line in trace.read_text().splitlines()]

    def judgments(self) -> list[str]:
        return [fact["data"]["judgment"] for fact in self.facts() if fact["event"] == "QUALITY_JUDGMENT"]

    def end(self) -> dict[str, Any]:
        return self.facts()[-1]["data"]  # type: ignore[no-any-return]


@pytest.fixture(params=sorted(HOSTS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    name = str(request.param)
    return Place(name, cli_program(name), tmp_path)


def judged_in_ci(place: Place, content: str) -> tuple[int, str]:
    """What the Action's script says of a pull request of this change; the repository is clean afterwards."""
    git(place.project, "checkout", "-q", "calc.py")
    clone, base = pull_request(place.project, content)
    code, said, told = run_action(clone, place.pm, base=base, test=PYTEST)
    assert "verification" in told, said
    shutil.rmtree(clone)
    git(place.project, "checkout", "-q", "main")
    git(place.project, "branch", "-qD", "topic")
    return code, told["verification"]


def test_the_first_honest_change_passes_and_a_lazy_one_is_sent_back_and_mended(place: Place) -> None:
    turns = [
        Turn(calls=place.writes(MENDED)),
        Turn(text="half divides by two now."),
    ]
    with ModelServer(turns) as server:
        place.install(server)
        code, said = place.run(server, "mend half in calc.py")
    assert code == 0, said
    assert (place.judgments(), place.end()["verification"]) == (["PASS"], "verified"), said
    assert place.end()["files_modified"] == ["calc.py"]
    assert judged_in_ci(place, MENDED) == (0, "verified")
    turns = [
        Turn(calls=place.writes(MARKED)),
        Turn(text="I have mended half."),
        Turn(calls=place.writes(MENDED)),
        Turn(text="The mark is gone, half divides by two."),
    ]
    with ModelServer(turns) as server:
        code, said = place.run(server, "mend half in calc.py, please")
        sent = json.dumps([request.body for request in server.requests])
    assert code == 0, said
    assert place.judgments() == ["PASS", "REJECT", "PASS"], said
    assert "calc.py:2: TODO found" in sent
    assert (place.project / "calc.py").read_text() == MENDED
    assert judged_in_ci(place, MARKED) == (1, "failed")
    traces = [fact["data"]["agentic_trace"] for fact in place.facts() if fact["event"] == "LLM_RESPONSE"]
    assert all(traces), "each answer is linked to its distilled session"


@pytest.mark.parametrize("place", sorted(VERSIONS), indirect=True)
def test_each_agent_hands_over_its_session_when_it_ends(place: Place) -> None:
    with ModelServer([Turn(text="half divides by three.")]) as server:
        place.install(server, "sessions", "hooks", "install", place.name, "--yes")
        code, said = place.run(server, "what does half do?")
    assert code == 0, said
    (trace,) = (place.project / ".pm-orchestrator" / "agentic-traces").glob("*.jsonl")
    meta = json.loads(trace.read_text().splitlines()[0])
    assert (meta["provider"], meta["success"]) == (PROVIDER_NAMES[place.name], True)


def test_an_agent_that_never_mends_is_let_go_by_us_and_not_by_its_host(place: Place) -> None:
    with ModelServer([Turn(text="I have mended half in calc.py.")] * 12) as server:
        place.install(server)
        code, said = place.run(server, "mend half in calc.py")
    assert code == 0, said
    assert place.judgments() in (["REJECT"] * 2, ["REJECT"] * 4), said
    last = json.loads((place.project / ".pm-orchestrator" / "gate.jsonl").read_text().splitlines()[-1])
    assert last["verification"] == "failed"


def test_a_real_agent_calls_the_tools_over_mcp(tmp_path: Path) -> None:
    need(find_spec("mcp"), "mcp", how="make, which installs requirements/dev.txt")
    place = Place("claude", cli_program("claude"), tmp_path)
    (place.project / "calc.py").write_text(MARKED)
    turns = [Turn(calls=[Call("mcp__pm__gate", {"fast": True})]), Turn(text="The mark in calc.py is still there.")]
    config = json.dumps({"mcpServers": {"pm": {"command": str(place.pm), "args": ["mcp"]}}})
    with ModelServer(turns) as server:
        done = subprocess.run(
            [place.program, "-p", "judge it", "--mcp-config", config, "--dangerously-skip-permissions"],
            check=False,
            cwd=place.project,
            env={**place.environ(server), "MCP_TIMEOUT": "60000"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
        )
        sent = json.dumps([request.body for request in server.requests])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED Q2" in sent, sent[-2000:]
