"""The judge on a trace of a real collector, and the commands `pm capture judge` and `pm capture judge calibrate`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from collector.collector import Collector
from collector.final.qa_facts import fold_qa
from collector.judge.models import RecordedJudgeModel, RecordedReply
from collector.judge.port import Question
from collector.judge.rubric_judge import RubricJudge
from collector.judge.step import judge_trace
from collector.opening import open_collector
from tests.collector.judge.captures import a_capture, uid
from tests.collector.judge.rigs import a_reply
from tracer.errors import NotFoundError
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir


class Counting(RecordedJudgeModel):
    """A recording that counts its questions."""

    def __init__(self, score: int = 4) -> None:
        super().__init__([RecordedReply(reply=a_reply(score, cite=[uid(1), uid(3)]))], name=f"counting-{score}")
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Any:
        self.asked.append(question)
        await asyncio.sleep(0.01)
        return await super().ask(question)


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[Collector]:
    state = StateDir(tmp_path / ".pm-orchestrator")
    async with open_collector(state, load_settings(project=state.root, environ={}), environ={}) as opened:
        yield opened


async def test_the_verdict_is_a_fact_that_folds_into_qa_and_its_blobs_belong_to_the_trace(collector: Collector) -> None:
    trace_id = await a_capture(collector)
    part = await judge_trace(trace_id, collector=collector, judge=RubricJudge(Counting()))
    folded = fold_qa(await collector.store.qa_facts(trace_id))
    assert folded is not None
    assert folded.judge is not None
    assert (folded.judge.overall, folded.judge.flags) == (4.0, [])
    for name in ("rationale_blob_id", "request_blob_id", "response_blob_id"):
        opened = await collector.open_blob(part[name], trace_id=trace_id)
        assert opened.file.read()
    document = b"".join([piece async for piece in await collector.full(trace_id)])
    assert json.loads(document)["qa"]["judge"]["scores"]["clarity"] == 4.0


async def test_the_same_packet_is_asked_once_even_by_two_at_a_time(collector: Collector) -> None:
    trace_id = await a_capture(collector)
    model = Counting()
    judge = RubricJudge(model)
    first, second = await asyncio.gather(
        judge_trace(trace_id, collector=collector, judge=judge), judge_trace(trace_id, collector=collector, judge=judge)
    )
    third = await judge_trace(trace_id, collector=collector, judge=judge)
    assert first == second == third
    assert len(model.asked) <= 2
    assert len([fact for fact in await collector.store.qa_facts(trace_id) if fact.step == "judge"]) == 1


async def test_another_judge_adds_a_verdict_and_the_latest_counts(collector: Collector) -> None:
    trace_id = await a_capture(collector)
    for score in (2, 5):
        await judge_trace(trace_id, collector=collector, judge=RubricJudge(Counting(score)))
    folded = fold_qa(await collector.store.qa_facts(trace_id))
    assert folded is not None
    assert folded.judge is not None
    assert folded.judge.overall == 5.0


async def test_a_skip_takes_the_place_of_no_verdict_on_the_same_packet(collector: Collector) -> None:
    trace_id = await a_capture(collector)
    given = await judge_trace(trace_id, collector=collector, judge=RubricJudge(Counting()))
    assert await judge_trace(trace_id, collector=collector, judge=None, why_none="no key here") == given


async def test_without_consent_no_question_is_asked_and_the_skip_is_recorded_once(collector: Collector) -> None:
    trace_id, model = await a_capture(collector, allow=False), Counting()
    for _ in range(2):
        part = await judge_trace(trace_id, collector=collector, judge=RubricJudge(model))
        assert part["flags"] == ["judge_skipped"]
    assert model.asked == []
    assert len(await collector.store.qa_facts(trace_id)) == 1


async def test_an_unknown_trace_is_not_found(collector: Collector) -> None:
    with pytest.raises(NotFoundError):
        await judge_trace(uid(1), collector=collector, judge=None)


def pm(folder: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    from tests.collector.judge.command import run_pm

    return run_pm(folder, *words, **environ)


@pytest.fixture
async def captured(tmp_path: Path) -> tuple[Path, Path]:
    """A project with two finalized captures (one without consent) and an open one, and a recording."""
    state = StateDir(tmp_path / ".pm-orchestrator")
    async with open_collector(state, load_settings(project=state.root, environ={}), environ={}) as opened:
        await a_capture(opened, number=901)
        await a_capture(opened, number=902, allow=False)
        await a_capture(opened, number=903, finalize=False)
    recording = tmp_path / "replies.jsonl"
    recording.write_text(json.dumps({"reply": a_reply(3, cite=[uid(2)])}) + "\n")
    return tmp_path, recording


async def test_pm_judge_scores_a_capture_from_a_recording(captured: tuple[Path, Path]) -> None:
    folder, recording = captured
    code, out, _ = await asyncio.to_thread(
        pm, folder, "capture", "judge", uid(901), "--json", PM_JUDGE_RECORDING=str(recording)
    )
    told = json.loads(out)
    assert (code, told["judge"]["overall"], told["judge"]["flags"]) == (0, 3.0, [])
    assert told["final_trace_blob_id"].startswith("sha256:")
    code, out, _ = await asyncio.to_thread(pm, folder, "capture", "judge", uid(901), PM_JUDGE_RECORDING=str(recording))
    assert "3.0  overall" in out


async def test_pm_judge_shows_the_packet_and_sends_nothing(captured: tuple[Path, Path]) -> None:
    code, out, _ = await asyncio.to_thread(pm, captured[0], "capture", "judge", uid(902), "--packet")
    assert code == 0
    assert "| The divisor is wrong." in out


@pytest.mark.parametrize(("number", "code"), [(903, 2), (904, 7), (901, 3)])
async def test_pm_judge_says_what_is_in_its_way(captured: tuple[Path, Path], number: int, code: int) -> None:
    found, _, err = await asyncio.to_thread(pm, captured[0], "capture", "judge", uid(number))
    assert found == code, err


async def test_pm_judge_calibrate_compares_with_people(captured: tuple[Path, Path]) -> None:
    folder, recording = captured
    labels = folder / "labels.jsonl"
    rows = [
        {"trace_id": uid(901), "scores": {"clarity": 4, "overall": 3}},
        {"trace_id": uid(902), "scores": {"clarity": 2}},
        {"trace_id": "elsewhere", "scores": {"clarity": 1}, "judged": {"clarity": 1}, "length": 50},
    ]
    labels.write_text("\n".join(map(json.dumps, rows)))
    code, out, err = await asyncio.to_thread(
        pm, folder, "capture", "judge", "calibrate", "labels.jsonl", "--json", PM_JUDGE_RECORDING=str(recording)
    )
    assert code == 0, err
    told = json.loads(out)
    assert [row["dimension"] for row in told["dimensions"]] == ["clarity", "overall"]
    assert (told["dimensions"][0]["compared"], told["dimensions"][0]["missing"]) == (2, 1)
    assert told["dimensions"][0]["difference"] == pytest.approx(-0.5)
