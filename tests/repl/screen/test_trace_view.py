"""The trace viewer under the pilot: every key and every visible state."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from repl.screen.diff import DiffScreen, DiffView
from repl.screen.hints import HelpScreen, key_rows
from repl.screen.pickers import Choice
from repl.screen.trace.view import TraceScreen, ViewerApp
from repl.screen.trace.waterfall import WaterfallScreen
from tests.repl.screen.facts import NAME, SEED, fact, write_seed
from tracer.clock import monotonic

Viewer = tuple[TraceScreen, Pilot[Any]]


@asynccontextmanager
async def viewing(path: Path, *, size: tuple[int, int] = (110, 30), **options: Any) -> AsyncIterator[Viewer]:
    app = ViewerApp(path, **options)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: settled(app.viewer))
        yield app.viewer, pilot


def settled(screen: TraceScreen) -> bool:
    model = screen.model
    known = model.file.indexed and model.digest.done >= model.file.index.count
    return known and model.version == model.background.version


async def until(pilot: Pilot[Any], holds: Callable[[], object]) -> None:
    end = monotonic() + 60
    while monotonic() < end:
        await pilot.pause(0.01)
        if holds():
            return
    raise AssertionError("did not happen within 60 s")


def line(screen: TraceScreen, selector: str) -> str:
    return str(screen.query_one(selector, Static).content)


def timeline(screen: TraceScreen) -> list[str]:
    facts = screen.facts
    return [facts.render_line(y).text.rstrip() for y in range(min(facts.size.height, len(screen.model.timeline)))]


def event(screen: TraceScreen) -> str:
    row = screen.facts.row()
    assert row is not None
    return row.event


async def test_the_title_says_how_the_task_ended_and_what_it_cost(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        wanted = "task-015 · COMPLETE · 2 iterations · REJECT, PASS · 7.9 s · 4,750 tok · $0.04"
        await until(pilot, lambda: line(screen, "#trace-title").strip() == wanted)
        assert line(screen, "#trace-filter").strip() == "filter: none   12 events"


async def test_facts_are_grouped_by_iteration_with_relative_times_and_marks(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, _pilot):
        shown = timeline(screen)
        assert shown[0].startswith(">    0 10:30:00   USER_REQUEST")
        assert shown[2] == " v iteration 0"
        assert shown[5].startswith("     4 +5.1     x QUALITY_JUDGMENT   REJECT")
        assert shown[11].startswith("     9 +7.8     v QUALITY_JUDGMENT   PASS")


async def test_a_trace_without_end_says_after_what_it_stopped(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path, facts=6)) as (screen, pilot):
        await until(pilot, lambda: "unfinished after REJECTION_DETAILS[0]" in line(screen, "#trace-title"))


async def test_a_torn_tail_is_a_row_and_is_named(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path, facts=2, tail=b'{"timestamp":"2025')) as (screen, pilot):
        await until(pilot, lambda: "line 2 incomplete (18 bytes)" in line(screen, "#trace-filter"))
        assert timeline(screen)[2].endswith("? line 2 incomplete, 18 bytes")
        await pilot.press("down", "down")
        assert "the line has no end" in screen.detail.text


async def test_j_shows_json_then_the_stored_bytes_then_the_readable_form(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("j")
        assert '  "event": "USER_REQUEST",' in screen.detail.text
        await pilot.press("j")
        joined = screen.detail.text.split("\n\n", 1)[1].replace("\n", "")
        assert joined == SEED[0].decode().strip()
        await pilot.press("j")
        assert "prompt  add input validation" in screen.detail.text


async def test_long_values_are_folded_with_the_hidden_count_and_x_shows_them(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("down")
        assert "… 21 more lines (x shows them)" in screen.detail.text
        await pilot.press("x")
        assert "39. a rule" in screen.detail.text
        await pilot.press("x")
        assert "39. a rule" not in screen.detail.text


async def test_space_and_arrows_fold_and_unfold_a_group(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("down", "down", "down", "space")
        assert timeline(screen)[2] == ">> iteration 0  5 events"
        await pilot.press("right")
        assert len(screen.model.timeline) == 14
        await pilot.press("left")
        assert len(screen.model.timeline) == 9
        await pilot.press("enter")
        assert len(screen.model.timeline) == 14


async def test_l_leaves_only_the_latest_iteration_open(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("l")
        assert timeline(screen)[2] == " > iteration 0  5 events"
        assert event(screen) == "LLM_REQUEST"
        await pilot.press("l")
        assert len(screen.model.timeline) == 14


async def test_i_goes_to_a_chosen_iteration(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("i")
        await until(pilot, lambda: isinstance(pilot.app.screen, Choice))
        await pilot.press("down", "enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        row = screen.facts.row()
        assert row is not None
        assert row.seq == 7


async def test_s_shows_one_subtask_alone(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(
        SEED[0]
        + b"".join(fact(n, "LLM_REQUEST", {"prompt": "p"}, iteration=0, subtask=f"task-015-sub-{n}") for n in (1, 2))
    )
    async with viewing(path) as (screen, pilot):
        await pilot.press("s")
        await until(pilot, lambda: isinstance(pilot.app.screen, Choice))
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: len(screen.model.timeline) == 2)
        assert "sub:task-015-sub-2   1 of 3 events" in line(screen, "#trace-filter")


async def test_a_trace_without_subtasks_says_so(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("s")
        await until(pilot, lambda: "no subtasks" in notices(pilot))
        assert pilot.app.screen is screen


def notices(pilot: Pilot[Any]) -> str:
    return " | ".join(str(notice.message) for notice in pilot.app._notifications)


async def test_filter_keeps_what_fits_and_esc_takes_it_away(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("ampersand", *"event:QUALITY_JUDGMENT,REJECTION_DETAILS", "enter")
        await until(pilot, lambda: "3 of 12 events" in line(screen, "#trace-filter"))
        assert line(screen, "#trace-filter").strip().startswith("filter: event:QUALITY_JUDGMENT,REJECTION_DETAILS")
        assert [text[1:6].strip() for text in timeline(screen) if "iteration" not in text] == ["4", "5", "9"]
        await pilot.press("escape")
        await until(pilot, lambda: "12 events" in line(screen, "#trace-filter"))


async def test_a_wrong_filter_is_explained_and_stays_open_for_mending(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("ampersand", *"evnt:X", "enter")
        await until(pilot, lambda: "did you mean event:" in notices(pilot))
        assert screen.query_one("#trace-input", Input).display


async def test_tab_completes_the_filter(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("ampersand", *"ev", "tab", *"QU", "tab")
        assert screen.query_one("#trace-input", Input).value == "event:QUALITY_JUDGMENT"


async def test_search_goes_to_the_match_highlights_it_and_n_goes_on(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("slash", *"todo", "enter")
        await until(pilot, lambda: event(screen) == "LLM_RESPONSE")
        assert screen.detail.needle == "todo"
        await pilot.press("n")
        await until(pilot, lambda: event(screen) == "QUALITY_JUDGMENT")
        await pilot.press("N")
        await until(pilot, lambda: event(screen) == "LLM_RESPONSE")
        await pilot.press("escape")
        assert screen.facts.needle == ""


async def test_a_search_without_match_says_so(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("slash", *"nowhere", "enter")
        await until(pilot, lambda: "does not occur" in notices(pilot))
        assert screen.facts.cursor == 0


async def test_g_and_digits_go_to_a_line(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("g", "5", "enter")
        assert event(screen) == "REJECTION_DETAILS"
        await pilot.press("1", "1", "enter")
        assert event(screen) == "FINAL_SUMMARY"
        await pilot.press("g", "9", "9", "enter")
        await until(pilot, lambda: "lines go from 0 to 11" in notices(pilot))


async def test_p_goes_to_the_previous_iterations_same_fact(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("g", "8", "enter", "p")
        await until(pilot, lambda: (row := screen.facts.row()) and row.seq == 3)


async def test_equals_shows_two_answers_side_by_side(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("g", "8", "enter", "equals_sign")
        await until(pilot, lambda: isinstance(pilot.app.screen, DiffScreen))
        await until(pilot, lambda: pilot.app.screen.query_one(DiffView).size.width > 0)
        rows = [pilot.app.screen.query_one(DiffView).render_line(y).text for y in range(3)]
        assert rows[0].count("def check(x):") == 2
        assert "# TODO: implement" in rows[1]
        assert " ~ " in rows[1]
        assert "return '@' in x" in rows[1]
        await pilot.press("q")
        await until(pilot, lambda: pilot.app.screen is screen)


async def test_y_copies_the_text_and_shift_y_the_stored_line(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (_screen, pilot):
        await pilot.press("y")
        assert pilot.app.clipboard == "add input validation to the signup form"
        await pilot.press("Y")
        assert json.loads(pilot.app.clipboard)["event"] == "USER_REQUEST"


async def test_follow_is_visible_and_stops_when_the_person_moves_away(tmp_path: Path) -> None:
    path = write_seed(tmp_path, facts=6)
    async with viewing(path, follow=True) as (screen, pilot):
        assert line(screen, "#trace-follow") == "FOLLOW"
        append(path, SEED[6])
        await until(pilot, lambda: event(screen) == "ITERATION_END")
        await pilot.press("up", "up")
        assert line(screen, "#trace-follow") == ""
        append(path, SEED[7] + SEED[8])
        await until(pilot, lambda: line(screen, "#trace-follow") == "+2 events (end to follow)")
        await pilot.press("end")
        assert line(screen, "#trace-follow") == "FOLLOW"
        assert event(screen) == "LLM_RESPONSE"
        await pilot.press("f")
        assert line(screen, "#trace-follow") == ""
        await pilot.press("f")
        assert line(screen, "#trace-follow") == "FOLLOW"


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as out:
        out.write(content)


async def test_moving_keys_go_line_by_line_page_by_page_and_to_both_ends(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path), size=(110, 12)) as (screen, pilot):
        await pilot.press("J", "J", "K")
        assert screen.facts.cursor == 1
        await pilot.press("pagedown")
        assert screen.facts.cursor > 4
        await pilot.press("ctrl+u")
        assert screen.facts.cursor == 1
        await pilot.press("G")
        assert event(screen) == "FINAL_SUMMARY"
        await pilot.press("home")
        assert screen.facts.cursor == 0


async def test_tab_moves_the_focus_and_keys_then_scroll_the_detail(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path), size=(110, 12)) as (screen, pilot):
        await pilot.press("down", "tab")
        assert screen.detail.has_focus
        await pilot.press("down", "down")
        assert screen.detail.scroll_offset.y == 2
        assert screen.facts.cursor == 1
        await pilot.press("escape")
        assert screen.facts.has_focus


async def test_below_100_columns_the_detail_is_a_screen_of_its_own(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path), size=(80, 24)) as (screen, pilot):
        assert not screen.detail.display
        await pilot.press("enter")
        await pilot.pause()
        assert screen.detail.display
        assert not screen.facts.display
        await pilot.press("escape")
        await pilot.pause()
        assert screen.facts.display


async def test_a_click_selects_and_a_click_on_a_header_folds(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.click("#facts", offset=(5, 6))
        assert screen.facts.cursor == 5
        await pilot.click("#facts", offset=(5, 3))
        assert timeline(screen)[2] == ">> iteration 0  5 events"


async def test_help_lists_every_key_from_the_live_bindings(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        rows = {key: row.what for row in key_rows(screen) for key in row.keys}
        assert rows["f"] == "follow"
        assert rows["="] == "diff answers"
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await pilot.press("escape")
        assert pilot.app.screen is screen


async def test_a_key_that_cannot_act_here_is_dimmed(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        assert not next(row for row in key_rows(screen) if row.what == "diff answers").enabled
        await pilot.press("g", "8", "enter")
        await pilot.pause()
        screen.refresh_bindings()
        assert next(row for row in key_rows(screen) if row.what == "diff answers").enabled


async def test_q_ends_the_viewer_and_its_thread(tmp_path: Path) -> None:
    app = ViewerApp(write_seed(tmp_path))
    async with app.run_test(size=(110, 30)) as pilot:
        await pilot.pause(0.1)
        await pilot.press("q")
    assert app.return_value == 0
    assert not app.viewer.model.background._thread.is_alive()


async def test_an_empty_file_is_shown_as_empty(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"")
    async with viewing(path) as (screen, pilot):
        assert "0 events" in line(screen, "#trace-filter")
        await pilot.press("down", "end", "space", "j", "y", "p", "x", "l", "n")
        append(path, SEED[0])
        await until(pilot, lambda: event(screen) == "USER_REQUEST" if len(screen.model.timeline) else False)


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2J\x1b]0;evil\x07",
        "\u202eevil\u2066",
        "👨‍👩‍👧 日本語 עברית",
        "a\rb\x00\x9b31m",
        "x" * 1_000_000,
        "e\u0301" * 9 + "\u0301" * 999,
    ],
)
async def test_hostile_text_cannot_reach_the_terminal_or_break_a_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / NAME
    path.write_bytes(SEED[0] + fact(100, "LLM_RESPONSE", {"output": text, "status": text}, iteration=0))
    async with viewing(path) as (screen, pilot):
        await pilot.press("down", "down", "x")
        for mode in range(3):
            await until(pilot, lambda: screen.detail.row is not None and screen.detail.row.seq == 1)
            for pane in (screen.facts, screen.detail):
                for y in range(pane.size.height):
                    strip = pane.render_line(y)
                    assert strip.cell_length == pane.scrollable_content_region.width
                    assert not [
                        char
                        for char in strip.text
                        if ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or char in "\u202e\u2066"
                    ]
            await pilot.press("j") if mode < 2 else None


async def test_invalid_utf8_is_a_row_with_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(SEED[0] + b'{"timestamp":"\xff\xfe"}\n')
    async with viewing(path) as (screen, pilot):
        await pilot.press("down")
        assert "not readable" in timeline(screen)[1]
        assert "\\xff\\xfe" in screen.detail.text


async def test_the_end_is_shown_before_the_index_has_reached_it(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(
        b"".join(fact(n % 60_000, "LLM_REQUEST", {"prompt": f"{n}"}, iteration=n // 5) for n in range(3000))
    )
    app = ViewerApp(path)
    app.viewer.model.background.start = lambda: None  # type: ignore[method-assign]
    async with app.run_test(size=(110, 30)) as pilot:
        screen = app.viewer
        assert "indexing [" in line(screen, "#trace-filter")
        await pilot.press("end")
        row = screen.facts.row()
        assert row is not None
        assert (row.seq, row.summary) == (None, "2999")
        for _page in range(6):
            await pilot.press("pageup")
        await pilot.press(*["up"] * 20)
        earlier = screen.facts.row()
        assert earlier is not None
        assert int(earlier.summary) < 2895
        while screen.model.file.index_some():
            pass
        screen.model.background.version += 1
        await until(pilot, lambda: screen.model.tail is None)
        numbered = screen.facts.row()
        assert numbered is not None
        assert (numbered.seq, numbered.summary) == (int(earlier.summary), earlier.summary)


async def test_w_shows_the_waterfall_whose_bars_fold_and_lead_to_their_events(tmp_path: Path) -> None:
    async with viewing(write_seed(tmp_path)) as (screen, pilot):
        await pilot.press("w")
        shown = pilot.app.screen
        assert isinstance(shown, WaterfallScreen)
        await until(pilot, lambda: len(rows_of(shown)) == 6)
        assert [row.strip().split("  ")[0] for row in rows_of(shown)] == [
            "x iteration 0", "agent", "x judging", "v iteration 1", "agent", "v judging",
        ]  # fmt: skip
        assert all("█" in row or "│" in row for row in rows_of(shown))
        assert ("Enter",) in [row.keys for row in key_rows(shown) if row.active.binding.show]
        await pilot.press("space")
        await until(pilot, lambda: len(rows_of(shown)) == 4)
        assert "(+2)" in rows_of(shown)[0]
        await pilot.press("down", "enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        assert event(screen) == "LLM_REQUEST"


def rows_of(screen: WaterfallScreen) -> list[str]:
    return [str(option.prompt) for option in screen.query_one(OptionList).options]
