"""One trace handed on as a file: its bytes, its memory, and what is left behind where it may not leave."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from collector.collector import Collector
from collector.handover.export import FORMATS, ExportFormat, write_export
from repl.cli import main
from tests.collector.final.collecting import a_collector, collect, final_document
from tests.collector.final.sessions import Session, bug_fix
from tracer.redaction.engine import build_redactor

TOKEN = "ghp_" + "x7Kq2Lm9Pz4Rt8Vw1Yb3Nc6Df5Gh0Js2Ua7E"
# Of the session below, as version 1.0 wrote it with every trace in memory.
BYTES = {
    "atif": "06346828e71ccc5483e75fbef1cc85bb43f2c557056743268384260933f56d8d",
    "chat": "623eb164c80db36f2c23e41347ee7310a60db068d3c3db495449af6795f08ce2",
    "otlp": "ea3b78742223c4cb6f591f8cffcf27c366ea981d537087ea203089abb175e6ab",
}


@pytest.fixture
async def collector(tmp_path: Path) -> Any:
    async with a_collector(tmp_path / "state") as collector:
        yield collector


async def a_session(collector: Collector, folder: Path) -> str:
    session = bug_fix(folder)
    session.event("error", {"message": "the debugger died", "source": "ide", "detail_blob_id": None}, "tool")
    session.think("Ask for a test of empty carts too", "postmortem")
    return await collect(collector, session)


async def exported(collector: Collector, trace_id: str, form: ExportFormat, state: Path) -> bytes:
    row = await collector.store.get_trace(trace_id)
    assert row is not None
    row = replace(row, created_at_ms=1_700_000_000_000, finalized_at_ms=1_700_000_500_000)
    redactor = build_redactor(state_dir=state, environ={}, host="", persons=[], rewrite_paths=True, truncate=False)
    file = io.BytesIO()
    store, contents = collector.store, collector.contents
    size = await write_export(file, row, form, store=store, contents=contents, redactor=redactor, what="it")
    assert size == len(file.getvalue())
    return file.getvalue()


@pytest.mark.parametrize("form", ["atif", "chat", "otlp"])
async def test_an_export_has_the_bytes_it_always_had(tmp_path: Path, collector: Collector, form: Any) -> None:
    trace_id = await a_session(collector, tmp_path / "repo")
    data = await exported(collector, trace_id, form, tmp_path / "audit")
    assert data.endswith(b"\n")
    assert hashlib.sha256(data[:-1]).hexdigest() == BYTES[form]


async def test_the_exported_document_is_the_final_one_with_its_readable_blobs_inline(
    tmp_path: Path, collector: Collector
) -> None:
    trace_id = await a_session(collector, tmp_path / "repo")
    data = await exported(collector, trace_id, "json", tmp_path / "audit")
    told = json.loads(data)
    assert data == orjson.dumps(told, option=orjson.OPT_SORT_KEYS) + b"\n"
    expected = json.loads(
        await final_document(trace_id, store=collector.store, contents=collector.contents, inline=True)
    )
    expected["created_at_ms"], expected["finalized_at_ms"] = 1_700_000_000_000, 1_700_000_500_000
    for blob in expected["artifacts"]["blobs"]:
        if b"\0" in base64.b64decode(blob["storage_uri"].partition("base64,")[2]):
            blob["storage_uri"] = f"blob:{blob['blob_id']}"
    assert told == expected


async def _with_a_secret(project: Path, *, padding: int = 0) -> str:
    async with a_collector(project) as collector:
        session = Session(project / "repo", "raw", store="raw").begin({"a.py": b"x = 1\n"})
        for number in range(padding):
            session.command(f"echo {number}", b"some words of output\n" * 100)
        session.think(f"the token is {TOKEN}")
        session.edit("a.py", b"x = 2\n")
        return await collect(collector, session)


@pytest.mark.parametrize(
    ("form", "padding"),
    [
        ("json", 700),  # over a megabyte before the secret
        *((form, 0) for form in FORMATS if form != "json"),
        *(pytest.param(form, 700, marks=pytest.mark.torture) for form in FORMATS if form != "json"),
    ],
)
def test_where_it_may_not_leave_the_old_file_stays_and_nothing_else_is_there(
    project: Path, capsysbinary: pytest.CaptureFixture[bytes], form: str, padding: int
) -> None:
    trace_id = asyncio.run(_with_a_secret(project, padding=padding))
    (project / "mine.json").write_text("old")
    before = sorted(path.name for path in project.iterdir())
    assert main(["capture", "export", trace_id, "--format", form, "-o", "mine.json"]) == 8
    assert "looks like secrets" in capsysbinary.readouterr().err.decode()
    assert (project / "mine.json").read_text() == "old"
    assert sorted(path.name for path in project.iterdir()) == before
    assert main(["capture", "export", trace_id, "--format", form, "-o", "-"]) == 8
    assert capsysbinary.readouterr().out == b""


def test_a_folder_that_is_not_there_is_told_and_not_made(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace_id = asyncio.run(_with_a_secret(project))
    assert main(["capture", "export", trace_id, "--format", "atif", "--redact", "-o", "no/such/x.json"]) == 8
    assert "No such file or directory" in capsys.readouterr().err
    assert not (project / "no").exists()


def _measured(*arguments: str, events: int) -> str:
    """The benchmark's own child: a process that does one thing and prints seconds, its peak of memory in MB, size."""
    command = [sys.executable, "-m", "benchmarks.final_document", *arguments]
    environ = {**os.environ, "PM_BENCH_EVENTS": str(events)}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with a trace of 20,000 events."""
    folder = tmp_path_factory.mktemp("long")
    _measured(str(folder), "fill", events=20_000)
    return folder


@pytest.mark.torture
@pytest.mark.parametrize("form", FORMATS)
def test_memory_does_not_grow_with_the_trace(long_trace: Path, form: str) -> None:
    peak = float(_measured(str(long_trace), f"export-{form}", events=20_000).split()[1])
    assert (
        peak < 200
    )  # 165 with 20,000 events, 169 with 45,000; the redactor's rules take most of it, whatever the size
