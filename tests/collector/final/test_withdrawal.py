"""Consent that is taken back and traces that are erased: their contents are gone at once, and from later sets."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from collector.collector import Collector
from collector.errors import DeletedError
from collector.final.consent import FLAGS, revocations, withdraw
from collector.handover.revoked import LIST, check_set, revocation_list
from collector.handover.sets import SetRequest, Shards, export_set
from collector.judge.packet import Packet
from collector.judge.port import JudgeResult
from collector.judge.rubric_judge import RubricJudge
from collector.qa.pipeline import request_step, run_qa
from collector.qa.sandbox.port import Sandbox
from tests.collector.final.collecting import a_collector, collect
from tests.collector.final.sessions import Session, bug_fix
from tests.collector.judge.rigs import a_reply, recorded
from tests.collector.qa.rigs import quick_settings
from tracer.errors import NotFoundError, SandboxError, UsageError
from tracer.redaction.engine import build_redactor

PRINTED = b"the printed word 4711"
BUNDLED = random.Random(1).randbytes(100_000)  # too long for the database


@pytest.fixture
async def collector(tmp_path: Path) -> Any:
    async with a_collector(tmp_path / "state") as opened:
        yield opened


def a_session(folder: Path, name: str = "one") -> Session:
    session = Session(folder / name, name).begin({"a.py": b"x = 1\n", "big.txt": BUNDLED})
    session.think("It was the number", "hypothesis")
    session.command("pytest", PRINTED)
    session.edit("a.py", b"x = 2\n")
    return session


def bytes_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def exported(collector: Collector, target: Path) -> dict[str, Any]:
    redactor = build_redactor(
        state_dir=target.parent / "audit", environ={}, host="", persons=[], rewrite_paths=True, truncate=False
    )
    await export_set(
        SetRequest(where="", form="chat"),
        store=collector.store, contents=collector.contents, redactor=redactor, target=target,
    )  # fmt: skip
    return json.loads((target / "manifest.json").read_bytes())


async def test_an_erased_trace_leaves_no_byte_and_only_its_own_go(tmp_path: Path, collector: Collector) -> None:
    gone = await collect(collector, a_session(tmp_path, "one"))
    kept = await collect(collector, bug_fix(tmp_path / "two"))
    before = len(await collector.store.blob_rows(kept))
    assert await collector.erase(gone)
    with pytest.raises(DeletedError):
        await collector.row(gone)
    assert PRINTED not in bytes_below(tmp_path / "state")
    assert not [info async for info in collector.blobs.stored()], "the bundle lay outside the database"
    for row in await collector.store.blob_rows(kept):
        await collector.contents.read(row.blob_id)
    assert len(await collector.store.blob_rows(kept)) == before
    assert not await collector.erase(gone)


async def test_what_consent_covered_goes_with_it_and_is_in_no_later_set(tmp_path: Path, collector: Collector) -> None:
    trace_id = await collect(collector, a_session(tmp_path))
    settings = quick_settings(tmp_path)
    await run_qa(trace_id, collector=collector, settings=settings, judge=None)
    first = await exported(collector, tmp_path / "first")
    document = (await collector.row(trace_id)).final_blob_id
    assert PRINTED in bytes_below(tmp_path / "first")
    left = await withdraw(collector, trace_id, [FLAGS["output"], FLAGS["code"]])
    assert left == {"store_raw_code": False, "store_terminal_output": False, "allow_llm_judge": True}
    assert PRINTED not in bytes_below(tmp_path / "state")
    assert len(bytes_below(tmp_path / "state" / ".pm-orchestrator" / "collector-blobs")) < len(BUNDLED)
    row = await collector.row(trace_id)
    assert row.final_blob_id not in {None, document}
    assert row.metadata["repo"]["bundle_blob_id"] is None
    second = await exported(collector, tmp_path / "second")
    assert PRINTED not in bytes_below(tmp_path / "second")
    assert b"It was the number" in bytes_below(tmp_path / "second")
    assert first["consent"]["store_terminal_output"] == 1
    assert second["consent"]["store_terminal_output"] == 0
    listed = tmp_path / "revocations.json"
    listed.write_bytes(revocation_list(await revocations(collector.store), at_ms=5))
    assert [each["trace_id"] for each in check_set(tmp_path / "first", listed)["revoked"]] == [trace_id]
    assert check_set(tmp_path / "first", tmp_path / "first" / LIST)["revoked"] == []
    assert check_set(tmp_path / "second", listed)["revoked"] == [], "it was made of what is left"
    assert await withdraw(collector, trace_id, [FLAGS["output"]]) == left


async def test_a_raw_trace_without_consent_to_code_is_deleted(tmp_path: Path, collector: Collector) -> None:
    session = a_session(tmp_path)
    session.store = "raw"
    trace_id = await collect(collector, session)
    assert not any((await withdraw(collector, trace_id, [FLAGS["code"]])).values())
    (listed,) = await revocations(collector.store)
    assert (listed["trace_id"], listed["what"]) == (trace_id, "deleted")
    assert PRINTED not in bytes_below(tmp_path / "state")


class _Asked:
    """A judge in whose time to think the developer takes consent back."""

    identity = "asked"

    def __init__(self, collector: Collector, trace_id: str) -> None:
        self._collector = collector
        self._trace_id = trace_id

    async def judge(self, packet: Packet) -> JudgeResult:
        await withdraw(self._collector, self._trace_id, [FLAGS["output"], FLAGS["judge"]])
        return await RubricJudge(recorded(a_reply(4, cite=sorted(packet.event_ids)[:1]))).judge(packet)

    async def close(self) -> None:
        pass


class _Scores:
    """A judge with the same score for everything."""

    def __init__(self, score: int) -> None:
        self.identity = f"scores {score}"
        self._score = score

    async def judge(self, packet: Packet) -> JudgeResult:
        reply = a_reply(self._score, cite=sorted(packet.event_ids)[:1])
        return await RubricJudge(recorded(reply)).judge(packet)

    async def close(self) -> None:
        pass


async def _no_sandbox(_image: str) -> Sandbox:
    raise SandboxError("no engine")


async def test_consent_taken_back_while_the_checks_run_holds_for_what_they_store(
    tmp_path: Path, collector: Collector
) -> None:
    trace_id = await collect(collector, a_session(tmp_path))
    given: dict[str, Any] = {"collector": collector, "settings": quick_settings(tmp_path), "sandbox": _no_sandbox}
    qa = await run_qa(trace_id, judge=_Asked(collector, trace_id), **given)
    assert qa.judge is None
    assert PRINTED not in bytes_below(tmp_path / "state")
    assert b"Tight work." not in bytes_below(tmp_path / "state")
    steps = [fact.step for fact in await collector.store.qa_facts(trace_id)]
    await run_qa(trace_id, judge=None, **given)
    await run_qa(trace_id, judge=None, **given)
    again = [fact.step for fact in await collector.store.qa_facts(trace_id)]
    assert again[len(steps) :].count("judge") == 1, "the skip, once"


async def test_every_earlier_final_document_goes_with_the_consent(tmp_path: Path, collector: Collector) -> None:
    trace_id = await collect(collector, a_session(tmp_path))
    given: dict[str, Any] = {"collector": collector, "settings": quick_settings(tmp_path), "sandbox": _no_sandbox}
    documents: list[str] = []
    for score in (2, 4):
        await request_step(collector, trace_id, "judge")
        qa = await run_qa(trace_id, judge=_Scores(score), **given)
        assert qa.judge is not None
        assert qa.judge.overall == score
        documents.append(str((await collector.row(trace_id)).final_blob_id))
    assert len(set(documents)) == 2
    kept = await collector.keep_result(trace_id, b'{"a check": "that has not named it yet"}')
    await withdraw(collector, trace_id, [FLAGS["judge"]])
    for document in documents:
        with pytest.raises(NotFoundError):
            await collector.contents.read(document)
    facts = await collector.store.qa_facts(trace_id)
    assert [fact.result for fact in facts if fact.step == "judge"] == [{"judge": None}] * 3, (
        "no score stays beside them"
    )
    newest = (await collector.row(trace_id)).final_blob_id
    assert newest is not None
    assert json.loads(await collector.contents.read(newest))["qa"]["judge"] is None
    await collector.contents.read(kept)


async def test_a_set_that_was_changed_or_is_none_is_told(tmp_path: Path, collector: Collector) -> None:
    await collect(collector, a_session(tmp_path))
    manifest = await exported(collector, tmp_path / "set")
    path = manifest["shards"][0]["path"]
    with (tmp_path / "set" / path).open("ab") as file:
        file.write(b"{}\n")
    assert check_set(tmp_path / "set", tmp_path / "set" / LIST)["changed"] == [path]
    with pytest.raises(UsageError, match="cannot be read"):
        check_set(tmp_path, tmp_path / "set" / LIST)


def test_a_task_s_folder_of_which_a_file_was_changed_added_or_taken_is_told(tmp_path: Path) -> None:
    files = {"instruction.md": False, "solution/solve.sh": True, "tests/verify.py": False}
    line = {"files": [{"path": name, "executable": runs, "text": name} for name, runs in files.items()]}

    def made(name: str) -> Path:
        shards = Shards(tmp_path / name, name="harbor", most_rows=1)
        shard, row = shards.add_folder("train", "one", io.BytesIO(orjson.dumps(line)))
        entry = {"trace_id": "one", "consent": {}, "shard": shard, "row": row}
        manifest = {"traces": [entry], "shards": shards.written}
        (tmp_path / name / "manifest.json").write_bytes(orjson.dumps(manifest))
        (tmp_path / name / LIST).write_bytes(revocation_list([], at_ms=1))
        return tmp_path / name

    def changed(folder: Path) -> Any:
        return check_set(folder, folder / LIST)["changed"]

    assert changed(made("whole")) == []
    harms: list[Callable[[Path], object]] = [
        lambda task: (task / "tests/verify.py").write_text("print(1)"),
        lambda task: (task / "tests/conftest.py").write_text(""),
        lambda task: (task / "instruction.md").unlink(),
        lambda task: (task / "solution/solve.sh").chmod(0o644),
        lambda task: (task / "tests/more").symlink_to("/etc"),
    ]
    for number, harm in enumerate(harms):
        folder = made(f"harmed{number}")
        harm(folder / "train/one")
        assert changed(folder) == ["train/one"], number
