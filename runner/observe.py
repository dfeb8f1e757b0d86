"""Writes what a task goes through into the TracePack, beside the conversation and independent of it.

The TracePack is a log of states and calls; a reader of either log can do without the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from runner.continuation import outcome_of
from runner.state import TaskState
from tracer.events import Draft, Entry
from tracer.tracepack import TracePack

__all__ = ["TaskLog"]


class TaskLog:
    """One task's lines in the session's TracePack."""

    def __init__(self, pack: TracePack, task_id: str) -> None:
        self._pack = pack
        self._task_id = task_id
        self._state = "QUEUED"

    async def started(self, state: TaskState) -> None:
        """The task leaves the queue; `resumed` says whether it had a history."""
        await self._pack.log("TASK_START", task_id=self._task_id, data={"resumed": state.facts > 1})
        await self._change("RUNNING")

    async def ended(self, state: TaskState, *, chain_head: str | None) -> None:
        """The task ended or waits for a person; the head of its conversation's hash chain is repeated here."""
        outcome = outcome_of(state, trace_file="", chain_head=chain_head)
        data = {"status": outcome.status, "reason": outcome.reason, "chain_head": chain_head}
        await self._change(outcome.status)
        await self._pack.log("TASK_END", task_id=self._task_id, data=data)

    def recording(self, append: Callable[[Draft], Awaitable[Entry]]) -> Callable[[Draft], Awaitable[Entry]]:
        """`append`, with the calls and verifications it records noted here too."""

        async def recorded(draft: Draft) -> Entry:
            entry = await append(draft)
            note = _note(entry)
            if note is not None:
                await self._pack.log(note[0], task_id=self._task_id, data=note[1])
            return entry

        return recorded

    async def _change(self, to_state: str) -> None:
        await self._pack.log(
            "TASK_STATE_CHANGE", task_id=self._task_id, from_state=self._state, to_state=to_state, data={}
        )
        self._state = to_state


def _note(entry: Entry) -> tuple[str, dict[str, Any]] | None:
    where = {"iteration_index": entry.iteration_index, "subtask_id": entry.subtask_id}
    match entry.event:
        case "LLM_REQUEST":
            return "EXECUTOR_CALL", {**where, "executor": entry.data.get("executor")}
        case "LLM_RESPONSE":
            return "EXECUTOR_RESULT", {**where, "status": entry.data.get("status")}
        case "QUALITY_JUDGMENT":
            return "VERIFICATION_RESULT", {**where, "judgment": entry.data.get("judgment")}
        case _:
            return None
