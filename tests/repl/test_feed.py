"""The follower under line mode, full screen and pipes: what it prints, and what it knows after a change of skin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import StringIO
from pathlib import Path

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
