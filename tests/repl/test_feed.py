"""The follower under line mode, full screen and pipes: what it prints, and what it knows after a change of skin."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from repl.present.feed import Feed
from repl.present.output import Output
from repl.session import Session
from tests.repl.screen.running import BAD, SLOW, make_session


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def feed_of(session: Session) -> tuple[Feed, StringIO]:
    text = StringIO()
    output = Output(stdout=text, stderr=text)
    return Feed(session, output, changed=lambda: None, ended=lambda _outcome, _seconds: None, table=True), text


async def test_a_new_skin_knows_what_the_one_before_showed_and_prints_none_of_it_again(project: Path) -> None:
    async with make_session(project, BAD, SLOW) as session:
        first, printed = feed_of(session)
        task_id = await session.submit("write a.py")
        await until(lambda: first.shown is not None and first.shown.iteration == 1)
        await until(lambda: "asking" in (first.shown.phase if first.shown else ""))
        assert "[0] REJECT" in printed.getvalue()
        await first.close()
        second, again = feed_of(session)
        second.adopt()
        await until(lambda: second.shown is not None and "asking" in second.shown.phase and second.shown.iteration == 1)
        progress = second.progress[task_id]
        assert (progress.tokens, progress.executor, progress.max_iterations) == (24, "scripted", 3)
        assert again.getvalue() == ""
        await second.close()
        await session.stop(task_id)


async def test_lines_of_a_task_that_ran_beside_another_carry_its_number_to_the_end() -> None:
    alone, done = asyncio.Event(), asyncio.Event()

    def rejected(iteration: int) -> bytes:
        return json.dumps({
            "timestamp": "2026-01-01T00:00:00.000Z", "event": "QUALITY_JUDGMENT", "session_id": "s",
            "task_id": "task-001", "data": {"judgment": "PASS", "criteria_results": []}, "iteration_index": iteration,
        }).encode()  # fmt: skip

    async def facts(_task_id: str) -> AsyncIterator[tuple[int, bytes]]:
        yield 0, rejected(0)
        await alone.wait()
        yield 1, rejected(1)
        done.set()
        await asyncio.Event().wait()

    session: Any = SimpleNamespace(running=["task-002", "task-001"], followed=(), seen={}, facts=facts)
    session.listen = lambda _heard: lambda: None
    session.resolve = lambda _task_id: SimpleNamespace(path="t")
    session.permissions = SimpleNamespace(waiting=())
    feed, printed = feed_of(cast("Session", session))
    feed._start("task-001")
    await until(lambda: "#1 [0]" in printed.getvalue())
    session.running = ["task-001"]
    alone.set()
    await done.wait()
    assert "#1 [1]" in printed.getvalue()
    session.running = []
    for follower in feed._followers.values():
        follower.cancel()
    await feed.close()
