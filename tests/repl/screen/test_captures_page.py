"""Captures in full screen and at `pm>`: what is here and at the collector, opened with thoughts beside actions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from collector.client.spool import Draft, Spool
from collector.opening import open_collector
from repl.screen.app import PmApp
from repl.screen.captures import CaptureScreen, checks_text, read_captures
from repl.screen.lists import Page
from tests.collector.recorder.support import create_request, spool_in, thought
from tests.repl.screen.running import enter, screen, until
from tests.repl.screen.test_pages import cells, opened
from tracer.clock import new_id
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir


def told(folder: Path) -> Spool:
    """A spool with a test, an edit and a thought about the edit."""
    spool = spool_in(folder / ".pm-orchestrator")
    run, edit = spool.append([
        Draft(
            type="test_run",
            payload={"command": "pytest", "runner": "pytest", "exit_code": 1, "duration_ms": 5, "passed": False},
        ),
        Draft(
            type="file_edit",
            payload={"file_path": "cart.py", "edit_kind": "patch", "patch": "--- a/c\n+++ b/c\n@@ -1 +1 @@\n-a\n+b\n"},
        ),
    ])  # fmt: skip
    payload = {"content": "it must be b", "kind": "decision", "links_to": [edit["event_id"]]}
    spool.append([Draft(type="thought", payload=payload), thought("and then?")])
    assert run["seq"] == 1
    return spool


async def capture_opened(pilot: Pilot[Any], app: PmApp) -> CaptureScreen:
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, CaptureScreen))
    shown = app.screen
    assert isinstance(shown, CaptureScreen)
    await until(pilot, lambda: shown.model.file.indexed)
    return shown


def thoughts_of(shown: CaptureScreen) -> str:
    return str(shown.query_one("#capture-text", Static).content)


async def test_a_capture_opens_with_its_thoughts_beside_the_action_they_speak_of(project: Path) -> None:
    spool = told(project)
    async with screen(project, size=(120, 34)) as (app, pilot):
        page = await opened(pilot, app, "f3", "captures")
        (row,) = cells(page)
        assert row[1:4] == ("not sent", "4", "")
        assert row[4] == f"{spool.trace_id[:8]}  empty cart"
        shown = await capture_opened(pilot, app)
        assert "nothing was noted" in thoughts_of(shown)
        await pilot.press("down")
        await until(pilot, lambda: thoughts_of(shown) == "decision: it must be b")
        assert "empty cart" in str(shown.query_one("#trace-title", Static).content)
        await pilot.press("T")
        await until(pilot, lambda: shown.detail.row is not None and shown.detail.row.event == "thought")
        assert thoughts_of(shown) == "decision: it must be b"
        summaries = [shown.model.file.row(number).summary for number in range(4)]
        assert summaries == ["failed  pytest", "cart.py  +1 -1", "decision: it must be b", "plan: and then?"]
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Page))


async def test_a_recording_that_goes_on_is_followed(project: Path) -> None:
    spool = told(project)
    async with screen(project, size=(120, 34)) as (app, pilot):
        await opened(pilot, app, "f3", "captures")
        shown = await capture_opened(pilot, app)
        (event,) = spool.append([Draft(type="commit", payload={"commit_sha": "0" * 40, "message": "done"})])
        payload = {"content": "finished", "kind": "postmortem", "links_to": [event["event_id"]]}
        spool.append([Draft(type="thought", payload=payload)])
        await until(pilot, lambda: shown.model.file.count == 6)
        for _ in range(60):  # the rows are drawn a moment after they are counted: "end" may come before that
            await pilot.press("end", "up")
            await pilot.pause(0.5)
            if thoughts_of(shown) == "postmortem: finished":
                break
        assert thoughts_of(shown) == "postmortem: finished"


async def test_hostile_text_in_a_thought_is_shown_as_text(project: Path) -> None:
    spool = spool_in(project / ".pm-orchestrator")
    (event,) = spool.append([Draft(type="error", payload={"message": "boom"})])
    payload = {"content": "\x1b[2J[bold]x[/bold]", "kind": "plan", "links_to": [event["event_id"]]}
    spool.append([Draft(type="thought", payload=payload)])
    async with screen(project, size=(120, 34)) as (app, pilot):
        await opened(pilot, app, "f3", "captures")
        shown = await capture_opened(pilot, app)
        await until(pilot, lambda: "[bold]x[/bold]" in thoughts_of(shown))
        assert "\x1b" not in thoughts_of(shown)


def in_collector(project: Path) -> str:
    """A finalized trace that only the local collector has."""

    async def fill() -> str:
        state = StateDir(project / ".pm-orchestrator").ensure()
        async with open_collector(state, load_settings(project=state.root, environ={}), environ={}) as collector:
            made = await collector.create({**create_request(), "trace_id": new_id()})
            event = {
                "event_id": new_id(), "seq": 1, "ts_ms": 1, "type": "thought", "actor": {"kind": "human"},
                "payload": {"content": "from elsewhere", "kind": "plan", "links_to": []},
            }  # fmt: skip
            await collector.append(made.trace_id, [event])
            await collector.finalize(made.trace_id)
            return made.trace_id

    return asyncio.run(fill())


async def test_traces_of_the_collector_are_listed_and_opened_too(project: Path) -> None:
    trace_id = await asyncio.to_thread(in_collector, project)
    async with screen(project, size=(120, 34)) as (app, pilot):
        page = await opened(pilot, app, "f3", "captures")
        (row,) = cells(page)
        assert row[1:] == ("collected", "1", "not checked yet", f"{trace_id[:8]}  empty cart")
        shown = await capture_opened(pilot, app)
        path = shown.model.file.path
        await until(pilot, lambda: thoughts_of(shown) == "plan: from elsewhere")
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Page))
    assert not path.exists()


async def test_captures_are_listed_at_the_prompt_too(project: Path) -> None:
    spool = told(project)
    async with screen(project) as (app, pilot):
        await enter(pilot, "/captures")
        await until(pilot, lambda: spool.trace_id[:8] in app.home.transcript.text)


def test_looking_makes_no_database(project: Path) -> None:
    state = StateDir(project / ".pm-orchestrator")
    assert read_captures(state, load_settings(project=state.root, environ={})) == []
    assert not state.root.exists()


def test_the_checks_are_told_in_words() -> None:
    assert checks_text({"status": "finalized", "qa": None}) == "not checked yet"
    assert checks_text({"status": "qa_running"}) == "being checked"
    qa = {"tests": {"final_passed": True}, "judge": {"overall": 4.2, "flags": []}}
    assert checks_text({"status": "complete", "qa": qa}) == "tests passed · judge 4.2"
    qa = {"tests": {"final_passed": None, "not_testable": "redacted"}, "judge": {"flags": ["judge_skipped"]}}
    assert checks_text({"status": "complete", "qa": qa}) == "not tested: redacted · judge_skipped"
