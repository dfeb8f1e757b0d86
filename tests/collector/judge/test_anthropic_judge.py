"""The judge's Anthropic adapter against a loopback server that speaks the Messages API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from collector.judge.models import AnthropicJudgeModel
from collector.judge.port import JudgeBusyError, JudgeResult
from collector.judge.rubric_judge import RubricJudge
from runner.executors.credentials import ApiKey
from tests.collector.judge.rigs import a_packet, a_reply
from tests.support.model_server import ModelServer, Turn
from tracer.errors import ConfigError, CredentialsError, UnavailableError

KEY = ApiKey("sk-ant-test-0123456789", "ANTHROPIC_API_KEY")
GOOD = json.dumps(a_reply(4))


async def judged(
    turns: Sequence[Turn], *, model: str = "claude-fable-5-2", votes: int = 1, timeout_s: float = 30
) -> tuple[JudgeResult, ModelServer]:
    with ModelServer(turns, sides=False) as server:
        adapter = AnthropicJudgeModel(model=model, key=KEY, base_url=server.url, timeout_s=timeout_s)
        judge = RubricJudge(adapter, votes=votes)
        try:
            return await judge.judge(a_packet()), server
        finally:
            await judge.close()


async def test_the_packet_is_sent_with_a_schema_and_no_sampling_parameter() -> None:
    result, server = await judged([Turn(text=GOOD)])
    assert (result.overall, result.flags, result.model) == (4.0, (), "claude-fable-5-2")
    body = server.requests[0].body
    assert body["messages"] == [{"role": "user", "content": a_packet().text}]
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["output_config"]["format"]["schema"]["required"][0] == "root_cause_identification"
    assert not {"temperature", "top_p", "top_k", "thread", "tools"} & set(body)
    assert body["thinking"] == {"type": "adaptive", "display": "omitted"}


async def test_what_was_sent_and_what_came_is_kept_without_the_key() -> None:
    result, server = await judged([Turn(text=GOOD)])
    sent = json.loads(result.exchanges[0].request)
    arrived: dict[str, Any] = dict(server.requests[0].body)
    arrived.pop("stream")
    assert sent == arrived
    assert json.loads(result.exchanges[0].response)["content"][0]["text"] == GOOD
    assert KEY.value.encode() not in result.exchanges[0].request + result.exchanges[0].response
    assert KEY.value in server.requests[0].headers.get("authorization", "") + server.requests[0].headers.get(
        "x-api-key", ""
    )


async def test_a_repair_is_one_conversation_with_the_refused_answer_in_it() -> None:
    result, server = await judged([Turn(text="five!"), Turn(text=GOOD)])
    assert result.overall == 4.0
    told = server.requests[1].body["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "user"]
    assert told[1]["content"] == "five!"
    assert "cannot be used" in told[2]["content"]


async def test_a_refusal_of_the_model_is_flagged() -> None:
    result, server = await judged([Turn(refusal="not this")])
    assert (result.flags, result.overall, len(server.requests)) == (("judge_refused",), None, 1)


async def test_an_answer_cut_at_max_tokens_is_repaired_once_then_unparsed() -> None:
    result, server = await judged([Turn(text=GOOD, stop="max_tokens"), Turn(text=GOOD, stop="max_tokens")])
    assert (result.flags, result.overall, len(server.requests)) == (("judge_unparsed",), None, 2)


@pytest.mark.parametrize(
    ("turn", "wait"),
    [
        (Turn(status=429, error_type="rate_limit_error", headers={"retry-after": "7"}), 7.0),
        (Turn(status=529, error_type="overloaded_error"), None),
        (Turn(status=500), None),
        (Turn(text="half", error_in_stream=True, error_type="overloaded_error"), None),
        (Turn(text=GOOD, cut=True), None),
    ],
)
async def test_trouble_that_passes_is_worth_another_try(turn: Turn, wait: float | None) -> None:
    with pytest.raises(JudgeBusyError) as caught:
        await judged([turn])
    assert caught.value.retry_after_s == wait


async def test_a_slow_model_is_given_up_on_after_the_time_limit() -> None:
    with pytest.raises(JudgeBusyError, match=r"within 0\.2 s"):
        await judged([Turn(text=GOOD, delay_s=5)], timeout_s=0.2)


async def test_a_refused_key_and_an_unknown_model_are_not_worth_another_try() -> None:
    with pytest.raises(CredentialsError) as refused:
        await judged([Turn(status=401, error_type="authentication_error", message=f"bad key {KEY.value}")])
    assert KEY.value not in refused.value.why
    with pytest.raises(UnavailableError) as unknown:
        await judged([Turn(status=404, error_type="not_found_error")])
    assert not isinstance(unknown.value, JudgeBusyError)


async def test_without_a_key_nothing_is_sent() -> None:
    with ModelServer([]) as server:
        adapter = AnthropicJudgeModel(model="m", key=None, base_url=server.url)
        with pytest.raises(CredentialsError):
            await RubricJudge(adapter).judge(a_packet())
        assert not server.requests


async def test_votes_are_separate_requests_of_the_same_packet() -> None:
    result, server = await judged([Turn(text=json.dumps(a_reply(score))) for score in (1, 3, 5)], votes=3)
    assert (result.overall, result.spread["clarity"]) == (3.0, 4.0)
    assert len({json.dumps(request.body, sort_keys=True) for request in server.requests}) == 1


async def test_one_failed_vote_fails_the_whole_as_itself() -> None:
    with pytest.raises(JudgeBusyError):
        await judged([Turn(text=GOOD), Turn(status=529), Turn(text=GOOD)], votes=3)


def test_an_address_that_is_no_http_is_refused() -> None:
    with pytest.raises(ConfigError):
        AnthropicJudgeModel(model="m", key=KEY, base_url="file:///etc/passwd")
