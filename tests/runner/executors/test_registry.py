"""Executors by name, and the list of those that stand in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.executors.anthropic.executor import DEFAULT_MODEL
from runner.executors.composite import FallbackExecutor
from runner.executors.executor_port import (
    AGENT_NAMES,
    EXECUTOR_NAMES,
    Answer,
    AnswerError,
    Ask,
    ExecutorSettings,
    Live,
    LiveSink,
    ignore_live,
)
from runner.executors.registry import make_executor
from tests.support import fake_agent
from tests.support.model_server import ModelServer, Turn
from tracer.errors import ConfigError, CredentialsError, UnavailableError, UsageError
from tracer.names import ErrorKind


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        make_executor("cluade")
    assert all(name in caught.value.next_step for name in EXECUTOR_NAMES)


@pytest.mark.parametrize("name", ["scripted", "replay"])
def test_an_executor_that_answers_from_a_file_needs_one(name: str) -> None:
    with pytest.raises(UsageError, match="needs a file"):
        make_executor(name)


def test_acp_without_a_configured_command_says_how_to_set_one() -> None:
    with pytest.raises(ConfigError) as caught:
        make_executor("acp:goose")
    assert "pm config set" in caught.value.next_step


def test_an_acp_agent_that_is_not_there_is_told_before_a_task_begins(tmp_path: Path) -> None:
    settings = ExecutorSettings(environ={"PATH": str(tmp_path)}, agents={"goose": ("goose", "acp")})
    with pytest.raises(UnavailableError, match="acp:goose is not installed"):
        make_executor("acp:goose", settings)


def test_naming_an_executor_imports_none_of_their_libraries() -> None:
    program = (
        "import sys; from runner.executors.executor_port import ExecutorSettings;"
        "from runner.executors.registry import make_executor;"
        "make_executor('anthropic', ExecutorSettings(environ={'PM_API_KEY': 'k' * 20}));"
        "print(sorted({'anthropic', 'acp', 'httpx2', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", AGENT_NAMES)
def test_an_agent_that_is_not_installed_is_told_before_a_task_begins(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        make_executor(name, ExecutorSettings(environ={"PATH": str(tmp_path), "HOME": str(tmp_path)}))
    assert caught.value.what == f"{name} is not installed"
    assert caught.value.next_step.startswith("npm install -g ")


def test_an_agent_that_is_logged_out_is_a_matter_of_credentials(tmp_path: Path) -> None:
    program = fake_agent.install(tmp_path, "codex", [], version="0.169.0", package="@openai/codex")
    settings = ExecutorSettings(environ={"PATH": "/bin", "HOME": str(tmp_path)}, programs={"codex": str(program)})
    with pytest.raises(CredentialsError) as caught:
        make_executor("codex", settings)
    assert "codex login" in caught.value.next_step


class _Stub:
    def __init__(self, name: str, kind: ErrorKind | None) -> None:
        self.name = name
        self.kind = kind
        self.asked: list[Ask] = []
        self.closed = False

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        self.asked.append(request)
        if self.kind is None:
            return Answer(output=f"from {self.name}", status="COMPLETE")
        return Answer(output="", status="ERROR", error=AnswerError(kind=self.kind, message=f"{self.name}: {self.kind}"))

    async def close(self) -> None:
        self.closed = True


def chain(**kinds: Any) -> tuple[FallbackExecutor, dict[str, _Stub]]:
    stubs = {name: _Stub(name, kind) for name, kind in kinds.items()}
    return FallbackExecutor(list(stubs), stubs.__getitem__), stubs


REQUEST = Ask(task_id="task-001", prompt="please", workspace="/nowhere", model="gpt-5.5")


async def test_an_unavailable_executor_passes_the_question_on_and_the_answer_says_so() -> None:
    executor, stubs = chain(codex="unavailable", claude=None)
    live: list[Live] = []
    answer = await executor.ask(REQUEST, live=live.append)
    assert answer.output == "from claude"
    assert answer.extra["executor"] == "claude"
    assert answer.extra["fallback_from"] == [{"executor": "codex", "why": "codex: unavailable"}]
    assert stubs["claude"].asked[0].model is None, "a model name belongs to one provider"
    assert [update.kind for update in live] == ["notice"]
    await executor.close()
    assert all(stub.closed for stub in stubs.values())


@pytest.mark.parametrize("kind", ["auth", "rate_limit", "network", "crash", "refusal"])
async def test_any_other_trouble_stays_with_the_executor_that_was_named(kind: ErrorKind) -> None:
    executor, stubs = chain(codex=kind, claude=None)
    answer = await executor.ask(REQUEST)
    assert answer.error is not None
    assert answer.error.kind == kind
    assert stubs["claude"].asked == []


async def test_when_none_is_there_the_last_says_why() -> None:
    executor, _ = chain(codex="unavailable", claude="unavailable")
    answer = await executor.ask(REQUEST)
    assert answer.error is not None
    assert answer.error.message == "claude: unavailable"
    assert [entry["executor"] for entry in answer.extra["fallback_from"]] == ["codex"]


async def test_a_real_missing_program_falls_back(tmp_path: Path) -> None:
    settings = ExecutorSettings(environ={"PATH": str(tmp_path), "HOME": str(tmp_path)}, fallback=("gemini",))
    answer = await make_executor("claude", settings).ask(
        Ask(task_id="task-001", prompt="please", workspace=str(tmp_path))
    )
    assert answer.error is not None
    assert (answer.error.kind, answer.extra["executor"]) == ("unavailable", "gemini")
    assert "npm install -g @google/gemini-cli" in answer.error.next_step


def test_a_fallback_that_nothing_could_answer_to_is_told_before_a_task_begins(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    with pytest.raises(UsageError, match="nonsense"):
        make_executor("claude", ExecutorSettings(environ=environ, fallback=("nonsense",)))
    with pytest.raises(ConfigError, match="acp:goose"):
        make_executor("claude", ExecutorSettings(environ=environ, fallback=("codex", "acp:goose")))


async def test_a_fallback_that_is_logged_out_ends_the_search_as_a_matter_of_credentials(tmp_path: Path) -> None:
    program = fake_agent.install(tmp_path, "codex", [], version="0.169.0", package="@openai/codex")
    environ = {"PATH": str(tmp_path / "nothing"), "HOME": str(tmp_path)}
    programs = {"codex": str(program)}
    settings = ExecutorSettings(environ=environ, programs=programs, fallback=("codex", "gemini"))
    answer = await make_executor("claude", settings).ask(
        Ask(task_id="task-001", prompt="please", workspace=str(tmp_path))
    )
    assert answer.error is not None
    assert answer.error.kind == "auth"
    assert "codex login" in answer.error.next_step
    assert [entry["executor"] for entry in answer.extra["fallback_from"]] == ["claude"]


async def test_a_fallback_is_not_asked_for_the_first_ones_model(tmp_path: Path) -> None:
    with ModelServer([Turn(text="Hello.")]) as server:
        environ = {"PATH": str(tmp_path), "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "sk-ant-test-0123456789"}
        settings = ExecutorSettings(
            environ=environ, model="gpt-5.5", base_url=server.url, fallback=("anthropic",), state_dir=tmp_path / "state"
        )
        executor = make_executor("codex", settings)
        answer = await executor.ask(Ask(task_id="task-001", prompt="please", workspace=str(tmp_path), model="gpt-5.5"))
        await executor.close()
    assert answer.status == "COMPLETE"
    assert server.requests[0].body["model"] == DEFAULT_MODEL
