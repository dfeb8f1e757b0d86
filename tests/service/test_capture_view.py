"""A capture's timeline: output under its command, thoughts beside what they speak of, nothing lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.pages.capture import (
    Content,
    blobs_named,
    judged,
    plain_terminal,
    proof_of,
    timeline,
)


def event(seq: int, kind: str, payload: dict[str, Any], **context: Any) -> dict[str, Any]:
    return {
        "seq": seq,
        "event_id": f"event-{seq}",
        "ts_ms": 1000 * seq,
        "type": kind,
        "actor": {"kind": "human", "id": None},
        "context": context,
        "payload": {"extra": {}, **payload},
    }


def command(seq: int, **context: Any) -> dict[str, Any]:
    return event(seq, "terminal_command", {"command": f"command {seq}"}, **context)


def output(seq: int, **context: Any) -> dict[str, Any]:
    return event(seq, "terminal_output", {"stream": "stdout", "chunk_blob_id": f"blob-{seq}"}, **context)


def thought(seq: int, *links: int) -> dict[str, Any]:
    payload = {"kind": "plan", "content_blob_id": f"blob-{seq}", "links_to": [f"event-{at}" for at in links]}
    return event(seq, "thought", payload)


@pytest.mark.parametrize(
    ("context", "under"),
    [
        ({"parent_event_id": "event-1"}, 1),
        ({"correlation_id": "event-1"}, 1),
        ({"correlation_id": "shared"}, 1),
        ({}, 2),
        ({"parent_event_id": "on another page"}, 2),
    ],
)
def test_output_stands_under_its_command(context: dict[str, str], under: int) -> None:
    steps = timeline([command(1, correlation_id="shared"), command(2), output(3, **context)], {})
    assert [step.seq for step in steps] == [1, 2]
    assert {step.seq: len(step.parts) for step in steps} == {under: 1, 3 - under: 0}


def test_output_without_a_command_stands_for_itself() -> None:
    assert [step.title for step in timeline([output(1)], {})] == ["Output"]


def test_a_thought_stands_beside_what_it_names_else_beside_what_is_done_next() -> None:
    events = [command(1), thought(2, 1), thought(3), command(4), thought(5)]
    beside = {step.seq: [each.seq for each in step.thoughts] for step in timeline(events, {})}
    assert beside == {1: [2], 4: [3], 5: [5]}


def test_terminal_output_reads_as_it_looked() -> None:
    text = "\x1b[31mred\x1b[0m\r\n10%\r50%\r100%\n\x1b]0;title\x07a\tb\n"
    assert plain_terminal(text) == "red\n100%\na       b\n"


@given(
    st.lists(
        st.tuples(st.sampled_from(["command", "output", "thought"]), st.integers(0, 12), st.booleans()), max_size=12
    )
)
def test_every_event_of_a_page_is_shown_once(kinds: list[tuple[str, int, bool]]) -> None:
    events = []
    for seq, (kind, other, linked) in enumerate(kinds, 1):
        if kind == "command":
            events.append(command(seq))
        elif kind == "output":
            events.append(output(seq, **({"parent_event_id": f"event-{other}"} if linked else {})))
        else:
            events.append(thought(seq, *([other] if linked else [])))
    contents = {name: Content(f"text of {name}", 20) for name in blobs_named(events)}
    steps = timeline(events, contents)
    thoughts = [each.seq for step in steps for each in step.thoughts]
    alone = [step.seq for step in steps if step.kind != "thought"]
    blobs = [part.blob_id for step in steps for part in step.parts]
    assert sorted(thoughts) == [each["seq"] for each in events if each["type"] == "thought"]
    assert {f"blob-{each['seq']}" for each in events if each["type"] == "terminal_output"} == set(blobs)
    assert len(blobs) == len(set(blobs))
    assert {each["seq"] for each in events if each["type"] == "terminal_command"} <= set(alone)


@pytest.mark.parametrize("odd", [{}, {"detail": 3}, {"detail": {"proof": "x", "citations": 1, "spread": []}}])
def test_checks_of_another_version_are_read_with_care(odd: dict[str, Any]) -> None:
    proof = proof_of({"runner": "pytest", "final_passed": True, "invocations": [1], **odd})
    assert proof is not None
    assert (proof.outcome, proof.runs, proof.tests) == ("passed", (), ())
    verdict = judged({"model": "m", "rubric_version": "1", "scores": [], "overall": "4", **odd}, rationale="", seqs={})
    assert verdict is not None
    assert (verdict.overall, {score.value for score in verdict.scores}) == (None, {None})


def test_what_could_not_be_tested_is_never_called_failed() -> None:
    proof = proof_of({"runner": "pytest", "final_passed": None, "not_testable": "redacted"})
    assert proof is not None
    assert (proof.outcome, proof.tone) == ("not tested", "warn")
    assert "redaction" in proof.sentence
