"""The anthropic executor against a loopback server that speaks the Messages API."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.executors.executor_port import Answer, Ask, ExecutorSettings, Live
from runner.executors.registry import make_executor
from tests.support.model_server import Call, ModelServer, Turn, counts
from tests.support.tools import need_program
from tracer.errors import ConfigError, CredentialsError

KEY = "sk-ant-test-0123456789"


async def ask(server: ModelServer, workspace: Path, **fields: Any) -> tuple[Answer, list[Live]]:
    live: list[Live] = []
    executor = make_executor("anthropic", settings(server))
    try:
        return await executor.ask(request(workspace, **fields), live=live.append), live
    finally:
        await executor.close()


def settings(server: ModelServer, **fields: Any) -> ExecutorSettings:
    return ExecutorSettings(environ={"ANTHROPIC_API_KEY": KEY}, base_url=server.url, **fields)


def request(workspace: Path, **fields: Any) -> Ask:
    return Ask(**{"task_id": "task-001", "prompt": "please", "workspace": str(workspace), **fields})


def call(name: str, **arguments: Any) -> Call:
    return Call(name, arguments)


async def play(turns: Sequence[Turn], workspace: Path, **fields: Any) -> tuple[Answer, list[Live], ModelServer]:
    with ModelServer(turns) as server:
        answer, live = await ask(server, workspace, **fields)
    return answer, live, server


async def test_a_tool_loop_edits_real_files_and_ends_complete(project: Path) -> None:
    (project / "calc.py").write_text("def half(x):\n    return x / 3\n")
    turns = [
        Turn(thinking="Let me look.", calls=[call("read", path="calc.py")]),
        Turn(
            text="Now I mend it.",
            calls=[
                call("edit", path="calc.py", old_text="x / 3", new_text="x / 2"),
                call("write", path="docs/notes.md", content="# Notes\n"),
            ],
        ),
        Turn(text="Mended: half() divides by 2."),
    ]
    answer, live, server = await play(turns, project)
    assert (answer.status, answer.error) == ("COMPLETE", None)
    assert answer.output == "Mended: half() divides by 2."
    assert (project / "calc.py").read_text() == "def half(x):\n    return x / 2\n"
    assert (project / "docs" / "notes.md").read_text() == "# Notes\n"
    told = server.requests[1].body["messages"][-1]["content"][0]
    assert told["content"] == "def half(x):\n    return x / 3\n"
    assert told["is_error"] is False
    assert [update.tool for update in live if update.kind == "tool_finished"] == ["read", "edit", "write"]
    assert "".join(update.text for update in live if update.kind == "thinking") == "Let me look."
    assert answer.extra["edits"] == {"attempted": 2, "failed": 0}


@pytest.mark.parametrize("words", ["Mended.", ""])
async def test_a_report_by_tool_leaves_the_answer_in_words(project: Path, words: str) -> None:
    told = {"status": "done", "files": ["calc.py"]}
    turns = [Turn(text=words, calls=[call("report", **told)]), Turn(text="Mended, in words."), Turn(text="Further.")]
    with ModelServer(turns) as server:
        executor = make_executor("anthropic", settings(server))
        answer = await executor.ask(request(project))
        again = await executor.ask(request(project, session_ref=answer.session_ref))
        await executor.close()
    assert (answer.status, answer.report, answer.stop_reason) == ("COMPLETE", told, "end_turn")
    assert answer.output == (words or "Mended, in words.")
    assert answer.extra["tool_call_count"] == 0
    assert len(server.requests) == (2 if words else 3)
    assert again.extra["session_resumed"] is True
    sent = server.requests[-1].body["messages"]
    assert any(block["type"] == "text" for message in sent for block in message["content"] if isinstance(block, dict))


async def test_usage_and_cost_are_summed_over_the_requests(project: Path) -> None:
    turns = [
        Turn(calls=[call("read", path="missing.txt")], usage=counts(1000, 100, written=2000)),
        Turn(text="done", usage=counts(50, 200, cached=2000, thinking=40)),
    ]
    answer, live, _ = await play(turns, project, model="claude-sonnet-5-5")
    assert answer.usage is not None
    assert answer.usage.to_dict() == {
        "input_tokens": 1050,
        "output_tokens": 300,
        "cached_tokens": 2000,
        "thinking_tokens": 40,
        "cache_write_tokens": 2000,
    }
    assert answer.cost_usd == pytest.approx((1050 * 2 + 2000 * 2.5 + 2000 * 0.1 + 300 * 10) / 1e6)
    last = [update for update in live if update.kind == "usage"][-1]
    assert (last.usage, last.cost_usd) == (answer.usage, answer.cost_usd)


async def test_a_model_without_a_known_price_costs_null_not_zero(project: Path) -> None:
    answer, _, _ = await play([Turn(text="hi")], project, model="some-local-model")
    assert answer.status == "COMPLETE"
    assert answer.cost_usd is None


async def test_the_request_asks_for_caching_thinking_and_the_rules(project: Path) -> None:
    _, _, server = await play([Turn(text="hi")], project, rules="Leave no gaps.", model="claude-sonnet-5-5")
    body = server.requests[0].body
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["system"][0]["text"].endswith("Leave no gaps.")
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["stream"] is True
    assert "thread" not in body


async def test_older_models_get_a_thinking_budget_instead(project: Path) -> None:
    _, live, server = await play([Turn(text="hi")], project, model="claude-sonnet-4-5-20250929")
    assert any("deprecated" in update.text for update in live if update.kind == "notice")
    assert server.requests[0].body["thinking"] == {"type": "enabled", "budget_tokens": 8000}


async def test_read_permission_offers_no_tool_that_changes_anything(project: Path) -> None:
    turns = [Turn(calls=[call("write", path="a.txt", content="x")]), Turn(text="ok")]
    answer, _, server = await play(turns, project, permissions="read")
    assert [tool["name"] for tool in server.requests[0].body["tools"]] == ["read", "report"]
    assert not (project / "a.txt").exists()
    assert answer.status == "INCOMPLETE"


async def test_an_answer_whose_edits_all_failed_is_incomplete(project: Path) -> None:
    (project / "a.txt").write_text("one\n")
    turns = [Turn(calls=[call("edit", path="a.txt", old_text="two", new_text="three")]), Turn(text="All done!")]
    answer, _, server = await play(turns, project)
    assert answer.status == "INCOMPLETE"
    assert "was not found" in server.requests[1].body["messages"][-1]["content"][0]["content"]


@pytest.mark.parametrize(
    ("turn", "status", "kind"),
    [
        (Turn(status=401, error_type="authentication_error", message="invalid x-api-key"), "ERROR", "auth"),
        (Turn(status=403, error_type="permission_error"), "ERROR", "auth"),
        (
            Turn(status=400, error_type="invalid_request_error", message="Your credit balance is too low"),
            "ERROR",
            "auth",
        ),
        (Turn(status=404, error_type="not_found_error", message="model: nope"), "ERROR", "unavailable"),
        (Turn(status=400, error_type="invalid_request_error", message="bad field"), "ERROR", "crash"),
        (Turn(status=529, error_type="overloaded_error"), "ERROR", "overloaded"),
        (Turn(status=500, error_type="api_error"), "ERROR", "network"),
        (Turn(mangled=True), "ERROR", "network"),
        (Turn(text="abc", error_in_stream=True, error_type="overloaded_error"), "ERROR", "overloaded"),
        (Turn(text="abc", error_in_stream=True, error_type="rate_limit_error"), "ERROR", "rate_limit"),
        (Turn(text="half of this is lost", cut=True), "ERROR", "network"),
        (Turn(refusal="not that"), "BLOCKED", "refusal"),
    ],
)
async def test_trouble_is_told_apart(project: Path, turn: Turn, status: str, kind: str) -> None:
    answer, _, server = await play([turn], project)
    assert answer.error is not None
    assert (answer.status, answer.error.kind) == (status, kind)
    assert len(server.requests) == 1, "an executor never retries by itself"


async def test_a_rate_limit_carries_the_providers_wait(project: Path) -> None:
    turn = Turn(status=429, error_type="rate_limit_error", headers={"retry-after": "7"})
    answer, _, _ = await play([turn], project)
    assert answer.error is not None
    assert (answer.error.kind, answer.error.retry_after_s) == ("rate_limit", 7.0)


async def test_a_refused_key_is_named_by_source_and_ending_only(project: Path) -> None:
    turn = Turn(status=401, error_type="authentication_error", message=f"key {KEY} is wrong")
    answer, _, _ = await play([turn], project)
    assert answer.error is not None
    assert "ANTHROPIC_API_KEY, ending in 6789" in answer.error.message
    assert KEY not in repr(answer)


async def test_no_server_at_all_is_network_trouble(project: Path) -> None:
    with ModelServer([]) as server:
        pass
    answer, _ = await ask(server, project)
    assert answer.error is not None
    assert answer.error.kind == "network"


async def test_max_tokens_is_incomplete_with_its_stop_reason(project: Path) -> None:
    answer, _, _ = await play([Turn(text="half a", stop="max_tokens")], project)
    assert (answer.status, answer.stop_reason, answer.output) == ("INCOMPLETE", "max_tokens", "half a")


async def test_a_context_overflow_is_incomplete_not_a_crash(project: Path) -> None:
    turn = Turn(status=400, error_type="invalid_request_error", message="prompt is too long: 1200000 tokens")
    answer, _, _ = await play([turn], project)
    assert (answer.status, answer.stop_reason) == ("INCOMPLETE", "model_context_window_exceeded")
    assert answer.error is not None
    assert (answer.error.kind, answer.cost_usd) == ("context", 0.0)


async def test_an_error_in_the_place_of_an_answer_costs_nothing(project: Path) -> None:
    """Before, one HTTP 500 made the whole task's cost unknown."""
    answer, _, _ = await play([Turn(status=500, error_type="api_error")], project)
    assert answer.error is not None
    assert (answer.error.kind, answer.cost_usd, answer.usage) == ("network", 0.0, None)


async def test_time_is_up_in_the_middle_of_a_stream(project: Path) -> None:
    answer, _, _ = await play([Turn(text="x" * 4000, pause_s=0.05)], project, timeout_s=1.5)
    assert answer.error is not None
    assert (answer.status, answer.error.kind) == ("TIMEOUT", "timeout")
    assert answer.usage is not None, "what was spent is told"


async def test_the_budget_stops_between_streamed_updates(project: Path) -> None:
    turns = [Turn(text="y" * 400_000, usage=counts(10, 100_000))]
    answer, _, _ = await play(turns, project, model="claude-sonnet-5-5", budget_usd=0.01)
    assert answer.error is not None
    assert (answer.status, answer.error.kind) == ("INCOMPLETE", "budget")
    assert answer.cost_usd is not None
    assert answer.cost_usd < 0.011


@pytest.mark.parametrize(
    ("whole", "told"),
    [(5.0, "$5.00, of which $0.01 was left"), (0.01, "$0.01"), (0.0125, "$0.0125, of which $0.01 was left")],
)
async def test_a_stop_at_the_budget_names_the_one_that_was_given(project: Path, whole: float, told: str) -> None:
    turns = [Turn(text="y" * 400_000, usage=counts(10, 100_000))]
    limits = {"budget_usd": 0.01, "whole_budget_usd": whole}
    answer, _, _ = await play(turns, project, model="claude-sonnet-5-5", **limits)
    assert answer.error is not None
    assert answer.error.message == f"stopped at the budget of {told}"


async def test_the_budget_stops_before_the_next_request(project: Path) -> None:
    turns = [Turn(calls=[call("read", path="a.txt")], usage=counts(10_000, 10)), Turn(text="never asked for")]
    answer, _, server = await play(turns, project, model="claude-sonnet-5-5", budget_usd=0.0201)
    assert answer.error is not None
    assert answer.error.kind == "budget"
    assert len(server.requests) == 1


async def test_a_small_budget_bounds_the_tokens_asked_for(project: Path) -> None:
    _, _, server = await play([Turn(text="ok")], project, model="claude-sonnet-5-5", budget_usd=0.01)
    assert server.requests[0].body["max_tokens"] == 1000


@pytest.mark.parametrize("when", ["before the first byte", "while streaming", "while a command runs"])
async def test_cancelling_ends_the_answer_in_any_state(project: Path, when: str) -> None:
    turn = {
        "before the first byte": Turn(text="late", delay_s=30),
        "while streaming": Turn(text="z" * 4000, pause_s=0.1),
        "while a command runs": Turn(calls=[call("run", command="echo $$ > pid; exec sleep 600")]),
    }[when]
    with ModelServer([turn]) as server:
        executor = make_executor("anthropic", settings(server))
        task = asyncio.create_task(executor.ask(request(project, permissions="full")))
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        if when == "while a command runs":
            while not (project / "pid").exists() or not (project / "pid").read_text().strip():
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await executor.close()
    if when == "while a command runs":
        assert not Path(f"/proc/{(project / 'pid').read_text().strip()}").exists()


async def test_a_session_goes_on_with_the_new_prompt_alone(project: Path) -> None:
    turns = [Turn(thinking="hm", text="first"), Turn(text="second"), Turn(text="afresh")]
    with ModelServer(turns) as server:
        executor = make_executor("anthropic", settings(server))
        first = await executor.ask(request(project))
        second = await executor.ask(request(project, prompt="mend it", session_ref=first.session_ref))
        other = await executor.ask(request(project, prompt="mend it", session_ref="anthropic:gone"))
        await executor.close()
    assert [message["role"] for message in server.requests[1].body["messages"]] == ["user", "assistant", "user"]
    assert server.requests[1].body["messages"][-1]["content"] == "mend it"
    assert second.extra["session_resumed"] is True
    assert other.extra["session_resumed"] is False
    assert len(server.requests[2].body["messages"]) == 1


async def test_concurrent_questions_do_not_mix(project: Path) -> None:
    def by_prompt(recorded: Any) -> Turn:
        return Turn(text=f"re: {recorded.body['messages'][0]['content']}", delay_s=0.05)

    with ModelServer(by_prompt) as server:
        executor = make_executor("anthropic", settings(server))
        answers = await asyncio.gather(*(executor.ask(request(project, prompt=f"q{n}")) for n in range(8)))
        await executor.close()
    assert [answer.output for answer in answers] == [f"re: q{n}" for n in range(8)]


async def test_without_a_key_the_answer_says_what_to_do(project: Path) -> None:
    executor = make_executor("anthropic", ExecutorSettings(environ={"HOME": str(project)}))
    answer = await executor.ask(request(project))
    assert answer.error is not None
    assert answer.error.kind == "auth"
    assert "ANTHROPIC_API_KEY" in answer.error.next_step


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(KEY + "\n")
    key_file.chmod(0o644)
    with pytest.raises(CredentialsError) as caught:
        make_executor("anthropic", ExecutorSettings(environ={}, key_file=key_file))
    assert "chmod 600" in caught.value.next_step


async def test_a_private_key_file_is_used(project: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(KEY + "\n")
    key_file.chmod(0o600)
    with ModelServer([Turn(text="hi")]) as server:
        executor = make_executor("anthropic", ExecutorSettings(environ={}, key_file=key_file, base_url=server.url))
        answer = await executor.ask(request(project))
        await executor.close()
    assert answer.status == "COMPLETE"
    assert KEY in str(server.requests[0].headers)


def test_a_base_url_that_is_no_address_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        make_executor("anthropic", ExecutorSettings(environ={"PM_API_KEY": KEY}, base_url="localhost:1"))


@pytest.mark.machine
async def test_commands_run_in_the_sandbox_where_only_the_workspace_can_be_written(project: Path) -> None:
    need_program("bwrap", how="install bubblewrap")
    outside = project.parent / "outside.txt"
    command = f"echo in > inside.txt; echo out > {outside}; ls ~ | wc -l"
    answer, _, server = await play([Turn(calls=[call("run", command=command)]), Turn(text="ok")], project)
    assert answer.status == "COMPLETE"
    assert (project / "inside.txt").read_text() == "in\n"
    assert not outside.exists()
    assert server.requests[1].body["messages"][-1]["content"][0]["content"].startswith("exit code 0")
