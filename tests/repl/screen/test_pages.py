"""The pages beside home, colours, and what a defect may show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from repl.actions import key_rows
from repl.screen.app import PmApp
from repl.screen.lists import PAGES, Page, PageRow
from repl.screen.palette import palette_entries
from repl.screen.trace.view import TraceScreen, ViewerApp
from tests.repl.screen.facts import write_seed
from tests.repl.screen.running import enter, screen, until


async def opened(pilot: Pilot[Any], app: PmApp, key: str, name: str) -> Page:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, Page) and app.screen.page_name == name)
    page = app.screen
    assert isinstance(page, Page)
    await until(pilot, lambda: "looking" not in str(page.query_one("#page-foot", Static).content))
    return page


def foot(page: Page) -> str:
    return str(page.query_one("#page-foot", Static).content)


def cells(page: Page) -> list[tuple[str, ...]]:
    return [row.cells for row in page._found]


@pytest.mark.parametrize(
    ("key", "name", "said"),
    [
        ("ctrl+s", "sessions", "no native sessions of claude, codex or gemini"),
        ("f3", "captures", "no captured sessions in this project"),
        ("f8", "log", "no warnings"),
    ],
)
async def test_a_page_without_data_says_what_would_fill_it(project: Path, key: str, name: str, said: str) -> None:
    async with screen(project) as (app, pilot):
        page = await opened(pilot, app, key, name)
        assert said in foot(page)
        await pilot.press("q")
        await until(pilot, lambda: app.screen is app.home)


async def test_settings_show_value_and_layer_and_enter_begins_a_change(project: Path) -> None:
    async with screen(project, PM_MAX_ITERATIONS="7") as (app, pilot):
        page = await opened(pilot, app, "f2", "settings")
        row = next(row for row in cells(page) if row[0] == "run.max_iterations")
        assert row[1:3] == ("7", "environment PM_MAX_ITERATIONS")
        await pilot.press("slash")
        await pilot.press(*"max_it", "enter", "enter")
        await until(pilot, lambda: app.home.prompt.text == "/config set run.max_iterations ")


async def test_the_doctor_page_runs_the_checks_in_their_order(project: Path) -> None:
    async with screen(project) as (app, pilot):
        page = await opened(pilot, app, "f4", "doctor")
        names = [row[1] for row in cells(page) if row[1]]
        assert names[:2] == ["version", "state"]
        assert {row[0] for row in cells(page)} <= {"ok", "warn", "fail", ""}


async def test_distilled_and_captured_traces_open_in_the_viewer(project: Path) -> None:
    traces = project / ".pm-orchestrator" / "agentic-traces"
    captures = project / ".pm-orchestrator" / "captures"
    for folder in (traces, captures):
        folder.mkdir(parents=True)
    meta = '{"type":"meta","ts":"2026-03-21T14:57:45","label":"sync:tasks","provider":"google","success":false}'
    (traces / "trace_20260321_1457_sync__tasks_google.jsonl").write_text(meta + "\n")
    (captures / "one.jsonl").write_text('{"event_id":"e","seq":1,"ts_ms":1,"type":"thought","payload":{}}\n')
    async with screen(project) as (app, pilot):
        page = await opened(pilot, app, "ctrl+s", "sessions")
        assert "sync:tasks  failed" in cells(page)[0][-1]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        await pilot.press("q", "q")
        await until(pilot, lambda: app.screen is app.home)
        await opened(pilot, app, "f3", "captures")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))


async def test_errors_of_the_session_stand_in_the_log(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await enter(pilot, "/trace 99")
        await until(pilot, lambda: app.log_lines)
        page = await opened(pilot, app, "f8", "log")
        assert cells(page)[0][0].startswith("pm: ")


async def test_a_page_that_breaks_says_so_and_the_session_goes_on(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_page: Page) -> list[PageRow]:
        raise RuntimeError("boom")

    monkeypatch.setattr(PAGES["doctor"], "read", broken)
    async with screen(project) as (app, pilot):
        page = await opened(pilot, app, "f4", "doctor")
        assert "RuntimeError: boom" in foot(page)
        assert app.log_lines == ["doctor: RuntimeError: boom"]


async def test_a_defect_ends_the_screen_without_printing_variables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = ViewerApp(write_seed(tmp_path))
    secret = "sk-secret-value"

    async def run() -> None:
        async with app.run_test() as pilot:
            app.call_later(lambda: len(secret) / 0)
            await pilot.pause(0.2)

    with pytest.raises(ZeroDivisionError):
        await run()
    assert secret not in capsys.readouterr().err
    assert isinstance(app.defect, ZeroDivisionError)


@pytest.mark.parametrize(("value", "theme"), [("1", "mono"), ("", "auto")])
async def test_no_color_counts_when_set_and_not_empty_and_stays_for_programs(
    project: Path, monkeypatch: pytest.MonkeyPatch, value: str, theme: str
) -> None:
    import os

    monkeypatch.setenv("NO_COLOR", value)
    async with screen(project) as (app, _pilot):
        assert app.theme == theme
        assert os.environ["NO_COLOR"] == value


async def test_themes_change_at_once_and_plain_takes_all_colour(project: Path) -> None:
    async with screen(project) as (app, pilot):
        for line, theme in (("/theme high-contrast", "high-contrast"), ("/plain on", "mono"), ("/plain off", "auto")):
            await enter(pilot, line)
            await until(pilot, lambda theme=theme: app.theme == theme)


async def test_every_command_page_and_theme_is_in_the_palette(project: Path) -> None:
    from repl.registry.commands import commands_for

    async with screen(project) as (app, _pilot):
        names = {entry.name for entry in palette_entries(app, app.screen)}
    assert {command.slash for command in commands_for("slash")} <= names
    assert {f"go to {name}" for name in PAGES} <= names
    assert {"theme auto", "theme mono", "theme high-contrast"} <= names


async def test_a_key_is_rebound_by_its_id(project: Path) -> None:
    config = project / ".pm-orchestrator"
    config.mkdir()
    (config / "config.local.toml").write_text('[repl.keys]\n"app.log" = "f9"\n')
    async with screen(project) as (app, pilot):
        rows = {row.id: row.keys for row in key_rows(app.keymap_changes, mode="screen")}
        assert rows["app.log"] == "F9"
        await pilot.press("f9")
        await until(pilot, lambda: isinstance(app.screen, Page) and app.screen.page_name == "log")


async def test_a_list_page_moves_by_vi_keys_and_copies_a_row(project: Path) -> None:
    async with screen(project) as (app, pilot):
        page = await opened(pilot, app, "f2", "settings")
        await pilot.press("j", "j", "k", "y")
        assert page.query_one(OptionList).highlighted == 1
        assert app.clipboard.startswith(cells(page)[1][0])
