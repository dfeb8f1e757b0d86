"""The judge as a pipeline step: material from the store in bounded memory, consent, retries, blobs, cached verdicts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from collector.judge.calibrate import RememberedScores
from collector.judge.models import (
    LocalPace,
    PacedModel,
    RecordedJudgeModel,
    RecordedReply,
    read_recording,
    recorded_line,
)
from collector.judge.packet import PacketLimits
from collector.judge.port import JudgeBusyError, JudgeModel, JudgeResult, ModelAnswer, Question
from collector.judge.rubric_judge import RubricJudge, choose_judge
from collector.judge.step import JudgeStep, gather_material, prepare_judge, proof_text
from collector.store.port import StoredEvent, TraceRow
from tests.collector.judge.rigs import EVENTS, a_packet, a_reply, recorded
from tests.collector.store.samples import stored
from tracer import clock
from tracer.capture.document import QaJudge
from tracer.errors import ConfigError, CredentialsError, PmError
from tracer.settings.layers import load_settings

TRACE = "10000000-0000-4000-8000-000000000000"


class Store:
    """Events by page and blobs by id, as a store would serve them."""

    def __init__(self, events: list[dict[str, Any]], blobs: dict[str, bytes] | None = None) -> None:
        self.rows = [
            stored({"actor": {"kind": "human", "id": None}, "context": {}, "ts_ms": 1, **event}) for event in events
        ]
        self.blobs = blobs or {}
        self.pages = 0
        self.reads: list[str] = []

    async def read_events(self, trace_id: str, *, after: int = 0, limit: int = 1000) -> tuple[StoredEvent, ...]:
        self.pages += 1
        return tuple(row for row in self.rows if row.seq > after)[:limit]

    async def read_text(self, blob_id: str, limit: int) -> str:
        self.reads.append(blob_id)
        return self.blobs.get(blob_id, b"").decode("utf-8", "replace")[:limit]

    async def put_blob(self, data: bytes, content_type: str) -> str:
        blob_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[blob_id] = data
        return blob_id


def row(*, consent: Any = True, **fields: Any) -> TraceRow:
    flags = {} if consent is None else {"allow_llm_judge": consent}
    return TraceRow(
        trace_id=TRACE,
        created_at_ms=1,
        metadata={
            "task": {"bug_report": {"title": "half() is a third", "description": "d", "expected": "3"}},
            "developer": {"developer_id": "d", "consent_flags": flags},
        },
        **{"final_state": {"pr": {"diff_blob_id": "sha256:diff"}}, **fields},
    )


def small() -> Store:
    return Store(
        [
            _event(0, "thought", {"kind": "plan", "content_blob_id": "sha256:thought"}),
            _event(1, "navigation", {"kind": "open", "file_path": "a.py"}),
            _event(2, "test_run", {"command": "pytest", "passed": False, "exit_code": 1, "runner": "pytest"}),
            _event(3, "file_edit", {"file_path": "a.py", "patch_blob_id": "sha256:patch"}),
        ],
        {"sha256:thought": b"look at the divisor", "sha256:patch": b"-3\n+2\n", "sha256:diff": b"--- a\n+++ b\n"},
    )


def _event(number: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"event_id": EVENTS[number], "seq": number + 1, "type": kind, "payload": payload}


async def prepared(store: Store, judge: Any, trace: TraceRow | None = None, **fields: Any) -> JudgeStep:
    return await prepare_judge(
        trace or row(), events=store, read_text=store.read_text, put_blob=store.put_blob, judge=judge, **fields
    )


async def test_the_material_holds_thoughts_tests_actions_and_the_final_diff() -> None:
    store = small()
    found = await gather_material(row(), events=store, read_text=store.read_text, proof="stable")
    assert (found.thoughts[0].kind, found.thoughts[0].text) == ("plan", "look at the divisor")
    assert found.tests[0].note == "pytest -> failed, exit 1"
    assert (found.actions[0].note, found.actions[0].text) == ("a.py", "-3\n+2\n")
    assert (found.diff, found.diff_events, found.proof) == ("--- a\n+++ b\n", (EVENTS[3],), "stable")
    assert found.bug.expected == "3"


async def test_without_a_submitted_diff_the_last_commit_or_pull_request_gives_it() -> None:
    store = small()
    store.rows.append(
        stored(
            {
                "event_id": EVENTS[4],
                "seq": 9,
                "ts_ms": 1,
                "type": "commit",
                "actor": {},
                "context": {},
                "payload": {"message": "fix", "diff_blob_id": "sha256:diff"},
            }
        )
    )
    found = await gather_material(row(final_state=None), events=store, read_text=store.read_text)
    assert found.diff == "--- a\n+++ b\n"
    assert found.diff_events == (EVENTS[3], EVENTS[4])


async def test_of_a_huge_trace_only_the_ends_are_kept_and_read() -> None:
    events = [
        {"event_id": f"e{n}", "seq": n, "type": "thought", "payload": {"kind": "plan", "content_blob_id": f"b{n}"}}
        for n in range(1, 2001)
    ]
    store = Store(events)
    found = await gather_material(
        row(final_state=None), events=store, read_text=store.read_text, limits=PacketLimits(first=3, last=4)
    )
    assert [excerpt.seq for excerpt in found.thoughts] == [1, 2, 3, 1997, 1998, 1999, 2000]
    assert (found.dropped[0], len(store.reads), store.pages) == (1993, 7, 5)


async def test_the_fact_is_a_part_of_qa_and_its_blobs_hold_rationale_request_and_response() -> None:
    store = small()
    outcome = await (await prepared(store, RubricJudge(recorded(a_reply(4))))).run()
    part = QaJudge.model_validate(outcome.result)
    assert (part.overall, part.flags, part.rubric_version) == (4.0, [], "1.0")
    assert part.rationale_blob_id is not None
    assert b"Tight work." in store.blobs[part.rationale_blob_id]
    assert part.request_blob_id is not None
    assert json.loads(store.blobs[part.request_blob_id])[0]["packet"].startswith("Everything between")
    assert part.response_blob_id is not None
    assert json.loads(store.blobs[part.response_blob_id])[0]["recorded"] is True
    assert part.detail["citations"]["clarity"] == [EVENTS[0]]


@pytest.mark.parametrize("consent", [False, None, "yes", 1])
async def test_without_consent_nothing_is_read_and_the_step_is_recorded_as_skipped(consent: Any) -> None:
    store = small()
    outcome = await (await prepared(store, RubricJudge(recorded(a_reply(5))), row(consent=consent))).run()
    part = QaJudge.model_validate(outcome.result)
    assert (part.overall, part.flags) == (None, ["judge_skipped"])
    assert "did not allow" in str(part.detail["reason"])
    assert (store.pages, store.reads) == (0, [])


async def test_without_a_judge_the_step_is_skipped_with_the_reason() -> None:
    outcome = await (await prepared(small(), None, no_judge="no key")).run()
    assert (outcome.result["flags"], outcome.result["detail"]["reason"]) == (["judge_skipped"], "no key")


async def test_the_input_hash_follows_the_material_and_the_judge() -> None:
    judge = RubricJudge(recorded(a_reply(4)))
    first = await prepared(small(), judge)
    assert (await prepared(small(), judge)).input_hash == first.input_hash
    changed = small()
    changed.blobs["sha256:thought"] = b"guess"
    assert (await prepared(changed, judge)).input_hash != first.input_hash
    assert (await prepared(small(), RubricJudge(recorded(a_reply(4)), votes=3))).input_hash != first.input_hash
    assert (await prepared(small(), judge, proof="failed")).input_hash != first.input_hash


async def test_every_text_is_redacted_before_it_leaves() -> None:
    store = small()
    step = await prepared(store, RubricJudge(recorded(a_reply(4))), clean=lambda text: text.replace("divisor", "[x]"))
    assert step.packet is not None
    assert "divisor" not in step.packet.text


class Troubled:
    """Fails `times` times, then answers."""

    identity = "troubled"

    def __init__(self, times: int, error: PmError) -> None:
        self.left, self.error, self.asked = times, error, 0

    async def judge(self, packet: Any) -> JudgeResult:
        self.asked += 1
        if self.left:
            self.left -= 1
            raise self.error
        return await RubricJudge(recorded(a_reply(3))).judge(packet)

    async def close(self) -> None:
        pass


async def run_with(judge: Troubled) -> Any:
    step = await prepared(small(), judge)
    quick = JudgeStep(
        input_hash=step.input_hash, packet=step.packet, judge=judge, put_blob=step.put_blob, waits_s=(0.0, 0.0)
    )
    return step.input_hash, await quick.run()


async def test_a_busy_model_is_asked_again_and_its_answer_counts() -> None:
    judge = Troubled(2, JudgeBusyError("busy"))
    input_hash, outcome = await run_with(judge)
    assert (outcome.result["overall"], judge.asked, outcome.input_hash) == (3.0, 3, input_hash)


@pytest.mark.parametrize(
    ("error", "asked"), [(JudgeBusyError("busy", why="529"), 3), (CredentialsError("key refused"), 1)]
)
async def test_lasting_trouble_skips_the_step_under_a_hash_of_its_own(error: PmError, asked: int) -> None:
    judge = Troubled(9, error)
    input_hash, outcome = await run_with(judge)
    assert (outcome.result["flags"], outcome.result["overall"], judge.asked) == (["judge_skipped"], None, asked)
    assert error.what in outcome.result["detail"]["reason"]
    assert outcome.input_hash.startswith(f"{input_hash}:skipped-")
    QaJudge.model_validate(outcome.result)


def test_our_own_test_runs_are_told_in_words_that_do_not_change_between_runs() -> None:
    runs = [
        {"phase": "base", "passed": False, "exit_code": 1, "duration_ms": 5},
        {"phase": "head", "passed": True, "exit_code": 0, "duration_ms": 7},
        {"phase": "head", "passed": True, "exit_code": 0, "duration_ms": 9},
    ]
    told = proof_text({"invocations": runs, "final_passed": True})
    assert told == "base: failed, exit 1\nhead: passed, exit 0, 2 times\nfinal: passed"
    assert proof_text({"not_testable": "redacted"}) == "Nothing could be tested: redacted"
    assert proof_text(None) == ""


class Counting:
    """A recorded model that counts its questions."""

    def __init__(self) -> None:
        self.inner = recorded(a_reply(4))
        self.identity = "counting"
        self.asked = 0

    async def ask(self, question: Question) -> ModelAnswer:
        self.asked += 1
        return await self.inner.ask(question)

    async def close(self) -> None:
        pass


async def test_the_same_packet_gets_the_same_scores_from_memory_which_keeps_no_words(tmp_path: Path) -> None:
    model: Any = Counting()
    judge = RememberedScores(RubricJudge(model), tmp_path / "verdicts")
    first = await judge.judge(a_packet())
    again = await RememberedScores(RubricJudge(model), tmp_path / "verdicts").judge(a_packet())
    assert (again.scores, again.overall, again.flags) == (first.scores, first.overall, first.flags)
    assert b"Tight work" not in next((tmp_path / "verdicts").iterdir()).read_bytes()
    assert model.asked == 1
    await judge.judge(a_packet(proof="other"))
    await RememberedScores(RubricJudge(model, votes=3), tmp_path / "verdicts").judge(a_packet())
    assert model.asked == 5


async def test_a_damaged_verdict_is_asked_for_again(tmp_path: Path) -> None:
    model: Any = Counting()
    judge = RememberedScores(RubricJudge(model), tmp_path)
    await judge.judge(a_packet())
    (kept,) = tmp_path.glob("*.json")
    kept.write_bytes(kept.read_bytes()[:50])
    assert (await judge.judge(a_packet())).overall == 4.0
    assert model.asked == 2


async def test_requests_are_spaced_to_the_rate() -> None:
    model: JudgeModel = PacedModel(recorded(a_reply(4)), LocalPace(per_minute=600))
    began = clock.monotonic()
    await RubricJudge(model, votes=3).judge(a_packet())
    assert clock.monotonic() - began >= 0.2


def settings(**values: Any) -> Any:
    from tracer.settings.declared import find_setting

    class Fixed:
        def get(self, key: str) -> Any:
            setting = find_setting(key)
            assert setting is not None, key
            return values.get(key.replace(".", "_"), setting.default)

    return Fixed()


def test_without_key_and_recording_there_is_no_judge_and_the_reason_says_so() -> None:
    chosen = choose_judge(settings(), {"HOME": "/nonexistent"})
    assert chosen.judge is None
    assert "API key" in chosen.why


def test_a_key_chooses_the_strongest_general_model_and_the_setting_another() -> None:
    environ = {"ANTHROPIC_API_KEY": "k" * 20}
    chosen = choose_judge(settings(), environ).judge
    assert chosen is not None
    assert chosen.identity == "claude-fable-5-2 rubric=1.0 votes=1"
    other = choose_judge(settings(judge_model="claude-opus-5-5", judge_votes=3), environ).judge
    assert other is not None
    assert other.identity == "claude-opus-5-5 rubric=1.0 votes=3"
    assert choose_judge(settings(judge_mode="off"), environ).judge is None


def test_the_model_comes_from_judge_model_in_the_environment(tmp_path: Path) -> None:
    assert load_settings(project=tmp_path, environ={"HOME": str(tmp_path)}).get("judge.model") == "claude-fable-5-2"
    chosen = load_settings(project=tmp_path, environ={"HOME": str(tmp_path), "JUDGE_MODEL": "another"})
    assert chosen.get("judge.model") == "another"


async def test_a_recording_judges_without_a_key_and_a_changed_one_counts_as_another_judge(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text(json.dumps({"reply": a_reply(2)}) + "\n")
    chosen = choose_judge(settings(judge_recording=str(path)), {}).judge
    assert chosen is not None
    assert (await chosen.judge(a_packet())).overall == 2.0
    path.write_text(json.dumps({"reply": a_reply(3)}) + "\n")
    changed = choose_judge(settings(judge_recording=str(path)), {}).judge
    assert changed is not None
    assert changed.identity != chosen.identity


async def test_a_recorded_line_answers_its_question_only(tmp_path: Path) -> None:
    question = Question(packet=a_packet(), vote=1)
    answer = await RecordedJudgeModel([RecordedReply(text="hello ☃")], name="x").ask(question)
    path = tmp_path / "r.jsonl"
    path.write_bytes(recorded_line(question, answer))
    (line,) = read_recording(path)
    assert line.text == "hello ☃"
    assert line.answers(question)
    assert not line.answers(Question(packet=a_packet(), vote=0))
    assert not line.answers(Question(packet=a_packet(proof="x"), vote=1))


@pytest.mark.parametrize("content", [b"{", b'{"text": 5}', b'{"unknown": 1}', b"\xff\xfe"])
def test_a_recording_that_is_none_is_an_error_naming_the_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"text": "ok"}\n' + content)
    with pytest.raises(ConfigError, match="line 2"):
        read_recording(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_recording(tmp_path / "missing")
