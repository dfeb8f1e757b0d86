"""The runner's door: after an agent's answer, its session becomes (or brings up to date) the task's agentic trace.

Never raises for a session that cannot be found or read: a task does not fail because its agent left no thoughts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tracer.distill.locate.find import session_at, session_by_id
from tracer.distill.native import Outcome, Provider, Request
from tracer.distill.one import distill
from tracer.errors import PmError
from tracer.redaction.redactor import NO_ADDITIONS, RedactionSettings
from tracer.statedir import StateDir

_PROVIDERS: Final[dict[str, Provider]] = {"claude": "claude", "codex": "codex", "gemini": "gemini"}


class RunTrace(NamedTuple):
    """`path` (relative to the project) is for `LLM_RESPONSE.data.agentic_trace`; None has its reason in `note`."""

    path: str | None
    note: str = ""


async def distill_after_run(
    *,
    executor: str,
    session_ref: str | None,
    workspace: str | os.PathLike[str],
    state_dir: StateDir,
    task_id: str,
    success: bool | None = None,
    cost_usd: float | None = None,
    since_ms: int | None = None,
    native_path: str | None = None,
    environ: Mapping[str, str] | None = None,
    redaction: RedactionSettings = NO_ADDITIONS,
) -> RunTrace:
    """Distill the session `session_ref` (`<id>` or `<executor>:<id>`) of `executor` under the label `run:<task_id>`.

    One session is one trace: a later answer in the same session updates it, and its totals are the task's. `since_ms`
    leaves out what the session held before the task began (a program that was told to go on in an older one).
    `native_path` is the session's file where the executor knows it; else it is looked for by id, with `environ` as the
    agent's environment.
    """
    provider = _PROVIDERS.get(executor)
    if provider is None or not session_ref:
        return RunTrace(None)
    request = Request(
        label=f"run:{task_id}",
        project_root=state_dir.project,
        state_dir=state_dir.root,
        since_ms=since_ms,
        redaction=redaction,
        outcome=Outcome(success=success, cost_usd=cost_usd),
    )

    def work() -> RunTrace:
        session_id = session_ref.removeprefix(f"{executor}:")
        if native_path is not None:
            session = session_at(Path(native_path), provider)
        else:
            session = session_by_id(provider, session_id, cwd=Path(workspace), environ=environ)
        path = distill(session, request).path
        project = state_dir.project.absolute()
        inside = path.absolute().is_relative_to(project)
        return RunTrace(str(path.absolute().relative_to(project)) if inside else str(path))

    try:
        return await asyncio.to_thread(work)
    except PmError as error:
        return RunTrace(None, f"{error.what}: {error.why}" if error.why else error.what)
