"""Three real agents at work side by side on one repository, two of them on the same line, against a scripted model.

The agents are the installed command lines (`tests/support/install_clis.sh`); the model at the far end of the wire says
which plan it makes and what each agent writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.core.chunk_plan import PLAN_HEADLINE
from tests.runner.chunking.project import left_over
from tests.runner.executors.test_real_cli import MODELS
from tests.support.clis import VERSIONS, cli_environment, cli_program
from tests.support.model_server import Call, ModelServer, Recorded, Turn
from tracer.journal.verify_trace import verify_trace

pytestmark = [pytest.mark.torture, pytest.mark.real_cli, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[3]
PM = (sys.executable, "-c", "import sys; from repl.cli import main; sys.exit(main())")
CALC = "def half(x):\n    return x / 3\n"
HALF = "def half(x):\n    return x / 2\n"
THIRD = "def third(x):\n    return x / 3\n"
BOTH = f"{HALF}\n\n{THIRD}"
PARTS = {
    "MEND-HALF": ("calc.py", HALF),
    "INTO-THIRD": ("calc.py", THIRD),
    "ADD-NAMES": ("names.py", 'NAMES = ("half", "third")\n'),
}
PLAN = {
    "subtasks": [
        {
            "id": part,
            "title": part,
            "description": f"{part}: change {path}",
            "acceptance": "it is there",
            "files_expected": [path],
            "dependencies": [],
            "size": "small",
        }
        for part, (path, _) in PARTS.items()
    ]
}
PROMPT = "Get the calculator into shape: mend half, make room for third, and list the names."
AGAIN = "Other subtasks changed the same lines"


class Model:
    """Plays the planner and three agents."""

    def __init__(self, name: str, project: Path) -> None:
        self.name = name
        self.project = project
        self.asked: Counter[str] = Counter()
        self.schemas: list[Any] = []

    def turn(self, request: Recorded) -> Turn:
        said = json.dumps(request.body)
        if PLAN_HEADLINE in said:
            self.schemas.append(self._schema(request.body))
            held = any(tool.get("name") == "StructuredOutput" for tool in request.body.get("tools", ()))
            if held and len(self.schemas) == 1:
                return Turn(calls=[Call("StructuredOutput", PLAN)])
            return Turn(text="planned" if held else json.dumps(PLAN))
        part = next((part for part in PARTS if f"{part}: change" in said), "")
        if not part:
            return Turn(text="ok")
        again = AGAIN in said
        stage = f"{part} again" if again else part
        self.asked[stage] += 1
        if self.asked[stage] > 1:
            return Turn(text=f"I changed {PARTS[part][0]}.")
        path, content = PARTS[part]
        return Turn(calls=self.writes(part, path, BOTH if again else content), delay_s=0.0 if again else 2.0)

    @staticmethod
    def _schema(body: Mapping[str, Any]) -> Any:
        """The schema that the request for a plan is held to, wherever this make of model is told it."""
        tool = next((tool for tool in body.get("tools", ()) if tool.get("name") == "StructuredOutput"), {})
        return tool.get("input_schema") or body.get("text", {}).get("format", {}).get("schema")

    def writes(self, part: str, path: str, content: str) -> list[Call]:
        """The calls by which a model of this make writes a file of that part's working tree."""
        number = list(PARTS).index(part) + 1
        tree = self.project / ".pm-orchestrator" / "worktrees" / "task-001" / f"task-001--task-001-sub-{number}"
        place = str(tree / path)
        exists = path == "calc.py"
        match self.name:
            case "claude":
                read = [Call("Read", {"file_path": place})] if exists else []
                return [*read, Call("Write", {"file_path": place, "content": content})]
            case "gemini":
                return [Call("write_file", {"file_path": place, "content": content})]
        added = "".join(f"+{line}\n" for line in content.splitlines())
        patches = [f"*** Delete File: {path}\n"] if exists else []
        patches.append(f"*** Add File: {path}\n{added}")
        return [Call("apply_patch", {}, freeform=f"*** Begin Patch\n{patch}*** End Patch\n") for patch in patches]


@pytest.fixture(params=sorted(VERSIONS))
def agent(request: pytest.FixtureRequest) -> tuple[str, Path]:
    name = str(request.param)
    return name, cli_program(name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / ".gemini").mkdir(parents=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "calc.py").write_text(CALC)
    for command in ("init -q", "add -A", "-c user.name=t -c user.email=t@example.org commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


def environ(project: Path, program: Path, server: ModelServer) -> dict[str, str]:
    return cli_environment(program, home=project.parent / "home", server=server)


def facts(project: Path) -> list[dict[str, Any]]:
    (trace,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    assert [one for one in verify_trace(trace).findings if one.level == "damage"] == []
    return [json.loads(line) for line in trace.read_text().splitlines()]


def most_at_once(found: list[dict[str, Any]]) -> int:
    """The largest number of subtasks that had been asked and had not answered."""
    open_loops: set[str] = set()
    most = 0
    for fact in found:
        if fact["event"] == "LLM_REQUEST":
            open_loops.add(str(fact.get("subtask_id")))
        elif fact["event"] == "LLM_RESPONSE":
            open_loops.discard(str(fact.get("subtask_id")))
        most = max(most, len(open_loops))
    return most


def test_three_agents_side_by_side_end_as_one_merged_judged_tree(agent: tuple[str, Path], project: Path) -> None:
    name, program = agent
    model = Model(name, project)
    command = [*PM, "run", "--executor", name, "--model", MODELS[name], "--chunk", "always", PROMPT]
    with ModelServer(model.turn) as server:
        done = subprocess.run(
            command,
            cwd=project,
            env=environ(project, program, server),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    found = facts(project)
    if name != "gemini":  # it has no way to hold its model to a schema
        assert model.schemas[0]["required"] == ["subtasks"]
    assert most_at_once(found) == 3
    assert [fact["data"]["conflict"] for fact in found if fact["data"].get("conflict")] == [["calc.py"]]
    whole = [fact["data"]["judgment"] for fact in found if fact["data"].get("whole")]
    assert whole == ["PASS"]
    assert found[-1]["data"]["status"] == "COMPLETE"
    assert sorted(found[-1]["data"]["files_modified"]) == ["calc.py", "names.py"]
    assert (project / "calc.py").read_text() == BOTH
    assert (project / "names.py").read_text() == PARTS["ADD-NAMES"][1]
    assert left_over(project) == []
    status = subprocess.run(["git", "status", "--short"], cwd=project, capture_output=True, text=True, check=True)
    assert status.stdout.split() == ["M", "calc.py", "??", "names.py"]


def test_three_different_agents_share_one_request(project: Path) -> None:
    """Claude Code, Codex and Gemini CLI side by side, each on the part that the person's plan gives it."""
    programs = {name: cli_program(name) for name in VERSIONS}
    agents = dict(zip(PARTS, ("claude", "codex", "gemini"), strict=True))
    models = {name: Model(name, project) for name in agents.values()}

    def turn(request: Recorded) -> Turn:
        said = json.dumps(request.body)
        part = next((part for part in PARTS if f"{part}: change" in said), "")
        return models[agents[part]].turn(request) if part else Turn(text="ok")

    plan = {
        "subtasks": [
            {**item, "executor": agents[str(item["id"])], "model": MODELS[agents[str(item["id"])]]}
            for item in PLAN["subtasks"]
        ]
    }
    (project.parent / "plan.json").write_text(json.dumps(plan))
    command = [*PM, "run", "--executor", "claude", "--model", MODELS["claude"], "--plan", "../plan.json", PROMPT]
    with ModelServer(turn) as server:
        env = environ(project, programs["claude"], server)
        env["PATH"] = ":".join([*(str(program.parent) for program in programs.values()), os.environ["PATH"]])
        done = subprocess.run(
            command,
            cwd=project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    found = facts(project)
    assert most_at_once(found) == 3
    asked = {fact["data"]["executor"] for fact in found if fact["event"] == "LLM_REQUEST"}
    assert asked == {"claude", "codex", "gemini"}
    assert [fact["data"]["conflict"] for fact in found if fact["data"].get("conflict")] == [["calc.py"]]
    assert found[-1]["data"]["status"] == "COMPLETE"
    assert (project / "calc.py").read_text() == BOTH
    assert (project / "names.py").read_text() == PARTS["ADD-NAMES"][1]
    assert left_over(project) == []
