"""Sets for training: chosen, audited, split by repository, and the same bytes each time."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from collector.collector import Collector
from collector.final.consent import all_rows
from collector.handover import sets
from collector.handover.export import FORMATS
from collector.handover.sets import SetRequest, export_set, split_of
from collector.opening import open_collector
from collector.store.port import QaFact
from repl.cli import main
from repl.version import VERSION
from tests.collector.final.collecting import a_collector, collect
from tests.collector.final.sessions import Session, bug_fix
from tests.collector.http.support import new_trace
from tests.support.tools import need
from tracer.errors import LockedError, NotFoundError, UsageError
from tracer.export.pieces import find_leaks
from tracer.lock import FileLock
from tracer.redaction.engine import build_redactor
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

TOKEN = "ghp_" + "x7Kq2Lm9Pz4Rt8Vw1Yb3Nc6Df5Gh0Js2Ua7E"
AWS = "AKIA" + "Q3EGR7TZ2VMN5XWL"
ASKED = SetRequest(where="", form="atif")


@pytest.fixture
async def collector(tmp_path: Path) -> Any:
    async with a_collector(tmp_path / "state") as collector:
        yield collector


@pytest.fixture
def redactor(tmp_path: Path) -> Any:
    return build_redactor(
        state_dir=tmp_path / "audit", environ={}, host="", persons=[], rewrite_paths=True, truncate=False
    )


async def exported(collector: Collector, redactor: Any, target: Path, request: SetRequest = ASKED) -> dict[str, Any]:
    await export_set(request, store=collector.store, contents=collector.contents, redactor=redactor, target=target)
    return json.loads((target / "manifest.json").read_bytes())


def opener(state: Path) -> Any:
    """As the command line gives it to other processes."""
    return partial(
        open_collector, StateDir(state / ".pm-orchestrator"), load_settings(project=state, environ={}), environ={}
    )


async def test_several_processes_make_the_same_bytes_and_tell_the_same_refusals(
    tmp_path: Path, collector: Collector, redactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "_AT_ONCE", 2)
    monkeypatch.setattr(sets, "_SEVERAL", 2)
    for number in range(5):
        session = Session(tmp_path, f"s-{number}", repo_id=f"acme/shop-{number}", base="0" * 40)
        session.think(f"It was the number {number}", "hypothesis")
        await collect(collector, session)
    given: dict[str, Any] = {"store": collector.store, "contents": collector.contents, "redactor": redactor}
    helpers = sets.Helpers(opener(tmp_path / "state"), 2)
    for form in ("atif", "json"):
        request = replace(ASKED, form=form)
        await export_set(request, target=tmp_path / f"{form}-alone", **given)
        await export_set(request, target=tmp_path / f"{form}-together", helpers=helpers, **given)
        told = {
            path.relative_to(tmp_path / f"{form}-alone"): path.read_bytes()
            for path in files_of(tmp_path / f"{form}-alone")
        }
        assert told == {
            path.relative_to(tmp_path / f"{form}-together"): path.read_bytes()
            for path in files_of(tmp_path / f"{form}-together")
        }
    leaking = Session(tmp_path, "leaking", base="0" * 40, store="raw")
    leaking.think(f"the token is {TOKEN}", "hypothesis")
    await collect(collector, leaking)
    report = await export_set(ASKED, target=tmp_path / "leaking", helpers=helpers, **given)
    (reason,) = report.left_out.values()
    assert reason.startswith("looks like it holds secrets: 1 x ")
    assert sum(report.rows.values()) == 5
    assert all(TOKEN.encode() not in path.read_bytes() for path in files_of(tmp_path / "leaking"))


def files_of(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob("*/*.jsonl")) for line in path.read_bytes().splitlines()]


def tree_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def several(collector: Collector, folder: Path, count: int = 4) -> list[str]:
    """Sessions that differ, in two repositories; every second one passed its tests with 4.5."""
    ids = []
    for number in range(count):
        session = Session(folder / str(number), f"s{number}", repo_id=f"acme/r{number % 2}")
        session.begin({"a.py": b"x = 1\n"})
        session.think(" ".join(f"thought{number}word{at}" for at in range(60)))
        session.edit("a.py", f"x = {number + 2}\n".encode())
        trace_id = await collect(collector, session)
        qa = {
            "tests": {"runner": "pytest", "final_passed": number % 2 == 0},
            "judge": {"model": "m", "rubric_version": "1.0", "overall": 4.5 if number % 2 == 0 else 2.0},
        }
        await collector.store.append_qa_fact(trace_id, QaFact("tests", "h", 1, {"tests": qa["tests"]}))
        await collector.store.append_qa_fact(trace_id, QaFact("judge", "h", 2, {"judge": qa["judge"]}))
        ids.append(trace_id)
    return ids


@pytest.mark.parametrize("form", FORMATS)
async def test_a_set_holds_the_traces_that_fulfil_the_condition(
    tmp_path: Path, collector: Collector, redactor: Any, form: Any
) -> None:
    ids = await several(collector, tmp_path / "repos")
    request = SetRequest(where="qa.final_passed and overall>=4", form=form)
    manifest = await exported(collector, redactor, tmp_path / "set", request)
    assert {trace["trace_id"] for trace in manifest["traces"]} == {ids[0], ids[2]}
    assert manifest["counts"]["final_passed"] == 2
    assert manifest["consent"]["allow_llm_judge"] == 2
    assert manifest["versions"]["rubrics"] == ["1.0"]
    assert manifest["versions"]["redaction"].startswith("gitleaks v")
    assert len(rows_of(tmp_path / "set")) == 2
    for shard in manifest["shards"]:
        data = (tmp_path / "set" / shard["path"]).read_bytes()
        assert (shard["sha256"], shard["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
        assert shard["rows"] == data.count(b"\n")


async def test_the_same_traces_give_the_same_bytes(tmp_path: Path, collector: Collector, redactor: Any) -> None:
    await several(collector, tmp_path / "repos")
    await exported(collector, redactor, tmp_path / "one")
    await exported(collector, redactor, tmp_path / "two")
    assert tree_of(tmp_path / "one") == tree_of(tmp_path / "two")


async def test_all_traces_of_a_repository_are_in_one_split_and_shards_are_cut(
    tmp_path: Path, collector: Collector, redactor: Any
) -> None:
    await several(collector, tmp_path / "repos", 6)
    request = replace(ASKED, shares=(50, 25, 25), shard_rows=2)
    manifest = await exported(collector, redactor, tmp_path / "set", request)
    for trace in manifest["traces"]:
        assert trace["split"] == split_of(trace["repo"], (50, 25, 25))
        rows = (tmp_path / "set" / trace["shard"]).read_bytes().splitlines()
        assert json.loads(rows[trace["row"]])["trajectory_id"] == trace["trace_id"]
    assert all(shard["rows"] <= 2 for shard in manifest["shards"])
    assert len(manifest["shards"]) >= 3


def test_splits_have_about_their_shares() -> None:
    splits = [split_of(f"repo-{number}", (80, 10, 10)) for number in range(2000)]
    assert 1520 < splits.count("train") < 1680
    assert 150 < splits.count("validation") < 250


@pytest.mark.parametrize("form", FORMATS)
async def test_near_duplicates_are_reported_with_their_splits(
    tmp_path: Path, collector: Collector, redactor: Any, form: Any
) -> None:
    for number in range(2):
        session = Session(tmp_path / str(number), f"twin{number}", repo_id=f"acme/{number}").begin({"a.py": b"x = 1\n"})
        session.think(" ".join(f"word{at}" for at in range(400)))
        session.edit("a.py", f"x = {number}2\n".encode())
        session.command("pytest", " ".join(f"run{number}at{at}" for at in range(2000)).encode())
        await collect(collector, session)
    manifest = await exported(collector, redactor, tmp_path / "set", SetRequest(where="", form=form))
    (pair,) = json.loads((tmp_path / "set" / "near_duplicates.json").read_bytes())
    assert pair["similarity"] > 0.8
    assert pair["splits"] == [split_of("acme/0", (80, 10, 10)), split_of("acme/1", (80, 10, 10))]
    assert manifest["near_duplicates"]["pairs"] == 1


async def test_open_traces_are_left_out_and_named(tmp_path: Path, collector: Collector, redactor: Any) -> None:
    await several(collector, tmp_path / "repos", 1)
    still_open = Session(tmp_path / "open", "open").begin({"a": b"1\n"})
    trace_id = await collect(collector, still_open, finalize=False)
    manifest = await exported(collector, redactor, tmp_path / "set")
    assert manifest["left_out"] == [{"trace_id": trace_id, "reason": "not finalized"}]


async def test_no_trace_at_all_is_an_error_and_leaves_no_folder(
    tmp_path: Path, collector: Collector, redactor: Any
) -> None:
    await several(collector, tmp_path, 1)
    wanted = SetRequest(where="qa.strength > 9 and events > 0", form="chat")
    with pytest.raises(NotFoundError) as caught:
        await exported(collector, redactor, tmp_path / "set", wanted)
    assert str(caught.value.why).endswith("null in each (not checked, or no judge?): qa.strength")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".set", "set"))] == []


async def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, collector: Collector, redactor: Any) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="not empty"):
        await exported(collector, redactor, tmp_path / "set")
    assert (tmp_path / "set" / "mine.txt").read_text() == "keep"


async def test_what_a_killed_export_left_is_removed_by_the_next(
    tmp_path: Path, collector: Collector, redactor: Any
) -> None:
    await several(collector, tmp_path / "repos", 2)
    (tmp_path / ".set.abcd.part" / "train").mkdir(parents=True)
    (tmp_path / ".settled.abcd.part").mkdir()
    (tmp_path / ".set.mine").mkdir()
    await exported(collector, redactor, tmp_path / "set")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == [
        ".set.mine",
        ".settled.abcd.part",
    ]


async def test_two_exports_to_one_folder_are_kept_apart(tmp_path: Path, collector: Collector, redactor: Any) -> None:
    await several(collector, tmp_path / "repos", 2)
    with FileLock(tmp_path / ".set.lock"), pytest.raises(LockedError):
        await exported(collector, redactor, tmp_path / "set")
    assert not (tmp_path / "set").exists()
    await exported(collector, redactor, tmp_path / "set")


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import collector.handover.sets
from collector.handover.sets import SetRequest, export_set
from tests.collector.final.collecting import a_collector
from tracer.redaction.engine import build_redactor

async def main():
    told = collector.handover.sets.write_export
    count = 0
    async def until(*arguments, **more):
        nonlocal count
        count += 1
        if count == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return await told(*arguments, **more)
    collector.handover.sets.write_export = until
    async with a_collector(Path(sys.argv[1])) as opened:
        await export_set(
            SetRequest(where="", form="chat", shard_rows=1), store=opened.store, contents=opened.contents,
            redactor=build_redactor(state_dir=Path(sys.argv[2]), environ={}), target=Path(sys.argv[3]),
        )

asyncio.run(main())
"""


async def test_a_kill_halfway_leaves_no_set_and_the_next_export_is_whole(tmp_path: Path, redactor: Any) -> None:
    state, target = tmp_path / "state", tmp_path / "set"
    async with a_collector(state) as collector:
        await several(collector, tmp_path / "repos", 4)
    command = [sys.executable, "-c", _KILLED, str(state), str(tmp_path / "audit"), str(target)]
    killed = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not target.exists()
    assert [path.name for path in tmp_path.glob(".set.*.part/*/*")]  # it had begun
    async with a_collector(state) as collector:
        manifest = await exported(collector, redactor, target)
    assert manifest["counts"]["traces"] == 4
    assert list(tmp_path.glob(".set.*")) == []


async def raw_with_secret(collector: Collector, folder: Path) -> str:
    session = Session(folder, "raw", store="raw").begin({"a.py": b"x = 1\n"})
    session.think(f"the token is {TOKEN}")
    session.edit("a.py", f'x = "{AWS}"\n'.encode())
    return await collect(collector, session)


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ("atif", "/steps/1/"),
        ("chat", "/messages/2/content"),
        ("otlp", "/resourceSpans/0/"),
        ("json", "/artifacts/blobs/0/storage_uri"),
    ],
)
async def test_a_trace_that_leaks_is_left_out_of_the_set_and_named_by_the_place(
    tmp_path: Path, collector: Collector, redactor: Any, form: Any, place: str
) -> None:
    trace_id = await raw_with_secret(collector, tmp_path / "raw")
    with pytest.raises(NotFoundError) as refused:
        await exported(collector, redactor, tmp_path / "set", SetRequest(where="", form=form))
    assert "1 left out: looks like it holds secrets" in refused.value.why
    assert not (tmp_path / "set").exists()
    await several(collector, tmp_path / "repos", 2)
    manifest = await exported(collector, redactor, tmp_path / "set", SetRequest(where="", form=form))
    (left_out,) = manifest["left_out"]
    assert left_out["trace_id"] == trace_id
    assert place in left_out["reason"]
    assert ("--format atif" in left_out["reason"]) == (form == "json")
    assert manifest["counts"]["traces"] == 2
    data = b"".join(tree_of(tmp_path / "set").values())
    assert TOKEN.encode() not in data
    assert AWS.encode() not in data


async def test_a_trace_with_a_damaged_content_is_left_out_of_the_set_and_named(
    tmp_path: Path, collector: Collector, redactor: Any
) -> None:
    await several(collector, tmp_path / "repos", 3)
    rows = [row async for row in all_rows(collector.store)]
    alone: dict[str, int] = {}
    for row in rows:
        for blob in await collector.store.blob_rows(row.trace_id):
            alone[blob.blob_id] = alone.get(blob.blob_id, 0) + 1
    damaged = next(
        blob
        for blob in await collector.store.blob_rows(rows[0].trace_id)
        if alone[blob.blob_id] == 1 and blob.storage_uri.startswith("db:")
    )
    await collector.store.put_blob_row(damaged, data=b"something else")
    manifest = await exported(collector, redactor, tmp_path / "set", SetRequest(where="", form="chat"))
    (left_out,) = manifest["left_out"]
    assert left_out["trace_id"] == rows[0].trace_id
    assert damaged.blob_id in left_out["reason"]
    assert f"pm capture verify {rows[0].trace_id}" in left_out["reason"]
    assert manifest["counts"]["traces"] == 2


async def test_on_request_finds_are_replaced_in_the_copy(tmp_path: Path, collector: Collector, redactor: Any) -> None:
    await raw_with_secret(collector, tmp_path / "raw")
    for form in ("atif", "chat", "otlp"):
        request = SetRequest(where="", form=form, redact=True)  # type: ignore[arg-type]
        manifest = await exported(collector, redactor, tmp_path / form, request)
        data = b"".join(tree_of(tmp_path / form).values())
        assert TOKEN.encode() not in data
        assert AWS.encode() not in data
        assert manifest["redaction"] == {"stored": {"raw": 1}, "again_at_export": True, "audit": "clean"}


async def test_outputs_without_consent_do_not_leave(tmp_path: Path, collector: Collector, redactor: Any) -> None:
    consent = {"store_raw_code": True, "store_terminal_output": False, "allow_llm_judge": False}
    trace_id = await collect(collector, bug_fix(tmp_path / "repo", consent=consent))
    judge = {"judge": {"model": "m", "rubric_version": "1.0", "overall": 4.5}}
    await collector.store.append_qa_fact(trace_id, QaFact("judge", "h", 2, judge))
    for form in FORMATS:
        await exported(collector, redactor, tmp_path / form, SetRequest(where="", form=form))
        data = b"".join(path.read_bytes() for path in (tmp_path / form).glob("*/*.jsonl"))
        assert b"assert 5 == 6" not in data
        assert b"4.5" not in data


def _second_engine_finds(text: str) -> list[str]:
    need(find_spec("detect_secrets"), "detect-secrets", how="pip install detect-secrets")
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import default_settings

    with default_settings():
        return [found.type for line in text.splitlines() for found in scan_line(line)]


# Kinds that detect-secrets tells by shape; its entropy plug-ins take our own hashes and ids for secrets.
_SHAPED = {
    "AWS Access Key",
    "GitHub Token",
    "Private Key",
    "JSON Web Token",
    "Slack Token",
    "Stripe Access Key",
    "Basic Auth Credentials",
    "OpenAI Token",
}


async def test_a_second_engine_finds_nothing_in_a_sample_that_left(
    tmp_path: Path, collector: Collector, redactor: Any
) -> None:
    planted = [
        TOKEN,
        AWS,
        "https://bob:" + "hunter2hunter2" + "@example.org/x",
        "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    ]
    for number, secret in enumerate(planted):
        session = Session(tmp_path / str(number), f"planted{number}").begin({"a.py": b"x = 1\n"})
        session.think(f"look: {secret}")
        session.command(f"curl -H 'X: {secret}'", f"got {secret}\n".encode())
        session.edit("a.py", f'K = "{secret}"\n'.encode())
        session.snapshot("a.py")
        await collect(collector, session)
    raw = json.dumps(planted)
    assert len(set(_second_engine_finds(raw)) & _SHAPED) >= 3  # the engine does see them where they are
    for form in ("atif", "chat", "otlp", "json"):
        await exported(collector, redactor, tmp_path / form, SetRequest(where="", form=form))  # type: ignore[arg-type]
        data = b"".join(path.read_bytes() for path in (tmp_path / form).glob("*/*.jsonl")).decode()
        assert set(_second_engine_finds(data)) & _SHAPED == set()
        assert not any(secret in data for secret in planted)
    blobs = [await collector.contents.read(row.blob_id) for row in await _all_blobs(collector)]
    assert set(_second_engine_finds(b"\n".join(blobs).decode("utf-8", "replace"))) & _SHAPED == set()


async def _all_blobs(collector: Collector) -> list[Any]:
    found = []
    for row in await collector.store.list_traces():
        found += await collector.store.blob_rows(row.trace_id)
    return found


async def test_what_the_audit_cannot_look_into_stays_behind(
    tmp_path: Path, collector: Collector, redactor: Any
) -> None:
    session = Session(tmp_path / "repo", "bundled").begin({"conf.py": f'K = "{TOKEN}"\n'.encode()})
    session.edit("a.py", b"A = 1\n")
    await collect(collector, session)
    await exported(collector, redactor, tmp_path / "set", SetRequest(where="", form="json"))
    (document,) = rows_of(tmp_path / "set")
    held = {blob["blob_id"]: blob["storage_uri"][:5] for blob in document["artifacts"]["blobs"]}
    assert held.pop(document["repo"]["bundle_blob_id"]) == "blob:"
    assert set(held.values()) == {"data:"}


def test_a_leak_is_found_under_the_key_that_betrays_it(redactor: Any) -> None:
    (leak,) = find_leaks(redactor, {"a": [{"b/c": f"x {TOKEN}"}]})
    assert leak.pointer == "/a/0/b~1c"


def test_the_command_writes_a_set_and_tells_what_is_in_it(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepare() -> None:
        async with a_collector(project) as collector:
            await several(collector, project / "repos", 2)

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        code = main(["--json", *words])
        return code, json.loads(capsys.readouterr().out)

    asyncio.run(prepare())
    code, told = run("capture", "export", "--where", "overall > 4", "-o", "set", "--format", "chat")
    assert (code, sum(told["rows"].values())) == (0, 1)
    manifest = json.loads((project / "set" / "manifest.json").read_bytes())
    assert manifest["versions"]["redaction"].endswith(f", pm {VERSION}")
    monkeypatch.setattr(sets, "_SEVERAL", 2)  # by several processes, with what the command line gives them
    monkeypatch.setattr(sets, "_AT_ONCE", 1)
    monkeypatch.setattr("repl.commands.captures.export._cores", lambda: 2)
    code, told = run("capture", "export", "--where", "true", "-o", "large", "--format", "chat")
    assert (code, sum(told["rows"].values())) == (0, 2)
    code, told = run("capture", "export", "--where", "import os", "-o", "set2")
    assert (code, told["error"]["code"]) == (2, "usage")
    code, told = run("capture", "export", "--fields")
    assert "overall" in told["fields"]
    for words in (
        ["--where", "true"],
        [],
        ["abc", "--where", "true"],
        ["--where", "true", "-o", "x", "--split", "1/2"],
        ["--where", "true", "-o", "x", "--shard-rows", "0"],
    ):
        assert run("capture", "export", *words)[0] == 2


def test_the_command_proves_a_trace_and_a_file_and_ends_with_8_where_something_differs(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def prepare() -> str:
        async with a_collector(project) as collector:
            return await collect(collector, bug_fix(project / "repo"))

    trace_id = asyncio.run(prepare())
    assert main(["capture", "verify", trace_id[:8]]) == 0
    assert "0 differ" in capsys.readouterr().out
    assert main(["capture", "export", trace_id, "--format", "json", "-o", "doc.json"]) == 0
    assert main(["capture", "verify", "doc.json"]) == 0
    document = json.loads((project / "doc.json").read_bytes())
    edit = next(event for event in document["events"] if event["type"] == "file_edit")
    edit["payload"]["post_hash"] = "sha256:" + "0" * 64
    (project / "doc.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["--json", "capture", "verify", "doc.json"]) == 8
    told = json.loads(capsys.readouterr().out)
    assert (told["error"]["code"], told["status"]) == ("trace", "mismatch")
    assert told["findings"][0]["seq"] == edit["seq"]
    (project / "doc.json").write_text("{}")
    assert main(["capture", "verify", "doc.json"]) == 8
    assert main(["capture", "verify", "ffffffff"]) == 7


def test_a_content_that_the_store_has_lost_differs_and_all_traces_are_proved_at_once(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = {
        "event_id": str(UUID(int=7 + (4 << 76) + (8 << 60))), "seq": 1, "ts_ms": 1, "type": "terminal_output",
        "actor": {"kind": "human"}, "payload": {"stream": "stdout", "chunk": "a line of output\n" * 8000},
    }  # fmt: skip

    async def prepare() -> str:
        async with a_collector(project) as collector:
            await collect(collector, bug_fix(project / "repo"))
            lossy = (await collector.create(new_trace())).trace_id
            await collector.append(lossy, [output])
            await collector.finalize(lossy)
            return lossy

    lossy = asyncio.run(prepare())
    assert main(["capture", "verify", "--all"]) == 0
    assert "2 verified, 0 differs" in capsys.readouterr().out
    lost = [path for path in (project / ".pm-orchestrator/collector-blobs").rglob("*") if path.is_file()]
    for path in lost:
        path.unlink()
    assert main(["capture", "verify", lossy]) == 8
    assert "is missing from the store" in capsys.readouterr().err
    assert main(["--json", "capture", "verify", "--all"]) == 8
    told = json.loads(capsys.readouterr().out)
    assert lossy in told["differing"]
    assert told["counts"]["mismatch"] == len(told["differing"])
    assert main(["capture", "verify"]) == 2


def test_looking_for_a_trace_makes_nothing(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "verify", "abcdef"]) == 7
    assert main(["capture", "export", "--where", "true", "-o", "set"]) == 7
    session = bug_fix(tmp_path / "repo")
    (project / "doc.json").write_text(json.dumps(session.document()))
    assert main(["capture", "verify", "doc.json"]) == 0
    assert [path.name for path in project.iterdir()] == ["doc.json"]
    assert "no captured sessions here" in capsys.readouterr().err
