"""The judge as a step of the QA pipeline: packet, consent, verdict, blobs, and the fact's `qa.judge` part.

`prepare_judge` reads the trace and names the inputs (`input_hash`); a fact stored under that hash is the cached
verdict. `JudgeStep.run` always returns a part of `qa`: trouble that lasts through the retries becomes `judge_skipped`
with its reason under a hash of its own, so that a later run asks again and the trace completes meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from collector.qa.judge_material import EventReader, ReadText, gather_material
from collector.qa.judge_port import Judge, JudgeBusyError, JudgeResult
from collector.qa.packet import Packet, build_packet
from collector.qa.verdict import no_verdict
from collector.store.port import TraceRow
from tracer import clock
from tracer.errors import PmError

__all__ = ["JudgeOutcome", "JudgeStep", "PutBlob", "prepare_judge", "proof_text"]

PutBlob = Callable[[bytes, str], Awaitable[str]]
"""Store bytes of a content type durably, as belonging to the trace; their blob id."""

_NO_CONSENT: Final = "the developer did not allow a judge (allow_llm_judge)"
_NO_JUDGE: Final = "no judge is set up (no API key and no recording)"
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
            return await self._outcome(_skipped("none", self.skip or _NO_JUDGE))
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
            "rationale_blob_id": await self.put_blob(_utf8(result.rationale), "text/plain"),
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
    events: EventReader,
    read_text: ReadText,
    put_blob: PutBlob,
    judge: Judge | None,
    proof: str = "",
    clean: Callable[[str], str] | None = None,
    no_judge: str = _NO_JUDGE,
) -> JudgeStep:
    """The step for one finalized trace. Without consent the trace's content is not even read.

    `proof` is what our own test runs showed (`proof_text`), `clean` the redaction of every text before it is sent;
    `no_judge` says why `judge` is None.
    """
    consent = (row.metadata.get("developer") or {}).get("consent_flags") or {}
    if consent.get("allow_llm_judge") is not True:
        return JudgeStep(input_hash=_hash("no-consent"), packet=None, judge=None, put_blob=put_blob, skip=_NO_CONSENT)
    if judge is None:
        return JudgeStep(input_hash=_hash("none", no_judge), packet=None, judge=None, put_blob=put_blob, skip=no_judge)
    material = await gather_material(row, events=events, read_text=read_text, proof=proof)
    packet = await asyncio.to_thread(build_packet, material, clean=clean)
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


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
