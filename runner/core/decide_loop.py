"""The next step of one loop of ask, judge, reject, and the prompt after a rejection. Pure.

The task's own loop and those of its subtasks are the same; only a subtask's PASS is merged before its iteration
ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.core.state import LoopState, TaskState
from runner.core.steps import Append, AskAgent, AwaitPerson, Finish, Judge, Merge, Step
from tracer.drafts import iteration_end, quality_judgment, rejection_details
from tracer.facts import AgentError, CriterionResult, Issue, QualityJudgment
from tracer.names import TRANSIENT

# Gravest first: what makes the rest moot stands at the top.
SEVERITY = ("Q10", "Q6", "Q1", "Q4", "Q3", "Q2", "Q5", "Q12", "Q7", "Q9", "Q8", "Q11")
_INTERRUPTED = "(Your work on this was interrupted. What you did so far is still there: look at it, then go on.)"
_PLACES_EACH = 8
_PLACES_ALL = 24
_LINE = 240
_TRIED = 5
_REQUIRED = {
    "Q1": "Name as created or changed only files that exist in the workspace with that change.",
    "Q2": "Remove TODO markers: implement what each of them describes, then delete the comment.",
    "Q3": "Restore code that was removed without being asked for, and write out in full what was left out.",
    "Q4": "Fix the syntax errors; a file holds its content only, no fences, diffs or conflict markers.",
    "Q5": "Edit the files in the workspace; an answer in words changes nothing.",
    "Q6": "Finish what is left open, and report only what was done.",
    "Q7": "Make the tests pass by fixing the code; delete, skip or weaken none.",
    "Q8": "Fix what the linter reports, in the code and not in its configuration.",
    "MERGE": "Do the work again on the files as they are now, and keep what the others did.",
    "Q9": "Fix what the type checker reports, in the code and not in its configuration.",
    "Q11": "Add tests that fail with the faults that are named.",
    "Q12": "Implement every requirement of the request; those not met are cited.",
    "Q10": "Put back what is named, and leave the user's uncommitted files and repository alone.",
}


def modification_prompt(
    *,
    request: str,
    criteria_results: Sequence[CriterionResult],
    issues: Sequence[Issue] = (),
    tried: Sequence[str] = (),
    details: str = "",
) -> str:
    """The prompt for the next attempt.

    `request` is the task's first prompt; `criteria_results` and `issues` are those of the REJECT just recorded;
    `tried` holds one summary for each earlier rejected attempt, oldest first; `details` is shown as it is.
    """
    failed = sorted((result for result in criteria_results if result.passed is False), key=_severity)
    # One line for the trace: `Fix: Remove TODO markers: implement what …`
    parts = [f"Fix: {_required(failed[0]) if failed else 'earlier answers to this request were not accepted.'}"]
    if failed:
        parts += ["", "What was found:", *_found(failed, issues), "", "What is required:"]
        parts += [f"- {result.id} {result.name}: {_required(result)}" for result in failed]
    if details:
        parts += ["", details]
    if tried:
        parts += ["", "Already tried, and rejected (do something else):"]
        first = len(tried) - _TRIED
        parts += [f"- attempt {index + 1}: {_one_line(text)}" for index, text in enumerate(tried) if index >= first]
    parts += ["", "The original request:", "", request]
    return "\n".join(parts)


def _severity(result: CriterionResult) -> tuple[int, str]:
    return (SEVERITY.index(result.id) if result.id in SEVERITY else len(SEVERITY), result.id)


def _required(result: CriterionResult) -> str:
    return _REQUIRED.get(result.id, f"{result.name} holds.")


def _found(failed: Sequence[CriterionResult], issues: Sequence[Issue]) -> list[str]:
    lines: list[str] = []
    shown = 0
    for result in failed:
        own = [issue for issue in issues if issue.criterion == result.id and not issue.preexisting]
        room = min(_PLACES_EACH, _PLACES_ALL - shown)
        lines.append(f"- {result.id} {result.name}:" + (f" {_one_line(result.reason)}" if not own[:room] else ""))
        told = ""
        for issue in own[:room]:
            lines.append(f"  - {_place(issue, advice=issue.suggestion != told)}")
            told = issue.suggestion
        shown += min(room, len(own))
        count = len(own) + (result.left_out or 0)
        if count > room:
            lines.append(f"  - and {count - room} more")
    return lines


def _place(issue: Issue, *, advice: bool) -> str:
    where = issue.path or "your answer"
    if issue.line:
        where += f":{issue.line}" if issue.path else f", line {issue.line}"
    text = where + f": {_one_line(issue.message or issue.type)}"
    if issue.excerpt:
        text += f": `{_one_line(issue.excerpt)}`"
    if issue.suggestion and advice:
        text += f" -> {_one_line(issue.suggestion)}"
    return text


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE else flat[: _LINE - 1] + "…"


def decide_loop(state: TaskState, *, subtask_id: str | None = None) -> Step:
    """The next step of one loop, whichever fact came last."""
    loop = state.loop(subtask_id)
    match loop.phase:
        case "new":
            return over_limit(state) or _ask(state, loop, subtask_id)
        case "requested":
            # A request without an answer means that its outcome is unknown: ask once more.
            if loop.attempts >= state.request.limits.max_attempts:
                return Finish("ERROR", "retries", f"{loop.attempts} requests of one iteration had no answer")
            return (over_limit(state) if loop.interrupted else None) or _ask(state, loop, subtask_id)
        case "answered":
            return _after_answer(state, loop, subtask_id)
        case "judged":
            return _after_judgment(state, loop, subtask_id)
        case "rejected":
            return end_iteration(loop, subtask_id, "REJECT")
        case "ended":
            return _after_iteration(state, loop, subtask_id)


def over_limit(state: TaskState) -> Finish | None:
    """The end that the task's shared limits of money and time call for, if they are reached."""
    limits, totals = state.request.limits, state.totals
    if limits.budget_usd is not None and (totals.answers or totals.priced) and totals.cost_usd >= limits.budget_usd:
        return Finish("INCOMPLETE", "budget")
    if limits.timeout_s is not None and totals.spent_ms >= limits.timeout_s * 1000:
        return Finish("INCOMPLETE", "timeout")
    return None


def _ask(state: TaskState, loop: LoopState, subtask_id: str | None) -> AskAgent:
    goes_on = state.request.executor.continue_session and loop.session_ref is not None
    retrying = loop.retries > 0
    error = (loop.answer.error if retrying else None) or AgentError({})
    return AskAgent(
        prompt=prompt_of(state, loop, subtask_id, goes_on=goes_on),
        iteration_index=loop.iteration_index,
        attempt=loop.attempts,
        base=None if loop.fresh else loop.base,
        session_ref=loop.session_ref if goes_on else None,
        subtask_id=subtask_id,
        retry=loop.retries,
        retry_after_s=error.retry_after_s,
        retry_kind=error.kind,
        fresh=loop.fresh,
    )


def prompt_of(state: TaskState, loop: LoopState, subtask_id: str | None, *, goes_on: bool) -> str:
    """The full text of the next request: rules and task first; in the agent's own session the correction alone."""
    task = task_text(state, subtask_id)
    if loop.replied:
        newest = f"{loop.replies.newest}\n\nGo on with the task.\n\nThe original request:\n\n{state.request.prompt}"
        body = newest if goes_on else task
    elif loop.modification:
        body = loop.modification
    elif state.request.continues and (tried := state.request.continues.tried_by(subtask_id)):
        body = modification_prompt(request=task, criteria_results=(), tried=tried)
    else:
        body = task
    if state.action == "hint" and state.hint and not loop.replied:
        body = f"{body}\n\n## Hint from the user\n{state.hint}"
    if goes_on and loop.interrupted:
        body = f"{_INTERRUPTED}\n\n{body}"
    if (goes_on and (loop.modification or loop.replied)) or not state.rules:
        return body  # until an answer was judged, the agent's session may hold nothing of the rules and the task
    return f"{state.rules.rstrip()}\n\n## Task\n{body}"


def task_text(state: TaskState, subtask_id: str | None) -> str:
    """What is asked for, as the agent reads it: the request, or the subtask with what it must deliver."""
    replies = state.main.replies.items()  # those of an earlier file hold for every part
    if subtask_id is not None:
        replies += state.loop(subtask_id).replies.items()
    told = ["## What you asked before, and the user's answers\n" + "\n\n".join(replies)] if replies else []
    if subtask_id is None or state.plan is None:
        return "\n\n".join([state.request.prompt, *told])
    subtask = state.subtask(subtask_id)
    parts = [subtask.description]
    if subtask.acceptance:
        parts.append(f"Done when: {subtask.acceptance}")
    if subtask.files_expected:
        parts.append("Files to deliver: " + ", ".join(subtask.files_expected))
    parts += told
    parts.append("This is one part of a larger request. Others do the other parts: do this one only, and all of it.")
    return "\n\n".join(parts)


def _after_answer(state: TaskState, loop: LoopState, subtask_id: str | None) -> Step:
    error = loop.answer.error
    kind, message = (error.kind, error.message) if error else ("", "")
    if kind == "auth":
        return Finish("ERROR", "auth", message)
    if kind == "budget":
        return Finish("INCOMPLETE", "budget", message)
    if kind == "unavailable":  # a program that is not there does not come back by waiting
        return Finish("ERROR", "retries", message)
    if kind == "context" and not loop.answer.session_resumed:
        return Finish("INCOMPLETE", "context", message)
    if kind in TRANSIENT or kind == "context":  # a session that is full: the same once more in a new one
        if (over := over_limit(state)) is not None:
            return over
        if loop.retries >= state.request.limits.retries_after(kind):
            return Finish("ERROR", "retries", message)
        why = f"{kind}: {message}" if message else kind
        return Append(quality_judgment("RETRY", (), why, iteration_index=loop.iteration_index, subtask_id=subtask_id))
    return Judge(loop.iteration_index, loop.answer, loop.first_base, subtask_id)


def _after_judgment(state: TaskState, loop: LoopState, subtask_id: str | None) -> Step:
    judgment = loop.judgment.judgment or "REJECT"
    if judgment == "PASS" and subtask_id is not None:
        return Merge(subtask_id, loop.iteration_index)
    if judgment != "REJECT":
        return end_iteration(loop, subtask_id, judgment)
    return _reject(state, loop, loop.judgment, subtask_id)


def _reject(state: TaskState, loop: LoopState, judgment: QualityJudgment, subtask_id: str | None) -> Append:
    failed = [result for result in judgment.failures if result.id]
    prompt = modification_prompt(
        request=task_text(state, subtask_id),
        criteria_results=failed,
        issues=judgment.issues,
        tried=loop.tried.items(),
        details=judgment.conflict_text,
    )
    names = [result.id for result in failed]
    return Append(rejection_details(names, prompt, iteration_index=loop.iteration_index, subtask_id=subtask_id))


def end_iteration(loop: LoopState, subtask_id: str | None, judgment: str) -> Append:
    """ITERATION_END."""
    return Append(iteration_end(judgment, iteration_index=loop.iteration_index, subtask_id=subtask_id))


def _after_iteration(state: TaskState, loop: LoopState, subtask_id: str | None) -> Step:
    asks_person = state.request.limits.on_limit == "ask" and not state.action
    question = loop.question
    if question is not None and (question.by == "agent" or not state.action):
        if state.request.limits.on_limit in {"ask", "questions"}:
            return AwaitPerson("asked")
        if question.by == "agent":
            return Finish("INCOMPLETE", "asked")
    unsettled = loop.passed and bool(loop.judgment.unsettled)
    if unsettled and not state.action:
        return AwaitPerson("not_verified") if asks_person else Finish("INCOMPLETE", "not_verified")
    if loop.passed and not unsettled and state.action != "hint":
        return Finish("COMPLETE", "passed")
    if (over := over_limit(state)) is not None:
        return over
    allowed = state.request.limits.max_iterations + state.granted
    if loop.retries == 0 and loop.counted >= allowed:
        return AwaitPerson("max_iterations") if asks_person else Finish("INCOMPLETE", "max_iterations")
    ask = _ask(state, loop, subtask_id)
    return _waits_too_long(state, ask) or ask


def conflict_step(state: TaskState) -> Step | None:
    """The next step where the result does not go into the user's files: they are asked, a hint has it done again.

    None where it is to be tried once more.
    """
    conflict, loop = state.conflict, state.main
    if conflict is None:
        return None
    if loop.phase == "rejected":
        return end_iteration(loop, None, "REJECT")
    if state.action == "hint":
        return _reject(state, loop, conflict, None)
    if not state.action:
        return AwaitPerson("conflict")
    if not state.works_apart:
        return None  # the same end as before follows from the subtasks
    return Finish("COMPLETE", "passed" if loop.passed and not loop.judgment.unsettled else "accepted")


def _waits_too_long(state: TaskState, ask: AskAgent) -> Finish | None:
    """The end of a task whose time would be over before the provider wants to be asked again."""
    limit_s, wait_s = state.request.limits.timeout_s, ask.retry_after_s
    if limit_s is None or wait_s is None or state.totals.spent_ms / 1000 + wait_s < limit_s:
        return None
    return Finish("INCOMPLETE", "timeout", f"the provider asks to wait for {wait_s:g} s, which is more than is left")
