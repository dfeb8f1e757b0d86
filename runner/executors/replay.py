"""The replay executor: gives the answers of a recorded trace again, in order, without touching a model.

It is the best debugging aid there is: a bug report's trace becomes a run. Files are not written again: what the
judge sees is the workspace as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from runner.executors.executor_port import Answer, AnswerError, Ask, LiveSink, Usage, ignore_live
from tracer.conversation import ConversationTracer
from tracer.facts import LlmResponse
from tracer.names import ANSWER_STATUSES, ERROR_KINDS

_PREFIX: Final = "replay:"


class ReplayExecutor:
    """Answers from the LLM_RESPONSE facts of `trace`, subtask by subtask, each once."""

    name = "replay"
    continues_sessions = False

    def __init__(self, trace: Path) -> None:
        entries = ConversationTracer.read_trace(trace)
        self._answers = [(seq, entry) for seq, entry in enumerate(entries) if isinstance(entry, LlmResponse)]
        self._in_flight: set[int] = set()

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """The next recorded answer of the same subtask; status ERROR when there is none left."""
        del live
        used = {ref for ref in request.history if ref.startswith(_PREFIX)}
        for seq, recorded in self._answers:
            ref = f"{_PREFIX}{seq}"
            same = _loop_of(recorded, request.task_id) == request.subtask_id
            if same and ref not in used and seq not in self._in_flight:
                self._in_flight.add(seq)
                return _answer(recorded, ref)
        message = f"the trace has no answer left ({len(self._answers)} in all)"
        return Answer.failed("replies", message)

    async def close(self) -> None:
        """Nothing is held open."""


def _loop_of(recorded: LlmResponse, task_id: str) -> str | None:
    """The loop of an answer as the task that replays it calls it: all but the main one begin with the task's id."""
    name = recorded.subtask_id
    began = name is not None and name.startswith(recorded.task_id)
    return task_id + name.removeprefix(recorded.task_id) if name is not None and began else name


def _answer(recorded: LlmResponse, ref: str) -> Answer:
    usage, error = recorded.usage, recorded.error
    return Answer(
        output=recorded.output,
        status=next((status for status in ANSWER_STATUSES if status == recorded.status), "ERROR"),
        usage=usage
        and Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            thinking_tokens=usage.thinking_tokens,
        ),
        cost_usd=recorded.cost_usd,
        session_ref=ref,
        stop_reason=recorded.stop_reason,
        error=AnswerError(
            kind=next((kind for kind in ERROR_KINDS if kind == error.kind), "crash"), message=error.message
        )
        if error
        else None,
    )
