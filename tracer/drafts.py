"""One constructor for each event of a conversation: the keys and their order as the record holds them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tracer.facts import ExecutorChoice, FileCount, Unverified, UserRequest
from tracer.names import EventName, SessionEventName


class Draft(NamedTuple):
    """An event before it has time, session and task: what `decide` asks to append."""

    event: EventName | SessionEventName | Literal["UNDO"]
    data: dict[str, Any]
    iteration_index: int | None = None
    subtask_id: str | None = None


def system_rules(*, rules: str, sha256: str) -> Draft:
    """SYSTEM_RULES."""
    return Draft("SYSTEM_RULES", {"rules": rules, "sha256": sha256})


def chunking_plan(*, subtasks: Iterable[Mapping[str, Any]], reason: str, mode: str, **more: Any) -> Draft:
    """CHUNKING_PLAN; `more`: proposed, done, base, isolation, why."""
    return Draft("CHUNKING_PLAN", {"subtasks": list(subtasks), "reason": reason, "mode": mode, **more})


def quality_judgment(
    judgment: str,
    criteria_results: Iterable[Mapping[str, Any]],
    summary: str,
    *,
    iteration_index: int,
    subtask_id: str | None,
    **more: Any,
) -> Draft:
    """QUALITY_JUDGMENT.

    `more`: issues, duration_ms, whole, notes, question, unreached, unsettled, tests, expectations, conflict,
    conflict_text. What is None, False or empty is left out, but for issues and duration_ms.
    """
    data: dict[str, Any] = {"judgment": judgment, "criteria_results": list(criteria_results), "summary": summary}
    data |= {key: value for key, value in more.items() if value or key in {"issues", "duration_ms"}}
    return Draft("QUALITY_JUDGMENT", data, iteration_index, subtask_id)


def rejection_details(
    criteria_failed: Sequence[str], modification_prompt: str, *, iteration_index: int, subtask_id: str | None
) -> Draft:
    """REJECTION_DETAILS."""
    data = {"criteria_failed": list(criteria_failed), "modification_prompt": modification_prompt}
    return Draft("REJECTION_DETAILS", data, iteration_index, subtask_id)


def iteration_end(
    judgment: str, *, iteration_index: int, subtask_id: str | None, merged: Mapping[str, Any] | None = None
) -> Draft:
    """ITERATION_END; `merged` is what a subtask's PASS added to the common result."""
    data: dict[str, Any] = {"iteration_index": iteration_index, "judgment": judgment}
    if merged is not None:
        data["merged"] = merged
    return Draft("ITERATION_END", data, iteration_index, subtask_id)


def user_request(prompt: str, *, optional: Mapping[str, Any], **keys: Any) -> Draft:
    """USER_REQUEST; `keys` in the record's order: title, kind, workspace, limits, executor, checks, chunk.

    `optional` holds plan, approve_plan, into, partial, isolation, label and prompt_file: left out where empty, but for
    a plan.
    """
    given = {key: value for key, value in optional.items() if value or value == {}}
    return Draft("USER_REQUEST", {"prompt": prompt, "trace_version": "1.0", **keys, **given})


def continued_request(
    first: UserRequest, *, limits: Mapping[str, Any], continues: Mapping[str, Any], into: str
) -> Draft:
    """USER_REQUEST of a new file that follows the one `first` began; keys that nobody knows are handed on too."""
    kept = {key: value for key, value in first.data.items() if key not in {"redactions", "action", "into"}}
    branch = {"into": into} if into else {}
    given = {**first.limits_recorded, **limits}
    return Draft("USER_REQUEST", {**kept, **branch, "limits": given, "continues": dict(continues)})


def user_answer(action: str, prompt: str = "", **more: Any) -> Draft:
    """USER_REQUEST that answers a waiting task; `more`: max_iterations, limits, plan, into, left out where None."""
    given = {key: value for key, value in more.items() if value is not None}
    return Draft("USER_REQUEST", {"prompt": prompt, "action": action, **given})


def llm_request(
    prompt: str,
    *,
    base: str | None,
    purpose: str,
    waited_ms: int,
    base_tests: Mapping[str, Any] | None = None,
    iteration_index: int,
    subtask_id: str | None,
    **keys: Any,
) -> Draft:
    """LLM_REQUEST; `keys`: attempt, executor, model. One with a `purpose` has no base."""
    data: dict[str, Any] = {"prompt": prompt, **keys, **({"purpose": purpose} if purpose else {"base": base})}
    if subtask_id is not None:
        data["subtask_id"] = subtask_id
    if waited_ms:
        data["waited_ms"] = waited_ms
    if base_tests is not None:
        data["base_tests"] = dict(base_tests)
    return Draft("LLM_REQUEST", data, iteration_index, subtask_id)


def session_started(session_ref: str, *, iteration_index: int, subtask_id: str | None) -> Draft:
    """SESSION_STARTED."""
    return Draft("SESSION_STARTED", {"session_ref": session_ref}, iteration_index, subtask_id)


def session_interrupted(told: Mapping[str, Any], *, iteration_index: int | None, subtask_id: str | None) -> Draft:
    """SESSION_INTERRUPTED; `told`: session_ref, agentic_trace, usage, cost_usd, None too."""
    return Draft("SESSION_INTERRUPTED", dict(told), iteration_index, subtask_id)


def llm_response(
    *,
    extra: Mapping[str, Any],
    model: str | None,
    stop_reason: str | None,
    report: Mapping[str, Any] | None = None,
    collateral: Sequence[Mapping[str, str]] = (),
    left_blob: str | None = None,
    iteration_index: int,
    subtask_id: str | None,
    purpose: str = "",
    **keys: Any,
) -> Draft:
    """LLM_RESPONSE; `keys` are written in their order, None too, and `extra` (the executor's own) before them.

    output, status, files_modified, usage, cost_usd, duration_ms, session_ref, agentic_trace, diff_blob, error.
    """
    named = (("model", model), ("stop_reason", stop_reason), ("report", report), ("purpose", purpose or None))
    told: dict[str, Any] = {key: value for key, value in named if value is not None}
    if collateral:
        told["collateral"] = [dict(one) for one in collateral]
    if left_blob:
        told["left_blob"] = left_blob
    return Draft("LLM_RESPONSE", {**extra, **keys, **told}, iteration_index, subtask_id)


def final_summary(
    *,
    unverified: Sequence[Unverified],
    detail: str,
    subtasks: Sequence[Mapping[str, Any]] | None,
    branch: str,
    left_blob: str | None = None,
    files: Sequence[FileCount] = (),
    **keys: Any,
) -> Draft:
    """FINAL_SUMMARY; `keys` are written in their order, None too; the others where they say something.

    status, total_iterations, files_modified, usage, cost_usd, duration_ms, reason, diff_blob, verification.
    """
    listed = [one.to_dict() for one in unverified]
    told = {
        "not_verified": listed,
        "detail": detail,
        "subtasks": subtasks,
        "branch": branch,
        "left_blob": left_blob,
        "files": [one._asdict() for one in files],
    }
    return Draft("FINAL_SUMMARY", keys | {key: value for key, value in told.items() if value})


def executor_choice(
    name: str,
    *,
    model: str | None = None,
    script: str | None = None,
    permissions: str = "edit",
    thinking: bool = True,
    continue_session: bool = True,
    fallback: Sequence[str] = (),
) -> ExecutorChoice:
    """USER_REQUEST's `executor`."""
    data: dict[str, Any] = {"name": name, "model": model, "script": script, "permissions": permissions}
    data |= {"thinking": thinking, "continue_session": continue_session, "options": {}, "plans": False}
    return ExecutorChoice({**data, "fallback": list(fallback)} if fallback else data)


def undo_fact(phase: str, kind: str, *, iteration: int | None = None, **more: Any) -> Draft:
    """UNDO, of a record beside the trace.

    `more`: plan_blob, state, files, conflicts, repository, lost; of a review reviewed, left_blob; of a commit commit.
    """
    return Draft("UNDO", {"phase": phase, "kind": kind, "iteration": iteration, **more})
