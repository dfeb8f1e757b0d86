"""One conversation with the script inside a sandbox: the tree goes in, capped output and files come out.

Shared by all adapters. Memory stays bounded whatever is written; the time limit counts from the command's start; a
stream that writes more than it may cuts the run. It never ends the sandbox itself: the adapter does, on every way out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from collector.qa.sandbox.port import Job, Limits, Outcome, OutcomeKind
from collector.qa.sandbox.script import FrameReader, reports_of
from runner.processes.bounded import BoundedOutput
from runner.processes.process import Process
from tracer.clock import monotonic

Cut = Literal["timeout", "output", "oom"]
SETUP_LIMIT_S = 300.0
_CHUNK = 1 << 18
_LOOK_EVERY_S = 0.1
_LAST_WORDS_S = 60.0


@dataclass(slots=True)
class Talk:
    """What was heard. `cut` is why we ended it; `frames` says how far the script came."""

    frames: FrameReader
    stdout: BoundedOutput
    stderr: BoundedOutput
    archive: bytearray = field(default_factory=bytearray)
    archive_whole: bool = True
    saved_bytes: int = 0
    cut: Cut | None = None
    started: float = 0.0
    ended: float = 0.0

    def outcome(self, kind: OutcomeKind, *, exit_code: int | None = None, **more: Any) -> Outcome:
        """How the command ended, with what it wrote and how long it took."""
        return Outcome(
            kind=kind,
            exit_code=exit_code,
            stdout=self.stdout.value(),
            stderr=self.stderr.value(),
            dropped_bytes=self.stdout.dropped_bytes + self.stderr.dropped_bytes,
            duration_ms=int(1000 * max(self.ended - self.started, 0.0)) if self.started else 0,
            **more,
        )


async def talk(
    process: Process, job: Job, *, word: str, watch: Callable[[], Awaitable[Cut | None]] | None = None
) -> Talk:
    """Run `job` by the script to its end or first limit; `watch`, asked ten times a second, may say why to end it."""
    heard = Talk(FrameReader(word), BoundedOutput(job.limits.keep_bytes), process.stderr_output)
    feeding = asyncio.create_task(_feed(process, word, job.source))
    hearing = asyncio.create_task(_hear(process, job, heard))
    watching = asyncio.create_task(_watch(heard, job.limits, watch))
    try:
        await asyncio.wait({hearing, watching}, return_when=asyncio.FIRST_COMPLETED)
        heard.cut = (hearing if hearing.done() else watching).result()
    finally:
        for task in (feeding, hearing, watching):
            task.cancel()
        await asyncio.gather(feeding, hearing, watching, return_exceptions=True)
    heard.stdout.add(heard.frames.rest())
    heard.ended = heard.ended or monotonic()
    return heard


async def _feed(process: Process, word: str, source: Path) -> None:
    await process.write(word.encode("ascii") + b"\n")
    with source.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, _CHUNK):
            await process.write(chunk)
    with suppress(BrokenPipeError, ConnectionResetError):
        process.close_stdin()


async def _hear(process: Process, job: Job, heard: Talk) -> Cut | None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(SETUP_LIMIT_S) as clock:
            with job.save.open("wb") if job.save is not None else nullcontext() as target:
                async for chunk in process.chunks():
                    before = heard.frames.stage
                    text, archive = heard.frames.feed(chunk)
                    if heard.frames.stage != before:
                        _note_stage(heard, clock, loop.time(), job.limits)
                    heard.stdout.add(text)
                    if heard.stdout.total_bytes > job.limits.output_bytes:
                        return "output"
                    if archive:
                        await _take(heard, archive, target, job.limits)
                        if not heard.archive_whole:  # a report of any size: no need to hear its end
                            return None
    except TimeoutError:
        return None if heard.frames.stage == "ended" else "timeout"
    return None


def _note_stage(heard: Talk, clock: asyncio.Timeout, now: float, limits: Limits) -> None:
    if not heard.started and heard.frames.stage in {"running", "ended"}:
        heard.started = monotonic()
        clock.reschedule(now + limits.time_s)
    if heard.frames.stage == "ended":
        heard.ended = monotonic()
        clock.reschedule(now + _LAST_WORDS_S)


async def _take(heard: Talk, archive: bytes, target: BinaryIO | None, limits: Limits) -> None:
    if target is not None:
        heard.saved_bytes += len(archive)
        if heard.saved_bytes <= limits.tree_bytes:
            await asyncio.to_thread(target.write, archive)
            return
    elif len(heard.archive) + len(archive) <= limits.report_bytes:
        heard.archive += archive
        return
    heard.archive_whole = False


async def _watch(heard: Talk, limits: Limits, watch: Callable[[], Awaitable[Cut | None]] | None) -> Cut:
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        if heard.stderr.total_bytes > limits.output_bytes:
            return "output"
        if watch is not None and heard.frames.stage == "running" and (cut := await watch()) is not None:
            return cut


def outcome_of(heard: Talk, job: Job) -> Outcome | None:
    """The outcome, or None where the script never came to speak its last words and nothing was cut."""
    stage, end = heard.frames.stage, heard.frames.end
    if end is not None:
        return heard.outcome(
            "oom" if end.killed_for_memory and end.exit_code else "exit",
            exit_code=end.exit_code,
            reports=reports_of(bytes(heard.archive)) if heard.archive and heard.archive_whole else {},
            saved=job.save is not None and heard.archive_whole and heard.saved_bytes > 0,
            killed_for_memory=end.killed_for_memory,
        )
    if stage in {"missing", "unpack_failed"}:
        kind: OutcomeKind = "missing" if stage == "missing" else "no_room"
        return Outcome(kind=kind, exit_code=None, stderr=heard.stderr.value())
    return heard.outcome(heard.cut) if heard.cut is not None and stage == "running" else None
