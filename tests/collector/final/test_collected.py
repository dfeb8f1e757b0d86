"""From the wire to the final document and back: what was collected is proved, and is one document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from collector.collector import Collector
from collector.final.document import materialize
from collector.final.trace_source import DocumentSource, StoreSource
from collector.final.verify_session import document_hash_agrees, stored_document_agrees, verify_source
from collector.store.port import QaFact
from tests.collector.final.collecting import a_collector, as_sent, collect, final_document
from tests.collector.final.sessions import Session, blob_id, bug_fix
from tracer.capture.document import TraceDocument, trace_schema

TOKEN = "ghp_" + "x7Kq2Lm9Pz4Rt8Vw1Yb3Nc6Df5Gh0Js2Ua7E"


@pytest.fixture
async def collector(tmp_path: Path) -> Any:
    async with a_collector(tmp_path / "state") as collector:
        yield collector


async def proof(collector: Collector, trace_id: str, **options: Any) -> Any:
    source = await StoreSource.open(trace_id, store=collector.store, contents=collector.contents)
    return await verify_source(source, **options)


@pytest.mark.parametrize("store", ["redacted", "raw"])
async def test_a_collected_session_is_proved_to_its_final_commit(
    tmp_path: Path, collector: Collector, store: str
) -> None:
    session = bug_fix(tmp_path / "repo", store=store)
    trace_id = await collect(collector, session, batch=3)
    report = await proof(collector, trace_id)
    assert report.findings == ()
    assert (report.status, report.reaches) == ("verified", session.final_state["commit_head"])
    assert report.checked >= 8


async def test_the_final_document_follows_the_published_schema_and_proves_itself(
    tmp_path: Path, collector: Collector
) -> None:
    trace_id = await collect(collector, bug_fix(tmp_path / "repo"))
    fact = QaFact("tests", "h1", 5, {"tests": {"runner": "pytest", "final_passed": True}})
    await collector.store.append_qa_fact(trace_id, fact)
    made = await materialize(trace_id, store=collector.store, blobs=collector.blobs)
    stored = await collector.blobs.read(made.blob_id)
    document = json.loads(stored)
    jsonschema.validate(document, trace_schema())
    assert document["qa"]["tests"]["final_passed"] is True
    assert document["final_state"]["final_trace_blob_id"] is None
    assert {blob["storage_uri"] for blob in document["artifacts"]["blobs"]} == {
        f"blob:{blob['blob_id']}" for blob in document["artifacts"]["blobs"]
    }
    assert blob_id(stored) == made.blob_id
    assert len(stored) == made.byte_length
    assert await stored_document_agrees(trace_id, store=collector.store) is True
    inline = json.loads(b"".join([piece async for piece in await collector.full(trace_id, inline=True)]))
    assert inline["final_state"]["final_trace_blob_id"] == made.blob_id
    assert document_hash_agrees(inline) is True
    report = await verify_source(DocumentSource(TraceDocument.model_validate(inline), None))
    assert (report.status, report.reaches) == ("verified", document["final_state"]["commit_head"])


async def test_materializing_again_gives_the_same_blob_until_a_check_adds_to_it(
    tmp_path: Path, collector: Collector
) -> None:
    trace_id = await collect(collector, bug_fix(tmp_path / "repo"))
    first = await materialize(trace_id, store=collector.store, blobs=collector.blobs)
    assert await materialize(trace_id, store=collector.store, blobs=collector.blobs) == first
    await collector.store.append_qa_fact(trace_id, QaFact("schema", "h", 9, {"schema_valid": True}))
    assert await stored_document_agrees(trace_id, store=collector.store) is False
    assert await materialize(trace_id, store=collector.store, blobs=collector.blobs) != first
    assert await stored_document_agrees(trace_id, store=collector.store) is True


async def test_an_open_trace_is_a_document_too(tmp_path: Path, collector: Collector) -> None:
    session = Session(tmp_path / "repo").begin({"a": b"1\n"})
    trace_id = await collect(collector, session, finalize=False)
    document = json.loads(await final_document(trace_id, store=collector.store))
    jsonschema.validate(document, trace_schema())
    assert (document["events"], document["final_state"], document["qa"]) == ([], None, None)


async def test_secrets_in_code_are_replaced_and_the_session_still_replays(tmp_path: Path, collector: Collector) -> None:
    session = Session(tmp_path / "repo").begin({"other.py": b"1\n"})
    session.edit("conf.py", f'TOKEN = "{TOKEN}"\nA = 1\n'.encode())
    session.snapshot("conf.py", "pre_test")
    session.edit("conf.py", f'TOKEN = "{TOKEN}"\nA = 2\n'.encode())
    session.think(f"is it {TOKEN}?")
    session.edit("conf.py", b"A = 2\n")
    trace_id = await collect(collector, session, batch=1)
    report = await proof(collector, trace_id)
    assert (report.status, report.findings, report.checked) == ("verified", (), 6)
    document = await final_document(trace_id, store=collector.store, contents=collector.contents, inline=True)
    texts = [await collector.contents.read(blob["blob_id"]) for blob in json.loads(document)["artifacts"]["blobs"]]
    assert all(TOKEN.encode() not in text for text in [document, *texts])
    events = json.loads(document)["events"]
    original = session.events[2]["payload"]
    assert events[2]["payload"]["pre_hash"] != original["pre_hash"]
    assert events[2]["payload"]["extra"]["pre_hash_keyed"].startswith("hmac-sha256:")


async def test_without_the_map_a_redacted_session_is_not_testable_and_never_failed(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"other.py": b"1\n"})
    session.edit("conf.py", f'TOKEN = "{TOKEN}"\nA = 1\n'.encode())
    session.edit("conf.py", f'TOKEN = "{TOKEN}"\nA = 2\n'.encode())
    sent = as_sent(session)
    async with a_collector(tmp_path / "state") as collector:
        trace_id = await collect(collector, Session(session.folder, base=session.base), finalize=False)
        await collector.append(trace_id, sent[:1])
    async with a_collector(tmp_path / "state") as collector:  # a restart forgets the map
        await collector.append(trace_id, sent[1:])
        report = await proof(collector, trace_id)
    assert report.mismatches == 0
    assert {finding.reason for finding in report.findings} == {"redacted"}


async def test_the_secrets_of_a_trace_are_forgotten_at_its_end(tmp_path: Path, collector: Collector) -> None:
    session = Session(tmp_path / "repo").begin({"other.py": b"1\n"})
    session.edit("conf.py", f'TOKEN = "{TOKEN}"\nA = 1\n'.encode())
    trace_id = await collect(collector, session, finalize=False)
    assert collector._maps[trace_id].finds_known(TOKEN.encode())
    await collector.finalize(trace_id)
    assert trace_id not in collector._maps


async def test_absolute_paths_in_code_are_no_mismatch(tmp_path: Path, collector: Collector) -> None:
    home = "/home/jane/shop"
    session = Session(tmp_path / "repo").begin({"a.py": f'P = "{home}/data"\nA = 1\n'.encode()})
    session.edit("a.py", f'P = "{home}/data"\nA = 2\n'.encode())
    session.commit()
    for event in session.events:
        event["context"]["workspace_root"] = home
    trace_id = await collect(collector, session)
    report = await proof(collector, trace_id)
    assert report.mismatches == 0
    assert {finding.reason for finding in report.findings} == {"redacted"}


async def test_outputs_without_consent_and_snapshots_of_patches_only_are_tombstones_and_no_mismatch(
    tmp_path: Path, collector: Collector
) -> None:
    consent = {"store_raw_code": True, "store_terminal_output": False, "allow_llm_judge": False}
    session = bug_fix(tmp_path / "repo", store="patches_only", consent=consent)
    trace_id = await collect(collector, session)
    report = await proof(collector, trace_id)
    assert report.mismatches == 0
    assert report.reaches == session.final_state["commit_head"]
    assert {finding.reason for finding in report.findings} == {"its content is not stored here"}


async def test_a_private_key_in_code_that_is_committed_is_no_mismatch(tmp_path: Path, collector: Collector) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx7Kq2Lm9Pz4Rt8Vw1Yb3Nc6D\n-----END RSA PRIVATE KEY-----\n"
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    session.edit("key.pem", key.encode())
    session.edit("a.py", b"2\n")
    session.commit(bundle=False)
    trace_id = await collect(collector, session)
    report = await proof(collector, trace_id)
    assert report.mismatches == 0
    document = json.loads(await final_document(trace_id, store=collector.store))
    commit = next(event for event in document["events"] if event["type"] == "commit")
    for blob in (commit["payload"]["diff_blob_id"], document["final_state"]["pr"]["diff_blob_id"]):
        assert b"MIIEow" not in await collector.contents.read(blob)
