"""An answer, judged: the evidence gathered and every criterion in force applied to it.

Imported when the first answer is there, or while it is being given: the criteria take 300 ms to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from runner.criteria.judge import judge
from runner.criteria.model import CommandKind, Criterion, Evidence, Kind, Verdict
from runner.criteria.plugins import team_criteria
from runner.criteria.registry import criteria_in_force
from runner.evidence import active_environment, detect_commands, gather, project_venv, running_checks
from runner.state import Request, TaskState
from runner.steps import Judge
from runner.workspace import Changes

__all__ = ["judge_answer", "team"]


@cache
def team() -> tuple[Criterion, ...]:
    """The installed teams' criteria, read once."""
    return team_criteria()


async def judge_answer(
    state: TaskState, step: Judge, *, request: Request, changes: Changes, state_dir: Path
) -> Verdict:
    """The verdict on everything that the task changed since its first baseline, and on its checks' results."""
    answer, checks, workspace = step.answer, request.checks, Path(request.workspace)
    trusted = bool(checks.get("detect"))
    commands = await asyncio.to_thread(
        detect_commands,
        workspace,
        given=_commands(checks, "given"),
        configured=_commands(checks, "configured"),
        trusted=trusted,
    )
    venv = await asyncio.to_thread(project_venv, workspace)
    environment = active_environment(venv) if trusted and venv is not None else None
    error = answer.get("error")
    evidence = await gather(
        request=_task_text(state, request, step.subtask_id),
        answer=str(answer.get("output", "")),
        workspace=workspace,
        changes=changes,
        status=str(answer.get("status", "COMPLETE")),
        kind=cast("Kind", request.kind),
        stop_reason=_text_or_none(answer.get("stop_reason")),
        error_kind=str(error.get("kind")) if isinstance(error, dict) else None,
        expected=_expected(state, step.subtask_id),
        commands=commands,
        allow_test_changes=bool(checks.get("allow_test_changes")),
        options=checks.get("options") if isinstance(checks.get("options"), dict) else None,
        timeout_s=float(checks.get("timeout_s") or 600.0),
        left_s=step.left_s,
        run_check=running_checks(state_dir=state_dir, task_id=state.task_id, environment=environment),
        unused_venv=None if trusted else venv,
    )
    selected = checks.get("criteria")
    criteria = criteria_in_force(
        commands=_kinds(evidence),
        selected=selected if isinstance(selected, list) else None,
        team=team(),
    )
    return await asyncio.to_thread(judge, evidence, criteria)


def _kinds(evidence: Evidence) -> list[CommandKind]:
    """The kinds that have a command; where nothing changed, one that could not run would have had nothing to show."""
    return [*(result.kind for result in evidence.commands), *(evidence.not_checked if evidence.files else ())]


def _commands(checks: Mapping[str, Any], key: str) -> Mapping[CommandKind, str]:
    listed = checks.get(key)
    if not isinstance(listed, dict):
        return {}
    return {cast("CommandKind", kind): str(command) for kind, command in listed.items() if command}


def _task_text(state: TaskState, request: Request, subtask_id: str | None) -> str:
    if subtask_id is None or state.plan is None:
        return request.prompt
    return str(state.plan.subtask(subtask_id).get("description", ""))


def _expected(state: TaskState, subtask_id: str | None) -> tuple[str, ...]:
    files = state.plan.subtask(subtask_id).get("files_expected") if state.plan and subtask_id is not None else None
    return tuple(str(path) for path in files) if isinstance(files, list) else ()


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
