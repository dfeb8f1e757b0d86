"""Events read through their typed keys: nothing is lost, nothing raises, and what a constructor wrote reads back."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
from runner.core.request import Request
from tests.runner.chunking.memory import MemoryWorld, writes
from tests.runner.chunking.memory import request as chunked_request
from tests.runner.chunking.test_engine import chain
from tests.runner.chunking.test_engine import run as run_chunked
from tests.runner.memory import Record, World, person, request, run
from tracer import drafts, events
from tracer.drafts import Draft, executor_choice
from tracer.events import encode, parse_line
from tracer.facts import (
    KINDS,
    CheckChoice,
    ChunkingPlan,
    Entry,
    FinalSummary,
    IterationEnd,
    Key,
    Limits,
    LlmRequest,
    LlmResponse,
    Part,
    QualityJudgment,
    RejectionDetails,
    SessionInterrupted,
    SessionStarted,
    SystemRules,
    UserRequest,
    entry_of,
    fact_in,
    read_fact,
)
from tracer.names import EVENT_NAMES, SESSION_EVENTS

_ROOMS = ("tracer", "runner", "collector", "service", "repl", "pm_orchestrator")
_GENERIC = {"tracer/facts.py", "tracer/events.py", "repl/present/full_fact.py"}  # full_fact shows any key
_NAMES = {"entry", "fact", "first", "last", "final", "judged", "request", "response", "answer", "judgment"}

KNOWN = sorted(
    {key._name for kind in (*KINDS.values(), *Part.__subclasses__()) for key in vars(kind).values() if type(key) is Key}
    | {"criteria_results", "dependencies", "id", "limits", "error", "thinking", "criteria"}
)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KNOWN), inner, max_size=4),
    max_leaves=8,
)
hostile = st.dictionaries(st.sampled_from([*KNOWN, "of tomorrow"]), values, max_size=8)


def read_all(holder: Entry | Part) -> Iterator[Any]:
    """Everything that can be asked of `holder`, parts within parts included."""
    for name in dir(type(holder)):
        if name.startswith("_") or callable(getattr(type(holder), name, None)):
            continue
        value = getattr(holder, name)
        yield value
        for part in value if isinstance(value, tuple) and not isinstance(value, Part) else (value,):
            if isinstance(part, Part):
                yield from read_all(part)


@pytest.mark.parametrize("event", [*EVENT_NAMES, *SESSION_EVENTS, "SOMETHING_NEW"])
@settings(max_examples=20)  # twelve events share one way of reading
@given(data=hostile)
def test_values_of_the_wrong_type_never_raise(event: str, data: dict[str, Any]) -> None:
    fact = read_fact({"event": event, "data": data})
    assert type(fact) is KINDS.get(event, Entry)
    assert list(read_all(fact))
    assert fact.data is data


@given(fields=values)
def test_any_json_is_a_fact_or_none(fields: Any) -> None:
    assert read_fact(fields) is None or isinstance(read_fact(fields), Entry)
    assert fact_in(json.dumps(fields).encode()) is None or isinstance(fields, dict)


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"[1]", b"[" * 100_000, b'{"data":[]}'])
def test_a_line_that_holds_none_is_none(line: bytes) -> None:
    assert fact_in(line) is None


@given(data=hostile, event=st.sampled_from([*EVENT_NAMES, *SESSION_EVENTS, "SOMETHING_NEW"]))
def test_every_key_survives_reading_and_writing(data: dict[str, Any], event: str) -> None:
    usable = json.loads(json.dumps(data, default=str).replace("NaN", "0").replace("Infinity", "0"))
    required = {name: kind() for name, kind in events.REQUIRED.get(event, ())}
    line = encode(entry_of("2025-01-23T10:30:00.000Z", event, "s", "task-001", _bounded({**usable, **required})))
    assert encode(parse_line(line)) == line
    assert parse_line(line)._replace(timestamp="x").__class__ is parse_line(line).__class__


def _bounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bounded(item) for item in value]
    return 0 if type(value) is int and abs(value) >= 1 << 53 else value


def rebuilt(fact: Entry) -> Draft:
    """The draft that the event's constructor makes of what its typed keys tell."""
    at: dict[str, Any] = {"iteration_index": fact.iteration_index, "subtask_id": fact.subtask_id}
    match fact:
        case UserRequest() if fact.action:
            more = {"max_iterations": fact.max_iterations, "limits": fact.limits_given or None, "into": fact.into}
            return drafts.user_answer(fact.action, fact.prompt, **more, plan=fact.plan)
        case UserRequest():
            return Request.of(fact).draft()
        case SystemRules():
            return drafts.system_rules(rules=fact.rules, sha256=fact.sha256)
        case ChunkingPlan():
            told = (("proposed", fact.proposed), ("done", list(fact.done)), ("base", fact.base))
            more = {key: value for key, value in (*told, ("isolation", fact.isolation), ("why", fact.why)) if value}
            subtasks = [item.data for item in fact.subtasks]
            return drafts.chunking_plan(subtasks=subtasks, reason=fact.reason, mode=fact.mode, **more)
        case LlmRequest():
            return drafts.llm_request(
                fact.prompt,
                attempt=fact.attempt or 0,
                executor=fact.executor or None,
                model=fact.model or None,
                base=fact.base,
                purpose=fact.purpose,
                waited_ms=fact.waited_ms or 0,
                **at,
            )
        case LlmResponse():
            return drafts.llm_response(
                extra={},
                output=fact.output,
                status=fact.status,
                files_modified=list(fact.files_modified),
                usage=fact.usage.data if fact.usage else None,
                cost_usd=fact.cost_usd,
                duration_ms=fact.duration_ms or 0,
                session_ref=fact.session_ref,
                agentic_trace=fact.agentic_trace,
                diff_blob=fact.diff_blob,
                error=fact.error.data if fact.error else None,
                model=fact.model or None,
                stop_reason=fact.stop_reason,
                report=fact.report.data if fact.report else None,
                **at,
            )
        case SessionStarted():
            return drafts.session_started(fact.session_ref, **at)
        case SessionInterrupted():
            usage = fact.usage.data if fact.usage else None
            told = {"session_ref": fact.session_ref, "agentic_trace": fact.agentic_trace, "usage": usage}
            return drafts.session_interrupted({**told, "cost_usd": fact.cost_usd}, **at)
        case QualityJudgment():
            results = [result.data for result in fact.criteria_results]
            timed = {} if fact.duration_ms is None else {"duration_ms": fact.duration_ms}
            return drafts.quality_judgment(
                fact.judgment,
                results,
                fact.summary,
                **({"issues": [issue.data for issue in fact.issues]} if "issues" in fact.data else {}),
                **timed,
                whole=fact.whole,
                notes=list(fact.notes),
                question=dict(fact.asked.data) if fact.asked else None,
                conflict=list(fact.conflict),
                conflict_text=fact.conflict_text,
                **at,
            )
        case RejectionDetails():
            return drafts.rejection_details(fact.criteria_failed, fact.modification_prompt, **at)
        case IterationEnd():
            return drafts.iteration_end(fact.judgment, **at, merged=fact.data.get("merged"))
        case FinalSummary():
            return drafts.final_summary(
                status=fact.status,
                total_iterations=fact.total_iterations or 0,
                files_modified=list(fact.files_modified),
                usage=fact.usage.data if fact.usage else None,
                cost_usd=fact.cost_usd,
                duration_ms=fact.duration_ms or 0,
                reason=fact.reason,
                diff_blob=fact.diff_blob,
                verification=fact.verification,
                unverified=fact.not_verified,
                detail=fact.detail,
                subtasks=[item.data for item in fact.subtasks],
                branch=fact.branch,
            )
    raise AssertionError(fact)


async def _records() -> list[Entry]:
    """What tasks of every shape record: rejected, answered by the user, split, in conflict, without an answer."""
    from runner.executors.executor_port import Answer, AnswerError

    failed = Answer(output="", status="ERROR", error=AnswerError(kind="network", message="no route"))
    good = Answer(output="done", status="COMPLETE", cost_usd=0.5, session_ref="ref", model="m", stop_reason="end")
    one = Record([request(max_iterations=1, on_limit="ask")])
    await run(one, World([failed, good], ["REJECT", "PASS"]))
    one.entries.append(person("continue", max_iterations=3))
    await run(one, World([good, failed], ["REJECT", "PASS"]))
    many = Record([chunked_request(chain([], [], [1]), limits={"max_iterations": 1})])
    await run_chunked(many, MemoryWorld(writes, reject=lambda step: "no" if step.subtask_id else ""))
    fine = Record([chunked_request(chain([], [1]), into="b")])
    await run_chunked(fine, MemoryWorld(writes))
    stopped, world = Record([request()]), World([good], ["PASS"])
    world.dies, world.lost = True, {"usage": {"input_tokens": 1}, "cost_usd": None}
    with pytest.raises(asyncio.CancelledError):
        await run(stopped, world)
    return [*one.entries, *many.entries, *fine.entries, *stopped.entries]


async def test_what_is_recorded_is_constructed_again_byte_by_byte() -> None:
    recorded = await _records()
    assert {entry.event for entry in recorded} == {*EVENT_NAMES, *SESSION_EVENTS}
    for fact in recorded:
        if isinstance(fact, UserRequest) and not fact.action:
            continue  # the tests' own short requests: the next test has whole ones
        assert json.dumps(rebuilt(fact).data) == json.dumps(fact.data), fact.event
        assert rebuilt(fact)[:1] + rebuilt(fact)[2:] == (fact.event, fact.iteration_index, fact.subtask_id)


@given(
    limits=st.builds(
        Limits,
        max_iterations=st.integers(0, 9),
        timeout_s=st.none() | st.floats(0, 1e6),
        on_limit=st.sampled_from(["ask", "fail"]),
        parallel=st.integers(1, 9),
        budget_usd=st.none() | st.floats(0, 1e6),
        max_retries=st.integers(0, 9),
        max_overload_retries=st.integers(0, 9),
        max_attempts=st.integers(0, 9),
    ),
    executor=st.builds(
        executor_choice,
        st.text(max_size=5),
        model=st.none() | st.text(max_size=5),
        fallback=st.lists(st.text(max_size=5), max_size=2),
        thinking=st.booleans(),
    ),
    checks=st.builds(CheckChoice, hostile),
    plan=st.none() | st.fixed_dictionaries({"subtasks": st.just([])}),
    partial=st.booleans(),
    into=st.text(max_size=5),
)
def test_a_request_is_the_same_from_the_command_line_to_the_record_and_back(**given_fields: Any) -> None:
    asked = Request(prompt="Add a\nb", workspace="/w", title="Add", kind="question", chunk="auto", **given_fields)
    draft = asked.draft()
    fact = entry_of("", draft.event, "", "", draft.data)
    assert isinstance(fact, UserRequest)
    assert Request.of(fact) == asked
    assert Request.of(fact).draft() == draft


def test_nobody_but_the_typed_readers_opens_the_data_of_an_event() -> None:
    root = Path(tracer.__file__).parents[1]
    found = [
        f"{path.relative_to(root)}:{line}"
        for room in _ROOMS
        for path in sorted((root / room).rglob("*.py"))
        if str(path.relative_to(root)) not in _GENERIC
        for line in _openings(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code", ["entry.data['status']", "entry.data.get('x')", "'x' in fact.data", "data = entry.data", "a.b.data['x']"]
)
def test_the_rule_finds_each_way_to_open_it(code: str) -> None:
    assert list(_openings(code)) == [1]


def _openings(code: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Subscript(value=ast.Attribute(attr="data"), slice=ast.Constant(value=str())):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="data"), attr="get")):
                yield node.lineno
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute(attr="data")]):
                yield node.lineno
            case ast.Assign(value=ast.Attribute(value=ast.Name(id=name), attr="data")) if name in _NAMES:
                yield node.lineno
