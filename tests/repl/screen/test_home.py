"""The home screen under the pilot: prompt, tasks, stopping, leaving, every key of the list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from repl.screen.app import PmApp, TooSmall
from repl.screen.diff import DiffScreen
from repl.screen.hints import HelpScreen, key_rows
from repl.screen.pickers import Choice, Question
from repl.screen.prompt import HistoryScreen, Prompt
from repl.screen.tasks import TaskList, TaskScreen
from repl.screen.trace.view import TraceScreen
from tests.repl.screen.running import BAD, GOOD, SLOW, enter, notices, screen, until

OTHER = {"output": "Done: part() in bye.py", "files": {"bye.py": 'def part() -> str:\n    return "bye"\n'}}


def listed(app: PmApp) -> list[str]:
    tasks = app.home.tasks
    return [tasks.render_line(y).text.rstrip() for y in range(max(len(tasks.rows), 2))]


async def finished(pilot: Pilot[Any], app: PmApp, task_id: str = "task-001") -> None:
    await until(pilot, lambda: f"{task_id} COMPLETE" in app.home.transcript.text)
    await until(pilot, lambda: any(row.task_id == task_id and row.status == "COMPLETE" for row in app.home.all_rows))


async def test_it_opens_on_the_prompt_and_says_what_to_do_first(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await pilot.pause()
        assert isinstance(app.focused, Prompt)
        assert listed(app) == [" no tasks in this project", " type a request, or /demo"]
        assert app.home.transcript.text == "pm · a greeting"
        assert "pm · project" in str(app.home.query_one("#home-top", Static).content)


async def test_a_typed_task_runs_and_each_fact_prints_once(project: Path) -> None:
    async with screen(project, BAD, GOOD) as (app, pilot):
        await pilot.press(*"make f", "enter")
        await finished(pilot, app)
        printed = app.home.transcript.text
        assert "pm> make f" in printed
        assert printed.count("[0] REJECT") == printed.count("[1] PASS") == 1
        assert listed(app)[0].startswith("> 001 done  make f")


async def test_keys_typed_ahead_of_enter_are_not_overtaken_by_it(project: Path) -> None:
    async with screen(project) as (app, pilot):
        prompt = app.home.prompt
        for key, character in (("h", "h"), ("i", "i"), ("enter", "\r")):
            prompt.post_message(events.Key(key, character))
        await until(pilot, lambda: "pm> hi" in app.home.transcript.text)


async def test_ctrl_j_breaks_the_line_and_enter_submits_all_of_it(project: Path) -> None:
    async with screen(project, GOOD) as (app, pilot):
        await pilot.press(*"one", "ctrl+j", *"two")
        assert app.home.prompt.text == "one\ntwo"
        await pilot.press("enter")
        await finished(pilot, app)
        assert "pm> one\n    two" in app.home.transcript.text


async def test_a_slash_opens_the_menu_and_tab_takes_the_only_candidate(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await pilot.press("slash")
        await until(pilot, lambda: app.home.completions.display)
        await pilot.press(*"docto")
        await pilot.press("tab")
        assert app.home.prompt.text == "/doctor "
        await pilot.press("ctrl+c")
        assert app.home.prompt.text == ""
        assert not app.home.completions.display


async def test_enter_runs_what_is_typed_and_not_what_is_offered(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await pilot.press(*"/trcae", "enter")
        await until(pilot, lambda: "unknown command /trcae" in app.home.transcript.text)
        assert "did you mean /trace?" in app.home.transcript.text
        await pilot.press(*"/stat", "enter")
        await until(pilot, lambda: "max iterations" in app.home.transcript.text)


async def test_enter_takes_the_candidate_that_the_person_moved_to(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await pilot.press(*"/theme d", "down", "enter")
        assert app.home.prompt.text == "/theme dark "
        await pilot.press("enter")
        await until(pilot, lambda: app.theme == "dark")


async def test_up_goes_through_earlier_inputs_that_begin_alike(project: Path) -> None:
    async with screen(project) as (app, pilot):
        for line in ("/status", "/cost", "/keys"):
            await enter(pilot, line)
        await pilot.press("slash", "c", "escape", "up")
        assert app.home.prompt.text == "/cost"
        await pilot.press("down")
        assert app.home.prompt.text == "/c"


async def test_ctrl_r_searches_and_puts_the_input_on_the_line(project: Path) -> None:
    async with screen(project) as (app, pilot):
        for line in ("/status", "/cost"):
            await enter(pilot, line)
        await until(pilot, lambda: len(app.history.entries("session")) == 2)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: isinstance(app.screen, HistoryScreen))
        await pilot.press("ctrl+r", *"stat", "enter")
        await until(pilot, lambda: app.screen is app.home)
        assert app.home.prompt.text == "/status"


async def test_a_long_paste_is_folded_and_submitted_whole(project: Path) -> None:
    async with screen(project) as (app, pilot):
        app.home.prompt.post_message(events.Paste("/help\n" + "x\n" * 30))
        await until(pilot, lambda: app.home.prompt.text == "[pasted 31 lines]")
        await pilot.press("ctrl+o")
        assert app.home.prompt.text.count("\n") == 30


async def test_a_short_paste_never_submits(project: Path) -> None:
    async with screen(project) as (app, pilot):
        app.home.prompt.post_message(events.Paste("one\r\ntwo\r\n"))
        await until(pilot, lambda: app.home.prompt.text.startswith("one\ntwo"))
        assert "pm> one" not in app.home.transcript.text


async def test_a_second_task_waits_its_turn(project: Path) -> None:
    async with screen(project, {**GOOD, "delay_ms": 500}, OTHER) as (app, pilot):
        await enter(pilot, "first")
        await until(pilot, lambda: app.session.running)
        await enter(pilot, "second")
        beside = "queued 1: after 1   /run --isolate TEXT runs it beside"
        await until(pilot, lambda: beside in app.home.transcript.text)
        await finished(pilot, app, "task-002")
        assert listed(app)[0].startswith("> 002"), "the one that has begun is under the cursor"


async def test_the_status_line_stands_only_while_a_task_runs(project: Path) -> None:
    async with screen(project, SLOW) as (app, pilot):
        status = app.home.query_one("#home-status", Static)
        assert not status.display
        await enter(pilot, "take your time")
        await until(pilot, lambda: status.display and "task-001 · it 1/3" in str(status.content))
        assert "1 running" in str(app.home.query_one("#home-top", Static).content)


async def test_esc_leaves_the_prompt_for_the_list_and_stops_nothing(project: Path) -> None:
    async with screen(project, SLOW) as (app, pilot):
        await enter(pilot, "take your time")
        await until(pilot, lambda: app.home.tasks.rows)
        await pilot.press("escape", "escape", "escape")
        assert isinstance(app.focused, TaskList | Prompt)
        assert app.session.running == ["task-001"]


async def test_stopping_asks_and_leaves_the_task_resumable(project: Path) -> None:
    async with screen(project, SLOW, GOOD) as (app, pilot):
        await enter(pilot, "take your time")
        await until(pilot, lambda: app.home.tasks.rows and not app.session.unasked("task-001"))
        await pilot.press("escape", "s")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("x", "escape")
        await until(pilot, lambda: app.screen is app.home)
        assert app.session.running
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("y")
        await until(pilot, lambda: not app.session.running)
        await until(pilot, lambda: app.home.all_rows[0].status == "UNFINISHED")
        await pilot.press("r")
        await until(pilot, lambda: app.session.running)


async def test_ctrl_c_asks_to_stop_what_runs_and_says_how_to_leave_when_idle(project: Path) -> None:
    async with screen(project, SLOW) as (app, pilot):
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "Ctrl+D or /exit leaves" in notices(pilot))
        await enter(pilot, "take your time")
        await until(pilot, lambda: app.session.running and not app.session.unasked("task-001"))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("y")
        await until(pilot, lambda: not app.session.running)


async def test_leaving_asks_while_tasks_run(project: Path) -> None:
    async with screen(project, SLOW) as (app, pilot):
        await enter(pilot, "take your time")
        await until(pilot, lambda: app.session.running)
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("c")
        await until(pilot, lambda: app.screen is app.home)
        assert app.session.running
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("s")
        await until(pilot, lambda: not app.is_running)
    assert app.return_value == ""
    assert app.session.unfinished() == ["task-001"]


async def test_line_hands_the_running_session_over(project: Path) -> None:
    async with screen(project, SLOW) as (app, pilot):
        await enter(pilot, "take your time")
        await until(pilot, lambda: app.session.running)
        await enter(pilot, "/line")
        await until(pilot, lambda: not app.is_running)
        assert app.return_value == "line"
        assert app.session.running == ["task-001"]


async def test_keys_of_the_list_open_trace_diff_and_task(project: Path) -> None:
    async with screen(project, GOOD) as (app, pilot):
        await enter(pilot, "make f")
        await finished(pilot, app)
        await pilot.press("escape", "t")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        await pilot.press("q")
        await until(pilot, lambda: app.screen is app.home)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DiffScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.home)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TaskScreen))
        await until(pilot, lambda: "COMPLETE (passed)" in str(app.screen.query_one("#task-lines", Static).content))
        await pilot.press("s")
        await until(pilot, lambda: "1 is not running" in notices(pilot))
        await pilot.press("q", "y")
        assert app.clipboard == "task-001"


async def test_a_key_that_cannot_act_is_dimmed_and_says_why(project: Path) -> None:
    async with screen(project, GOOD) as (app, pilot):
        await enter(pilot, "make f")
        await finished(pilot, app)
        await pilot.press("escape")
        rows = {row.what: row.enabled for row in key_rows(app.home)}
        assert (rows["trace"], rows["stop"], rows["resume"], rows["answer"]) == (True, False, False, False)
        await pilot.press("s", "r", "a")
        await until(pilot, lambda: "1 neither waits for an answer nor runs" in notices(pilot))
        assert "1 is not running" in notices(pilot)
        assert "1 is COMPLETE: nothing to resume" in notices(pilot)


async def test_a_waiting_task_is_answered_from_the_list(project: Path) -> None:
    async with screen(project, BAD, GOOD, PM_MAX_ITERATIONS="1") as (app, pilot):
        await enter(pilot, "make f")
        await until(pilot, lambda: any(row.status == "AWAITING_RESPONSE" for row in app.home.all_rows))
        await pilot.press("escape", "a")
        await until(pilot, lambda: isinstance(app.screen, Choice))
        await pilot.press("down", "down", "enter")
        await finished(pilot, app)


async def test_a_question_is_answered_from_the_list_by_one_of_its_choices(project: Path) -> None:
    asks = {"output": "Which greeting?\n\n- Hello\n- Moin 'n' more"}
    async with screen(project, asks, GOOD) as (app, pilot):
        await enter(pilot, "make f")
        await until(pilot, lambda: any(row.status == "AWAITING_RESPONSE" for row in app.home.all_rows))
        await until(pilot, lambda: "? task-001 asks" in app.home.transcript.text)
        await pilot.press("escape", "a")
        await until(pilot, lambda: isinstance(app.screen, Choice))
        assert "Which greeting?" in str(app.screen.query_one(Static).content)
        await pilot.press("down", "enter")
        await finished(pilot, app)
    (trace,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    assert "The user answers: Moin 'n' more" in trace.read_text()


async def test_an_answer_that_the_question_repeats_is_shown_once(project: Path) -> None:
    claims = {"output": "I fixed it, all is well."}
    async with screen(project, claims, claims) as (app, pilot):
        await enter(pilot, "greet")
        await until(pilot, lambda: "task-001 AWAITING_RESPONSE" in app.home.transcript.text)
        assert app.home.transcript.text.count(claims["output"]) == 1


async def test_the_list_is_filtered_and_rows_are_reached_by_digits(project: Path) -> None:
    async with screen(project, GOOD, OTHER) as (app, pilot):
        for number, title in enumerate(("alpha", "beta"), 1):
            await enter(pilot, title)
            await finished(pilot, app, f"task-00{number}")
        await pilot.press("escape", "2")
        assert app.home.tasks.cursor == 1
        await pilot.press("slash", *"beta", "enter")
        assert [row.title for row in app.home.tasks.rows] == ["beta"]
        await pilot.press("slash", "escape")
        await until(pilot, lambda: len(app.home.tasks.rows) == 2)
        await pilot.press("k", "j", "G", "g")
        assert app.home.tasks.cursor == 0


async def test_below_100_columns_list_and_transcript_take_turns(project: Path) -> None:
    async with screen(project, size=(80, 24)) as (app, pilot):
        await pilot.pause()
        assert app.home.transcript.region.width == 80
        assert not app.home.tasks.display
        await pilot.press("escape")
        await pilot.pause()
        assert app.home.tasks.region.width == 80


async def test_a_terminal_that_is_too_small_gets_one_message(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await pilot.resize_terminal(24, 10)
        await until(pilot, lambda: isinstance(app.screen, TooSmall))
        told = app.screen.query_one(Static)
        await until(pilot, lambda: told.region.height == 3 and told.region.width <= 24)
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: app.screen is app.home)


async def test_question_mark_on_an_empty_line_shows_the_keys(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("escape")
        await pilot.press("a", "question_mark")
        assert app.home.prompt.text == "a?"


async def test_ctrl_l_clears_the_transcript_and_ctrl_t_opens_the_last_trace(project: Path) -> None:
    async with screen(project, GOOD) as (app, pilot):
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "no task is recorded" in notices(pilot))
        await enter(pilot, "make f")
        await finished(pilot, app)
        await pilot.press("ctrl+l")
        assert app.home.transcript.text == ""
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))


async def test_the_palette_runs_commands_and_leaves_arguments_to_the_person(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await pilot.press("ctrl+p")
        await until(pilot, lambda: app.screen.query(OptionList))
        await pilot.press(*"theme light", "enter")
        await until(pilot, lambda: app.theme == "light")
        await pilot.press("ctrl+p")
        await until(pilot, lambda: app.screen is not app.home)
        await pilot.press(*"set run.model", "enter")
        await until(pilot, lambda: app.home.prompt.text == "/config set run.model ")


async def test_the_transcript_keeps_its_place_while_the_person_reads(project: Path) -> None:
    async with screen(project, size=(110, 20)) as (app, pilot):
        transcript = app.home.transcript
        transcript.take([f"line {number}" for number in range(100)])
        await pilot.pause()
        assert transcript.scroll_offset.y == transcript.max_scroll_y
        transcript.focus()
        await pilot.press("pageup")
        before = transcript.scroll_offset.y
        transcript.take(["more"])
        await pilot.pause()
        assert transcript.scroll_offset.y == before
        await pilot.press("end")
        transcript.take(["and more"])
        await pilot.pause()
        assert transcript.scroll_offset.y == transcript.max_scroll_y


async def test_hostile_words_in_a_title_cannot_reach_the_terminal(project: Path) -> None:
    async with screen(project, GOOD) as (app, pilot):
        await enter(pilot, "evil \x1b[2J \u202e title 日本語")
        await finished(pilot, app)
        await pilot.press("escape")
        await pilot.pause()
        for pane in (app.home.tasks, app.home.transcript):
            for y in range(pane.size.height):
                strip = pane.render_line(y)
                assert strip.cell_length == pane.scrollable_content_region.width
                assert "\x1b" not in strip.text
                assert "\u202e" not in strip.text


async def test_a_backslash_at_the_end_breaks_the_line_and_up_takes_queued_input_back(project: Path) -> None:
    async with screen(project, SLOW) as (app, pilot):
        await pilot.press(*"one", "backslash", "enter", *"two")
        assert app.home.prompt.text == "one\ntwo"
        await pilot.press("enter")
        await until(pilot, lambda: app.session.running)
        await enter(pilot, "waits")
        await until(pilot, lambda: app.session.queue == ["waits"])
        await pilot.press("up")
        assert app.home.prompt.text == "waits"
        assert app.session.queue == []


async def test_the_scrollbar_of_a_full_transcript_covers_no_text(project: Path) -> None:
    async with screen(project) as (app, pilot):
        await pilot.pause(0.1)
        pane = app.home.transcript
        before = pane.size.width
        pane.take([f"{n} " + "abcdefgh " * 20 for n in range(60)])
        await pilot.pause(0.2)
        assert pane.show_vertical_scrollbar
        assert pane.size.width == before
        rows = [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]
        assert max(map(len, rows)) <= pane.scrollable_content_region.width
        assert "".join(rows).count("abcdefgh") >= 20 * (len(rows) // 5)


async def test_a_worker_that_comes_late_meets_a_screen_without_widgets(project: Path) -> None:
    """A tick while the screen is being taken down ended the whole session with a traceback."""
    async with screen(project, GOOD) as (app, pilot):
        await enter(pilot, "make f")
        await finished(pilot, app)
        app.home.tasks.focus()
        await pilot.pause()
        await app.home.query("*").remove()
        app.home.show_task()
        app.home.show_status()
        await app.workers.wait_for_complete()


async def test_a_restarted_session_shows_the_last_one_and_a_long_answer_unfolds(project: Path) -> None:
    long = {**GOOD, "output": "\n".join(f"- point {number}" for number in range(60))}
    async with screen(project, long) as (app, pilot):
        await enter(pilot, "make f")
        await finished(pilot, app)
        shown = app.home.transcript.text
    async with screen(project, GOOD) as (app, pilot):
        transcript = app.home.transcript
        await until(pilot, lambda: "that was the last session" in transcript.text)
        told = [line for line in shown.split("\n") if line and "trace 1" not in line and "greeting" not in line]
        assert set(told) <= set(transcript.text.split("\n"))
        rows = transcript.virtual_size.height
        await pilot.press("ctrl+o")
        await until(pilot, lambda: rows + 10 < transcript.virtual_size.height < rows + 30)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: transcript.virtual_size.height == rows)


async def test_no_filter_hides_what_runs_and_wide_screens_show_whole_titles(project: Path) -> None:
    title = "write a module with a name of some length that says what it is for"
    async with screen(project, SLOW, size=(200, 30)) as (app, pilot):
        await enter(pilot, title)
        await until(pilot, lambda: app.home.tasks.rows)
        app.home.filter_text = "nothing of the kind"
        app.home.show_rows()
        assert [row.task_id for row in app.home.tasks.rows] == ["task-001"]
        await until(pilot, lambda: title[:45] in app.home.tasks.render_line(0).text)
