"""The judge step on one trace of a collector: read, ask (or find the verdict), keep blobs, append the fact.

On disk after a crash: before the fact only blobs that nothing names (garbage is collected); after it the whole result.
The same inputs find the fact that is there, so the model is asked once for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from collector.blobs import CollectorBlobs
from collector.limits import IN_DATABASE
from collector.qa.judge_port import Judge
from collector.qa.judge_step import JudgeStep, prepare_judge, proof_text
from collector.qa.judge_verdict import verdict_of
from collector.qa.pipeline_facts import StepFacts
from collector.qa_fold import fold_qa
from collector.store.port import BlobRow, QaFact, TraceRow, TraceStore
from tracer import clock
from tracer.blobs import blob_id_of
from tracer.errors import NotFoundError, TraceError

__all__ = ["HoldsTraces", "TraceBlobs", "judge_trace", "prepared_step"]


class HoldsTraces(Protocol):
    """What is needed of `collector.collector.Collector`."""

    @property
    def store(self) -> TraceStore:
        """The store."""
        ...

    @property
    def blobs(self) -> CollectorBlobs:
        """Where long blobs are."""
        ...


class TraceBlobs:
    """Reads and writes blobs of one trace; what is written belongs to it once a fact names it."""

    def __init__(self, collector: HoldsTraces, trace_id: str, *, redacted: bool) -> None:
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
    collector: HoldsTraces,
    judge: Judge | None,
    why_none: str = "",
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
        **({"no_judge": why_none} if why_none else {}),
    )


async def judge_trace(
    trace_id: str,
    *,
    collector: HoldsTraces,
    judge: Judge | None,
    why_none: str = "",
    clean: Callable[[str], str] | None = None,
) -> dict[str, Any]:
    """The trace's `qa.judge` part, its fact stored; the verdict on the same inputs is found, not asked for again.

    `why_none` says why `judge` is None; `clean` is applied to every text before it is sent.

    Raises:
        NotFoundError: no such trace.

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
