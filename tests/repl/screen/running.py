"""A full screen over a real session in a real folder, with the scripted executor."""

from __future__ import annotations

import asyncio
import json
import os
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from repl.context import Context
from repl.present.output import Output
from repl.screen.app import PmApp
from repl.session import Session
from tracer.clock import monotonic

BAD = {
    "output": "# TODO: implement",
    "files": {"a.py": "# TODO: implement\n"},
    "usage": {"input_tokens": 20, "output_tokens": 4},
}
GOOD = {
    "output": "Done: f returns 1.",
    "files": {"a.py": "def f():\n    return 1\n"},
    "usage": {"input_tokens": 25, "output_tokens": 5},
}
SLOW = {"output": "Done: f returns 1.", "files": {"a.py": "def f():\n    return 1\n"}, "delay_ms": 30_000}


def make_session(folder: Path, *replies: dict[str, Any], **environ: str) -> Session:
    script = folder.parent / "replies.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    output = Output(stdout=StringIO(), stderr=StringIO())
    arguments = Namespace(directory=str(folder), state_dir=None, config=None, help=False, no_input=False, yes=False)
    known = {**os.environ, "PM_EXECUTOR": "scripted", "PM_SCRIPT": str(script), **environ}
    return Session(Context(output=output, environ=known, arguments=arguments), interactive=True)


@asynccontextmanager
async def screen(
    folder: Path, *replies: dict[str, Any], size: tuple[int, int] = (110, 30), **environ: str
) -> AsyncIterator[tuple[PmApp, Pilot[Any]]]:
    async with make_session(folder, *replies, **environ) as session:
        app = PmApp(session, greeting=["pm · a greeting"])
        async with app.run_test(size=size) as pilot:
            yield app, pilot


async def until(pilot: Pilot[Any], holds: Callable[[], object]) -> None:
    end = monotonic() + 60
    while monotonic() < end:
        await pilot.pause(0.01)
        if holds():
            return
    raise AssertionError("did not happen within 60 s")


async def drawn(pilot: Pilot[Any]) -> None:
    """Wait until what was changed is laid out and painted, and a later look shows the same."""
    before = ""
    for _ in range(200):
        painted = asyncio.Event()
        pilot.app.screen.call_after_refresh(painted.set)
        await asyncio.wait_for(painted.wait(), 30)
        await pilot.pause(0.05)
        now = pilot.app.export_screenshot()
        if now == before:
            return
        before = now
    raise AssertionError("the screen does not come to rest")


async def enter(pilot: Pilot[Any], text: str) -> None:
    app = pilot.app
    assert isinstance(app, PmApp)
    app.home.prompt.put(text)
    await pilot.press("enter")


def notices(pilot: Pilot[Any]) -> str:
    return " | ".join(str(notice.message) for notice in pilot.app._notifications)
