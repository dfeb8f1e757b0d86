"""How a task stands, and how one that ended short is taken up again in a new file. Pure.

The new file's USER_REQUEST repeats the prompt and says in `continues` which file it follows, why that one ended, what
was tried (so that the next request names it), and which script replies are used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runner.core.chunk_plan import require_plan
from runner.core.decide import decide
from runner.core.evolve import fold, reply_text
from runner.core.state import TaskState, answer_in
from runner.core.steps import AwaitPerson
from runner.core.subtasks import standings
from runner.core.task import Isolated, TaskOutcome
from tracer.drafts import Draft, continued_request
from tracer.errors import UsageError
from tracer.facts import Continues, Entry, FileCount, QualityJudgment, Spent, UserRequest
from tracer.names import FINAL_STATUSES, REVIEW, Action, TaskStatus
from tracer.verification import strength_in, tests_in, unreached_in, unverified_in, verification_of


def outcome_of(state: TaskState, *, trace_file: str, chain_head: str | None) -> TaskOutcome:
    """`state` as callers see it; a task without an end is AWAITING_RESPONSE or UNFINISHED."""
    status, reason, detail, files = _standing(state)
    before = _before(state)
    totals = state.totals.after(before)
    return TaskOutcome(
        task_id=state.task_id,
        status=status,
        reason=reason,
        detail=detail,
        kind=state.request.kind,
        answer=_answer(state),
        verification=verification_of(state.last_judgments),
        not_verified=unverified_in(state.last_judgments, state.request.untested),
        strength=strength_in(state.last_judgments),
        unreached=unreached_in(state.last_judgments),
        question=state.question if reason == "asked" else None,
        tests=tests_in(state.last_judgments),
        allowable=any(judgment.to_allow for judgment in state.last_judgments),
        next_step=_mend(state) if status == "ERROR" else "",
        iterations=len(before.judgments) + state.iterations,
        judgments=(*before.judgments, *state.judgments.items()),
        files_modified=files,
        files=_counted(state, files),
        cost_usd=totals.told_cost,
        usage=totals.usage or None,
        duration_ms=totals.spent_ms,
        trace_file=trace_file,
        subtasks=standings(state),
        isolation=_isolation(state),
        chain_head=chain_head,
    )


def _before(state: TaskState) -> Spent:
    return Spent({}) if state.request.continues is None else state.request.continues.spent


def _counted(state: TaskState, files: Sequence[str]) -> tuple[FileCount, ...]:
    """The files with their lines; without them in a record from before they were counted."""
    counted = state.final.files if state.final is not None else ()
    return counted or tuple(map(FileCount, files))


def _answer(state: TaskState) -> str:
    """The last answer; where the last one is of one of several subtasks, that of each, by its title."""
    named = [(one, state.subtasks.get(one.id)) for one in (state.plan.subtasks if state.plan is not None else ())]
    told = [(one.title, answer_in(loop.answer)) for one, loop in named if loop is not None]
    if len(told) < 2 or state.answer not in {text for _, text in told}:
        return state.answer
    return "\n\n".join(f"**{title}**\n\n{text}" for title, text in told if text)


def _isolation(state: TaskState) -> Isolated:
    if state.plan is None or state.plan.isolation != "worktrees":
        return Isolated()
    waits = state.conflict if state.final is None else None
    told = (waits.conflict, waits.conflict_text) if waits is not None else ((), "")
    return Isolated("worktree", state.plan.reason if state.works_apart else "", *told)


def _mend(state: TaskState) -> str:
    """The next step that the last error came with: of the task's own answer, or of a subtask's."""
    answers = [state.main.answer, *(loop.answer for _, loop in sorted(state.subtasks.items()))]
    errors = [answer.error for answer in answers if answer.error is not None and answer.purpose != REVIEW]
    return next((error.next_step for error in errors if error.next_step), "")


def _standing(state: TaskState) -> tuple[TaskStatus, str, str, tuple[str, ...]]:
    if (final := state.final) is not None:
        status: TaskStatus = next((one for one in FINAL_STATUSES if one == final.status), "ERROR")
        return status, final.reason, final.detail, final.files_modified
    step = decide(state)
    if isinstance(step, AwaitPerson):
        return "AWAITING_RESPONSE", step.reason, "", state.files
    return "UNFINISHED", "", "", state.files


def continuation(
    entries: Sequence[Entry],
    *,
    trace_file: str,
    overrides: Mapping[str, Any],
    into: str | None = None,
    answer: Action | None = None,
    text: str = "",
) -> Draft:
    """USER_REQUEST for the file that follows the ended one which holds `entries`.

    `answer` is what the user says to that end: what they accept or allow stays as it is; `text` answers the question
    that it ended with, in the session that asked, and without a question it is a hint for the next request.
    """
    state, accept = fold(entries), answer in {"accept", "allow"}
    if answer == "allow" and not state.main.judgment.to_allow:
        raise UsageError(f"{state.task_id} asks for nothing to be allowed", next_step=f"pm show {state.task_id}")
    if answer == "hint" and state.planned and state.question is None:
        raise UsageError("subtasks take no hint after the end", next_step=f"pm resume {state.task_id}")
    if accept and (state.works_apart or state.planned):
        raise UsageError(f"the work of {state.task_id} is not in your files", next_step=f"pm resume {state.task_id}")
    first = next(entry for entry in entries if isinstance(entry, UserRequest))
    earlier = state.request.continues or Continues({})
    totals = state.totals.after(earlier.spent)
    continues: dict[str, Any] = {
        "file": trace_file,
        "reason": state.final.reason if state.final else "",
        "tried": [*earlier.tried, *state.main.tried.items()],
        "history": [*earlier.history, *state.history.items()],
        "spent": {
            "answers": totals.answers,
            "judgments": [*earlier.spent.judgments, *state.judgments.items()],
            "cost_usd": totals.cost,
            "usage": dict(totals.usage),
            "duration_ms": totals.spent_ms,
        },
    }
    if replies := state.main.replies.items():
        continues["replies"] = list(replies)
    if answer == "hint" and state.question is None:
        continues["hint"] = text
    elif answer in {"continue", "hint"} and state.question is not None:
        continues["replies"] = [*replies, reply_text(state.question.text, text)]
        continues["session_ref"] = state.main.session_ref
    if accept and state.final is not None:
        judgment = _settled(state.main.judgment) if answer == "allow" else state.main.judgment.data
        continues["ended"] = {**state.final.change, "answer": state.answer, "judgment": judgment}
    if state.works_apart:
        continues["apart"] = state.main.first_base
    if state.plan is not None and state.planned and not state.plan.proposed:
        continues["plan"] = _plan(state)
        continues["subtasks_tried"] = _tried_by_subtask(state, earlier)
    limits = {**_limits_given_later(entries), **overrides}
    branch = state.request.into if into is None else into
    draft = continued_request(first, limits=limits, continues=continues, into=branch)
    return draft._replace(data={**draft.data, "action": answer}) if accept else draft


def _settled(judgment: QualityJudgment) -> dict[str, Any]:
    """The judgment once the user has allowed what only they could: those criteria hold, and their tests count."""
    results = [
        {**one.data, "outcome": "pass", "reason": "allowed by the user"} if one.id in judgment.to_allow else one.data
        for one in judgment.criteria_results
    ]
    tests = {"tests": {**judgment.tests.data, "outcome": "pass"}} if judgment.tests is not None else {}
    return {**judgment.data, "criteria_results": results, "unsettled": [], "question": None, **tests}


def _limits_given_later(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the person set when they went on with the ended file: it holds for the task, not for that file."""
    later: dict[str, Any] = {}
    for entry in entries:
        if isinstance(entry, UserRequest) and entry.action:
            later |= entry.limits_given
    return later


def _plan(state: TaskState) -> dict[str, Any]:
    """The plan that ran, without repairs that failed; `done` names what need not be done again."""
    subtasks, repairs = state.planned, state.plan.repairs if state.plan else 0
    passed = [item.id for item in subtasks if state.loop(item.id).passed]
    first = len(subtasks) - repairs
    planned = [*subtasks[:first], *(item for item in subtasks[first:] if item.id in passed)]
    return {"subtasks": [item.data for item in planned], "done": passed, "base": state.main.first_base}


def _tried_by_subtask(state: TaskState, earlier: Continues) -> dict[str, list[str]]:
    tried = {key: list(earlier.tried_by(key)) for key in earlier.subtasks_tried}
    for subtask_id, loop in sorted(state.subtasks.items()):
        if found := loop.tried.items():
            tried[subtask_id] = [*tried.get(subtask_id, ()), *found]
    return tried


def check_answer(task_id: str, state: TaskState, action: Action, plan: Mapping[str, Any] | None) -> None:
    """Refuse an answer that a proposed plan, or a task without one, cannot take; `allow` where nothing asks for it."""
    waits = state.plan is not None and state.plan.proposed
    if action == "allow" and (state.question is None or not state.loop(state.asking).passed):
        raise UsageError(f"{task_id} asks for nothing to be allowed", next_step=f"pm show {task_id}")
    if state.conflict is not None and state.planned and action == "hint":
        raise UsageError("subtasks are not done again after the end", next_step=f"pm resume {task_id}")
    if waits and action == "hint" and not state.request.executor.plans:
        raise UsageError("nobody can plan again: the executor has no model", next_step=f"pm plan {task_id} --edit")
    if plan is not None:
        if not waits:
            raise UsageError(f"{task_id} has no plan that waits", next_step=f"pm show {task_id}")
        require_plan(plan)
