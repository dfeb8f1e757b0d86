"""Follows every task of the session: facts become lines of the output, running tasks a `Progress` each.

Facts come from the trace file through `Session.facts`; live updates only decorate. A task that was taken up again
prints only what is new. An end is told once, with its next step, and passed on for notification.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from repl.outcome import outcome_error
from repl.present.output import Output, error_lines
from repl.present.progress import Progress, short_id
from repl.session import Session
from repl.shell import for_session
from runner.executors.port import Live
from runner.task import TaskOutcome
from tracer.clock import monotonic, now_iso
from tracer.errors import PmError

__all__ = ["Feed"]


class Feed:
    """What the running tasks say. `ended(outcome, seconds)` is called when one rests."""

    def __init__(
        self,
        session: Session,
        output: Output,
        *,
        changed: Callable[[], None],
        ended: Callable[[TaskOutcome, float], None],
    ) -> None:
        self.session = session
        self.output = output
        self.progress: dict[str, Progress] = {}
        self._changed, self._ended = changed, ended
        self._seen: dict[str, tuple[str, int]] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._began = now_iso()
        self._unlisten = session.listen(self._listen)

    def adopt(self) -> None:
        """Follow what already runs, after a change of skin."""
        self._listen(None)

    async def close(self) -> None:
        """Stop following; the tasks themselves go on."""
        self._unlisten()
        for follower in self._followers.values():
            follower.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)

    def _listen(self, update: Live | None) -> None:
        if update is not None:
            progress = self.progress.get(update.task_id)
            if progress is not None:
                progress.live(update)
            return
        for task_id in self.session.running:
            watcher = self._followers.get(task_id)
            if watcher is None or watcher.done():
                self._followers[task_id] = asyncio.create_task(self._watch(task_id), name=f"watch-{task_id}")
        self._changed()

    async def _watch(self, task_id: str) -> None:
        progress = self.progress[task_id] = Progress(task_id, prefix="/")
        progress.since = began = monotonic()
        path = str(self.session.resolve(task_id).path)
        known, after = self._seen.get(task_id, ("", -1))
        after = after if known == path else -1
        try:
            async for seq, line in self.session.facts(task_id):
                lines, time = _read(progress, line)
                if seq > after and (known == path or time >= self._began):
                    self._print(task_id, lines)
                self._seen[task_id] = (path, seq)
                if lines:
                    self._changed()
            outcome = await self.session.wait(task_id)
        except PmError as error:
            self.output.lines(error_lines(for_session(error)))
        else:
            self.output.lines(_closing(progress, outcome))
            self._ended(outcome, monotonic() - began)
        finally:
            self.progress.pop(task_id, None)
            self._changed()

    def _print(self, task_id: str, lines: list[str]) -> None:
        several = len(self.progress) > 1
        lead = f"{short_id(task_id)}|" if several else ""
        self.output.lines([f"{lead}{line}" if line.startswith(" ") else line for line in lines])


def _read(progress: Progress, line: bytes) -> tuple[list[str], str]:
    try:
        fact: Any = json.loads(line)
    except ValueError:
        return [], ""
    if not isinstance(fact, dict):
        return [], ""
    return progress.fact(fact, now=monotonic()), str(fact.get("timestamp", ""))


def _closing(progress: Progress, outcome: TaskOutcome) -> list[str]:
    if outcome.status == "UNFINISHED":
        short = short_id(outcome.task_id)
        return [f"{outcome.task_id} stopped · nothing is lost      /resume {short}"]
    line = progress.closing(
        status=outcome.status,
        iterations=outcome.iterations,
        files=len(outcome.files_modified),
        duration_ms=outcome.duration_ms,
    )
    error = outcome_error(outcome, max_iterations=progress.max_iterations, prefix="/")
    return [f"{line}      {progress.hints()}"] if error is None else [line, *error_lines(error)[1:]]
