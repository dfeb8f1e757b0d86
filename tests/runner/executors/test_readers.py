"""The readers on genuine output of the command lines, and what the programs are started with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.executors.agents.claude import ClaudeReader
from runner.executors.agents.codex import CodexReader
from runner.executors.agents.gemini import GeminiReader, GeminiUsage
from runner.executors.agents.progress import Progress, Reader
from runner.executors.agents.session_files import CodexTotals
from runner.executors.executor_port import (
    Ask,
    Executor,
    Live,
    Usage,
)
from runner.executors.provider_errors import classify_message, seconds_to_wait
from tests.runner.executors.rigs import ClaudeRig, CodexRig, CommandLineRig, GeminiRig
from tracer.prices import Tokens, cost_usd

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


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 6m0s.", 360.0),
        ("try again in 1h2m3s", 3723.0),
        ("You've hit your usage limit. Try again in 3 hours 27 minutes.", 12420.0),
        ("or try again in 2 days 3 hours 5 minutes.", 183900.0),
        ("retry in 1 minute and 30 seconds", 90.0),
        ("Your quota will reset after 3h27m12s.", 12432.0),
        ("Please retry in 5s.. Retrying after 5620ms...", 5.0),
        ("Retrying after 7891ms", 7.891),
        ("Retry-After: 30", 30.0),
        ("try again in 20 milliseconds", 0.02),
        ("try again at 5:03 PM", None),
        (f"try again in {'9' * 400} s", 7 * 86400.0),
    ],
)
def test_the_wait_that_a_message_asks_for_is_read_whole(message: str, seconds: float | None) -> None:
    assert seconds_to_wait(message) == pytest.approx(seconds)


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


def _counts(**counts: int) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": counts}}}


def _session_so_far(rig: CommandLineRig, dollars_worth: int) -> dict[str, Any]:
    """A step that leaves the session file of a run as it stands before its end; counts cost about so many dollars."""
    if isinstance(rig, CodexRig):
        path = rig.home / ".codex" / "sessions" / "2026" / "11" / "22" / "rollout-2026-11-22T11-00-00-01a1-thread.jsonl"
        turn = {"type": "turn_context", "payload": {"model": "gpt-5.5"}}
        total = _counts(input_tokens=10, cached_input_tokens=4, output_tokens=dollars_worth * 33_334)
        lines = [turn, total]
    else:
        path = rig.home / ".gemini" / "tmp" / "shop" / "chats" / "session-2026-11-22T11-00-aaaabbbb.jsonl"
        tokens = {"input": 10, "cached": 4, "output": dollars_worth * 100_000, "thoughts": 7}
        reply = {"id": "1", "type": "gemini", "model": "gemini-2.5-pro", "tokens": tokens}
        header = {"sessionId": "aaaabbbb-1111-4222-8333-444455556666", "kind": "main"}
        lines = [header, {**reply, "tokens": {**tokens, "output": 1}}, reply]  # written twice: the last one counts
    path.parent.mkdir(parents=True, exist_ok=True)
    return {"files": {str(path): "".join(json.dumps(line) + "\n" for line in lines)}}


def _that_keeps_on(rig: CommandLineRig, *, dollars_worth: int) -> Executor:
    """An agent that has used so much, as its session file says, and goes on for a minute."""
    executor = rig.executor((("wait", 60), ("say", "late")))
    play = json.loads(Path(f"{rig.program}.json").read_text())
    play[0].insert(1, _session_so_far(rig, dollars_worth))
    Path(f"{rig.program}.json").write_text(json.dumps(play))
    return executor


@pytest.mark.parametrize("kind", [CodexRig, GeminiRig])
async def test_the_budget_ends_a_run_whose_records_tell_its_tokens_only_with_their_end(
    kind: type[CommandLineRig], project: Path, tmp_path: Path
) -> None:
    rig = kind(project, tmp_path / "far-end")
    executor = _that_keeps_on(rig, dollars_worth=2)
    live: list[Live] = []
    asked = Ask(task_id="t", prompt="p", workspace=str(project), budget_usd=1.0, whole_budget_usd=3.0)
    answer = await asyncio.wait_for(executor.ask(asked, live=live.append), 30)
    assert answer.error is not None
    assert answer.error.message == "stopped at the budget of $3.00, of which $1.00 was left"
    assert (answer.status, answer.error.kind) == ("INCOMPLETE", "budget")
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.cached_tokens) == (10, 4)
    assert answer.cost_usd == pytest.approx(2.0, rel=0.01)
    assert [update.cost_usd for update in live if update.kind == "usage"] == [answer.cost_usd]


@pytest.mark.parametrize("kind", [CodexRig, GeminiRig])
async def test_a_run_that_is_ended_tells_what_it_used_up_to_then(
    kind: type[CommandLineRig], project: Path, tmp_path: Path
) -> None:
    rig = kind(project, tmp_path / "far-end")
    executor = _that_keeps_on(rig, dollars_worth=1)
    answer = await executor.ask(Ask(task_id="t", prompt="p", workspace=str(project), timeout_s=0.9))
    assert answer.status == "TIMEOUT"
    assert answer.usage is not None
    assert answer.cost_usd is not None
    assert answer.session_ref is not None


def test_a_gemini_session_that_goes_on_counts_only_the_replies_of_this_run(tmp_path: Path) -> None:
    tokens = {"input": 10, "cached": 4, "output": 3, "thoughts": 2}
    appended, rewritten = tmp_path / "session-x.jsonl", tmp_path / "session-x.json"
    before = {"id": "1", "type": "gemini", "model": "gemini-2.5-pro", "tokens": tokens}
    after = [{**before, "id": "2"}, {"id": "3", "type": "user"}, {**before, "id": "4"}]
    appended.write_text(json.dumps(before) + "\n")
    rewritten.write_text(json.dumps({"sessionId": "x", "messages": [before]}))
    lines, whole = GeminiUsage(appended), GeminiUsage(rewritten)
    assert lines.read(appended) is None
    assert whole.read(rewritten) is None
    rewritten.write_text(json.dumps({"sessionId": "x", "messages": [before, *after]}))
    text = "".join(json.dumps(record) + "\n" for record in after)
    with appended.open("a") as file:
        file.write(text[:-20])
    first = lines.read(appended)
    assert first is not None
    assert first.usage.input_tokens == 10, "a line that is still being written is not read"
    with appended.open("a") as file:
        file.write(text[-20:])
    for told in (lines.read(appended), whole.read(rewritten)):
        assert told is not None
        assert told.usage == Usage(input_tokens=20, cached_tokens=8, output_tokens=6, thinking_tokens=4)
        assert told.cost_usd == cost_usd("gemini-2.5-pro", Tokens(fresh=12, cached=8, output=10))


def test_what_a_version_of_gemini_does_not_tell_is_unknown_and_so_is_the_price() -> None:
    reader = GeminiReader(Progress(model="gemini-2.5-pro"))
    stats = {"total_tokens": 12, "input_tokens": 10, "output_tokens": 2}
    list(reader.feed({"type": "result", "status": "success", "stats": stats}))
    assert reader.progress.usage == Usage(input_tokens=10, output_tokens=2, cached_tokens=None, thinking_tokens=0)
    assert reader.progress.cost_usd is None


@pytest.mark.parametrize(
    ("kind", "session", "told"),
    [
        (ClaudeRig, ".claude/projects/{slug}/gone.jsonl", "No conversation found with session ID: gone"),
        (
            CodexRig,
            ".codex/sessions/2026/11/22/rollout-2026-11-22T11-00-00-gone.jsonl",
            "Error: no rollout found for thread id gone (code -32600)\n\nStack backtrace:\n  0: <unknown>",
        ),
        (
            GeminiRig,
            ".gemini/tmp/shop/chats/session-2026-11-22T11-00-gone.jsonl",
            "Error resuming session: No previous sessions found for this project.",
        ),
    ],
)
async def test_a_session_that_the_program_cannot_go_on_in_gives_way_to_a_new_one(
    kind: type[CommandLineRig], session: str, told: str, project: Path, tmp_path: Path
) -> None:
    rig = kind(project, tmp_path / "far-end")
    path = rig.home / session.format(slug="".join(c if c.isalnum() else "-" for c in str(project.resolve())))
    path.parent.mkdir(parents=True)
    path.write_text('{"sessionId":"gone"}\n')
    executor = rig.executor((("say", "Hm."),), (("say", "Mended."),))
    plays = json.loads(Path(f"{rig.program}.json").read_text())
    plays[0] = [{"stderr": f"{told}\n"}, {"exit": 42}]
    Path(f"{rig.program}.json").write_text(json.dumps(plays))
    asked = Ask(task_id="t", prompt="p", workspace=str(project), rules="R", session_ref=f"{rig.name}:gone")
    answer = await executor.ask(asked)
    assert (answer.status, answer.output, answer.error) == ("COMPLETE", "Mended.", None)
    assert answer.extra["session_resumed"] is False
    first, second = rig.starts()
    assert "gone" in first["argv"]
    assert "gone" not in second["argv"]


def test_a_refusal_that_claude_code_reports_as_an_error_of_the_api_is_a_refusal() -> None:
    reader = ClaudeReader(Progress())
    text = "API Error: Sonnet 4.5 can't help with this. Start a new session to continue."
    result = {"type": "result", "subtype": "success", "is_error": True, "stop_reason": "refusal", "result": text}
    list(reader.feed(result))
    assert reader.progress.error is not None
    assert (reader.progress.finished, reader.progress.error.kind) == (False, "refusal")


_LIMITED = (
    "2026-11-22T11:18:00Z DEBUG codex_http_client::client: Request completed method=POST status=429 "
    'Too Many Requests headers={"set-cookie": "c=1", "retry-after": "41"} version=HTTP/1.1\n'
)


async def test_the_wait_that_codex_tells_only_in_its_log_is_kept_and_the_log_is_not(
    project: Path, tmp_path: Path
) -> None:
    rig = CodexRig(project, tmp_path / "far-end")
    executor = rig.executor((("say", "Hm."), ("rate_limit",)))
    play = json.loads(Path(f"{rig.program}.json").read_text())
    told = "exceeded retry limit, last status: 429 Too Many Requests"
    play[0] = [*rig.begin(), {"stderr": _LIMITED}, {"line": {"type": "turn.failed", "error": {"message": told}}}]
    Path(f"{rig.program}.json").write_text(json.dumps([play[0]]))
    answer = await executor.ask(Ask(task_id="t", prompt="p", workspace=str(project)))
    assert answer.error is not None
    assert (answer.error.kind, answer.error.retry_after_s) == ("rate_limit", 41.0)
    assert "codex_http_client" in rig.starts()[0]["env"]["RUST_LOG"]
    Path(f"{rig.program}.json").write_text(json.dumps([[*rig.begin(), {"stderr": f"{_LIMITED}boom\n"}, {"exit": 3}]]))
    crashed = await executor.ask(Ask(task_id="t", prompt="p", workspace=str(project)))
    assert crashed.error is not None
    assert "boom" in crashed.error.message
    assert "set-cookie" not in crashed.error.message


@pytest.mark.parametrize("kind", [ClaudeRig, CodexRig, GeminiRig])
async def test_a_refusal_names_the_key_by_its_source_and_its_end(
    kind: type[CommandLineRig], project: Path, tmp_path: Path
) -> None:
    rig = kind(project, tmp_path / "far-end")
    answer = await rig.executor((("auth",),)).ask(Ask(task_id="t", prompt="p", workspace=str(project)))
    ((name, key),) = rig.keys().items()
    assert answer.error is not None
    assert f"(key from {name}, ending in {key[-4:]})" in answer.error.message
    assert key not in answer.error.message


@pytest.mark.parametrize("kind", [CodexRig, GeminiRig])
async def test_the_rules_are_said_once(kind: type[CommandLineRig], project: Path, tmp_path: Path) -> None:
    rig = kind(project, tmp_path / "far-end")
    executor = rig.executor((("say", "Done."),))
    for prompt in ("The rules.\n\n## Task\nGo.", "Fix: more"):
        await executor.ask(Ask(task_id="t", prompt=prompt, rules="The rules.\n", workspace=str(project)))
    assert rig.prompts() == ["The rules.\n\n## Task\nGo.", "The rules.\n\nFix: more"], "a new session each time"


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
