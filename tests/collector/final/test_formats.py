"""The training formats, each held to its published schema or models."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.schemas import Schemas
from pydantic import TypeAdapter

from tests.collector.final.sessions import Session, bug_fix
from tests.support.tools import need
from tracer.capture.events import Event
from tracer.clock import from_epoch_ms
from tracer.export.atif import atif_pieces
from tracer.export.chat import chat_pieces
from tracer.export.otlp import SCHEMA_URL, otlp_pieces
from tracer.export.pieces import Piece, written
from tracer.export.steps import Action, ExportedTrace, Steps, Trouble

ATIF_SCHEMA = json.loads((Path(__file__).parent / "data" / "atif-v1.8.schema.json").read_text())
QA = {
    "schema_valid": True,
    "tests": {"runner": "pytest", "final_passed": True},
    "judge": {
        "model": "judge-1",
        "rubric_version": "1.0",
        "scores": {"clarity": 4.0, "plan_quality": 5.0},
        "overall": 4.5,
        "flags": [],
    },
}


def exported(session: Session) -> ExportedTrace:
    document = session.model()

    async def read(blob_id: str) -> str | None:
        data = session.blobs.get(blob_id)
        return None if data is None else data.decode("utf-8", "replace")

    async def events() -> AsyncIterator[Event]:
        for event in document.events:
            yield event

    return ExportedTrace(
        trace_id=document.trace_id,
        created_at_ms=document.created_at_ms,
        finalized_at_ms=document.finalized_at_ms,
        repo=document.repo,
        task=document.task,
        developer=document.developer,
        environment=document.environment,
        ingestion=document.ingestion,
        qa=document.qa,
        steps=Steps(events, read),
    )


async def steps_of(trace: ExportedTrace) -> list[Action | Trouble]:
    return [item async for item in trace.steps]


async def whole(pieces: AsyncIterator[Piece]) -> Any:
    return json.loads(b"".join([written(piece) async for piece in pieces]))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = bug_fix(tmp_path / "repo")
    session.qa = QA
    session.event("error", {"message": "the debugger died", "source": "ide", "detail_blob_id": None}, "tool")
    session.think("Ask for a test of empty carts too", "postmortem")
    return session


async def test_thoughts_stand_before_the_act_they_led_to_and_outputs_with_their_command(session: Session) -> None:
    trace = exported(session)
    steps, items = trace.steps, await steps_of(trace)
    command = next(item for item in items if isinstance(item, Action) and item.tool == "run_command")
    edit = next(item for item in items if isinstance(item, Action) and item.tool == "edit_file")
    assert command.result == "E  assert 5 == 6\n1 failed\n"
    assert [thought.text for thought in edit.thoughts] == ["sum() is right, the '- 1' is not"]
    assert "+    return sum(items)" in edit.arguments["patch"]
    assert [item.text for item in items if isinstance(item, Trouble)] == ["ide: the debugger died"]
    assert [thought.kind for thought in steps.after] == ["postmortem"]
    assert steps.snapshots == 2


async def test_outputs_of_two_commands_at_once_are_kept_apart(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a": b"1\n"})
    one, two = session.command("first"), session.command("second")
    for parent, text in ((one, b"1a"), (two, b"2a"), (one, b"1b")):
        payload = {"stream": "stdout", "chunk_blob_id": session.put(text), "is_truncated": False}
        session.event("terminal_output", payload, "tool")
        session.events[-1]["context"]["parent_event_id"] = parent
    results = [item.result for item in await steps_of(exported(session)) if isinstance(item, Action)]
    assert results == ["1a1b", "2a"]


def _atif_rules(trajectory: dict[str, Any]) -> None:
    """The rules of ATIF that its JSON Schema cannot say."""
    for number, step in enumerate(trajectory["steps"], 1):
        assert step["step_id"] == number
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        for result in step.get("observation", {}).get("results", ()):
            assert result["source_call_id"] in calls
        if step["source"] != "agent":
            assert not {"tool_calls", "reasoning_content", "metrics", "model_name"} & step.keys()


async def test_atif_follows_its_schema_and_the_rules_beside_it(session: Session) -> None:
    trajectory = await whole(atif_pieces(exported(session)))
    jsonschema.validate(trajectory, ATIF_SCHEMA)
    _atif_rules(trajectory)
    assert trajectory["steps"][0]["source"] == "user"
    assert {step["source"] for step in trajectory["steps"]} == {"user", "system", "agent"}
    assert trajectory["extra"]["overall"] == 4.5


async def test_the_schema_of_atif_refuses_what_is_not_atif(session: Session) -> None:
    trajectory = await whole(atif_pieces(exported(session)))
    trajectory["steps"][1]["tool_calls"][0]["name"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(trajectory, ATIF_SCHEMA)


def _chat_models() -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    """The chat API's own types for messages and tools."""
    need(find_spec("openai"), "openai", how="pip install openai")
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

    return TypeAdapter(list[ChatCompletionMessageParam]), TypeAdapter(list[ChatCompletionToolParam])


async def test_chat_rows_are_messages_and_tools_of_the_chat_api(session: Session) -> None:
    message_model, tool_model = _chat_models()
    row = await whole(chat_pieces(exported(session)))
    messages = message_model.validate_python(row["messages"])
    tool_model.validate_python(row["tools"])
    assert len(messages) == len(row["messages"])
    asked: set[str] = set()
    for before, message in zip([None, *row["messages"]], row["messages"], strict=False):
        if message["role"] == "tool":
            assert before is not None
            assert before["tool_calls"][0]["id"] == message["tool_call_id"]
        for call in message.get("tool_calls") or ():
            assert call["function"]["name"] in {tool["function"]["name"] for tool in row["tools"]}
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            asked.add(call["id"])
    assert asked


def _as_protobuf_json(request: dict[str, Any]) -> dict[str, Any]:
    """OTLP/JSON writes ids as hexadecimal digits, protobuf's own JSON as base64: the one difference between them."""

    def turned(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: turned(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [turned(inner, key) for inner in value]
        if key in {"traceId", "spanId", "parentSpanId"}:
            return base64.b64encode(bytes.fromhex(value)).decode()
        return value

    return turned(request)


async def test_otlp_is_a_request_of_the_protocol_with_the_names_of_the_conventions(session: Session) -> None:
    request = json_format.ParseDict(
        _as_protobuf_json(await whole(otlp_pieces(exported(session)))), ExportTraceServiceRequest()
    )
    (scoped,) = request.resource_spans[0].scope_spans
    root, *acts = scoped.spans
    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    named = {attribute.key for span in scoped.spans for attribute in span.attributes}
    named |= {attribute.key for span in scoped.spans for event in span.events for attribute in event.attributes}
    assert {name for name in named if name.startswith("gen_ai.")} <= known
    assert scoped.schema_url == SCHEMA_URL
    assert SCHEMA_URL in {each.value for each in Schemas}
    assert all(act.parent_span_id == root.span_id and act.trace_id == root.trace_id for act in acts)
    assert all(len(span.span_id) == 8 and len(span.trace_id) == 16 for span in scoped.spans)
    assert len({span.span_id for span in scoped.spans}) == len(scoped.spans)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in scoped.spans)
    assert {span.name.split()[0] for span in acts} == {"execute_tool"}
    scores = [event for event in root.events if event.name == "gen_ai.evaluation.result"]
    assert len(scores) == 3


async def test_a_second_export_gives_the_same_bytes(session: Session) -> None:
    for form in (atif_pieces, chat_pieces, otlp_pieces):
        one, two = [json.dumps(await whole(form(exported(session)))) for _ in range(2)]
        assert one == two


async def test_a_session_without_a_single_act_is_exported_too(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a": b"1\n"})
    jsonschema.validate(await whole(atif_pieces(exported(session))), ATIF_SCHEMA)
    row = await whole(chat_pieces(exported(session)))
    _chat_models()[0].validate_python(row["messages"])
    request = await whole(otlp_pieces(exported(session)))
    json_format.ParseDict(_as_protobuf_json(request), ExportTraceServiceRequest())


async def test_what_an_editor_tells_while_its_command_runs_is_in_every_format(tmp_path: Path) -> None:
    session = Session(tmp_path / "in-an-editor", "in-an-editor").begin({"a.py": b"x = 1\n"})
    told = session.event("terminal_command", {"cwd": "", "command": "nvim", "shell": "bash", "env_hash": None})
    at = {"file_path": "a.py", "line": 1}
    session.event("navigation", {"kind": "open", "query": None, **at}, "ide")
    session.events[-1]["context"]["correlation_id"] = told
    session.event("debug_action", {"action": "breakpoint", "expression": None, "value_blob_id": None, **at}, "ide")
    session.events[-1]["context"]["correlation_id"] = told
    for pieces in (chat_pieces, atif_pieces, otlp_pieces):
        text = json.dumps(await whole(pieces(exported(session))))
        assert (text.count("navigate"), text.count("breakpoint")) >= (1, 1), pieces


async def test_no_action_stands_twice_and_no_result_is_empty(tmp_path: Path) -> None:
    session = Session(tmp_path / "again", "again").begin({"a.py": b"x = 1\n"})
    told = session.event("terminal_command", {"cwd": "", "command": "pytest", "shell": "bash", "env_hash": None})
    run = {"command": "pytest", "runner": "pytest", "exit_code": 1, "duration_ms": 5, "passed": False}
    session.event("test_run", {**run, "report_blob_id": None}, "tool")
    session.events[-1]["context"]["parent_event_id"] = told
    session.event("navigation", {"kind": "open", "file_path": "a.py", "line": None, "query": None})
    session.events[-1]["context"]["correlation_id"] = told
    session.event("test_run", {**run, "command": "in the IDE", "report_blob_id": None}, "ide")
    session.edit("a.py", b"x = 2\n")
    row = await whole(chat_pieces(exported(session)))
    calls = [each["tool_calls"][0]["function"]["name"] for each in row["messages"] if each.get("tool_calls")]
    assert calls == ["run_tests", "run_tests", "edit_file"]
    assert [each["content"].strip() for each in row["messages"] if each["role"] == "tool"] == [
        "failed, exit code 1, 5 ms",
        "failed, exit code 1, 5 ms",
        "applied",
    ]
    steps = (await whole(atif_pieces(exported(session))))["steps"]
    assert [step["timestamp"] for step in steps[:2]] == [steps[1]["timestamp"]] * 2, "it begins with the session"
    assert len(steps) == 4


async def test_a_commit_stands_once_where_its_command_says_the_message(tmp_path: Path) -> None:
    session = Session(tmp_path / "commits", "commits").begin({"a.py": b"x = 1\n"})
    for command, message in (("git commit -am 'Count from 0'", "Count from 0"), ("git commit", "Written in an editor")):
        told = session.event("terminal_command", {"cwd": "", "command": command, "shell": "bash", "env_hash": None})
        session.event("commit", {"commit_sha": "0" * 40, "parent_sha": None, "message": message, "diff_blob_id": None})
        session.events[-1]["context"]["correlation_id"] = told
    row = await whole(chat_pieces(exported(session)))
    calls = [each["tool_calls"][0]["function"] for each in row["messages"] if each.get("tool_calls")]
    assert [call["name"] for call in calls] == ["run_command", "run_command", "commit"]
    assert json.loads(calls[-1]["arguments"])["message"] == "Written in an editor"


def by_command(session: Session, command: str, after: bytes, *, late_ms: int = 0) -> None:
    """A command that prints a word and changes `a.py`."""
    told = session.command(command, b"done")
    session.edit("a.py", after)
    session.events[-1]["actor"] = {"kind": "tool", "id": command.split(maxsplit=1)[0]}
    session.events[-1]["context"]["correlation_id"] = told
    for each in session.events[-1:] if late_ms else ():
        each["ts_ms"] += late_ms


async def test_what_a_command_changed_is_its_effect_and_no_edit_of_its_own(tmp_path: Path) -> None:
    session = Session(tmp_path / "effects", "effects").begin({"a.py": b"x = 1\n"})
    by_command(session, "sed -i s/1/2/ a.py", b"x = 2\n")
    by_command(session, "[not recorded: typed with a leading space]", b"x = 3\n")
    by_command(session, "npm run dev", b"x = 4\n", late_ms=61_000)
    session.edit("a.py", b"x = 5\n")
    acts = [each for each in await steps_of(exported(session)) if isinstance(each, Action)]
    edited = [each.arguments.get("command") or each.arguments["patch"].rpartition("\n+")[2].strip() for each in acts]
    assert [each.tool for each in acts if each.tool == "edit_file"] == ["edit_file"] * 3
    assert edited == [
        "sed -i s/1/2/ a.py",
        "[not recorded: typed with a leading space]",
        "x = 3",
        "npm run dev",
        "x = 4",
        "x = 5",
    ]
    assert acts[0].result is not None
    assert acts[0].result.startswith("done\n[changed: a.py]\n")
    assert acts[0].result.endswith("-x = 1\n+x = 2\n")
    assert [each.result for each in acts if each.arguments.get("command") == "npm run dev"] == ["done"]


async def test_the_steps_of_atif_stand_as_recorded_and_none_goes_back_in_time(tmp_path: Path) -> None:
    """A clock was set back by an hour, an editor's thought came late, and later all is right again."""
    session = bug_fix(tmp_path / "clock", "clock")
    began_ms = session.events[0]["ts_ms"]
    for event in session.events[3:7]:
        event["ts_ms"] -= 3_600_000
    session.think("late")
    session.events[-1]["ts_ms"] = 5
    steps = (await whole(atif_pieces(exported(session))))["steps"]
    order = [step["extra"]["seq"] for step in steps if "extra" in step]
    assert order == sorted(order)
    times = [step["timestamp"] for step in steps]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (from_epoch_ms(began_ms), times[-2])
    assert len(set(times)) > 3, "a time that does not go back stays as it is"
