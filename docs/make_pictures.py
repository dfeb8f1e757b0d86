"""Makes the pictures of docs/tour.md from the running program: renews docs/pictures/*.svg.

A real session runs a scripted task in a temporary folder; no key and no network are needed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from textual.pilot import Pilot  # noqa: E402 - the checkout comes first on the path

from repl.context import Context  # noqa: E402
from repl.present.output import Output  # noqa: E402
from repl.screen.app import PmApp  # noqa: E402
from repl.session import Session  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
BAD = "def validate_email(address):\n    # TODO: implement\n    return True\n"
GOOD = """def validate_email(address):
    name, at, host = address.partition("@")
    return bool(name and at and "." in host)
"""
REPLIES: tuple[dict[str, Any], ...] = (
    {"output": "I added validate_email() to src/signup.py.", "files": {"src/signup.py": BAD}, "delay_ms": 900,
     "usage": {"input_tokens": 2000, "output_tokens": 140}},
    {"output": "validate_email() now checks the name and the host.", "files": {"src/signup.py": GOOD}, "delay_ms": 700,
     "usage": {"input_tokens": 2500, "output_tokens": 110}},
    {"output": "Rate limits are in place.", "files": {"src/limits.py": "LIMIT = 100\n"}, "delay_ms": 60_000,
     "match": "rate limits"},
)  # fmt: skip


PLAN = {"subtasks": [
    {"id": "db", "title": "schema", "description": "write schema.sql"},
    {"id": "api", "title": "API", "description": "serve it in api.py", "dependencies": ["db"]},
    {"id": "ui", "title": "page", "description": "show it in page.html", "dependencies": ["db"]},
    {"id": "tests", "title": "tests", "description": "test it all", "dependencies": ["api", "ui"]},
]}  # fmt: skip
PARTS: tuple[dict[str, Any], ...] = (
    {"match": "schema.sql", "output": "The tables are there.", "files": {"schema.sql": "create table goods (id);\n"},
     "delay_ms": 300, "usage": {"input_tokens": 900, "output_tokens": 80}},
    {"match": "api.py", "output": "It serves.", "files": {"api.py": "# TODO: paging\n"},
     "delay_ms": 700, "usage": {"input_tokens": 1400, "output_tokens": 120}},
    {"match": ".", "output": "Done.", "delay_ms": 60_000},
    {"match": ".", "output": "Done.", "delay_ms": 60_000},
)  # fmt: skip


async def until(pilot: Pilot[Any], holds: Callable[[], object]) -> None:
    """Wait for a state of the program, 20 s at least."""
    for _tick in range(1000):
        await pilot.pause(0.02)
        if holds():
            return
    raise SystemExit(
        "the program did not come to the state of the picture; it shows:\n" + pilot.app.home.transcript.text
    )


def standalone(svg: str) -> str:
    """A picture that fetches no font from anywhere: any monospaced one will do."""
    return re.sub(r"\s*@font-face \{.*?\n    \}", "", svg, flags=re.DOTALL)


async def shoot(app: PmApp, pilot: Pilot[Any], name: str) -> None:
    """Export the present screen."""
    await pilot.pause()
    app.clear_notifications()
    await pilot.pause(0.4)
    svg = app.export_screenshot(title="pm", simplify=True)
    (PICTURES / f"{name}.svg").write_text(standalone(svg), encoding="utf-8")


async def pictures(tour: Callable[[PmApp, Pilot[Any]], Awaitable[None]], replies: tuple[dict[str, Any], ...]) -> None:
    """Run a session with these answers and export the screens of `tour`."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "shop-api"
        folder.mkdir()
        script = Path(place) / "replies.jsonl"
        script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        environ = {
            **os.environ,
            "HOME": place,
            "PM_EXECUTOR": "scripted",
            "PM_SCRIPT": str(script),
            "PM_REPL_THEME": "dark",
        }
        arguments = Namespace(directory=str(folder), state_dir=None, config=None, help=False, no_input=False, yes=False)
        output = Output(stdout=StringIO(), stderr=StringIO())
        async with Session(Context(output=output, environ=environ, arguments=arguments), interactive=True) as session:
            app = PmApp(session, greeting=["pm · shop-api · executor scripted", "/help commands · ? keys"])
            async with app.run_test(size=(110, 28)) as pilot:
                await tour(app, pilot)


async def large(app: PmApp, pilot: Pilot[Any]) -> None:
    """A task in subtasks, at work."""
    folder = app.session.folder
    (folder / "plan.json").write_text(json.dumps(PLAN))
    for command in ("init -q", "add -A", "-c user.name=tour -c user.email=tour@example.org commit -qm start"):
        await asyncio.to_thread(subprocess.run, ["git", *command.split()], cwd=folder, check=True)
    app.home.prompt.put("/run --plan plan.json give the shop a schema, an API and a page")
    await pilot.press("enter")
    await until(pilot, lambda: any("REJECT Q2, asking again" in line for line in app.home.transcript.live))
    await pilot.pause(2.5)
    await shoot(app, pilot, "subtasks")


async def tour(app: PmApp, pilot: Pilot[Any]) -> None:
    """The states of the tour, in its order."""
    await pilot.press("slash")
    await shoot(app, pilot, "completion")
    await pilot.press("ctrl+c")
    app.home.prompt.put("add input validation to the signup form")
    await pilot.press("enter")
    await until(pilot, lambda: any(row.status == "COMPLETE" for row in app.home.all_rows))
    app.home.prompt.put("add rate limits")
    await pilot.press("enter")
    await until(pilot, lambda: len(app.home.all_rows) == 2 and app.session.running)
    await pilot.pause(0.6)
    await shoot(app, pilot, "home")
    await pilot.press("escape", "down")
    await until(pilot, lambda: app.home._shown_task is not None and app.home._shown_task.task_id == "task-001")  # noqa: SLF001
    await shoot(app, pilot, "tasks")
    await pilot.press("v")
    await until(pilot, lambda: app.screen is not app.home)
    await pilot.press("n", "n")
    await shoot(app, pilot, "review")
    await pilot.press("q")
    await until(pilot, lambda: app.screen is app.home)
    await pilot.press("t")
    await until(pilot, lambda: app.screen is not app.home)
    await pilot.pause(0.6)
    await pilot.press(*["down"] * 5)
    await shoot(app, pilot, "trace")
    await pilot.press("w")
    await until(pilot, lambda: "judging" in str(getattr(app.screen, "_rows", "")))
    await shoot(app, pilot, "waterfall")
    await pilot.press("q")
    await pilot.press("g", *"8", "enter", "equals_sign")
    await pilot.pause(0.6)
    await shoot(app, pilot, "answers")
    await pilot.press("q", "q")
    await until(pilot, lambda: app.screen is app.home)
    await pilot.press("ctrl+p")
    await pilot.pause(0.4)
    await shoot(app, pilot, "palette")
    await pilot.press("escape", "f2")
    await pilot.pause(0.6)
    await pilot.press("slash", *"repl.", "enter")
    await pilot.pause(0.2)
    await shoot(app, pilot, "settings")


if __name__ == "__main__":
    asyncio.run(pictures(tour, REPLIES))
    asyncio.run(pictures(large, PARTS))
