"""From what an agent's records said and how its process ended to the answer. Pure.

Truth over claims: COMPLETE needs a result record of success and an exit code that agrees. A command line that exits 0
without a result record (as one does when it is terminated), or says success and exits 1, has not answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runner.executors.agents.progress import Progress
from runner.executors.executor_port import Answer, AnswerError, Ask, budget_error
from runner.executors.provider_errors import classify_message, status_in
from runner.processes.process import Ending
from tracer.names import AnswerStatus
from tracer.prices import price_source
from tracer.redaction.cuts import ending

_AFTER_RESULT = frozenset({"lingering", "answered"})
_LIMIT_STOPS = frozenset(
    {"max_turn_requests", "max_tokens", "max_turns", "model_context_window_exceeded", "max_output_tokens"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One finished run.

    `why_ended` says why we ended it: "budget", "output", "lingering" (it went on after its result), "answered" (it is
    a server that waits for more); "" where it ended by itself. `credentials` says which key it used, for a refusal.
    """

    name: str
    version: str
    progress: Progress
    ending: Ending
    stderr: str
    why_ended: str = ""
    resumed: bool = False
    native_path: str | None = None
    silence_s: float | None = None
    login_hint: str = ""
    credentials: str = ""


def conclude(run: Run, request: Ask) -> Answer:
    """The answer that is recorded."""
    status, error = _verdict(run, request)
    progress = run.progress
    if error is not None and error.kind == "auth":
        message = f"{error.message} ({run.credentials})" if run.credentials else error.message
        error = error._replace(message=message, next_step=error.next_step or run.login_hint)
    if status == "COMPLETE" and progress.edits and progress.failed_edits == progress.edits:
        status = "INCOMPLETE"
    cost = progress.cost_usd
    if cost is None and error is not None and not (progress.usage or progress.output or progress.call_count):
        cost = 0.0 if (status_in(error.message) or 0) >= 400 else None  # an error in the place of an answer
    reference = f"{run.name}:{progress.session_id}" if progress.session_id else None
    model = progress.model or request.model
    return Answer(
        output=progress.output,
        status=status,
        model=model,
        usage=progress.usage,
        cost_usd=cost,
        session_ref=reference,
        stop_reason=progress.stop_reason,
        error=error,
        extra=_extra(run, model),
    )


def _extra(run: Run, model: str | None) -> dict[str, Any]:
    progress = run.progress
    extra: dict[str, Any] = {
        "cli_version": run.version,
        "exit_code": run.ending.exit_code,
        "tool_calls": list(progress.calls),
        "tool_call_count": progress.call_count,
        "edits": {"attempted": progress.edits, "failed": progress.failed_edits},
        "session_resumed": run.resumed,
        "price_source": price_source(model),
    }
    if progress.session_id:
        extra["native_session"] = {"id": progress.session_id, "path": run.native_path}
    if progress.by_model:
        extra["usage_by_model"] = progress.by_model
    if progress.unreadable_count:
        extra["unreadable_lines"] = {"count": progress.unreadable_count, "first": list(progress.unreadable)}
    if progress.denied:
        extra["denied_calls"] = progress.denied
    if run.why_ended and run.why_ended != "answered":
        extra["ended_by_pm"] = run.why_ended
    return extra


def _verdict(run: Run, request: Ask) -> tuple[AnswerStatus, AnswerError | None]:
    progress, ending = run.progress, run.ending
    if run.why_ended == "budget":
        return "INCOMPLETE", budget_error(request)
    if ending.kind == "timeout":
        message = f"no finished answer within {request.timeout_s or 0:g} s"
        return "TIMEOUT", AnswerError(kind="timeout", message=message, next_step="raise --timeout")
    if ending.kind == "idle":
        message = f"{run.name} wrote nothing for {run.silence_s or 0:g} s and was ended"
        return "TIMEOUT", AnswerError(kind="timeout", message=message, next_step="try again, or raise --silence")
    if run.why_ended == "output":
        return "ERROR", AnswerError(kind="crash", message=f"{run.name} wrote more than may be read and was ended")
    if progress.finished is not None:
        return _by_record(run)
    return "ERROR", _no_record(run)


def _by_record(run: Run) -> tuple[AnswerStatus, AnswerError | None]:
    progress, ending = run.progress, run.ending
    if not progress.finished:
        if progress.stop_reason in _LIMIT_STOPS:
            return "INCOMPLETE", None
        error = progress.error or _no_record(run)
        if error.kind in {"budget", "context"}:
            return "INCOMPLETE", error
        return ("BLOCKED" if error.kind == "refusal" else "ERROR"), error
    if ending.exit_code != 0 and run.why_ended not in _AFTER_RESULT:
        how = f"signal {ending.signal}" if ending.signal else f"exit code {ending.exit_code}"
        message = f"{run.name} reported success but ended with {how}: {_last_words(run.stderr)}"
        return "ERROR", AnswerError(kind="crash", message=message, next_step="try again")
    if progress.stop_reason == "refusal":
        return "BLOCKED", AnswerError(kind="refusal", message=progress.output or "the model refused the request")
    return ("INCOMPLETE" if progress.stop_reason in _LIMIT_STOPS else "COMPLETE"), None


def _no_record(run: Run) -> AnswerError:
    """Why there is no result: the agent's own words, else the output that could not be read, else how it ended."""
    ending = run.ending
    if run.progress.error is not None:
        return run.progress.error
    how = f"was ended by signal {ending.signal}" if ending.signal else f"ended with exit code {ending.exit_code}"
    said = _last_words(run.stderr)
    if said and ending.exit_code != 0:
        return classify_message(f"{run.name} {how}: {said}")
    if run.progress.unreadable:
        first = " | ".join(run.progress.unreadable)
        return AnswerError(
            kind="crash", message=f"the output of {run.name} could not be read: {first}", next_step="`pm doctor`"
        )
    return AnswerError(kind="crash", message=f"{run.name} {how} without a result", next_step="try again")


def _last_words(stderr: str) -> str:
    told = stderr.partition("\nStack backtrace:")[0]
    lines = [line.strip() for line in told.splitlines() if line.strip() and not line.startswith("    at ")]
    return " ".join(ending("\n".join(lines[-6:]), 800).splitlines())
