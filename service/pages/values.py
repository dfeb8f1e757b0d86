"""A task as its page shows it: pure values from the recorded facts, for the browser and for the exported file.

Everything text is left as recorded; templates escape it. Long values are cut for the page and say how much is hidden;
the raw trace is one link away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from runner.agent_report import prose_of
from runner.core.evolve import fold
from runner.core.outcome import outcome_of
from runner.core.subtasks import Standing
from service.pages.diff import DiffLine, diff_lines, findings_at
from tracer.catalog.labels import Label
from tracer.facts import Entry, LlmRequest, LlmResponse, Part, QualityJudgment, RejectionDetails, Usage
from tracer.trace_text import escape_controls
from tracer.verification import unverified_text

_CUT: Final = 20_000
_TITLE: Final = 200


class Shown(NamedTuple):
    """A text for the page, control characters made visible; `hidden` counts the characters that were cut."""

    text: str
    hidden: int = 0


_NOTHING: Final = Shown("")


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationView:
    """One iteration: what was asked, answered, found. Sequences are for deep links; `cost_usd` None is unknown."""

    subtask_id: str | None
    index: int
    request_seq: int | None = None
    response_seq: int | None = None
    judgment_seq: int | None = None
    attempts: int = 0
    prompt: Shown = _NOTHING
    output: Shown = _NOTHING
    status: str = ""
    model: str = ""
    error: str = ""
    cost_usd: float | None = None
    tokens: int | None = None
    duration_s: float | None = None
    files: tuple[str, ...] = ()
    diff: tuple[DiffLine, ...] = ()
    judgment: str = ""
    summary: str = ""
    criteria: tuple[dict[str, Any], ...] = ()
    issues: tuple[dict[str, Any], ...] = ()
    modification: Shown = _NOTHING
    agentic_trace: str = ""


class SubtaskView(NamedTuple):
    """How one subtask stands; `status` is wait, run, done, failed, skipped or ask, `cost_usd` None is unknown."""

    subtask_id: str
    number: int
    title: str
    status: str
    iterations: int
    text: str
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A whole task. `status` is AWAITING_RESPONSE or UNFINISHED where the trace has no end.

    `asks`: the user can answer it here; `question` is empty where it waits at its limit.
    """

    task_id: str
    title: str
    status: str
    reason: str
    detail: str
    unverified: str
    question: Shown
    choices: tuple[str, ...]
    asks: bool
    request: Shown
    rules: Shown
    executor: str
    workspace: str
    iterations: tuple[IterationView, ...]
    files: tuple[str, ...]
    cost_usd: float | None
    tokens: int | None
    duration_s: float
    facts: int
    started: str
    updated: str
    subtasks: tuple[SubtaskView, ...] = ()
    verdicts: tuple[str, ...] = field(default=())


def shown(text: object, *, limit: int = _CUT) -> Shown:
    """`text` cut to `limit` characters, its control and direction characters visible as escapes."""
    whole = text if isinstance(text, str) else ""
    cut = whole[:limit]
    return Shown("\n".join(escape_controls(line) for line in cut.split("\n")), len(whole) - len(cut))


def line_of(value: object, *, limit: int = 400) -> str:
    """A recorded value as one line, cut; empty for nothing."""
    return shown(" ".join(str(value).split()), limit=limit).text if value else ""


def task_view(entries: Sequence[Entry], *, diff_of: Callable[[str], str | None]) -> TaskView:
    """The page of the task that `entries` record; `diff_of` reads a diff blob's text, None where it is gone."""
    state = fold(entries)
    outcome = outcome_of(state, trace_file="", chain_head=None)
    request = state.request
    head = shown(request.title, limit=_TITLE)
    return TaskView(
        task_id=state.task_id,
        title=head.text + ("…" if head.hidden else ""),
        status=outcome.status,
        reason=outcome.reason,
        detail=outcome.detail,
        unverified=unverified_text(outcome.not_verified),
        question=shown(outcome.question.text if outcome.question is not None else ""),
        choices=outcome.question.choices if outcome.question is not None else (),
        asks=outcome.question is not None or (outcome.status == "AWAITING_RESPONSE" and outcome.reason != "plan"),
        request=shown(request.prompt),
        rules=shown(state.rules or ""),
        executor=request.executor.name,
        workspace=request.workspace,
        iterations=_iterations(entries, diff_of),
        files=outcome.files_modified,
        cost_usd=outcome.cost_usd,
        tokens=Usage(outcome.usage or {}).total,
        duration_s=outcome.duration_ms / 1000,
        facts=len(entries),
        started=entries[0].timestamp if entries else "",
        updated=entries[-1].timestamp if entries else "",
        subtasks=tuple(map(_subtask, outcome.subtasks)),
        verdicts=outcome.judgments,
    )


def _subtask(one: Standing) -> SubtaskView:
    """`REJECT Q3, asking again`, `after 2, 3`, why it failed: what the list of subtasks says of one."""
    match one.status:
        case "wait":
            text = f"after {', '.join(map(str, one.dependencies))}" if one.dependencies else ""
        case "run":
            text = ", ".join(part for part in (one.verdict, one.phase) if part)
        case "done":
            text = ""
        case _:
            text = one.detail or one.verdict or one.reason
    title, said = shown(one.title, limit=200).text, shown(text, limit=400).text
    return SubtaskView(one.subtask_id, one.number, title, one.status, one.iterations, said, one.cost_usd)


def _iterations(entries: Sequence[Entry], diff_of: Callable[[str], str | None]) -> tuple[IterationView, ...]:
    grouped: dict[tuple[str | None, int], dict[str, Any]] = {}
    for seq, entry in enumerate(entries):
        if entry.iteration_index is None:
            continue
        key = (entry.subtask_id, entry.iteration_index)
        fields = grouped.setdefault(key, {"subtask_id": key[0], "index": key[1]})
        reader = _READERS.get(type(entry))
        if reader is not None:
            fields |= reader(seq, entry, fields)
    return tuple(IterationView(**_with_diff(fields, diff_of)) for fields in grouped.values())


def _with_diff(fields: dict[str, Any], diff_of: Callable[[str], str | None]) -> dict[str, Any]:
    blob = fields.pop("diff_blob", None)
    text = diff_of(blob) if isinstance(blob, str) else None
    found = findings_at(fields.pop("found", ()))
    return {**fields, "diff": diff_lines(text, found) if text else ()}


def _asked(seq: int, fact: LlmRequest, fields: dict[str, Any]) -> dict[str, Any]:
    return {"request_seq": seq, "prompt": shown(fact.prompt), "attempts": fields.get("attempts", 0) + 1}


def _answered(seq: int, fact: LlmResponse, _fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "response_seq": seq,
        "output": shown(prose_of(fact.output)),
        "status": fact.status,
        "model": fact.model,
        "error": fact.error.message if fact.error else "",
        "cost_usd": fact.cost_usd,
        "tokens": fact.usage.total if fact.usage else None,
        "duration_s": None if fact.duration_ms is None else fact.duration_ms / 1000,
        "files": fact.files_modified,
        "diff_blob": fact.diff_blob,
        "agentic_trace": fact.agentic_trace or "",
    }


def _judged(seq: int, fact: QualityJudgment, _fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "judgment_seq": seq,
        "judgment": fact.judgment,
        "summary": fact.summary,
        "criteria": _filled(fact.criteria_results, ("id", "name", "passed", "reason", "outcome")),
        "found": fact.issues,
        "issues": _filled(fact.issues, ("criterion", "path", "line", "excerpt", "suggestion")),
    }


_READERS: Final[Mapping[type[Entry], Callable[[int, Any, dict[str, Any]], dict[str, Any]]]] = {
    LlmRequest: _asked,
    LlmResponse: _answered,
    QualityJudgment: _judged,
    RejectionDetails: lambda _seq, fact, _fields: {"modification": shown(fact.modification_prompt)},
}


def _filled(parts: Sequence[Part], keys: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    return tuple({key: _cell(getattr(part, key)) for key in keys} for part in parts)


def _cell(value: str | int | None) -> str | int:
    return "" if value is None else shown(value).text if isinstance(value, str) else value


def label_view(labels: list[Label]) -> list[dict[str, Any]]:
    """The history as a page shows it, the newest first."""
    return [
        {
            **each._asdict(),
            "at": each.at[:16].replace("T", " "),
            "said": ", ".join(f"{name.replace('_', ' ')} {score:g}" for name, score in each.scores.items()),
        }
        for each in reversed(labels)
    ]
