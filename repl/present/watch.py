"""Shows one task of a session while it runs: facts as finished lines, at most one moving line, JSON lines as stored.

Used by `pm run`, `resume` and `respond`. On a terminal the moving line is repainted at most ten times a second, and
only when it changed; elsewhere nothing moves and each fact is one line.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from repl.outcome import outcome_error, outcome_fields
from repl.present.output import Output
from repl.present.progress import Progress
from repl.session import Session
from runner.executors.port import Live
from runner.task import TaskOutcome
from tracer.clock import monotonic

__all__ = ["close_task", "watch_task"]

_REPAINT_S = 0.1


class _MovingLine:
    """The last line of a terminal; finished lines push it down."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown = ""

    def show(self, text: str) -> None:
        text = text[: max(self._output.columns - 1, 10)]
        if text != self._shown:
            self._output.stderr.write(f"\r\x1b[2K{text}")
            self._output.stderr.flush()
            self._shown = text

    def clear(self) -> None:
        if self._shown:
            self._output.stderr.write("\r\x1b[2K")
            self._output.stderr.flush()
            self._shown = ""


async def watch_task(
    session: Session, output: Output, task_id: str, *, after: int = -1, progress: Progress | None = None
) -> TaskOutcome:
    """Show the task until it rests, and return how it stands."""
    progress = progress or Progress(task_id)
    moving = _MovingLine(output) if output.interactive and not output.quiet else None
    unlisten = session.listen(lambda update: _take(progress, task_id, update))
    painter = asyncio.create_task(_paint(moving, progress)) if moving else None
    try:
        async for seq, line in session.facts(task_id):
            if output.form == "jsonl" and seq > after:
                output.data(line)
            lines = _lines(progress, line)
            if seq > after and output.human:
                if moving and lines:
                    moving.clear()
                for text in lines:
                    output.note(_tinted(output, text))
        return await session.wait(task_id)
    finally:
        unlisten()
        if painter is not None:
            painter.cancel()
            with suppress(asyncio.CancelledError):
                await painter
        if moving:
            moving.clear()


def close_task(output: Output, command: str, outcome: TaskOutcome, progress: Progress) -> int:
    """The task's last line and its closing record; the exit code."""
    from repl.exit_codes import code_of

    error = outcome_error(outcome, max_iterations=progress.max_iterations, prefix=progress.prefix)
    line = progress.closing(
        status=outcome.status,
        iterations=outcome.iterations,
        files=len(outcome.files_modified),
        duration_ms=outcome.duration_ms,
    )
    output.line(output.bold(line))
    fields = outcome_fields(outcome)
    if outcome.chain_head and output.form == "human":  # the records of --json and --jsonl hold it already
        output.note(f"  chain head {outcome.chain_head}")
    if error is None:
        output.note(f"  {progress.hints()}")
        output.result(command, fields)
        return 0
    code = code_of(error.code)
    output.failure(command, error, code, fields)
    output.error(error)
    return int(code)


def _take(progress: Progress, task_id: str, update: Live | None) -> None:
    if update is not None and update.task_id == task_id:
        progress.live(update)


async def _paint(moving: _MovingLine | None, progress: Progress) -> None:
    while moving is not None:
        moving.show("  " + progress.status(monotonic()))
        await asyncio.sleep(_REPAINT_S)


def _lines(progress: Progress, line: bytes) -> list[str]:
    try:
        fact: Any = json.loads(line)
    except ValueError:
        return []
    return progress.fact(fact, now=monotonic()) if isinstance(fact, dict) else []


def _tinted(output: Output, text: str) -> str:
    """PASS green and REJECT red where colour is on; the words carry the meaning."""
    if output.colour:
        if "] PASS " in text:
            return text.replace("PASS", output.tinted("PASS", good=True), 1)
        if "] REJECT " in text:
            return text.replace("REJECT", output.tinted("REJECT", good=False), 1)
    return text
