"""The readers on genuine output of the command lines, and what the programs are started with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.executors.agents.native import CodexTotals
from runner.executors.agents.progress import Progress, Reader
from runner.executors.agents.trouble import classify_message, seconds_to_wait
from runner.executors.claude import ClaudeReader
from runner.executors.codex import CodexReader
from runner.executors.gemini import GeminiReader
from runner.executors.port import Ask, Live, Usage
from tests.runner.executors.rigs import ClaudeRig, CodexRig, CommandLineRig, GeminiRig

DATA = Path(__file__).parent / "data"
FINAL = "The bug was an off-by-one in `average()`: it divided by `len(xs) - 1`."


def readers() -> dict[str, Reader]:
    return {
        "claude": ClaudeReader(Progress()),
        "codex": CodexReader(Progress(model="gpt-5.5"), before=CodexTotals()),
        "gemini": GeminiReader(Progress()),
    }


def read(name: str) -> tuple[Progress, list[Live]]:
    reader = readers()[name]
    lines = (DATA / f"{name}-bugfix.jsonl").read_text().splitlines()
    live = [update for line in lines for update in reader.feed(json.loads(line))]
    return reader.progress, live


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_genuine_run_is_read_to_its_end(name: str) -> None:
    progress, live = read(name)
    assert progress.finished is True
    assert progress.output.startswith(FINAL)
    assert progress.session_id
    assert progress.cost_usd is not None
    started = [update for update in live if update.kind == "tool_started"]
    assert len(started) == len([update for update in live if update.kind == "tool_finished"])


def test_counts_are_those_the_model_sent() -> None:
    assert read("claude")[0].usage == Usage(
        input_tokens=14910, output_tokens=1302, cached_tokens=9900, cache_write_tokens=2500, thinking_tokens=0
    )
    assert read("codex")[0].usage == Usage(
        input_tokens=24810, output_tokens=1302, cached_tokens=9900, thinking_tokens=385
    )
    assert read("gemini")[0].usage == Usage(
        input_tokens=24810, output_tokens=917, cached_tokens=9900, thinking_tokens=385
    )


def test_a_shell_command_that_gemini_calls_a_success_has_no_known_outcome() -> None:
    progress, _ = read("gemini")
    assert [call["ok"] for call in progress.calls if call["name"] == "run_shell_command"] == [None, None, None]
    assert [call["ok"] for call in read("codex")[0].calls if call["name"] == "command"] == [
        False,
        True,
        False,
        True,
        False,
    ]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_TYPES = ("system", "stream_event", "assistant", "user", "result", "item.started", "item.completed", "turn.completed",
          "turn.failed", "error", "init", "message", "tool_use", "tool_result", "thread.started")  # fmt: skip
_KEYS = ("message", "event", "item", "usage", "subtype", "content", "role", "error", "stats", "session_id", "delta")


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
@given(kind=st.sampled_from(_TYPES), fields=st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=5))
def test_no_record_however_strange_breaks_a_reader(name: str, kind: str, fields: dict[str, Any]) -> None:
    reader = readers()[name]
    list(reader.feed({"type": kind, **fields}))
    list(reader.feed({"type": kind, "message": fields, "item": fields, "event": fields, "stats": fields}))
    assert reader.progress.cost_usd is None or reader.progress.cost_usd >= 0


@pytest.mark.parametrize(
    ("message", "kind", "wait"),
    [
        ("API Error: Request rejected (429) · busy", "rate_limit", None),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit", None),
        ("Rate limit reached. Please try again in 3.5s", "rate_limit", 3.5),
        ("unexpected status 401 Unauthorized: Incorrect API key", "auth", None),
        ("Not logged in · Please run /login", "auth", None),
        ("Invalid auth method selected.", "auth", None),
        ("stream disconnected before completion", "network", None),
        ("API Error: 529 overloaded. try again in a moment", "overloaded", None),
        ("There's an issue with the selected model (x). It may not exist", "unavailable", None),
        ("--dangerously-skip-permissions cannot be used with root/sudo privileges", "crash", None),
        ("something else entirely", "crash", None),
    ],
)
def test_words_of_the_command_lines_are_told_apart(message: str, kind: str, wait: float | None) -> None:
    error = classify_message(message)
    assert (error.kind, error.retry_after_s) == (kind, wait)


@given(st.text())
def test_any_text_has_a_kind_and_no_negative_wait(text: str) -> None:
    assert classify_message(text).kind
    assert (seconds_to_wait(text) or 0) >= 0


@pytest.mark.parametrize("kind", [ClaudeRig, CodexRig, GeminiRig])
async def test_keys_and_prompts_are_never_arguments(kind: type[CommandLineRig], project: Path, tmp_path: Path) -> None:
    rig = kind(project, tmp_path / "far-end")
    executor = rig.executor((("say", "Done."),))
    await executor.ask(Ask(task_id="t", prompt="my secret plan", workspace=str(project), rules="R", model="m"))
    (start,) = rig.starts()
    (key,) = rig.keys().values()
    assert key not in json.dumps(start["argv"])
    assert "secret plan" not in json.dumps(start["argv"])
    assert "my secret plan" in start["stdin"]
    assert key in start["env"].values()


async def test_an_agent_sees_its_own_providers_key_and_no_other(project: Path, tmp_path: Path) -> None:
    rig = ClaudeRig(project, tmp_path / "far-end")
    environ = {**rig.environ(), "OPENAI_API_KEY": "sk-other", "AWS_SECRET_ACCESS_KEY": "x", "MY_SECRET": "y"}
    executor = rig.executor((("say", "Done."),), environ=environ)
    await executor.ask(Ask(task_id="t", prompt="p", workspace=str(project)))
    (start,) = rig.starts()
    assert "ANTHROPIC_API_KEY" in start["env"]
    assert not {"OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "MY_SECRET"} & start["env"].keys()


@pytest.mark.parametrize(
    ("kind", "permissions", "expected"),
    [
        (ClaudeRig, "read", "--disallowedTools"),
        (ClaudeRig, "edit", "acceptEdits"),
        (ClaudeRig, "full", "--dangerously-skip-permissions"),
        (CodexRig, "read", "read-only"),
        (CodexRig, "edit", "workspace-write"),
        (CodexRig, "full", "--dangerously-bypass-approvals-and-sandbox"),
        (GeminiRig, "read", "default"),
        (GeminiRig, "edit", "auto_edit"),
        (GeminiRig, "full", "yolo"),
    ],
)
async def test_permissions_become_each_programs_own_flags(
    kind: type[CommandLineRig], permissions: Any, expected: str, project: Path, tmp_path: Path
) -> None:
    rig = kind(project, tmp_path / "far-end")
    executor = rig.executor((("say", "Done."),))
    await executor.ask(Ask(task_id="t", prompt="p", workspace=str(project), permissions=permissions))
    (start,) = rig.starts()
    assert expected in start["argv"]


async def test_success_that_the_exit_code_denies_is_an_error(project: Path, tmp_path: Path) -> None:
    for kind in (ClaudeRig, CodexRig, GeminiRig):
        rig = kind(project, tmp_path / kind.name)
        answer = await rig.executor((("say", "Done."), ("lie",))).ask(
            Ask(task_id="t", prompt="p", workspace=str(project))
        )
        assert answer.status == "ERROR"
        assert answer.error is not None
        assert "reported success but ended with exit code 1" in answer.error.message


async def test_an_agent_that_goes_silent_is_ended(project: Path, tmp_path: Path) -> None:
    rig = ClaudeRig(project, tmp_path / "far-end")
    executor = rig.executor((("wait", 60),), silence_s=0.5)
    answer = await executor.ask(Ask(task_id="t", prompt="p", workspace=str(project)))
    assert answer.error is not None
    assert (answer.status, answer.error.kind) == ("TIMEOUT", "timeout")
    assert "wrote nothing" in answer.error.message
