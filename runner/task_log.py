"""Writes what a task goes through into the TracePack, beside the conversation and independent of it.

The TracePack is a log of states and calls; a reader of either log can do without the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from runner.core.task import TaskOutcome
from tracer.conversation import default_redactor
from tracer.drafts import Draft
from tracer.facts import Entry, LlmRequest, LlmResponse, QualityJudgment
from tracer.journal.tracepack import TracePack
from tracer.redaction.redactor import RedactionSettings
from tracer.statedir import StateDir


async def begin_session(state_dir: StateDir, session_id: str, redaction: RedactionSettings) -> TracePack:
    """The session's TracePack, its SESSION_START recorded.

    Raises:
        RecordError: it cannot be written.

    """
    pack = TracePack(state_dir=state_dir, session_id=session_id, redactor=default_redactor(state_dir, redaction))
    try:
        await pack.append("SESSION_START")
    except BaseException:
        await pack.close()
        raise
    return pack


class TaskLog:
    """One task's lines in the session's TracePack."""

    def __init__(self, pack: TracePack, task_id: str) -> None:
        self._pack = pack
        self._task_id = task_id
        self._state = "QUEUED"
        self._verifying: set[str | None] = set()  # the loops whose answer is being verified

    async def queued(self, *, resumed: bool) -> None:
        """The task waits for its turn; `resumed` says whether it had a history."""
        await self._append("TASK_START", {"resumed": resumed}, to_state=self._state)

    async def running(self) -> None:
        """The task leaves the queue."""
        await self._append("TASK_STATE_CHANGE", from_state=self._state, to_state="RUNNING")
        self._state = "RUNNING"

    async def ended(self, outcome: TaskOutcome) -> None:
        """Note that the run is over; the head of its conversation's hash chain is repeated here."""
        data = {"reason": outcome.reason, "chain_head": outcome.chain_head or ""}
        await self._append("TASK_END", data, from_state=self._state, to_state=outcome.status)

    async def _append(self, event: str, data: Mapping[str, Any] | None = None, **states: str) -> None:
        await self._pack.append(event, task_id=self._task_id, data=data, **states)

    def recording(self, append: Callable[[Draft], Awaitable[Entry]]) -> Callable[[Draft], Awaitable[Entry]]:
        """`append`, with the calls and verifications it records noted here too."""

        async def recorded(draft: Draft) -> Entry:
            entry = await append(draft)
            await self._note(entry)
            return entry

        return recorded

    async def _note(self, entry: Entry) -> None:
        where = {"iteration_index": entry.iteration_index, "subtask_id": entry.subtask_id}
        match entry:
            case LlmRequest():
                await self._append("EXECUTOR_CALL", {**where, "executor": entry.executor or None})
            case LlmResponse():
                await self._append("EXECUTOR_RESULT", {**where, "status": entry.status})
                if entry.error is None and not entry.purpose:
                    await self._verify(where)
            case QualityJudgment():
                if entry.subtask_id not in self._verifying:
                    await self._verify(where)
                self._verifying.discard(entry.subtask_id)
                await self._append("VERIFICATION_RESULT", {**where, "judgment": entry.judgment})
            case _:
                return

    async def _verify(self, where: Mapping[str, Any]) -> None:
        await self._append("VERIFICATION_START", where)
        self._verifying.add(where["subtask_id"])
