"""The judge as a QA step: material, packet, consent, verdict, blobs, and the `qa.judge` fact.

The same inputs find the fact that is there, so the model is asked once. Events are read in pages; only those in the
packet keep their texts. Lasting trouble becomes `judge_skipped` under a key of its own, so a later run asks again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import orjson

from collector.collector import Collector
from collector.config import IN_DATABASE
from collector.final.qa_facts import StepFacts, fold_qa, key_of
from collector.judge.packet import BugText, Excerpt, Material, Packet, PacketLimits, build_packet
from collector.judge.port import Judge, JudgeBusyError, JudgeResult
from collector.judge.verdict import no_verdict
from collector.store.port import BlobRow, QaFact, StoredEvent, TraceRow, TraceStore
from tracer import clock
from tracer.blobs import blob_id_of
from tracer.errors import NotFoundError, PmError, TraceError

ReadText = Callable[[str, int], Awaitable[str]]
"""The first N characters of a blob as text, or an empty text where it is not here."""

_PAGE: Final = 500
_TEXT: Final = 48_000
_SECTIONS: Final[Mapping[str, str]] = {
    "thought": "thoughts",
    "test_run": "tests",
    "file_edit": "actions",
    "terminal_command": "actions",
    "terminal_output": "actions",
    "debug_action": "actions",
    "commit": "actions",
    "pr_metadata": "actions",
    "error": "actions",
}
_BLOBS: Final = ("content_blob_id", "patch_blob_id", "chunk_blob_id", "detail_blob_id", "value_blob_id")


_Seen = tuple[Excerpt, str]
"""One event without its texts, and the blob that holds them (empty: none)."""


@dataclass(slots=True)
class _Ends:
    """The first and the last of a run of events; those between are counted."""

    first: int
    last: int
    head: list[_Seen] = field(default_factory=list)
    tail: deque[_Seen] = field(default_factory=deque)
    dropped: int = 0

    def add(self, seen: _Seen) -> None:
        if len(self.head) < self.first:
            self.head.append(seen)
            return
        self.tail.append(seen)
        if len(self.tail) > self.last:
            self.tail.popleft()
            self.dropped += 1

    def __iter__(self) -> Iterator[_Seen]:
        yield from self.head
        yield from self.tail


async def gather_material(
    row: TraceRow, *, events: TraceStore, read_text: ReadText, proof: str = "", limits: PacketLimits | None = None
) -> Material:
    """The material of one finalized trace; `proof` is what our own test runs showed, as text."""
    limits = limits or PacketLimits()
    ends = {name: _Ends(limits.first, limits.last) for name in ("thoughts", "tests", "actions")}
    diff_blob, edits, after = _final_diff(row), deque[str](maxlen=limits.last), 0
    diff_source = ""
    while page := await events.read_events(row.trace_id, after=after, limit=_PAGE):
        after = page[-1].seq
        for event in page:
            section = _SECTIONS.get(event.type)
            if section is None:
                continue
            payload = orjson.loads(event.payload)
            ends[section].add(_seen(event, payload))
            if event.type == "file_edit":
                edits.append(event.event_id)
            elif payload.get("diff_blob_id") and not _final_diff(row):
                diff_blob, diff_source = payload["diff_blob_id"], event.event_id
    found: dict[str, Any] = {
        name: tuple([replace(seen, text=await read_text(blob, _TEXT)) if blob else seen for seen, blob in run])
        for name, run in ends.items()
    }
    shown = {excerpt.event_id for excerpts in found.values() for excerpt in excerpts}
    report = (row.metadata.get("task") or {}).get("bug_report") or {}
    sources = [*(event_id for event_id in edits if event_id in shown), *([diff_source] if diff_source else [])]
    return Material(
        bug=BugText(**{name: str(report.get(name) or "") for name in BugText.__slots__}),
        **found,
        diff=await read_text(diff_blob, limits.diff * 4) if diff_blob else "",
        diff_events=tuple(sources),
        proof=proof,
        dropped=(ends["thoughts"].dropped, ends["tests"].dropped, ends["actions"].dropped),
    )


def _final_diff(row: TraceRow) -> str:
    return str(((row.final_state or {}).get("pr") or {}).get("diff_blob_id") or "")


def _seen(event: StoredEvent, payload: Mapping[str, Any]) -> _Seen:
    kind = str(payload.get("kind") or payload.get("action") or payload.get("stream") or payload.get("runner") or "")
    return (
        Excerpt(event_id=event.event_id, seq=event.seq, type=event.type, kind=kind, note=_note(event.type, payload)),
        next((str(payload[name]) for name in _BLOBS if payload.get(name)), ""),
    )


def _note(event_type: str, payload: Mapping[str, Any]) -> str:
    match event_type:
        case "test_run":
            verdict = "passed" if payload.get("passed") else "failed"
            return f"{payload.get('command', '')} -> {verdict}, exit {payload.get('exit_code')}"
        case "terminal_command":
            return str(payload.get("command", ""))
        case "file_edit":
            return str(payload.get("file_path", ""))
        case "commit" | "error":
            return str(payload.get("message", ""))
        case "pr_metadata":
            return "\n".join(str(payload[name]) for name in ("title", "description") if payload.get(name))
        case "debug_action":
            told = (payload.get("file_path"), payload.get("line"), payload.get("expression"))
            return " ".join(str(value) for value in told if value is not None)
        case _:
            return ""


PutBlob = Callable[[bytes, str], Awaitable[str]]
"""Store bytes of a content type durably, as belonging to the trace; their blob id."""

_NO_CONSENT: Final = "the developer did not allow a judge (allow_llm_judge)"
NO_JUDGE: Final = "no judge is set up (no API key and no recording)"
_MODEL_LENGTH: Final = 200
_WAITS_S: Final = (2.0, 8.0, 30.0)
_LONGEST_WAIT_S: Final = 120.0


class JudgeOutcome(NamedTuple):
    """What the fact holds: its input hash and the `qa.judge` object."""

    input_hash: str
    result: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStep:
    """A prepared step; `skip` says why the model is not asked at all."""

    input_hash: str
    packet: Packet | None
    judge: Judge | None
    put_blob: PutBlob
    skip: str = ""
    waits_s: tuple[float, ...] = _WAITS_S

    async def run(self) -> JudgeOutcome:
        """The verdict, or why there is none; never an error of the model's side."""
        if self.skip or self.judge is None or self.packet is None:
            return await self._outcome(_skipped("none", self.skip or NO_JUDGE))
        for wait in (*self.waits_s, None):
            try:
                return await self._outcome(await self.judge.judge(self.packet))
            except JudgeBusyError as error:
                if wait is None:
                    return await self._trouble(error)
                await asyncio.sleep(min(max(wait, error.retry_after_s or 0.0), _LONGEST_WAIT_S))
            except PmError as error:
                return await self._trouble(error)
        raise AssertionError("the last round returns")  # pragma: no cover

    async def _trouble(self, error: PmError) -> JudgeOutcome:
        reason = f"{error.what} ({error.why})" if error.why else error.what
        identity = self.judge.identity if self.judge is not None else "none"
        outcome = await self._outcome(_skipped(identity, reason))
        return outcome._replace(input_hash=f"{self.input_hash}:skipped-{clock.now_epoch_ms()}")

    async def _outcome(self, result: JudgeResult) -> JudgeOutcome:
        part: dict[str, Any] = {
            "model": result.model[:_MODEL_LENGTH] or "none",
            "rubric_version": result.rubric_version,
            "scores": dict(result.scores),
            "overall": result.overall,
            "rationale_blob_id": await self.put_blob(result.rationale.encode("utf-8", "replace"), "text/plain"),
            "flags": list(result.flags),
            "detail": {**_detail(result, self.packet), "inputs": self.input_hash},
        }
        if result.exchanges:
            requests = _array([exchange.request for exchange in result.exchanges])
            responses = _array([exchange.response for exchange in result.exchanges])
            part["request_blob_id"] = await self.put_blob(requests, "application/json")
            part["response_blob_id"] = await self.put_blob(responses, "application/json")
        return JudgeOutcome(self.input_hash, part)


async def prepare_judge(
    row: TraceRow,
    *,
    events: TraceStore,
    read_text: ReadText,
    put_blob: PutBlob,
    judge: Judge | None,
    proof: str = "",
    clean: Callable[[str], str] | None = None,
    no_judge: str = NO_JUDGE,
) -> JudgeStep:
    """The step for one finalized trace. Without consent the trace's content is not even read.

    `proof` is what our own test runs showed (`proof_text`), `clean` the redaction of every text before it is sent;
    `no_judge` says why `judge` is None.
    """
    consent = (row.metadata.get("developer") or {}).get("consent_flags") or {}
    if consent.get("allow_llm_judge") is not True:
        return JudgeStep(input_hash=_hash("no-consent"), packet=None, judge=None, put_blob=put_blob, skip=_NO_CONSENT)
    material = await gather_material(row, events=events, read_text=read_text, proof=proof)
    packet = await asyncio.to_thread(build_packet, material, clean=clean)
    if judge is None:
        none = _hash("none", no_judge)
        return JudgeStep(input_hash=none, packet=packet, judge=None, put_blob=put_blob, skip=no_judge)
    return JudgeStep(
        input_hash=_hash(packet.content_hash, judge.identity), packet=packet, judge=judge, put_blob=put_blob
    )


def proof_text(tests: Mapping[str, Any] | None) -> str:
    """What our own test runs showed, from `qa.tests`, in words that do not change from run to run."""
    if not tests:
        return ""
    if tests.get("not_testable"):
        return f"Nothing could be tested: {tests['not_testable']}"
    runs: dict[tuple[str, bool, Any], int] = {}
    for run in tests.get("invocations") or []:
        key = (str(run.get("phase", "head")), bool(run.get("passed")), run.get("exit_code"))
        runs[key] = runs.get(key, 0) + 1
    lines = [
        f"{phase}: {'passed' if passed else 'failed'}, exit {code}" + (f", {count} times" if count > 1 else "")
        for (phase, passed, code), count in runs.items()
    ]
    final = tests.get("final_passed")
    return "\n".join([*lines, f"final: {'unknown' if final is None else 'passed' if final else 'failed'}"])


def _skipped(model: str, reason: str) -> JudgeResult:
    return no_verdict(model=model, flags=("judge_skipped",), reason=reason)


def _detail(result: JudgeResult, packet: Packet | None) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "correctness_confidence": result.correctness_confidence,
        "votes": result.votes,
        "spread": dict(result.spread),
        "citations": {name: list(event_ids) for name, event_ids in result.citations.items()},
    }
    if result.reason:
        detail["reason"] = result.reason
    if packet is not None:
        detail["packet"] = packet.content_hash
        detail["events_left_out"] = packet.dropped
    return detail


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(("judge/1", *parts)).encode()).hexdigest()


def _array(bodies: list[bytes]) -> bytes:
    return b"[" + b",\n".join(bodies) + b"]"


class Verdict(NamedTuple):
    """The `qa.judge` part and the key of its fact; trouble with the model stands under a key of its own."""

    key: str
    part: dict[str, Any]


async def verdict_of(
    step: JudgeStep, facts: StepFacts, *, progress: Callable[[str], None] = lambda _: None
) -> Verdict | None:
    """What is to be stored; None where the latest fact holds it already.

    A skip, or trouble with the model, takes the place of no verdict on the same packet, whoever gave it.
    """
    key = key_of("judge", step.input_hash, facts.marker("judge"))
    if facts.done("judge", key) is not None:
        return None
    kept = _kept(step, facts)
    if kept is not None and (step.skip or not facts.asked_alone("judge")):
        progress("judge: the same packet was judged before")
        return Verdict(key, kept)
    progress(f"judge: skipped: {step.skip}" if step.skip else "judge: asked")
    outcome = await step.run()
    if outcome.input_hash == step.input_hash:
        return Verdict(key, outcome.result)
    kept = _kept(replace(step, judge=None), facts)
    return Verdict(f"{key}:trouble-{clock.now_epoch_ms()}", outcome.result if kept is None else kept)


def _kept(step: JudgeStep, facts: StepFacts) -> dict[str, Any] | None:
    """The latest verdict that came of an answer: of the same judge on the same packet, without one of any."""
    for fact in reversed(facts.all_of("judge")):
        part: dict[str, Any] | None = fact.result.get("judge")
        if part is None:  # removed with the consent to it
            continue
        detail = part.get("detail", {})
        same = detail.get("inputs") == step.input_hash
        if step.judge is None and step.packet is not None:
            same = detail.get("packet") == step.packet.content_hash
        if same and "judge_skipped" not in part["flags"]:
            return part
    return None


class TraceBlobs:
    """Reads and writes blobs of one trace; what is written belongs to it once a fact names it."""

    def __init__(self, collector: Collector, trace_id: str, *, redacted: bool) -> None:
        self._store = collector.store
        self._blobs = collector.blobs
        self._trace_id = trace_id
        self._redaction = {"applied": redacted, "rules": ["secret_scan", "pii_mask"] if redacted else []}

    async def read_text(self, blob_id: str, limit: int) -> str:
        """The first `limit` characters of a blob; empty where it is not here or damaged."""
        try:
            data = await self._store.blob_data(blob_id)
            if data is None:
                with await self._blobs.open(blob_id) as file:
                    data = file.read(limit * 4)
        except (NotFoundError, TraceError):
            return ""
        return data[: limit * 4].decode("utf-8", "replace")[:limit]

    async def put(self, data: bytes, content_type: str) -> str:
        """Store bytes durably; their id."""
        blob_id = blob_id_of(data)
        async with self._store.blob_gate():
            held = data if len(data) <= IN_DATABASE else None
            if held is None:
                await self._blobs.put_bytes(data)
            uri = f"db:{blob_id}" if held is not None else self._blobs.get_uri(blob_id)
            row = BlobRow(blob_id, uri, content_type, len(data), self._redaction)
            await self._store.put_blob_row(row, trace_id=self._trace_id, data=held)
        return blob_id


async def prepared_step(
    row: TraceRow,
    *,
    collector: Collector,
    judge: Judge | None,
    why_none: str = NO_JUDGE,
    clean: Callable[[str], str] | None = None,
    facts: tuple[QaFact, ...] = (),
) -> JudgeStep:
    """The step with the trace's own test proof in its packet."""
    blobs = TraceBlobs(collector, row.trace_id, redacted=clean is not None)
    folded = fold_qa(facts)
    tests = folded.tests.model_dump() if folded is not None and folded.tests is not None else None
    return await prepare_judge(
        row,
        events=collector.store,
        read_text=blobs.read_text,
        put_blob=blobs.put,
        judge=judge,
        proof=proof_text(tests),
        clean=clean,
        no_judge=why_none,
    )


async def judge_trace(
    trace_id: str,
    *,
    collector: Collector,
    judge: Judge | None,
    why_none: str = NO_JUDGE,
    clean: Callable[[str], str] | None = None,
) -> dict[str, Any]:
    """The trace's `qa.judge` part, its fact stored; the verdict on the same inputs is found, not asked for again.

    `why_none` says why `judge` is None; `clean` is applied to every text before it is sent.
    """
    row = await collector.store.get_trace(trace_id)
    if row is None or row.status == "deleted":
        raise NotFoundError(f"no trace {trace_id!r}")
    facts = await collector.store.qa_facts(trace_id)
    step = await prepared_step(row, collector=collector, judge=judge, why_none=why_none, clean=clean, facts=facts)
    known = StepFacts(facts)
    verdict = await verdict_of(step, known)
    if verdict is None:
        return _latest(facts)
    key = known.fresh_key("judge", verdict.key)
    fact = QaFact("judge", key, clock.now_epoch_ms(), {"judge": verdict.part})
    if not await collector.store.append_qa_fact(trace_id, fact):  # another worker was first: its verdict stays
        return _latest(await collector.store.qa_facts(trace_id))
    return verdict.part


def _latest(facts: tuple[QaFact, ...]) -> dict[str, Any]:
    return next(dict(fact.result["judge"]) for fact in reversed(facts) if fact.step == "judge")
