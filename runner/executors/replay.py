"""The replay executor: gives the answers of a recorded trace again, in order, without touching a model.

It is the best debugging aid there is: a bug report's trace becomes a run. Files are not written again: what the
judge sees is the workspace as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast, get_args

from runner.executors.executor_port import (
    Answer,
    AnswerError,
    AnswerStatus,
    Ask,
    ErrorKind,
    LiveSink,
    Usage,
    ignore_live,
)
from tracer.conversation import ConversationTracer

_PREFIX: Final = "replay:"
_USAGE: Final = ("input_tokens", "output_tokens", "cached_tokens", "thinking_tokens")


class ReplayExecutor:
    """Answers from the LLM_RESPONSE facts of `trace`, subtask by subtask, each once."""

    name = "replay"
    continues_sessions = False

    def __init__(self, trace: Path) -> None:
        entries = ConversationTracer.read_trace(trace)
        self._answers = [
            (seq, entry.subtask_id, entry.data) for seq, entry in enumerate(entries) if entry.event == "LLM_RESPONSE"
        ]
        self._in_flight: set[int] = set()

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """The next recorded answer of the same subtask; status ERROR when there is none left."""
        del live
        used = {ref for ref in request.history if ref.startswith(_PREFIX)}
        for seq, subtask_id, data in self._answers:
            ref = f"{_PREFIX}{seq}"
            if subtask_id == request.subtask_id and ref not in used and seq not in self._in_flight:
                self._in_flight.add(seq)
                return _answer(data, ref)
        message = f"the trace has no answer left ({len(self._answers)} in all)"
        return Answer.failed("replies", message)

    async def close(self) -> None:
        """Nothing is held open."""


def _answer(data: Mapping[str, Any], ref: str) -> Answer:
    status = data.get("status")
    usage, error, cost = data.get("usage"), data.get("error"), data.get("cost_usd")
    return Answer(
        output=str(data.get("output", "")),
        status=cast("AnswerStatus", status) if status in get_args(AnswerStatus) else "ERROR",
        usage=Usage(**{key: usage.get(key) for key in _USAGE}) if isinstance(usage, dict) else None,
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
        session_ref=ref,
        stop_reason=data.get("stop_reason") if isinstance(data.get("stop_reason"), str) else None,
        error=_error(error) if isinstance(error, dict) else None,
    )


def _error(error: Mapping[str, Any]) -> AnswerError:
    kind = error.get("kind")
    known = cast("ErrorKind", kind) if kind in get_args(ErrorKind) else "crash"
    return AnswerError(kind=known, message=str(error.get("message", "")))
