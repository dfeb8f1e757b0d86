"""The main screens as pictures: 80x24, 100x30 and 60x15, in dark, light and mono. Clocks are frozen.

A changed picture fails; look at it, then renew it with `pytest tests/repl/screen/test_snapshots.py --snapshot-update`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from repl.screen import home as home_module
from repl.screen.app import PmApp
from repl.screen.trace.view import ViewerApp
from tests.repl.screen.facts import SEED, write_seed
from tests.repl.screen.running import drawn, make_session, until
from tests.repl.screen.test_trace_view import settled

LOOKS = [("dark", (80, 24)), ("dark", (100, 30)), ("dark", (60, 15)), ("light", (100, 30)), ("mono", (80, 24))]


@pytest.fixture(autouse=True)
def _frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_module, "monotonic", lambda: 1000.0)
    for name in ("TERM_PROGRAM", "COLORTERM", "NO_COLOR", "TMUX"):
        monkeypatch.delenv(name, raising=False)


def viewer(folder: Path, theme: str) -> ViewerApp:
    return ViewerApp(write_seed(folder), theme=theme)


def home(folder: Path, theme: str) -> PmApp:
    traces = folder / ".pm-orchestrator" / "traces"
    traces.mkdir(parents=True)
    write_seed(traces)
    (traces / "conversation-task-014-2025-01-22T09-00-00.jsonl").write_bytes(
        b"".join(SEED[:6]).replace(b"task-015", b"task-014").replace(b"add input validation", b"add rate limits")
    )
    session = make_session(folder, PM_REPL_THEME=theme)
    return PmApp(session, greeting=["pm 0.1.0 · shop-api · executor scripted · 2 tasks, 1 unfinished"])


async def to_the_list(pilot: Pilot[Any], app: PmApp) -> None:
    """Leave the prompt, but not before it has the focus: an earlier Esc goes nowhere."""
    await until(pilot, lambda: app.home.prompt.has_focus)
    await pilot.press("escape")
    await until(pilot, lambda: app.home.has_class("-listing"))


@pytest.mark.parametrize(("theme", "size"), LOOKS)
def test_the_trace_viewer(tmp_path: Path, snap_compare: Any, theme: str, size: tuple[int, int]) -> None:
    app = viewer(tmp_path, theme)

    async def ready(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: settled(app.viewer))
        await pilot.press("down", "down", "down", "down", "down")
        await drawn(pilot)

    assert snap_compare(app, terminal_size=size, run_before=ready)


@pytest.mark.parametrize(("theme", "size"), LOOKS)
def test_the_home_screen(tmp_path: Path, snap_compare: Any, theme: str, size: tuple[int, int]) -> None:
    folder = tmp_path / "shop-api"
    folder.mkdir()
    app = home(folder, theme)

    async def ready(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(app.home.all_rows) == 2)
        await to_the_list(pilot, app)
        await until(pilot, lambda: app.home._shown_task is not None)
        await drawn(pilot)

    assert snap_compare(app, terminal_size=size, run_before=ready)


def test_the_empty_home_screen_at_the_design_size(tmp_path: Path, snap_compare: Any) -> None:
    folder = tmp_path / "shop-api"
    folder.mkdir()
    app = PmApp(make_session(folder, PM_REPL_THEME="mono"), greeting=["pm 0.1.0 · shop-api · no tasks"])

    async def ready(pilot: Pilot[Any]) -> None:
        await to_the_list(pilot, app)
        await drawn(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=ready)


def test_the_help_of_the_viewer(tmp_path: Path, snap_compare: Any) -> None:
    app = viewer(tmp_path, "dark")

    async def ready(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: settled(app.viewer))
        await pilot.press("question_mark")
        await drawn(pilot)

    assert snap_compare(app, terminal_size=(100, 30), run_before=ready)


def test_the_answer_diff_side_by_side(tmp_path: Path, snap_compare: Any) -> None:
    app = viewer(tmp_path, "dark")

    async def ready(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: settled(app.viewer))
        await pilot.press("g", "8", "enter", "equals_sign")
        await until(pilot, lambda: app.screen is not app.viewer)
        await drawn(pilot)

    assert snap_compare(app, terminal_size=(110, 20), run_before=ready)
