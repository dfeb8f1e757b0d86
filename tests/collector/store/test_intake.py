"""What the intake refuses, with its place, and what it makes of what it takes."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.config import MAX_DEPTH, SPILL, IntakeLimits
from collector.errors import IntakeError, TooLargeError
from collector.intake.metadata import parse_end, prepare_blob, prepare_create, prepare_end
from collector.intake.parse import parse_events
from collector.intake.prepare import TEXTS, Asked, IntakeRules, keyed_hash, prepare_one
from collector.intake.redactors import CaptureRedactors
from collector.store.port import BlobRow
from tests.collector.store.samples import KEY, metadata, sent, uid
from tracer.blobs import blob_id_of
from tracer.capture.document import TraceDocument
from tracer.capture.events import PAYLOADS, blob_fields
from tracer.redaction.engine import build_redactor

SECRET = "sk-ant-api03-" + "AbC9dEf2gHi5jKl8" * 2
RAW = IntakeRules(store="raw", store_raw_code=True, store_terminal_output=True, key=KEY)
REDACTED = IntakeRules(store_raw_code=True, store_terminal_output=True, key=KEY)
PLAIN: dict[str, dict[str, Any]] = {
    "file_edit": {"file_path": "src/a.py", "edit_kind": "patch", "patch": "--- a\n+++ b\n"},
    "file_snapshot": {"file_path": "src/a.py", "content": "x = 1\n", "snapshot_reason": "pre_test"},
    "terminal_command": {"cwd": "/home/alice/shop", "command": "pytest -q", "shell": "bash"},
    "terminal_output": {"stream": "stdout", "chunk": "1 failed\n"},
    "test_run": {"command": "pytest", "runner": "pytest", "exit_code": 1, "duration_ms": 5, "passed": False},
    "debug_action": {"action": "inspect", "file_path": "src/a.py", "line": 3, "expression": "x", "value": "1"},
    "navigation": {"kind": "search", "query": "total"},
    "thought": {"content": "it adds the tax twice", "kind": "hypothesis", "links_to": [uid(5).upper()]},
    "commit": {"commit_sha": "b" * 40, "message": "Fix", "diff": "--- a\n+++ b\n"},
    "pr_metadata": {"title": "Fix totals", "description": None, "url": "https://example.org/1"},
    "error": {"message": "lost the editor", "detail": "Traceback"},
}


@pytest.fixture(scope="module")
def redactors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    return CaptureRedactors(build_redactor(state_dir=folder, environ={}, persons=(), host=""))


def prepare_events(raw, *, rules, redactors, resolved=None, trace_map=None):
    batch = parse_events(raw, key=rules.key, limits=rules.limits)
    return prepare_one(Asked(batch, rules, resolved or {}, trace_map), redactors=redactors)


def prepared(events, redactors, rules=REDACTED, **options):
    return prepare_events(orjson.dumps({"events": events}), rules=rules, redactors=redactors, **options)


def payload_of(stored) -> dict[str, Any]:
    return orjson.loads(stored.payload)


def refused(body: bytes | list[Any], redactors, rules=REDACTED, **options) -> IntakeError:
    raw = body if isinstance(body, bytes) else orjson.dumps({"events": body})
    with pytest.raises(IntakeError) as caught:
        prepare_events(raw, rules=rules, redactors=redactors, **options)
    return caught.value


# -- shape


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_type_is_taken_and_its_stored_form_fits_the_published_schema(kind, redactors):
    batch = prepared([sent(1, of=kind, **PLAIN[kind])], redactors)
    body = orjson.loads(batch.events[0].body)
    document = {
        "trace_version": "1.0",
        "trace_id": uid(1),
        "created_at_ms": 1,
        **{name: metadata()[name] for name in ("repo", "task", "developer", "environment", "ingestion")},
        "events": [body],
    }
    TraceDocument.model_validate(document)
    assert set(body["payload"]) == set(PAYLOADS[kind].model_fields)
    assert batch.events[0].body == orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_free_text_of_a_payload_is_looked_through(kind):
    schema = PAYLOADS[kind].model_json_schema()["properties"]
    texts = set()
    for name, field in schema.items():
        shapes = field.get("anyOf", [field])
        if any(s.get("type") == "string" and not {"pattern", "enum", "const"} & s.keys() for s in shapes):
            texts.add(name)
    assert set(TEXTS[kind]) == texts


def test_ids_are_kept_in_lower_case(redactors):
    event = sent(1, of="thought", **PLAIN["thought"]) | {"event_id": uid(0xABC).upper()}
    stored = prepared([event], redactors).events[0]
    assert stored.event_id == uid(0xABC)
    assert payload_of(stored)["links_to"] == [uid(5)]


def test_unknown_payload_keys_are_kept_under_extra(redactors):
    event = sent(1, kind="open", tab=3, extra={"from": "b.py"})
    assert payload_of(prepared([event], redactors).events[0])["extra"] == {"tab": 3, "from": "b.py"}


def test_whole_numbers_written_as_floats_are_integers(redactors):
    event = sent(1) | {"ts_ms": 5.0, "seq": 1.0}
    stored = prepared([event], redactors).events[0]
    assert (stored.seq, stored.ts_ms, type(stored.seq)) == (1, 5, int)


BAD_EVENTS = [
    ({"type": "screen_recording"}, "events[1].type", "union_tag_invalid"),
    ({"type": 5}, "events[1].type", "union_tag_invalid"),
    ({"seq": 0}, "events[1].seq", "greater_than_equal"),
    ({"seq": True}, "events[1].seq", "int_type"),
    ({"seq": "2"}, "events[1].seq", "int_type"),
    ({"seq": 1e30}, "events[1].seq", "less_than_equal"),
    ({"ts_ms": -1}, "events[1].ts_ms", "greater_than_equal"),
    ({"ts_ms": 1.5}, "events[1].ts_ms", "int_type"),
    ({"event_id": "1"}, "events[1].event_id", "string_pattern_mismatch"),
    ({"mood": "good"}, "events[1].mood", "extra_forbidden"),
    ({"actor": {"kind": "robot"}}, "events[1].actor.kind", "literal_error"),
    ({"context": {"commit_head": "HEAD"}}, "events[1].context.commit_head", "string_pattern_mismatch"),
    ({"payload": []}, "events[1].payload", "model_type"),
    ({"type": "thought", "payload": {"kind": "plan"}}, "events[1].payload.content_blob_id", "missing"),
    ({"type": "thought", "payload": {"kind": "plan", "content": 7}}, "events[1].payload.content", "string_type"),
    (
        {"type": "thought", "payload": {"kind": "plan", "content": "x", "content_blob_id": "sha256:" + "0" * 64}},
        "events[1].payload.content",
        "one_of",
    ),
    (
        {"type": "thought", "payload": {"kind": "plan", "content_blob_id": "sha256:beef"}},
        "events[1].payload.content_blob_id",
        "string_pattern_mismatch",
    ),
    ({"payload": {"kind": "open", "file_path": "a/../../etc/passwd"}}, "events[1].payload.file_path", "value_error"),
]


@pytest.mark.parametrize(("change", "place", "rule"), BAD_EVENTS)
def test_what_breaks_the_schema_is_refused_with_index_field_and_rule(change, place, rule, redactors):
    error = refused([sent(1), {**sent(2), **change}], redactors)
    assert (error.place, error.rule) == (place, rule)
    assert place in error.what
    assert "screen_recording" not in f"{error.what} {error.problems}"
    assert "Value error" not in error.what


def test_an_event_without_a_type_is_told_so(redactors):
    event = sent(1)
    del event["type"]
    error = refused([event], redactors)
    assert (error.place, error.rule) == ("events[0].type", "missing")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "./a",
        ".git/hooks/pre-commit",
        "a/.GIT/x",
        "C:\\x",
        "a\\..\\b",
        "~/x",
        "",
    ],
)
def test_edits_and_snapshots_stay_inside_the_workspace(path, redactors):
    for kind in ("file_edit", "file_snapshot"):
        error = refused([sent(1, of=kind, **{**PLAIN[kind], "file_path": path})], redactors)
        assert error.place == "events[0].payload.file_path"


def test_a_missing_field_is_named_and_a_missing_blob_with_its_inline_name(redactors):
    event = sent(1, of="file_edit", file_path="a.py", edit_kind="patch")
    error = refused([event], redactors)
    assert "patch inline" in error.what


def test_a_refusal_lists_the_first_twenty_problems_and_repeats_nothing_that_was_sent(redactors):
    events = [{**sent(seq), "seq": SECRET} for seq in range(1, 30)]
    error = refused(events, redactors)
    assert len(error.problems) == 20
    assert error.problems[3][0] == "events[3].seq"
    assert SECRET not in f"{error.what} {error.why} {error.next_step} {error.problems}"


# -- hostile JSON

HOSTILE = [
    (b"", "json"),
    (b'{"events": [', "json"),
    (b"\xff\xfe", "json"),
    (b'{"events": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "depth"),
    (b'{"events": [{"seq": 1e999}]}', "number"),
    (b"[]", "list_type"),
    (b'{"events": {}}', "list_type"),
    (b'{"events": [], "more": 1}', "extra_forbidden"),
    (b'{"events": [], "sent_at_ms": "now"}', "int_type"),
]


@pytest.mark.parametrize(("body", "rule"), HOSTILE)
def test_hostile_bodies_are_refused(body, rule, redactors):
    assert refused(body, redactors).rule == rule


def test_a_nul_is_refused_where_it_stands(redactors):
    error = refused([sent(1), sent(2, of="thought", content="a\0b", links_to=[])], redactors)
    assert (error.rule, error.place) == ("nul", "events[1].payload.content")


def test_a_written_backslash_u0000_is_no_nul(redactors):
    event = sent(1, of="thought", **{**PLAIN["thought"], "content": r"matches \u0000 here"})
    assert prepared([event], redactors).blobs[0].data == rb"matches \u0000 here"


def test_a_lone_surrogate_is_refused_where_it_stands(redactors):
    event = sent(1, of="thought", **{**PLAIN["thought"], "content": "SURROGATE"})
    body = orjson.dumps({"events": [sent(2), event]}).replace(b"SURROGATE", rb"half \ud83d")
    error = refused(body, redactors)
    assert (error.rule, error.place) == ("surrogate", "events[1].payload.content")


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1e30", "1" + "0" * 400])
def test_numbers_that_would_not_come_back_are_refused(number, redactors):
    body = orjson.dumps({"events": [sent(1, kind="open", size="NUMBER")]}).replace(b'"NUMBER"', number.encode())
    error = refused(body, redactors)
    assert error.rule == "number"
    assert len(number) > 100 or error.place == "events[0].payload.size"


def test_deep_nesting_in_unknown_keys_is_refused(redactors):
    deep: Any = 1
    for _level in range(MAX_DEPTH + 1):
        deep = {"in": [deep]}
    error = refused([sent(1, kind="open", tree=deep)], redactors)
    assert error.rule == "depth"
    assert error.place.startswith("events[0].payload.tree.in[0]")


# -- limits


def test_limits_say_which_and_where(redactors):
    rules = IntakeRules(key=KEY, limits=IntakeLimits(inline_bytes=10, batch_bytes=5_000, batch_events=2))
    events = [sent(seq) for seq in (1, 2, 3)]
    error = refused(events, redactors, rules)
    assert isinstance(error, TooLargeError)
    assert (error.rule, error.limit) == ("batch_events", 2)
    error = refused(b" " * 5_001, redactors, rules)
    assert (error.rule, error.limit) == ("batch_bytes", 5_000)
    error = refused([sent(1, of="thought", **{**PLAIN["thought"], "content": "é" * 6})], redactors, rules)
    assert (error.rule, error.limit, error.place) == ("inline_bytes", 10, "events[0].payload.content")


def test_a_field_beyond_its_length_is_too_large(redactors):
    error = refused([sent(1, of="terminal_command", cwd="/", shell="bash", command="x" * (1 << 20 | 1))], redactors)
    assert isinstance(error, TooLargeError)
    assert (error.rule, error.limit) == ("field_length", 1 << 20)


def test_a_large_string_becomes_a_blob_and_its_beginning_stays(redactors):
    command = "echo " + "word " * 10_000
    batch = prepared([sent(1, of="terminal_command", cwd="/", shell="bash", command=command)], redactors)
    payload = payload_of(batch.events[0])
    assert payload["command"] == command[: len(payload["command"])]
    assert len(payload["command"]) < SPILL
    assert payload["extra"]["command_blob_id"] == batch.blobs[0].blob_id == blob_id_of(command.encode())


# -- inline content and blobs


def test_inline_content_becomes_a_blob(redactors):
    batch = prepared([sent(1, of="terminal_output", **PLAIN["terminal_output"])], redactors)
    assert payload_of(batch.events[0])["chunk_blob_id"] == blob_id_of(b"1 failed\n")
    (blob,) = batch.blobs
    assert (blob.data, blob.byte_len, blob.content_type) == (b"1 failed\n", 9, "text/plain")


def test_equal_content_is_one_blob(redactors):
    events = [sent(seq, of="terminal_output", **PLAIN["terminal_output"]) for seq in (1, 2)]
    assert len(prepared(events, redactors).blobs) == 1


def test_a_named_blob_is_looked_up_and_stored_under_its_own_id(redactors):
    sent_id, stored_id = blob_id_of(b"original"), blob_id_of(b"redacted")
    row = BlobRow(stored_id, "file:///x", "text/plain", 8, {})
    event = sent(1, of="thought", kind_="", content_blob_id=sent_id)
    event["payload"] = {"kind": "plan", "content_blob_id": sent_id}
    batch = prepared([event], redactors, resolved={sent_id: row})
    assert payload_of(batch.events[0])["content_blob_id"] == stored_id
    assert batch.references == {stored_id}


def test_a_blob_that_is_not_here_is_refused(redactors):
    event = sent(1) | {"type": "thought", "payload": {"kind": "plan", "content_blob_id": blob_id_of(b"?")}}
    error = refused([event], redactors)
    assert (error.rule, error.place) == ("unknown_blob", "events[0].payload.content_blob_id")
    assert parse_events(orjson.dumps({"events": [event]}), key=KEY, limits=IntakeLimits()).references == {
        blob_id_of(b"?")
    }


# -- redaction, consent, mode


def every_text(batch) -> bytes:
    return b"\n".join([*(event.body for event in batch.events), *(blob.data for blob in batch.blobs)])


def test_secrets_are_replaced_in_every_field_of_every_type(redactors):
    events = []
    for seq, (kind, payload) in enumerate(PLAIN.items(), 1):
        full: dict[str, Any] = dict.fromkeys(TEXTS[kind], f"use {SECRET} now")
        full |= {name.removesuffix("_blob_id"): f"and {SECRET}" for name in blob_fields(PAYLOADS[kind])}
        event = sent(seq, of=kind, **{**payload, **full, "note": {SECRET: [SECRET]}})
        if kind in {"file_edit", "file_snapshot"}:
            event["payload"]["file_path"] = f"src/{SECRET}.py"
        event["actor"] = {"kind": "tool", "id": SECRET}
        event["context"] = {"workspace_root": f"/home/alice/{SECRET}", "branch": f"fix/{SECRET}"}
        events.append(event)
    batch = prepared(events, redactors)
    assert SECRET.encode() not in every_text(batch)
    assert every_text(batch).count(b"[REDACTED:") > len(events)
    assert all(blob.redaction == {"applied": True, "rules": ["secret_scan", "pii_mask"]} for blob in batch.blobs)
    raw = prepared(events, redactors, RAW)
    assert every_text(raw).count(SECRET.encode()) > len(events) * 5
    assert all(blob.redaction == {"applied": False, "rules": []} for blob in raw.blobs)


def test_a_secret_over_two_chunks_of_one_output_is_found(redactors):
    events = [
        sent(1, of="terminal_output", stream="stdout", chunk=f"key {SECRET[:15]}"),
        sent(2, of="terminal_output", stream="stderr", chunk="between"),
        sent(3, of="terminal_output", stream="stdout", chunk=f"{SECRET[15:]} end"),
    ]
    text = every_text(prepared(events, redactors))
    assert SECRET[:15].encode() not in text
    assert SECRET[15:].encode() not in text


def test_paths_are_told_from_the_senders_own_folders(redactors):
    events = [
        sent(1, of="terminal_command", cwd="/home/alice/shop/src", shell="bash", command="ls /home/alice/.ssh"),
        sent(2, of="thought", **{**PLAIN["thought"], "content": "see /home/alice/shop/a.py"}) | {"context": {}},
    ]
    batch = prepared(events, redactors)
    payload = payload_of(batch.events[0])
    assert (payload["cwd"], payload["command"]) == ("$PROJECT_ROOT/src", "ls $HOME/.ssh")
    assert batch.blobs[0].data == b"see $PROJECT_ROOT/a.py"


def test_what_is_redacted_is_the_same_every_time(redactors):
    events = [sent(1, of="thought", **{**PLAIN["thought"], "content": f"{SECRET} {'x' * 2_000_000}"})]
    first, second = prepared(events, redactors), prepared(events, redactors)
    assert first == second
    assert first.blobs[0].redaction["rules"][-1] == "truncate_large"
    assert first.blobs[0].byte_len < 300_000


def test_outputs_without_consent_become_tombstones(redactors):
    rules = IntakeRules(store_raw_code=True, store_terminal_output=False, key=KEY)
    events = [
        sent(1, of="terminal_output", **PLAIN["terminal_output"]),
        sent(2, of="test_run", **PLAIN["test_run"], report="<xml>"),
        sent(3, of="thought", **PLAIN["thought"]),
    ]
    batch = prepared(events, redactors, rules)
    text = every_text(batch)
    assert b"1 failed" not in text
    assert b"<xml>" not in text
    assert b"adds the tax" in text
    told = orjson.loads(batch.blobs[0].data)["tombstone"]
    assert told == {
        "byte_length": 9,
        "hash": keyed_hash(KEY, blob_id_of(b"1 failed\n")),
        "reason": "store_terminal_output",
    }
    assert blob_id_of(b"1 failed\n").encode() not in text  # nobody can test a guess


def test_patches_only_keeps_no_snapshot(redactors):
    rules = IntakeRules(store="patches_only", store_raw_code=True, store_terminal_output=True, key=KEY)
    events = [sent(1, of=kind, **PLAIN[kind]) for kind in ("file_edit",)]
    events.append(sent(2, of="file_snapshot", **PLAIN["file_snapshot"]))
    batch = prepared(events, redactors, rules)
    assert b"x = 1" not in every_text(batch)
    assert b"--- a" in every_text(batch)


def test_hashes_of_originals_are_kept_keyed_only(redactors):
    hashes = {"pre_hash": blob_id_of(b"before"), "post_hash": None}
    event = sent(1, of="file_edit", **PLAIN["file_edit"], **hashes)
    payload = payload_of(prepared([event], redactors).events[0])
    assert payload["pre_hash"] is None
    assert payload["extra"] == {"pre_hash_keyed": keyed_hash(KEY, blob_id_of(b"before"))}
    raw = payload_of(prepared([event], redactors, RAW).events[0])
    assert raw["pre_hash"] == blob_id_of(b"before")


def test_a_missing_consent_flag_is_false():
    rules = IntakeRules.of({"developer": {"developer_id": "x"}}, key=KEY)
    assert (rules.store, rules.store_raw_code, rules.store_terminal_output) == ("redacted", False, False)


# -- identity


def test_identity_is_of_the_content_as_it_was_sent(redactors):
    event = sent(1, of="thought", **{**PLAIN["thought"], "content": f"a {SECRET}"})
    other = sent(1, of="thought", **{**PLAIN["thought"], "content": f"a {SECRET[:-1]}9"})
    again = dict(reversed(event.items()))  # the order of keys is no content
    first, second, third = (prepared([each], redactors).events[0].identity for each in (event, again, other))
    assert first == second != third
    assert len(first) == 16


# -- a trace's beginning and end


def create(redactors, **changes):
    return prepare_create(orjson.dumps(metadata(**changes)), key=KEY, redactors=redactors)


def test_raw_mode_needs_consent(redactors):
    allowed = {"developer_id": "d", "consent_flags": {"store_raw_code": True}}
    assert create(redactors, store="raw", developer=allowed).metadata["store"] == "raw"
    with pytest.raises(IntakeError) as caught:
        create(redactors, store="raw", developer={"developer_id": "d"})
    assert (caught.value.rule, caught.value.place) == ("consent", "store")


def test_metadata_is_redacted_but_for_identifiers(redactors):
    task = {"bug_report": {"title": f"leak of {SECRET}", "description": "mail bob@example.com"}}
    made = create(redactors, task=task, repo={"repo_id": "r", "commit_base": "a" * 40, "remote_url": None})
    text = orjson.dumps(made.metadata).decode()
    assert SECRET not in text
    assert "bob@example.com" not in text
    assert made.metadata["repo"]["commit_base"] == "a" * 40


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"repo": {"repo_id": "r", "commit_base": "main"}}, "repo.commit_base"),
        ({"mood": 1}, "mood"),
        ({"task": {}}, "task.bug_report"),
        ({"trace_id": "mine"}, "trace_id"),
        ({"developer": {"developer_id": "d", "consent_flags": {"store_raw_code": "yes"}}}, "developer.consent_flags"),
    ],
)
def test_a_beginning_that_breaks_the_schema_is_refused_with_its_place(change, place, redactors):
    with pytest.raises(IntakeError) as caught:
        create(redactors, **change)
    assert caught.value.place.startswith(place)


def test_the_end_takes_its_diff_inline_or_by_id(redactors):
    state = {"final_state": {"commit_head": "c" * 40, "pr": {"title": "Fix", "diff": f"+{SECRET}"}}}
    end = prepare_end(parse_end(orjson.dumps(state)), rules=REDACTED, redactors=redactors, resolved={})
    assert end.final_state["commit_head"] == "c" * 40
    assert end.final_state["pr"]["diff_blob_id"] == end.blobs[0].blob_id
    assert SECRET.encode() not in end.blobs[0].data
    assert prepare_end(parse_end(b""), rules=REDACTED, redactors=redactors, resolved={}).final_state is None
    named = {"final_state": {"pr": {"diff_blob_id": blob_id_of(b"?")}}}
    assert parse_end(orjson.dumps(named)).references == {blob_id_of(b"?")}
    with pytest.raises(IntakeError, match="not here"):
        prepare_end(parse_end(orjson.dumps(named)), rules=REDACTED, redactors=redactors, resolved={})


def test_uploads_are_redacted_and_what_cannot_be_needs_consent(redactors):
    blob = prepare_blob(f"a {SECRET}".encode(), content_type="text/plain", rules=REDACTED, redactors=redactors)
    assert SECRET.encode() not in blob.data
    bundle = b"# v2 git bundle\n\0\xff"
    strict = IntakeRules(key=KEY)
    options = {"content_type": "application/octet-stream", "redactors": redactors}
    assert prepare_blob(bundle, rules=REDACTED, **options).data == bundle
    with pytest.raises(IntakeError) as caught:
        prepare_blob(bundle, rules=strict, **options)
    assert caught.value.rule == "consent"


# -- whatever comes

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def _mangled(draw) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(PLAIN)))
    event = json.loads(json.dumps(sent(1, of=kind, **PLAIN[kind])))
    for _change in range(draw(st.integers(0, 3))):
        block = draw(st.sampled_from([event, event["payload"], event["context"], event["actor"]]))
        if isinstance(block, dict):
            block[draw(st.sampled_from([*block, "extra", "note"]))] = draw(_JSON)
        if not all(isinstance(event.get(name), dict) for name in ("payload", "context", "actor")):
            break
    return event


@settings(max_examples=150, deadline=None)
@given(events=st.lists(_mangled(), max_size=3))
def test_whatever_comes_is_taken_whole_or_refused_with_a_place(events, redactors):
    raw = json.dumps({"events": events}).encode()
    try:
        batch = prepare_events(raw, rules=REDACTED, redactors=redactors)
    except IntakeError as error:
        told = (error.place, error.rule)
        assert all(told)  # either outcome is right
    else:
        for stored in batch.events:
            assert orjson.dumps(orjson.loads(stored.body), option=orjson.OPT_SORT_KEYS) == stored.body
        assert all(blob.blob_id == blob_id_of(blob.data) for blob in batch.blobs)


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_bytes_of_any_kind_are_refused_or_empty(raw, redactors):
    try:
        batch = prepare_events(raw, rules=REDACTED, redactors=redactors)
    except IntakeError as error:
        assert error.place  # noqa: PT017 # either outcome is right
    else:
        assert batch.events == ()


def test_null_content_does_not_hide_the_blob_that_is_named(redactors):
    event = sent(1, of="terminal_output", stream="stdout", chunk=None, chunk_blob_id=blob_id_of(b"not ours"))
    assert refused([event], redactors).rule == "unknown_blob"
