"""Real agents over the Agent Client Protocol against a model server on loopback: edits, leave, sessions, sandbox.

Installed by `tests/support/install_clis.sh`; PM_TEST_CLIS names the folder.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from runner.executors.executor_port import Ask, ExecutorSettings, PermissionAnswer, PermissionQuestion
from runner.executors.registry import make_executor
from runner.processes.bubblewrap import probe
from tests.support.model_server import Call, ModelServer, Turn, counts
from tests.support.tools import need

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(180)]

MENDED = "def half(x):\n    return x / 2\n"
AGENTS = {
    "claude": ("claude-agent-acp-0.100.0", "claude-agent-acp", ()),
    "gemini": ("gemini-0.61.0", "gemini", ("--acp", "--model", "gemini-2.5-pro")),
}


def turns(name: str, path: str) -> list[Turn]:
    if name == "claude":
        edit = [Call("Read", {"file_path": path}), Call("Write", {"file_path": path, "content": MENDED})]
        run = [Call("Bash", {"command": "touch ran.txt", "description": "touch a file"})]
    else:
        edit = [Call("write_file", {"file_path": path, "content": MENDED})]
        run = [Call("run_shell_command", {"command": "touch ran.txt"})]
    return [
        Turn(thinking="**Look** first.", calls=edit, usage=counts(100, 20)),
        Turn(calls=run, usage=counts(50, 10)),
        Turn(text="Mended.", usage=counts(50, 10)),
        Turn(text="Nothing more.", usage=counts(7, 2)),
    ]


@pytest.mark.parametrize("sandbox", ["off", "on"])
@pytest.mark.parametrize("name", sorted(AGENTS))
async def test_an_edit_is_made_a_command_is_asked_for_and_the_session_is_known(
    name: str, sandbox: str, tmp_path: Path
) -> None:
    folder, program, arguments = AGENTS[name]
    path = Path(os.environ.get("PM_TEST_CLIS", ""), folder, "node_modules", ".bin", program)
    need(path.is_absolute() and path.exists(), folder, how="PM_TEST_CLIS=$(tests/support/install_clis.sh)")
    need(sandbox == "off" or probe().available, "bubblewrap", how="apt-get install bubblewrap")
    home, project = tmp_path / "home", tmp_path / "shop"
    (home / ".gemini").mkdir(parents=True)
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(chosen))
    project.mkdir()
    (project / "calc.py").write_text("def half(x):\n    return x / 3\n")
    for command in ("init -q", "add -A", "-c user.name=t -c user.email=t@example.org commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=project, check=True)
    asked: list[PermissionQuestion] = []

    async def person(question: PermissionQuestion) -> PermissionAnswer:
        asked.append(question)
        return "yes"

    with ModelServer(turns(name, str(project / "calc.py"))) as server:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ANTHROPIC_API_KEY": "sk-ant-test-0123456789",
            "GEMINI_API_KEY": "test-0123456789",
            "ANTHROPIC_BASE_URL": server.url,
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        agents = {"real": (str(path), *arguments)}
        settings = ExecutorSettings(environ=environ, agents=agents, sandbox=sandbox, ask_person=person)
        executor = make_executor("acp:real", settings)
        first = await executor.ask(Ask(task_id="t", prompt="mend half", workspace=str(project)))
        again = Ask(task_id="t", prompt="anything else?", workspace=str(project), session_ref=first.session_ref)
        second = await executor.ask(again)
        other = Ask(task_id="t", prompt="hi", workspace=str(project), model="no-such-model")
        third = await executor.ask(other) if name == "claude" else None
    assert (first.status, first.output, first.error) == ("COMPLETE", "Mended.", None)
    assert (project / "calc.py").read_text() == MENDED
    assert (project / "ran.txt").exists()
    assert [question.title for question in asked] == ["touch ran.txt"]
    assert (second.status, second.error) == ("COMPLETE", None)
    if name == "claude":
        assert second.session_ref == first.session_ref
        assert "mend half" in json.dumps(server.requests[-1].body)
        assert first.usage is not None
        assert (first.usage.input_tokens, first.usage.output_tokens) == (200, 40)
        assert third is not None
        assert third.error is not None
        assert (third.status, third.error.kind) == ("ERROR", "unavailable")
        assert "it offers default" in third.error.message
