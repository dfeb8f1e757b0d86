"""How a task's end becomes an exit code, an error with a next step, and the fields of a JSON record."""

from __future__ import annotations

from typing import Any

from repl.present.progress import short_id
from repl.present.text import count_text, one_line
from runner.core.task import TaskOutcome
from tracer.errors import CredentialsError, LimitError, NotAcceptedError, PmError, TraceError, UnavailableError
from tracer.facts import Question
from tracer.verification import unverified_text


def outcome_fields(outcome: TaskOutcome) -> dict[str, Any]:
    """What the closing record of `run`, `resume` and `respond` says about the task."""
    return {
        "task_id": outcome.task_id,
        "status": outcome.status,
        "reason": outcome.reason,
        **result_fields(outcome),
        "iterations": outcome.iterations,
        "judgments": list(outcome.judgments),
        "files_modified": list(outcome.files_modified),
        "files": [one._asdict() for one in outcome.files],
        "usage": dict(outcome.usage) if outcome.usage else None,
        "cost_usd": outcome.cost_usd,
        "duration_ms": outcome.duration_ms,
        "trace_file": outcome.trace_file,
        "chain_head": outcome.chain_head,
        **({"subtasks": [one._asdict() for one in outcome.subtasks]} if outcome.subtasks else {}),
    }


def result_fields(outcome: TaskOutcome) -> dict[str, Any]:
    """What the task gave and what was verified of it: the same in every record that shows a task."""
    return {
        "answer": outcome.answer,
        "question": outcome.question.text if outcome.question is not None else None,
        "choices": list(outcome.question.choices) if outcome.question is not None else [],
        "verification": outcome.verification,
        "not_verified": [one.to_dict() for one in outcome.not_verified],
        "strength": None if outcome.strength is None else dict(outcome.strength.data),
        "unreached": list(outcome.unreached),
        "tests": dict(outcome.tests.data) if outcome.tests else None,
        "isolation": outcome.isolation._asdict(),
        "kind": outcome.kind or None,
    }


def outcome_error(outcome: TaskOutcome, *, max_iterations: int = 0, prefix: str = "pm ") -> PmError | None:
    """Why the task's end is no success, None for COMPLETE. `prefix` begins the next step (`pm ` or `/`)."""
    short = short_id(outcome.task_id)
    detail, allow = outcome.detail, "allow | " if outcome.allowable else ""
    match outcome.status:
        case "COMPLETE":
            return None
        case "INCOMPLETE":
            return _limit(outcome, max_iterations, prefix)
        case "AWAITING_RESPONSE":
            if outcome.reason == "plan":
                return LimitError(
                    f"{outcome.task_id} waits for your word on its plan",
                    why=f"{count_text(len(outcome.subtasks), 'subtask')}, nothing has run yet",
                    next_step=f"{prefix}plan {short} --approve | --edit | --again TEXT",
                )
            if outcome.reason == "conflict":
                return LimitError(
                    f"the result of {outcome.task_id} waits: your files changed meanwhile",
                    why=f"both changed the same lines of {', '.join(map(one_line, outcome.isolation.conflicts[:10]))}",
                    next_step=(
                        f"{prefix}review {short}   put your change aside, then {prefix}resume {short}   or   "
                        f"{prefix}resume {short} --into BRANCH   or   {prefix}respond {short} hint TEXT | stop"
                    ),
                )
            if outcome.question is not None:
                return LimitError(
                    f"{outcome.task_id} asks you",
                    why=_asked(outcome.question),
                    next_step=f"{prefix}respond {short} {allow}hint TEXT | accept | continue | stop",
                )
            last = outcome.judgments[-1] if outcome.judgments else "none"
            return LimitError(
                f"{outcome.task_id} waits for your answer",
                why=f"{count_text(outcome.iterations, 'iteration')}, last verdict {last}",
                next_step=f"{prefix}respond {short} continue | hint TEXT | accept | stop",
            )
        case "CANCELLED":
            return NotAcceptedError(
                f"{outcome.task_id} was stopped for good",
                why=one_line(detail, 200),
                next_step=f"{prefix}resume {short}",
            )
        case "UNFINISHED":
            return NotAcceptedError(
                f"{outcome.task_id} stopped", why="nothing is lost", next_step=f"{prefix}resume {short}"
            )
        case _:
            kinds = {"auth": CredentialsError, "retries": UnavailableError, "record": TraceError}
            return kinds.get(outcome.reason, NotAcceptedError)(
                f"{outcome.task_id} ended ERROR: {outcome.reason or 'unknown reason'}",
                why=one_line(detail, 500),
                next_step=f"{outcome.next_step or f'{prefix}trace {short}'}   then   {prefix}resume {short}",
            )


def _asked(question: Question) -> str:
    """A question on one line, with the answers that were named."""
    choices = f" ({' | '.join(question.choices)})" if question.choices else ""
    return one_line(" ".join(f"{question.text}{choices}".split()), 500)


def _limit(outcome: TaskOutcome, max_iterations: int, prefix: str) -> LimitError:
    short, allow = short_id(outcome.task_id), "allow | " if outcome.allowable else ""
    if outcome.reason == "not_verified":
        look = f"{prefix}review {short}   then   " if outcome.files_modified else ""
        return LimitError(
            f"{outcome.task_id} is done and not verified",
            why=one_line(unverified_text(outcome.not_verified, prefix=prefix), 500),
            next_step=f"{look}{prefix}respond {short} {allow}accept   or   {prefix}resume {short}",
        )
    last = outcome.judgments[-1] if outcome.judgments else "none"
    if outcome.question is not None:
        return LimitError(
            "stopped: the agent asks, and nobody was there to answer",
            why=_asked(outcome.question),
            next_step=f'{prefix}respond {short} hint "your answer" | accept',
        )
    if outcome.reason == "context":
        return LimitError(
            "stopped: the prompt is too long for the model",
            why=one_line(outcome.detail, 500),
            next_step=f"{prefix}run --chunk always   or   a shorter request   or   --model NAME with a larger context",
        )
    what, flag = {
        "budget": ("the budget is used up", "--budget-usd USD"),
        "timeout": ("the time is used up", "--timeout TIME"),
    }.get(outcome.reason, ("", ""))
    if not flag:
        counted = sum(judgment != "RETRY" for judgment in outcome.judgments)
        limit = max(max_iterations, counted)
        what = f"{counted} of {limit} iterations"
        flag = f"--max-iterations {2 * max(limit, 1)}"
    verdict = f"last verdict {last}" + (f" ({outcome.detail})" if outcome.detail else "")
    accept = f"   or   {prefix}respond {short} hint TEXT | accept" if outcome.iterations else ""
    return LimitError(f"stopped: {what}, {verdict}", next_step=f"{prefix}resume {short} {flag}{accept}")
