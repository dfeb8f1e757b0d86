"""One trace gives one document, byte for byte, whichever database holds it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from collector.collector import Collector
from collector.final.document import materialize
from collector.final.verify_session import stored_document_agrees
from collector.store.port import QaFact
from tests.collector.final.collecting import a_collector, collect, final_document
from tests.collector.final.sessions import bug_fix

TOKEN = "ghp_" + "x7Kq2Lm9Pz4Rt8Vw1Yb3Nc6Df5Gh0Js2Ua7E"
QA = {
    "schema": {"schema_valid": True},
    "tests": {
        "tests": {"runner": "pytest", "final_passed": True, "detail": {"b": 1e16, "a": [-0.0, 1.0, 0.1], "é": None}}
    },
    "judge": {"judge": {"model": "m", "rubric_version": "1.0", "overall": 4.0, "scores": {"clarity": 4}}},
}


async def _collected(collector: Collector, folder: Path) -> tuple[bytes, bytes, str]:
    session = bug_fix(folder)
    session.think(f"näïve \u2028 thought 😀 about {TOKEN}")
    session.event(
        "navigation",
        {
            "kind": "search",
            "file_path": None,
            "line": None,
            "query": "a\tb",
            "extra": {"z": 1.5e15, "a": {"y": -0.0, "x": 1}},
        },
    )
    session.events[-1]["seq"] += 5  # a gap
    trace_id = await collect(collector, session, batch=4)
    for at, (step, result) in enumerate(QA.items()):
        await collector.store.append_qa_fact(trace_id, QaFact(step, f"h{at}", at, result))
    made = await materialize(trace_id, store=collector.store, blobs=collector.blobs)
    assert await stored_document_agrees(trace_id, store=collector.store) is True
    stored = await collector.blobs.read(made.blob_id)
    inline = await final_document(trace_id, store=collector.store, contents=collector.contents, inline=True)
    return stored, inline, made.blob_id


async def test_the_same_bytes_come_out_of_sqlite_and_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_dsn: str
) -> None:
    found = []
    key = b"k" * 32
    for name, settings in (("sqlite", {}), ("postgres", {"database": postgres_dsn})):
        ticks = itertools.count(1_767_300_000_000)
        monkeypatch.setattr("collector.collector.now_epoch_ms", lambda ticks=ticks: next(ticks))
        state = tmp_path / name / ".pm-orchestrator"
        state.mkdir(parents=True)
        (state / "redaction.key").write_bytes(key)
        async with a_collector(tmp_path / name, **settings) as collector:
            assert name in type(collector.store).__name__.lower()
            found.append(await _collected(collector, tmp_path / name / "repo"))
    (one, one_inline, one_id), (other, other_inline, other_id) = found
    assert TOKEN.encode() not in one_inline
    assert one == other
    assert one_inline == other_inline
    assert one_id == other_id
