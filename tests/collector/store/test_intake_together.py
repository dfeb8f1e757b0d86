"""Batches prepared in one pass are what they would be alone; plain dicts keep every rule and default of the models."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from collector.collector import Together
from collector.config import IntakeLimits
from collector.errors import IntakeError
from collector.intake.parse import checked_events, parse_events
from collector.intake.prepare import Asked, IntakeRules, prepare_one, prepare_together
from collector.intake.redact_code import TraceMap
from collector.intake.redactors import CaptureRedactors
from tests.collector.store.samples import KEY, sent, uid
from tests.collector.store.test_intake import PLAIN, RAW, REDACTED, SECRET
from tracer.capture.events import PAYLOADS, Event
from tracer.errors import PmError
from tracer.redaction.engine import build_redactor

MODELS: TypeAdapter[list[Any]] = TypeAdapter(list[Event])
RULES = (REDACTED, RAW, IntakeRules(store="patches_only", key=KEY), IntakeRules(key=KEY))
TEXTS = ("1 failed\n", f"key {SECRET}\n", SECRET[:20], SECRET[20:], "/home/alice/shop/a.py: 3\n")


@pytest.fixture(scope="module")
def redactor(tmp_path_factory):
    return build_redactor(state_dir=tmp_path_factory.mktemp("state"), environ={}, persons=(), host="")


def asked(events: list[dict[str, Any]], rules: IntakeRules, redactor) -> Asked:
    batch = parse_events(orjson.dumps({"events": events}), key=KEY, limits=IntakeLimits())
    return Asked(batch, rules, {}, TraceMap(redactor) if rules.redacting else None)


def output(seq: int, text: str, root: str | None) -> dict[str, Any]:
    return {
        **sent(seq, of="terminal_output", stream="stdout", chunk=text),
        "context": {"workspace_root": root, "correlation_id": uid(1)},  # the same stream in every trace
    }


batches = st.lists(
    st.tuples(
        st.sampled_from(RULES),
        st.lists(
            st.builds(output, st.just(1), st.sampled_from(TEXTS), st.sampled_from([None, "/home/alice/shop", "/srv/x"]))
            | st.sampled_from(sorted(PLAIN)).map(lambda kind: sent(2, of=kind, **PLAIN[kind]))
            # a blob that nobody uploaded: this batch is refused, the others are not
            | st.just(sent(3, of="thought", kind="plan", content_blob_id="sha256:" + "a" * 64)),
            max_size=4,
        ),
    ),
    max_size=5,
)


def told(outcome: object) -> object:
    return str(outcome) if isinstance(outcome, PmError) else outcome


@given(batches)
def test_batches_prepared_together_are_what_they_are_alone(redactor, given_batches):
    alone = []
    for rules, events in given_batches:
        try:
            alone.append(prepare_one(asked(events, rules, redactor), redactors=CaptureRedactors(redactor)))
        except IntakeError as error:
            alone.append(str(error))
    fresh = [asked(events, rules, redactor) for rules, events in given_batches]
    together = prepare_together(fresh, redactors=CaptureRedactors(redactor))
    assert [told(each) for each in together] == alone


def test_pieces_of_two_traces_are_never_one_text(redactor):
    pieces = (SECRET[:12], SECRET[12:])
    one = [output(seq, piece, "/srv/x") for seq, piece in enumerate(pieces, 1)]
    whole = prepare_one(asked(one, REDACTED, redactor), redactors=CaptureRedactors(redactor))
    assert b"[REDACTED:" in whole.blobs[0].data  # in one trace they are
    apart = [asked([output(1, piece, "/srv/x")], REDACTED, redactor) for piece in pieces]
    stored = prepare_together(apart, redactors=CaptureRedactors(redactor))
    assert [batch.blobs[0].data.decode() for batch in stored] == list(pieces)


async def test_batches_that_wait_together_fail_alone(redactor, monkeypatch):
    together = Together(CaptureRedactors(redactor))
    refused = [sent(1, of="thought", kind="plan", content_blob_id="sha256:" + "a" * 64)]
    broken = asked([sent(1)], REDACTED, redactor)._replace(trace_map=object())  # a fault of ours, in one of them
    given_batches = [asked([sent(1)], RAW, redactor), asked(refused, RAW, redactor), broken, asked([], RAW, redactor)]
    good, bad, fault, empty = await asyncio.gather(
        *(together.prepare(each, size=10, alone=False) for each in given_batches), return_exceptions=True
    )
    assert [event.seq for event in good.events] == [1]
    assert isinstance(bad, IntakeError)
    assert isinstance(fault, AttributeError)
    assert empty.events == ()


async def test_a_fault_in_one_batch_changes_nothing_of_those_prepared_before_it(redactor):
    given_batch = [sent(1, of="error", message=f"key {SECRET} " + "long " * 10_000), sent(2, **PLAIN["navigation"])]
    alone = prepare_one(asked(given_batch, REDACTED, redactor), redactors=CaptureRedactors(redactor))
    together = Together(CaptureRedactors(redactor))
    broken = asked([sent(1)], REDACTED, redactor)._replace(trace_map=object())
    good, fault = await asyncio.gather(
        *(together.prepare(each, size=10, alone=False) for each in (asked(given_batch, REDACTED, redactor), broken)),
        return_exceptions=True,
    )
    assert isinstance(fault, AttributeError)
    assert good == alone
    assert len(good.blobs) == 1


async def test_a_caller_that_went_away_leaves_the_others_alone(redactor):
    together = Together(CaptureRedactors(redactor))
    gone, stays = (
        asyncio.create_task(together.prepare(asked([sent(1)], RAW, redactor), size=300_000, alone=False))
        for _each in range(2)
    )
    await asyncio.sleep(0)
    gone.cancel()
    assert [event.seq for event in (await stays).events] == [1]


values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
oddities = st.one_of(values, st.lists(values, max_size=2), st.dictionaries(st.text(), values, max_size=2))


@st.composite
def sent_events(draw) -> dict[str, Any]:
    """An event as it may come, mostly right, with a key or two changed, added or gone."""
    kind = draw(st.sampled_from(sorted(PLAIN)))
    made = sent(draw(st.integers(0, 9)), of=kind, **PLAIN[kind])
    for name in [name for name in made["payload"] if f"{name}_blob_id" in PAYLOADS[kind].model_fields]:
        del made["payload"][name]
        made["payload"][f"{name}_blob_id"] = "sha256:" + "b" * 64
    for part in draw(st.lists(st.sampled_from(["", "actor", "context", "payload"]), max_size=2)):
        inner = made.get(part) if part else made  # it may be gone by now
        if isinstance(inner, dict):
            name = draw(st.sampled_from([*inner, "extra", "strange", "parent_event_id", "selection"]))
            if draw(st.booleans()):
                inner.pop(name, None)
            else:
                inner[name] = draw(oddities)
    return made


def outcome(check, events) -> Any:
    try:
        return [each if isinstance(each, dict) else each.model_dump() for each in check(events)]
    except ValidationError as error:
        return error.errors(include_url=False)


@given(st.lists(sent_events(), max_size=3))
def test_plain_dicts_are_what_the_models_are(events):
    assert outcome(checked_events, events) == outcome(MODELS.validate_python, events)
