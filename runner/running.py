"""A task that a process runs: what it holds of it, and how its end is told to whoever waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from runner.executors.port import Executor
from runner.state import TaskState
from runner.task import TaskOutcome, TaskStatus
from tracer.conversation import ConversationTracer
from tracer.errors import PmError

__all__ = ["Running"]


@dataclass(slots=True, kw_only=True)
class Running:
    """A task this process holds the writer's lock of."""

    tracer: ConversationTracer
    state: TaskState
    executor: Executor
    outcome: asyncio.Future[TaskOutcome]
    status: TaskStatus = "QUEUED"
    runner: asyncio.Task[None] | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, outcome: TaskOutcome | PmError) -> None:
        """Tell the end, once."""
        if self.outcome.done():
            return
        if isinstance(outcome, TaskOutcome):
            self.outcome.set_result(outcome)
        else:
            self.outcome.set_exception(outcome)
            # A waiting caller takes it; where nobody waits, the record says how the task stands.
            self.outcome.exception()
